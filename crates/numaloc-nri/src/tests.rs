//! The plugin between a runtime that is not real and a numalocd that is not real, or is.

mod connection;
mod events;
mod garbage;
mod real;
mod restarts;
pub mod samples;

use crate::{
    agent::Agent,
    align::MachineNodes,
    config::{AlignMems, Config, Policies},
    handlers::Handlers,
    inbox::Inbox,
    keeper::Keeper,
    labels::MARK,
    queue,
};
use nri::{
    Identity,
    fake::{Generation, Runtime},
    serve,
    v1alpha1::{Event, LinuxCpu, MpolMode},
};
use numaloc_api::v1;
use numaloc_node::{Others, YIELDS_TO, fake::Fake};
use numaloc_policy::{MEMORY_POLICY_KEY, MemoryPolicy, NUMA_BALANCING_KEY};
use samples::{config, container, cpuset, pod};
use std::{sync::Arc, time::Duration};
use tokio::{
    io::{DuplexStream, duplex},
    task::JoinHandle,
    time::{Instant, sleep},
};

/// The policies that pods may request.
const POLICIES: [MemoryPolicy; 3] =
    [MemoryPolicy::Preferred, MemoryPolicy::Interleave, MemoryPolicy::Exempt];

/// A plugin at work: its inbox, and its tasks, which end with it.
struct Plugin {
    inbox: Arc<Inbox>,
    tasks: Vec<JoinHandle<()>>,
}

impl Plugin {
    /// A plugin that has not received any container yet.
    fn start(
        config: Config,
        daemon: impl numaloc_node::Daemon + Send + 'static,
        nodes: MachineNodes,
    ) -> Self {
        let inbox = Arc::new(Inbox::new(queue::MOST));
        let keeper = Keeper::new(Arc::new(config), daemon, nodes, Arc::clone(&inbox));
        let tasks = vec![tokio::spawn(async move { match numaloc_node::keep(keeper).await {} })];
        Self { inbox, tasks }
    }

