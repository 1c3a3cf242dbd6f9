//! The plugin, the runtime and numalocd restart at random while containers come, change and go. In the end numalocd has
//! what it is to have.

use super::{
    Plugin,
    samples::{config, container, cpuset, pod},
    until,
};
use crate::{
    align::MachineNodes,
    facts::{self, Facts},
    labels::MARK,
    wanted::wanted,
};
use nri::{
    fake::{Generation, Runtime},
    v1alpha1::{Container, Event},
};
use numaloc_node::{STATE, fake::Fake};
use std::{collections::BTreeMap, time::Duration};
use tokio::{io::DuplexStream, time::sleep};

/// A runtime with its containers.
struct RuntimeHost {
    containers: BTreeMap<String, Container>,
    made: usize,
    random: fastrand::Rng,
    generation: Generation,
}

impl RuntimeHost {
    /// Connects to a plugin, and lists all containers to it.
    async fn connect(&self, plugin: &mut Plugin) -> Runtime<DuplexStream> {
        let mut runtime = plugin.connect(self.generation, &config(), MachineNodes::default()).await;
        let pods = [1, 2].map(pod).to_vec();
        let containers = self.containers.values().cloned().collect();
        runtime.synchronize(vec![(pods, vec![]), (vec![], containers)]).await.expect("it answers");
        runtime
    }

    /// A container starts, gets other CPUs, or stops, whether or not a plugin is connected.
    async fn step(&mut self, plugin: Option<&mut Runtime<DuplexStream>>) {
        let known = self.random.choice(self.containers.keys()).cloned();
        let (event, container) = match (self.random.u8(..4), known) {
            (0 | 1, _) | (_, None) => {
                self.made += 1;
                let number = 1 + self.random.u8(..2);
                let new = container(number, &format!("c{}", self.made));
                self.containers.insert(new.id.clone(), new.clone());
                (Event::PostStartContainer, new)
            }
            (2, Some(id)) => {
                let cpus = ["0-3", "4-7", "0,4"][self.random.usize(..3)];
                let changed = cpuset(self.containers[&id].clone(), cpus);
                self.containers.insert(id, changed.clone());
                (Event::PostUpdateContainer, changed)
            }
            (_, Some(id)) => {
                let gone = self.containers.remove(&id).expect("it was there");
                (Event::StopContainer, gone)
            }
        };
        if let Some(runtime) = plugin {
            let pod = pod(if container.pod_sandbox_id == "sandbox-1" { 1 } else { 2 });
            runtime.tell(event, &pod, Some(&container)).await.expect("it answers");
        }
    }

    /// The containers that are to be registered, and the states of the schedules that are to be there.
    fn expected(&self) -> (Vec<String>, BTreeMap<String, String>) {
        let mut states = BTreeMap::new();
        for (id, container) in &self.containers {
            let number = if container.pod_sandbox_id == "sandbox-1" { 1 } else { 2 };
            let facts = Facts::new(facts::pod(pod(number)).into(), container.clone());
            let wanted = wanted(&facts, &config(), &crate::agent::Agent::default(), "uid:990")
                .expect("its id is valid");
            if let Some(schedule) = wanted.schedule {
                states.insert(id.clone(), schedule.labels[STATE].clone());
            }
        }
        (self.containers.keys().cloned().collect(), states)
    }
}

/// A life with this number of restarts.
async fn life(seed: u64, restarts: usize) {
    let fake = Fake::new(MARK);
    fake.fail(30, seed);
    let mut random = fastrand::Rng::with_seed(seed);
    let generation = if random.bool() { Generation::Calls } else { Generation::StateChange };
    let mut host =
        RuntimeHost { containers: BTreeMap::new(), made: 0, random: random.fork(), generation };
    let mut plugin = Plugin::start(config(), fake.clone(), MachineNodes::default());
    let mut runtime = host.connect(&mut plugin).await;
    for _ in 0..restarts {
        for _ in 0..random.usize(..6) {
            host.step(Some(&mut runtime)).await;
            sleep(Duration::from_millis(random.u64(..400))).await;
        }
        match random.u8(..4) {
            // The plugin is killed, wherever it is, and containers change while it is away.
            0 | 1 => {
                drop(plugin);
                for _ in 0..random.usize(..4) {
                    host.step(None).await;
                }
                plugin = Plugin::start(config(), fake.clone(), MachineNodes::default());
                runtime = host.connect(&mut plugin).await;
            }
            // The runtime restarts, and the plugin connects again.
            2 => {
                drop(runtime);
                for _ in 0..random.usize(..4) {
                    host.step(None).await;
                }
                runtime = host.connect(&mut plugin).await;
            }
            // numalocd has lost a workload, or hangs for a while.
            _ => {
                if let Some(id) = random.choice(host.containers.keys()) {
                    fake.lose(&format!("nri-{id}"));
                }
                fake.hang(true);
                sleep(Duration::from_millis(random.u64(..2000))).await;
                fake.hang(false);
            }
        }
    }
    fake.fail(0, seed);
    let (workloads, states) = host.expected();
    until(async || fake.states() == states && fake.names().0 == workloads).await;
    // And so it stays.
    sleep(Duration::from_secs(900)).await;
    assert_eq!((fake.names().0, fake.states()), (workloads, states), "seed {seed}");
}

#[tokio::test(start_paused = true)]
async fn after_a_hundred_restarts_no_schedule_is_lost_doubled_or_orphaned() {
    for seed in 0..6 {
        life(seed, 100).await;
    }
}
