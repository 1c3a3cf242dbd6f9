//! Fills a store for benchmarks. `seed STATE_DIR [JOBS]` writes JOBS ended jobs (10,000 if not given), each with an event, and
//! also 1,000 workloads and 1,000 schedules that are not due for a month. The directory must not hold a store yet.
#![forbid(unsafe_code)]

use numaloc_api::value::{
    CallStats, Event, EventType, Job, JobId, JobProgress, JobState, MigrationSpec, Outcome,
    PlanSummary, ProcessOutcome, Schedule, ScheduleId, ScheduleSpec, Target, Workload, WorkloadId,
    WorkloadSpec,
};
use numaloc_core::{
    Account, Extent, Identity, Kind, Locality, Mapping, Mempolicy, Node, NodeId, NodeMemory,
    NodeResidency, Options, Pages, Plan, Process, Reason, Residency, Share, Topology, planner,
};
use numalocd::store::{Store, Write};
use std::{
    env,
    error::Error,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

const MIB: u64 = 1 << 20;
const WORKLOADS: u64 = 1_000;
const SCHEDULES: u64 = 1_000;
const PROCESSES: u64 = 4;
/// Changes in one commit. With one change per commit each would need a sync.
const COMMIT: usize = 1_000;
const CREATOR: &str = "uid:0";
const MONTH: Duration = Duration::from_secs(30 * 24 * 3600);

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let dir = arguments.next().ok_or("usage: seed STATE_DIR [JOBS]")?;
    let jobs = arguments.next().map_or(Ok(10_000), |jobs| jobs.parse::<u64>())?;
    let now = SystemTime::now();
    let plan = Arc::new(PlanSummary::from(&plan()?));
    let outcome = Arc::new(outcome());
    let mut writes = Vec::new();
    for number in 1..=jobs {
        // The jobs ended a second apart, the last one now.
        let ended = now - Duration::from_secs(jobs - number);
        writes.push(Write::Job(Arc::new(job(number, ended, &plan, &outcome))));
        writes.push(Write::event(&event(number, ended)));
    }
    writes.extend((1..=WORKLOADS).map(|number| Write::Workload(Arc::new(workload(number, now)))));
    writes.extend((1..=SCHEDULES).map(|number| Write::Schedule(Arc::new(schedule(number, now)))));
    let (mut store, stored) = Store::open(Path::new(&dir))?;
    if stored.last.job > 0 {
        return Err(format!("{dir} holds a store already").into());
    }
    for writes in writes.chunks(COMMIT) {
        store.commit(writes)?;
    }
    Ok(())
}

fn cgroup(number: u64) -> String {
    format!("/kubepods.slice/kubepods-pod{number}.slice/cri-containerd-{number:064x}.scope")
}

fn spec(number: u64) -> MigrationSpec {
    let cgroups = [cgroup(number % WORKLOADS + 1)].into();
    MigrationSpec { target: Target { cgroups, ..Target::default() }, ..MigrationSpec::default() }
}

fn job(number: u64, ended: SystemTime, plan: &Arc<PlanSummary>, outcome: &Arc<Outcome>) -> Job {
    let started = ended - outcome.elapsed;
    let progress = JobProgress {
        held_back: String::new(),
        planned_bytes: PROCESSES * 400 * MIB,
        moved_bytes: PROCESSES * 390 * MIB,
        settled_bytes: PROCESSES * 400 * MIB,
        measured: ended,
    };
    let created = started - Duration::from_millis(20);
    Job {
        state: JobState::Partial,
        state_message: format!("{} MiB left: pinned (DMA or I/O in flight)", PROCESSES * 10),
        // One of each schedule for 10,000 jobs: the daemon keeps no more than twenty.
        schedule: number
            .is_multiple_of(10)
            .then(|| ScheduleId::numbered(number / 10 % SCHEDULES + 1)),
        request_id: Some(format!("seed-{number}")),
        started: Some(started),
        ended: Some(ended),
        progress: Some(progress),
        plan: Some(Arc::clone(plan)),
        outcome: Some(Arc::clone(outcome)),
        ..Job::new(JobId::numbered(number), spec(number), CREATOR.to_owned(), created)
    }
}

fn event(number: u64, time: SystemTime) -> Event {
    let message = "1.5 GiB moved from node 1 to node 0, 40 MiB left".to_owned();
    Event {
        job: Some(JobId::numbered(number)),
        // One of each schedule for 10,000 jobs: the daemon keeps no more than twenty.
        schedule: number
            .is_multiple_of(10)
            .then(|| ScheduleId::numbered(number / 10 % SCHEDULES + 1)),
        creator: CREATOR.to_owned(),
        target: spec(number).target,
        from: [NodeId(1)].into_iter().collect(),
        to: [NodeId(0)].into_iter().collect(),
        before_percent: Some(50.0),
        after_percent: Some(98.75),
        remote_bytes: Some(PROCESSES * 10 * MIB),
        ..Event::new(number, EventType::Completed, time, message)
    }
}

