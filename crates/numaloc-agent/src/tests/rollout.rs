//! The status of policies, and first runs that wait for their turn, with many agents.

use super::*;
use crate::clock;
use fastrand::Rng;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The pods of a node.
const PODS: usize = 4;

/// Nodes with an agent each, whose numalocds carry out runs.
struct Fleet {
    cluster: Cluster,
    daemons: Vec<Fake>,
    agents: Vec<Agent>,
    /// Schedules with a run under way, by node and name, with the workload of their pod, and when it ends.
    running: BTreeMap<(usize, String), (String, Instant)>,
    /// Schedules that have had a run in their state.
    ran: BTreeSet<(usize, String, String)>,
    events: u64,
    random: Rng,
}

impl Fleet {
    fn new(nodes: usize, workloads: usize) -> Self {
        let cluster = Cluster::new();
        cluster.define();
        let mut fleet = Self {
            cluster,
            daemons: Vec::new(),
            agents: Vec::new(),
            running: BTreeMap::new(),
            ran: BTreeSet::new(),
            events: 0,
            random: Rng::with_seed(7),
        };
        for node in 0..nodes {
            let name = format!("node-{node}");
            let object = json!({"metadata": {"name": name, "uid": name, "labels": {}}});
            fleet.cluster.put("/api/v1/nodes", &name, object);
            for at in 0..PODS {
                let number = node * PODS + at;
                let mut object = pod(number);
                object["spec"]["nodeName"] = name.clone().into();
                // One container: the sidecar is no other first run.
                object["spec"]["initContainers"] = json!([]);
                let owner = format!("set-{}", number % workloads);
                object["metadata"]["ownerReferences"] =
                    json!([{"kind": "StatefulSet", "name": owner, "controller": true}]);
                fleet.cluster.pod(object);
            }
            let fake = Fake::new(MARK);
            fleet.daemons.push(fake.clone());
            fleet.agents.push(Agent::on(&name, Config::default(), fleet.cluster.api(), fake));
        }
        fleet
    }

    /// Begins and ends runs for this time, or until `is_so`. Returns the most nodes and the most pods of a workload with
    /// runs at once.
    async fn go_on(&mut self, time: Duration, is_so: impl Fn(&Self) -> bool) -> (usize, usize) {
        let (begin, mut most) = (Instant::now(), (0, 0));
        while begin.elapsed() < time && !is_so(self) {
            sleep(Duration::from_millis(250)).await;
            self.step();
            let nodes: BTreeSet<usize> = self.running.keys().map(|(node, _)| *node).collect();
            let mut pods = BTreeMap::<&str, usize>::new();
            self.running.values().for_each(|(of, _)| *pods.entry(of).or_default() += 1);
            let pods = pods.into_values().max().unwrap_or_default();
            most = (most.0.max(nodes.len()), most.1.max(pods));
        }
        most
    }

    fn step(&mut self) {
        let now = Instant::now();
        for (node, fake) in self.daemons.iter().enumerate() {
            for (name, schedule) in fake.schedules() {
                let state = schedule.labels["numaloc.io/state"].clone();
                if schedule.paused || !self.ran.insert((node, name.clone(), state)) {
                    continue;
                }
                let pod = &schedule.labels["numaloc.io/pod"];
                let pod = self.cluster.get(&format!("shop/{pod}"));
                let owner = &pod["metadata"]["ownerReferences"][0]["name"];
                let lasts = Duration::from_millis(self.random.u64(1000..20_000));
                let owner = owner.as_str().expect("text").to_owned();
                self.running.insert((node, name), (owner, now + lasts));
            }
        }
        let ended = |_: &_, (_, end): &mut (String, Instant)| *end <= now;
        for ((node, name), _) in self.running.extract_if(.., ended) {
            let Some(schedule) = self.daemons[node].schedules().remove(&name) else { continue };
            self.events += 1;
            let seconds = clock::now().duration_since(std::time::UNIX_EPOCH).expect("later");
            let end = samples::end(&schedule, self.events, seconds.as_secs(), true, (100, 0));
            self.daemons[node].happens(end);
        }
    }

    fn is_done(&self) -> bool {
        self.ran.len() == self.daemons.len() * PODS && self.running.is_empty()
    }
}

fn each(interval: &str, rollout: Value) -> Value {
    json!({"schedule": {"interval": interval}, "rollout": rollout})
}

