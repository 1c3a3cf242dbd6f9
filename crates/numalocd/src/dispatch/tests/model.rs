//! Random actions of clients, the engine and the host: nothing acknowledged is lost, nothing runs twice at once.

use super::*;
use numaloc_api::value::QosClass;
use proptest::{collection::vec, prelude::*, sample::select};
use std::{collections::BTreeMap, sync::atomic::Ordering::Relaxed};

/// One step. Numbers pick a job or an order, modulo how many there are.
#[derive(Clone, Debug)]
enum Step {
    Create { pid: i32, node: u32, qos_class: QosClass },
    Cancel(usize),
    Pause(usize),
    Resume(usize),
    Plan { order: usize, nothing: bool },
    Fail(usize),
    End { order: usize, left: bool },
    Kill,
    Stop,
}

fn step() -> impl Strategy<Value = Step> {
    let pick = || 0..8_usize;
    prop_oneof![
        4 => (1..5_i32, 0..3_u32, select(vec![QosClass::Lsr, QosClass::Ls, QosClass::Be]))
            .prop_map(|(pid, node, qos_class)| Step::Create { pid, node, qos_class }),
        1 => pick().prop_map(Step::Cancel),
        1 => pick().prop_map(Step::Pause),
        1 => pick().prop_map(Step::Resume),
        5 => (pick(), prop::bool::weighted(0.2)).prop_map(|(order, nothing)| Step::Plan { order, nothing }),
        1 => pick().prop_map(Step::Fail),
        4 => (pick(), any::<bool>()).prop_map(|(order, left)| Step::End { order, left }),
        1 => Just(Step::Kill),
        1 => Just(Step::Stop),
    ]
}

/// An order as the engine has it.
struct ActiveRun {
    order: JobOrder,
    pid: i32,
    node: u32,
    qos_class: QosClass,
    planned: bool,
    moving: bool,
}

#[derive(Default)]
struct World {
    /// Acknowledged state: the pid, node and class of each job, and its last acknowledged end.
    jobs: BTreeMap<u64, (i32, u32, QosClass)>,
    ends: BTreeMap<u64, JobState>,
    active: Vec<ActiveRun>,
}

impl World {
    fn pick(&self, index: usize) -> Option<JobId> {
        let number = self.jobs.keys().nth(index % self.jobs.len().max(1))?;
        Some(JobId::numbered(*number))
    }

    /// An order that the engine has not answered yet.
    fn unplanned(&mut self, index: usize) -> Option<&mut ActiveRun> {
        let unplanned = self.active.iter_mut().filter(|active| !active.planned);
        let mut unplanned: Vec<&mut ActiveRun> = unplanned.collect();
        let index = index % unplanned.len().max(1);
        (index < unplanned.len()).then(|| unplanned.swap_remove(index))
    }

    /// Takes in new orders, and checks that jobs that move are not in each other's way.
    async fn settle(&mut self, rig: &mut Rig) {
        tokio::time::sleep(Duration::from_millis(1)).await;
        // First, orders that were dropped are removed: a job that was paused and resumed while it was planned is
        // ordered again.
        self.active.retain_mut(|active| {
            if active.moving {
                return true;
            }
            match active.order.go.try_recv() {
                Ok(()) => active.moving = true,
                Err(tokio::sync::oneshot::error::TryRecvError::Empty) => {}
                Err(tokio::sync::oneshot::error::TryRecvError::Closed) => return false,
            }
            true
        });
        while let Ok(order) = rig.orders.try_recv() {
            let (pid, node, qos_class) = self.jobs[&order.job.number().unwrap()];
            assert!(
                self.active.iter().all(|active| active.order.job != order.job),
                "ordered twice"
            );
            self.active.push(ActiveRun {
                order,
                pid,
                node,
                qos_class,
                planned: false,
                moving: false,
            });
        }
        let others = self.active.iter().any(|active| active.qos_class != QosClass::Be);
        for active in &self.active {
            let yields = active.order.run.control.yielding.load(Relaxed);
            assert_eq!(yields, others && active.qos_class == QosClass::Be, "who makes room");
        }
        let moving: Vec<&ActiveRun> = self.active.iter().filter(|active| active.moving).collect();
        assert!(moving.len() <= 2);
        assert!(self.active.iter().filter(|active| !active.planned).count() <= 2);
        for (index, one) in moving.iter().enumerate() {
            for other in &moving[index + 1..] {
                assert!(one.pid != other.pid && one.node != other.node, "in each other's way");
            }
        }
    }