    /// Serves a runtime that connects.
    async fn connect(
        &mut self,
        generation: Generation,
        config: &Config,
        nodes: MachineNodes,
    ) -> Runtime<DuplexStream> {
        let (ours, theirs) = duplex(1 << 16);
        let mut handlers = Handlers::new(Arc::clone(&self.inbox), config, nodes);
        self.tasks.push(tokio::spawn(async move {
            let identity = Identity::new("numaloc-nri", "90").expect("valid");
            // Tests of the crate nri say how it ends.
            let _ = serve(ours, &identity, &mut handlers).await;
        }));
        Runtime::accept(theirs, generation).await.expect("it registers")
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// Waits until something is so.
async fn until(mut is_so: impl AsyncFnMut() -> bool) {
    let begin = Instant::now();
    while !is_so().await {
        assert!(begin.elapsed() < Duration::from_secs(300), "it never comes");
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn containers_come_and_go() {
    for generation in [Generation::StateChange, Generation::Calls] {
        let fake = Fake::new(MARK);
        let mut plugin = Plugin::start(config(), fake.clone(), MachineNodes::default());
        let mut runtime = plugin.connect(generation, &config(), MachineNodes::default()).await;
        assert_eq!(
            runtime.events,
            1 << 6 | 1 << 8 | 1 << 9 | 1 << 10,
            "no more events than needed"
        );
        let parts = vec![(vec![pod(1)], vec![]), (vec![], vec![container(1, "a")])];
        runtime.synchronize(parts).await.expect("it takes parts");
        until(async || fake.has(&["a"], &["a"])).await;

        // pod(2) has no policy, pod(3) one that cannot be read.
        for (number, id) in [(2, "b"), (3, "c"), (1, "d")] {
            let (pod, container) = (pod(number), container(number, id));
            for event in [Event::CreateContainer, Event::StartContainer, Event::PostStartContainer]
            {
                runtime.tell(event, &pod, Some(&container)).await.expect("it answers");
            }
        }
        until(async || fake.has(&["a", "b", "c", "d"], &["a", "d"])).await;
        assert_eq!(fake.runs(), 0, "a schedule begins with a run by itself");

        // Other CPUs: it is looked at again. The same ones: it is not.
        let moved = cpuset(container(1, "a"), "4-7");
        for _ in 0..2 {
            let pod = pod(1);
            let told = runtime.tell(Event::PostUpdateContainer, &pod, Some(&moved));
            told.await.expect("it answers");
            sleep(Duration::from_secs(10)).await;
            assert_eq!(fake.runs(), 1);
        }
        for (event, id) in [
            (Event::StopContainer, "a"),
            (Event::RemoveContainer, "d"),
            (Event::StopContainer, "b"),
        ] {
            runtime.tell(event, &pod(1), Some(&container(1, id))).await.expect("it answers");
        }
        until(async || fake.has(&["c"], &[])).await;
        assert_eq!(fake.cancelled(), ["a", "d"]);
        // It has stopped, and its event comes late.
        runtime.tell(Event::PostUpdateContainer, &pod(1), Some(&moved)).await.expect("it answers");
        sleep(Duration::from_secs(600)).await;
        assert!(fake.has(&["c"], &[]));
    }
}

#[tokio::test(start_paused = true)]
async fn where_the_agent_is_it_decides_and_where_it_has_gone_the_plugin_does() {
    let fake = Fake::new(MARK);
    let mut plugin = Plugin::start(config(), fake.clone(), MachineNodes::default());
    let mut runtime = plugin.connect(Generation::Calls, &config(), MachineNodes::default()).await;
    runtime.synchronize(vec![(vec![pod(1)], vec![container(1, "a")])]).await.expect("it answers");
    until(async || fake.has(&["a"], &["a"])).await;
    assert_eq!(fake.labels("a")[YIELDS_TO], "agent");
    // A source can be named by any client, but not the name of a record.
    let workload = |name: &str| v1::Workload { name: name.to_owned(), ..v1::Workload::default() };
    let schedules = vec![v1::Schedule {
        name: "schedules/agent-0000-1-server".to_owned(),
        ..v1::Schedule::default()
    }];
    let workloads = vec![workload("workloads/other")];
    fake.set_others(Others { workloads, schedules: Vec::new() });
    sleep(Duration::from_secs(200)).await;
    assert!(fake.has(&["a"], &["a"]));
    // It comes: the next renewal sees it. A container that starts gets no schedule in between.
    let workloads = vec![workload("workloads/agent-decides")];
    fake.set_others(Others { workloads, schedules: schedules.clone() });
    let started = container(2, "b");
    runtime.tell(Event::PostStartContainer, &pod(1), Some(&started)).await.expect("it answers");
    until(async || fake.has(&["a", "b"], &[])).await;
    sleep(Duration::from_secs(200)).await;
    assert!(fake.has(&["a", "b"], &[]));
    // Its lease has ended. It has left a schedule for this container, which continues.
    fake.set_others(Others { workloads: Vec::new(), schedules: schedules.clone() });
    sleep(Duration::from_secs(200)).await;
    assert!(fake.has(&["a", "b"], &[]));
    // This schedule does nothing for a container that the agent had registered itself.
    let mut gone = schedules.clone();
    gone[0].set_state(v1::ScheduleState::TargetGone);
    for others in [gone, Vec::new()] {
        fake.set_others(Others { workloads: Vec::new(), schedules: others });
        until(async || fake.has(&["a", "b"], &["a", "b"])).await;
        fake.set_others(Others { workloads: Vec::new(), schedules: schedules.clone() });
        until(async || fake.has(&["a", "b"], &[])).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_plugin_yields_with_the_obsolete_key_too_and_never_decides_with_another() {
    for (policies, schedules) in [(Policies::Nri, &["a"][..]), (Policies::Agent, &[])] {
        let fake = Fake::new(MARK);
        let config = Config { policies, ..config() };
        let mut plugin = Plugin::start(config.clone(), fake.clone(), MachineNodes::default());
        let mut runtime = plugin.connect(Generation::Calls, &config, MachineNodes::default()).await;
        let all = vec![(vec![pod(1)], vec![container(1, "a")])];
        runtime.synchronize(all).await.expect("it answers");
        until(async || fake.has(&["a"], schedules)).await;
        assert_eq!(fake.labels("a").contains_key(YIELDS_TO), policies == Policies::Nri);
        // The agent comes, for which the pod may have been switched off.
        let name = "workloads/agent-decides".to_owned();
        let workloads = vec![v1::Workload { name, ..v1::Workload::default() }];
        fake.set_others(Others { workloads, schedules: Vec::new() });
        until(async || fake.has(&["a"], &[])).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_runtime_waits_for_nobody() {
    let fake = Fake::new(MARK);
    fake.hang(true);
    let mut plugin = Plugin::start(config(), fake.clone(), MachineNodes::default());
    let preferring = Config { align_mems: AlignMems::Preferred, ..config() };
    let mut runtime = plugin.connect(Generation::Calls, &preferring, MachineNodes::default()).await;
    // The clock stands still as long as any task has work: it would advance if the runtime had to wait for a timer.
    let begin = Instant::now();
    runtime.synchronize(vec![(vec![pod(1)], vec![])]).await.expect("it answers");
    let ids: Vec<_> = (0..500).map(|id| format!("c{id}")).collect();
    for id in &ids {
        let container = container(1, id);
        runtime.create(&pod(1), &container).await.expect("it answers");
        runtime
            .tell(Event::PostStartContainer, &pod(1), Some(&container))
            .await
            .expect("it answers");
        runtime
            .tell(Event::PostUpdateContainer, &pod(1), Some(&container))
            .await
            .expect("it answers");
    }
    assert_eq!(begin.elapsed(), Duration::ZERO);
    assert_eq!(fake.names().0.len(), 0, "numalocd has answered");
    fake.hang(false);
    until(async || fake.names().0.len() == 500 && fake.names().1.len() == 500).await;
}

#[tokio::test(start_paused = true)]
async fn what_one_container_is_refused_does_not_hold_up_others() {
    let fake = Fake::new(MARK);
    fake.refuse("nri-b");
    let mut plugin = Plugin::start(config(), fake.clone(), MachineNodes::default());
    let mut runtime = plugin.connect(Generation::Calls, &config(), MachineNodes::default()).await;
    let containers = ["a", "b", "c"].map(|id| container(1, id)).to_vec();
    runtime.synchronize(vec![(vec![pod(1)], containers)]).await.expect("it answers");
    until(async || fake.names().0 == ["a", "c"]).await;
    fake.refuse("");
    until(async || fake.names().0 == ["a", "b", "c"]).await;
}

#[tokio::test(start_paused = true)]
async fn what_has_no_cgroup_is_not_taken_for_registered() {
    let fake = Fake::new(MARK);
    fake.take_cgroup("nri-b");
    let mut plugin = Plugin::start(config(), fake.clone(), MachineNodes::default());
    let mut runtime = plugin.connect(Generation::Calls, &config(), MachineNodes::default()).await;
    let containers = ["a", "b"].map(|id| container(1, id)).to_vec();
    runtime.synchronize(vec![(vec![pod(1)], containers)]).await.expect("it answers");
    // No schedule waits for it, and no renewal takes what is there for less than there should be: it is tried again
    // each minute.
    until(async || fake.has(&["a"], &["a"])).await;
    sleep(Duration::from_secs(595)).await;
    assert!(fake.declared() <= 11, "{} times", fake.declared());
    fake.take_cgroup("");
    until(async || fake.has(&["a", "b"], &["a", "b"])).await;
}

#[tokio::test(start_paused = true)]
async fn one_pod_leaves_schedules_to_others() {
    let fake = Fake::new(MARK);
    let mut plugin = Plugin::start(Config::default(), fake.clone(), MachineNodes::default());
    let mut runtime = plugin.connect(Generation::Calls, &config(), MachineNodes::default()).await;
    let other = nri::v1alpha1::PodSandbox { id: "other".to_owned(), uid: "2".to_owned(), ..pod(1) };
    let mut containers: Vec<_> = (0..20).map(|n| container(1, &format!("c{n:02}"))).collect();
    containers
        .push(nri::v1alpha1::Container { pod_sandbox_id: "other".to_owned(), ..container(1, "d") });
    runtime.synchronize(vec![(vec![pod(1), other], containers)]).await.expect("it answers");
    let first: Vec<String> = (0..8).map(|n| format!("c{n:02}")).collect();
    let with = |more: &[&str]| {
        [&first[..], &more.iter().map(|&id| id.to_owned()).collect::<Vec<_>>()].concat()
    };
    until(async || fake.names().1 == with(&["d"])).await;
    assert_eq!(fake.names().0.len(), 21, "all are registered");
    // When one of them ends, the next one gets its schedule.
    let gone = container(1, "c00");
    runtime.tell(Event::StopContainer, &pod(1), Some(&gone)).await.expect("it answers");
    until(async || fake.names().1 == with(&["c08", "d"])[1..]).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_kept_once_and_not_more_of_it_than_is_read() {
    use nri::Plugin as _;
    let inbox = Arc::new(Inbox::new(queue::MOST));
    let mut handlers = Handlers::new(Arc::clone(&inbox), &config(), MachineNodes::default());
    let mut large = pod(2);
    large.annotations = [("numaloc.io/x", 100), ("numaloc.io/policy", 100), ("example.com/x", 50)]
        .map(|(key, kib)| (key.to_owned(), "ä".repeat(kib << 9)))
        .into();
    large.labels = (0..5000).map(|n| (format!("label-{n}"), "x".repeat(63))).collect();
    let containers: Vec<_> = (0..250).map(|n| container(2, &format!("a{n}"))).collect();
    handlers.synchronize(vec![large.clone()], containers);
    let mut known = std::collections::BTreeMap::new();
    inbox.take().expect("all").apply(&mut known);
    for n in 0..250 {
        let (pod, container) = (Some(large.clone()), Some(container(2, &format!("b{n}"))));
        handlers.notice(nri::Notice { event: Event::PostStartContainer, pod, container });
    }
    inbox.take().expect("changes").apply(&mut known);
    assert_eq!(known.len(), 500);
    let one = Arc::clone(&known["a0"].pod);
    assert!(known.values().all(|facts| Arc::ptr_eq(&facts.pod, &one)));
    let kept =
        one.annotations.iter().chain(&one.labels).map(|(key, value)| key.len() + value.len());
    let kept: usize = kept.sum();
    assert!(kept < 64 << 10, "{kept} bytes");
    // It is known that the policy is too long.
    let wanted = crate::wanted::wanted(&known["b7"], &config(), &Agent::default(), "uid:990")
        .expect("its id is valid");
    assert!(wanted.notes.iter().any(|note| note.contains("is longer than 16384 bytes")));
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_has_ended_is_begun_anew() {
    let fake = Fake::new(MARK);
    let mut plugin = Plugin::start(config(), fake.clone(), MachineNodes::default());
    let mut runtime = plugin.connect(Generation::Calls, &config(), MachineNodes::default()).await;
    let containers = ["a", "b"].map(|id| container(1, id)).to_vec();
    runtime.synchronize(vec![(vec![pod(1)], containers)]).await.expect("it answers");
    until(async || fake.names().0 == ["a", "b"]).await;
    fake.lose("nri-a");
    until(async || fake.has(&["a", "b"], &["a", "b"])).await;
}

#[tokio::test(start_paused = true)]
async fn new_containers_get_the_memory_policy_that_their_pod_asks_for() {
    let (fake, nodes) = (Fake::new(MARK), MachineNodes::default());
    let allowed = Config { memory_policies: POLICIES.to_vec(), ..config() };
    let mut plugin = Plugin::start(allowed.clone(), fake.clone(), nodes.clone());
    let mut runtime = plugin.connect(Generation::Calls, &allowed, nodes.clone()).await;
    assert_eq!(runtime.events, 1 << 3 | 1 << 6 | 1 << 8 | 1 << 9 | 1 << 10);
    runtime.synchronize(vec![(vec![pod(1)], vec![])]).await.expect("it answers");
    until(async || nodes.of("4-7").is_some()).await;
    // Its nodes are set: without that, the cgroups of this machine count.
    let mut created = cpuset(container(1, "a"), "4-7");
    let linux = created.linux.as_mut().and_then(|linux| linux.resources.as_mut()?.cpu.as_mut());
    "0-1".clone_into(&mut linux.expect("it has one").mems);
    for (key, asked, expected) in [
        (MEMORY_POLICY_KEY, "preferred", Some((MpolMode::MpolPreferredMany, "1"))),
        (MEMORY_POLICY_KEY, r#"{"server": "preferred"}"#, Some((MpolMode::MpolPreferredMany, "1"))),
        (MEMORY_POLICY_KEY, r#"{"other": "preferred"}"#, None),
        (MEMORY_POLICY_KEY, "none", None),
        // It has CPUs of one node alone.
        (MEMORY_POLICY_KEY, "interleave", None),
        (MEMORY_POLICY_KEY, "bind", None),
        // The operator does not allow it.
        (MEMORY_POLICY_KEY, "weighted", None),
        (NUMA_BALANCING_KEY, "exempt", Some((MpolMode::MpolLocal, ""))),
    ] {
        let mut asking = pod(1);
        asking.annotations.insert(key.to_owned(), asked.to_owned());
        let answer = runtime.create(&asking, &created).await.expect("it answers");
        let linux = answer.adjust.and_then(|adjust| adjust.linux);
        let policy = linux.map(|linux| {
            assert_eq!(linux.resources, None, "nothing else is changed");
            let policy = linux.memory_policy.expect("an adjustment");
            (policy.mode(), policy.nodes)
        });
        let expected = expected.map(|(mode, nodes)| (mode, nodes.to_owned()));
        assert_eq!(policy, expected, "{key} {asked}");
    }
}

#[tokio::test(start_paused = true)]
async fn new_containers_are_bound_to_their_nodes_if_the_operator_wants_that() {
    let (fake, nodes) = (Fake::new(MARK), MachineNodes::default());
    let config = Config { align_mems: AlignMems::Preferred, ..config() };
    let mut plugin = Plugin::start(config.clone(), fake.clone(), nodes.clone());
    let mut runtime = plugin.connect(Generation::Calls, &config, nodes.clone()).await;
    runtime.synchronize(vec![(vec![pod(1)], vec![])]).await.expect("it answers");
    until(async || nodes.mems("4-7").is_some()).await;
    let mems = |answer: nri::v1alpha1::CreateContainerResponse| {
        let cpu: LinuxCpu = answer.adjust?.linux?.resources?.cpu?;
        assert_eq!(cpu.cpus, "", "the CPUs stay as they are");
        Some(cpu.mems)
    };
    for (cpus, own, expected) in
        [("4-7", "", Some("1")), ("4-7", "0-1", None), ("0-7", "", None), ("", "", None)]
    {
        let mut created = cpuset(container(1, "a"), cpus);
        let linux = created.linux.as_mut().and_then(|linux| linux.resources.as_mut()?.cpu.as_mut());
        own.clone_into(&mut linux.expect("it has one").mems);
        let answer = runtime.create(&pod(1), &created).await.expect("it answers");
        assert_eq!(mems(answer).as_deref(), expected, "{cpus} {own}");
    }
    // Its CPUs change: then it is bound no longer, unless another program has bound it.
    for (own, cpus, expected) in [
        ("1", "0-3", Some("0-1")),
        ("1", "0-7", Some("0-1")),
        ("1", "5-6", None),
        ("0-1", "0-3", None),
        ("0", "0-3", None),
        ("", "0-3", None),
        ("1", "", None),
    ] {
        let mut bound = cpuset(container(1, "a"), "4-7");
        let linux = bound.linux.as_mut().and_then(|linux| linux.resources.as_mut()?.cpu.as_mut());
        own.clone_into(&mut linux.expect("it has one").mems);
        let cpu = Some(LinuxCpu { cpus: cpus.to_owned(), ..LinuxCpu::default() });
        let asked = nri::v1alpha1::LinuxResources { cpu, ..Default::default() };
        let answer = runtime.update(&pod(1), &bound, asked).await.expect("it answers");
        let mems = answer.update.into_iter().map(|update| {
            assert_eq!(update.container_id, "a");
            update.linux.and_then(|linux| Some(linux.resources?.cpu?.mems)).expect("nodes")
        });
        assert_eq!(mems.collect::<Vec<_>>(), Vec::from_iter(expected), "{own} {cpus}");
    }
}
