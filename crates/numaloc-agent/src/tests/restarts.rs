//! The agent, numalocd and the API server fail at random while pods come, ask and end. In the end numalocd has what it
//! is to have, and each run was reported once.

use super::{Agent, BEST, Cluster, Fake, ids, samples, until};
use crate::labels::MARK;
use numaloc_api::v1;
use numaloc_node::{Records, Wanted};
use numaloc_policy::{KOORDINATOR_KEY, STATUS_KEY};
use samples::{end, pod};
use std::{collections::BTreeSet, time::Duration};
use tokio::time::sleep;

/// The runs of a numalocd that is not real: each schedule has one, which ends some time.
struct Runs {
    fake: Fake,
    ended: BTreeSet<String>,
    seconds: u64,
}

impl Runs {
    /// Ends the runs of at most `most` schedules that have not ended.
    fn end(&mut self, most: usize) {
        let schedules = self.fake.schedules();
        let open: Vec<_> = schedules.values().filter(|of| !self.ended.contains(&of.name)).collect();
        for schedule in open.into_iter().take(most) {
            self.seconds += 1;
            self.ended.insert(schedule.name.clone());
            self.fake.happens(end(schedule, self.seconds, self.seconds, true, (100, 0)));
        }
    }
}

/// A life with this number of failures.
async fn life(seed: u64, failures: usize) {
    let (cluster, fake) = (Cluster::new(), Fake::new(MARK));
    let mut random = fastrand::Rng::with_seed(seed);
    fake.fail(20, seed);
    let mut runs = Runs { fake: fake.clone(), ended: BTreeSet::new(), seconds: 0 };
    let mut agent = Agent::start(&cluster, fake.clone());
    let mut pods = 0;
    for _ in 0..failures {
        match random.u8(..7) {
            0 | 1 => {
                pods += 1;
                let mut pod = pod(pods);
                pod["metadata"]["annotations"][KOORDINATOR_KEY] = BEST.into();
                cluster.pod(pod);
            }
            2 => {
                drop(agent);
                agent = Agent::start(&cluster, fake.clone());
            }
            3 => cluster.expire(),
            4 => cluster.be_busy(random.u32(1..4)),
            away => {
                let away = if away == 5 { Cluster::go } else { Cluster::hang };
                away(&cluster, true);
                sleep(Duration::from_millis(random.u64(..20_000))).await;
                away(&cluster, false);
            }
        }
        runs.end(random.usize(..3));
        sleep(Duration::from_millis(random.u64(..3000))).await;
    }
    fake.fail(0, seed);
    let all: BTreeSet<String> = (1..=pods).flat_map(ids).collect();
    let scheduled = || fake.names().1.into_iter().collect::<BTreeSet<_>>();
    until(async || scheduled() == all).await;
    sleep(Duration::from_secs(10)).await;
    runs.end(usize::MAX);
    let name = |number: usize| format!("shop/web-{number}");
    until(async || (1..=pods).all(|of| cluster.annotation(&name(of), STATUS_KEY).is_some())).await;
    // And so it stays.
    sleep(Duration::from_secs(900)).await;
    for of in 1..=pods {
        let events = cluster.events(&name(of));
        assert_eq!(events.len(), 1, "seed {seed}, {}: {events:?}", name(of));
        assert!(events[0].contains("Total: 2 container(s) completed"), "seed {seed}: {events:?}");
    }
    assert_eq!(scheduled(), all, "seed {seed}");
    drop(agent);
}

#[tokio::test(start_paused = true)]
async fn after_many_failures_each_run_was_reported_once_and_no_schedule_is_lost() {
    for seed in 0..5 {
        life(seed, 60).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_refused_is_forgotten_with_its_container() {
    let fake = Fake::new(MARK);
    let mut records = Records::new(fake.clone(), MARK);
    records.connect().await.expect("an answer");
    fake.take_cgroup("-web");
    let wanted = |number: usize| {
        let id = ids(number)[1].clone();
        let labels = [(MARK.key.to_owned(), "x".to_owned())].into();
        let workload = v1::Workload {
            name: format!("workloads/agent-{id}"),
            source: MARK.source.to_owned(),
            labels,
            ..v1::Workload::default()
        };
        Wanted { id: format!("agent-{id}"), workload: Some(workload), ..Wanted::default() }
    };
    records.declare(vec![wanted(1), wanted(2), wanted(3)]).await.expect("an answer");
    assert_eq!(records.refusals(), 3);
    records.forget(&wanted(1).id).await.expect("an answer");
    assert_eq!(records.refusals(), 2);
    records.declare(vec![wanted(2)]).await.expect("an answer");
    assert_eq!(records.refusals(), 1, "one still has no cgroup");
}