    /// Checks what the dispatcher shows against what it has acknowledged.
    async fn check(&mut self, rig: &Rig) {
        for &number in self.jobs.keys() {
            let job = rig.handle.get_job(JobId::numbered(number)).await.expect("it is there");
            if let Some(end) = self.ends.get(&number) {
                assert_eq!(job.state, *end, "jobs/{number} has changed after its end");
            }
            if job.state.is_end() {
                assert!(job.ended.is_some() && job.wanted.is_none());
                self.ends.insert(number, job.state);
            }
        }
    }
}

async fn play(steps: Vec<Step>) {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let mut world = World::default();
    for step in steps {
        match step {
            Step::Create { pid, node, qos_class } => {
                let found = found(&[pid], &node.to_string());
                let mut request = request(&[pid]);
                request.spec.policy.qos_class = Some(qos_class);
                if let Ok((job, _)) =
                    rig.handle.create_job(admin(), request, pins(&[pid]), found).await
                {
                    world.jobs.insert(job.id.number().unwrap(), (pid, node, qos_class));
                }
            }
            Step::Cancel(index) => {
                let Some(id) = world.pick(index) else { continue };
                let answer = rig.handle.cancel_job(admin(), id.clone()).await;
                if let Ok(job) = answer
                    && job.state == JobState::Cancelled
                {
                    world.ends.insert(id.number().unwrap(), JobState::Cancelled);
                }
            }
            Step::Pause(index) => {
                let Some(id) = world.pick(index) else { continue };
                let _ = rig.handle.pause_job(admin(), id).await;
            }
            Step::Resume(index) => {
                let Some(id) = world.pick(index) else { continue };
                let _ = rig.handle.resume_job(admin(), id).await;
            }
            Step::Plan { order, nothing } => {
                let Some(active) = world.unplanned(order) else { continue };
                active.planned = true;
                let mut plan = planned(&[active.pid], &active.node.to_string());
                plan.nothing = nothing.then(|| (JobState::Skipped, "all is local".to_owned()));
                rig.report(EngineReport::Planned(active.order.job.clone(), Ok(plan)));
            }
            Step::Fail(order) => {
                let Some(active) = world.unplanned(order) else { continue };
                active.planned = true;
                let why = Refusal::TargetEmpty { message: "gone".into() };
                rig.report(EngineReport::Planned(active.order.job.clone(), Err(why)));
            }
            Step::End { order, left } => {
                let moving: Vec<usize> =
                    (0..world.active.len()).filter(|&index| world.active[index].moving).collect();
                let Some(&index) = moving.get(order % moving.len().max(1)) else { continue };
                let active = world.active.swap_remove(index);
                let told = active.order.run.control.cancel.load(Relaxed);
                let reason = if told { Reason::Cancelled } else { Reason::Busy };
                let left = (left || told).then_some((reason, 4096));
                rig.report(EngineReport::Ended(active.order.job.clone(), Ok(outcome(4096, left))));
            }
            Step::Kill | Step::Stop => {
                world.settle(&mut rig).await;
                world.check(&rig).await;
                match step {
                    Step::Kill => rig.kill().await,
                    _ => rig.stop().await,
                }
                world.active.clear();
                rig = Rig::at(&dir);
            }
        }
        world.settle(&mut rig).await;
    }
    world.check(&rig).await;
    rig.kill().await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn nothing_is_lost_and_nothing_runs_twice(steps in vec(step(), 0..50)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.unwrap().block_on(play(steps));
    }
}