fn workload(number: u64, created: SystemTime) -> Workload {
    let labels = [("app", format!("app-{}", number % 20)), ("tier", "backend".to_owned())];
    let spec = WorkloadSpec {
        container_id: Some(format!("{number:064x}")),
        pod_uid: Some(format!("00000000-0000-4000-8000-{number:012x}")),
        labels: labels.map(|(key, value)| (key.to_owned(), value)).into(),
        ..WorkloadSpec::new(WorkloadId::numbered(number), cgroup(number))
    };
    Workload { etag: "1".to_owned(), ..Workload::new(spec, CREATOR.to_owned(), created) }
}

fn schedule(number: u64, now: SystemTime) -> Schedule {
    let spec = ScheduleSpec { migration: spec(number), interval: MONTH, ..ScheduleSpec::default() };
    Schedule {
        next_run: Some(now + MONTH),
        etag: "1".to_owned(),
        ..Schedule::new(ScheduleId::numbered(number), spec, CREATOR.to_owned(), now)
    }
}

fn process(number: u64) -> Identity {
    Identity { pid: 1_000 + number as i32, start_time: 90_000 + number }
}

/// A plan in which half of the memory of each process is on the wrong one of two nodes.
fn plan() -> Result<Plan, Box<dyn Error>> {
    let node = |id, cpus: &str| -> Result<Node, Box<dyn Error>> {
        let (total_bytes, free_bytes) = (256 << 30, 128 << 30);
        let memory = NodeMemory {
            total_bytes,
            free_bytes,
            high_watermark_bytes: 96 * MIB,
            ..NodeMemory::default()
        };
        Ok(Node { id: NodeId(id), cpus: cpus.parse()?, memory })
    };
    let distances = [((NodeId(0), NodeId(1)), 21), ((NodeId(1), NodeId(0)), 21)];
    let topology = Topology::new([node(0, "0-31")?, node(1, "32-63")?], distances);
    let mut processes = Vec::new();
    let mut extents = Vec::new();
    for number in 0..PROCESSES {
        processes.push(Process {
            identity: process(number),
            comm: format!("worker-{number}"),
            cpus: "0-31".parse()?,
            threads: Vec::new(),
            mems_allowed: "0-1".parse()?,
            device_nodes: Default::default(),
            swap_bytes: 0,
            page_table_bytes: 0,
            guest: None,
        });
        extents.extend((0..20).map(|index| extent(number, index)));
    }
    let caller_mems = topology.with_memory();
    let scene =
        planner::Scene { topology: &topology, processes: &processes, caller_mems: &caller_mems };
    Ok(planner::plan(scene, extents, &Options::default()))
}

fn extent(process: u64, index: u64) -> Extent {
    let resident = NodeResidency { owned_bytes: 20 * MIB, shared_bytes: 0, huge_bytes: 0 };
    Extent {
        mappings: vec![Mapping { process: process as usize, start: (index + 1) << 32 }],
        pages: Pages::All,
        bytes: 64 * MIB,
        kind: Kind::Anonymous,
        policy: Mempolicy::Default,
        hugetlb_bytes: None,
        mappers: Default::default(),
        stripe: None,
        rule: None,
        name: "".into(),
        residency: Residency {
            nodes: [(NodeId(0), resident), (NodeId(1), resident)].into(),
            ..Residency::default()
        },
    }
}

fn outcome() -> Outcome {
    let processes = (0..PROCESSES).map(|number| {
        let mut account = Account::default();
        account.found(400 * MIB);
        account.moved(390 * MIB);
        account.left(Reason::Pinned, 10 * MIB);
        let comm = format!("worker-{number}");
        ProcessOutcome { identity: process(number), comm, account, error: None }
    });
    let locality = |local, remote| {
        let (local_bytes, remote_bytes) = (PROCESSES * local * MIB, PROCESSES * remote * MIB);
        let share = Share { local_bytes, remote_bytes, ..Share::default() };
        Locality { movable: share, overall: share }
    };
    let calls = 100 * PROCESSES;
    Outcome {
        others: numaloc_core::Account::default(),
        processes: processes.collect(),
        flows: [((NodeId(1), NodeId(0)), PROCESSES * 390 * MIB)].into(),
        cache_flows: Default::default(),
        calls: CallStats {
            calls,
            addresses: PROCESSES * 100_000,
            longest: Duration::from_millis(9),
            total: Duration::from_millis(4 * calls),
            times: [0, 0, 0, 0, 0, calls, 0, 0, 0, 0, 0, 0, 0],
            ..CallStats::default()
        },
        elapsed: Duration::from_secs(2),
        before: locality(400, 400),
        after: Some(locality(790, 10)),
        returned_bytes: None,
        partners: Vec::new(),
        offload: None,
        named: Vec::new(),
        look_error: String::new(),
        ended_with: None,
    }
}