#[tokio::test(start_paused = true)]
async fn first_runs_of_a_fleet_take_turns_within_the_time_and_one_word_stops_them() {
    let mut fleet = Fleet::new(50, 20);
    let rollout = json!({"over": "30m", "maxNodes": 5, "oneReplica": true});
    sleep(Duration::from_secs(30)).await;
    let begin = Instant::now();
    fleet.cluster.policy("", "all", &each("1d", rollout.clone()));
    let hour = Duration::from_secs(3600);
    let half = fleet.go_on(hour, |fleet| fleet.ran.len() >= 100).await;
    assert!(half.0 <= 5 && half.1 == 1, "{half:?} at once");
    // Half of the pods, in half of the time.
    assert!((600..1200).contains(&begin.elapsed().as_secs()), "{:?}", begin.elapsed());
    let mut stopped = each("1d", rollout.clone());
    stopped["paused"] = true.into();
    let under_way = fleet.running.len();
    fleet.cluster.policy("", "all", &stopped);
    fleet.go_on(Duration::from_secs(10), |_| false).await;
    let all_paused = |fleet: &Fleet| {
        let mut schedules = fleet.daemons.iter().flat_map(|fake| fake.schedules().into_values());
        schedules.all(|schedule| schedule.paused)
    };
    assert!(all_paused(&fleet), "within 10 s");
    let cancelled: usize = fleet.daemons.iter().map(|fake| fake.cancelled().len()).sum();
    assert!(cancelled >= under_way, "{cancelled} of {under_way} cancelled");
    let ran = fleet.ran.len();
    fleet.go_on(Duration::from_secs(1200), |_| false).await;
    assert_eq!(fleet.ran.len(), ran, "nothing begins");
    // Another word, and it continues: those that have run are in their turn, too.
    let begin = Instant::now();
    fleet.ran.clear();
    fleet.cluster.policy("", "all", &each("1d", rollout));
    let rest = fleet.go_on(hour, Fleet::is_done).await;
    assert!(fleet.is_done(), "{} of {}", fleet.ran.len(), 50 * PODS);
    assert!(rest.0 <= 5 && rest.1 == 1, "{rest:?} at once");
    assert!(begin.elapsed() <= Duration::from_secs(1860), "{:?}", begin.elapsed());
    fleet.go_on(Duration::from_secs(120), |_| false).await;
    let status = fleet.cluster.status("", "all");
    assert_eq!((&status["nodes"], &status["pods"]), (&json!(50), &json!(200)), "{status}");
    assert_eq!((&status["waitingPods"], &status["turns"]), (&json!(0), &json!([])), "{status}");
}

#[tokio::test(start_paused = true)]
async fn another_agent_leads_where_the_first_has_gone() {
    let mut fleet = Fleet::new(4, 4);
    fleet.cluster.policy("", "all", &each("1d", json!({"maxNodes": 1})));
    fleet.go_on(Duration::from_secs(30), |fleet| fleet.ran.len() >= 3).await;
    let leader = fleet.cluster.leader().expect("one of them");
    let at: usize = leader.trim_start_matches("node-").parse().expect("a number");
    drop(fleet.agents.remove(at));
    let most = fleet.go_on(Duration::from_secs(3600), |fleet| {
        fleet.ran.iter().filter(|(node, ..)| *node != at).count() == 3 * PODS
            && fleet.running.is_empty()
    });
    let most = most.await;
    assert_eq!(most.0, 1);
    assert_ne!(fleet.cluster.leader().as_deref(), Some(&*leader));
    assert_eq!(fleet.ran.iter().filter(|(node, ..)| *node != at).count(), 3 * PODS);
}

#[tokio::test(start_paused = true)]
async fn the_status_of_a_policy_shows_that_it_is_accepted_and_what_it_has_reached() {
    let mut fleet = Fleet::new(3, 3);
    fleet.cluster.policy("", "all", &json!({"schedule": {"interval": "10m"}}));
    let begin = Instant::now();
    let accepted = |fleet: &Fleet| {
        let status = fleet.cluster.status("", "all");
        (status["conditions"][0]["status"].clone(), status["observedGeneration"].clone())
    };
    fleet
        .go_on(Duration::from_secs(60), |fleet| accepted(fleet) == (json!("True"), json!(1)))
        .await;
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    fleet
        .go_on(Duration::from_secs(120), |fleet| fleet.cluster.status("", "all")["pods"] == 12)
        .await;
    let status = fleet.cluster.status("", "all");
    assert_eq!((&status["nodes"], &status["pods"]), (&json!(3), &json!(12)), "{status}");
    fleet.cluster.policy("shop", "mine", &json!({"schedule": {"interval": "5x"}}));
    fleet.cluster.policy("", "all", &json!({"schedule": {"interval": "5x"}}));
    let begin = Instant::now();
    fleet
        .go_on(Duration::from_secs(60), |fleet| accepted(fleet) == (json!("False"), json!(2)))
        .await;
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    let status = fleet.cluster.status("", "all");
    let message = status["conditions"][0]["message"].as_str().expect("text");
    assert!(message.contains("stays in force"), "{message}");
    assert_eq!(fleet.cluster.status("shop", "mine")["conditions"][0]["reason"], "Invalid");
    // Three agents, and one writer, which writes what has changed alone.
    fleet.go_on(Duration::from_secs(120), |_| false).await;
    let writes = fleet.cluster.status_writes();
    fleet.go_on(Duration::from_secs(3600), |_| false).await;
    assert_eq!(fleet.cluster.status_writes(), writes);
}
