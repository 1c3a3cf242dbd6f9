//! The daemon's queue with 1,000 jobs in it, on a simulated clock: how long the queue's code takes, how long each job waits, and
//! whether any job is passed over.

use super::host::{Host, Maps, NODES};
use crate::figure::{Figure, NATIVE};
use anyhow::{Result, ensure};
use fastrand::Rng;
use numaloc_api::value::QosClass;
use numaloc_engine::FoundTarget;
use numalocd::{
    config::Queue,
    dispatch::queue::{Active, JobStage, Waiting, next},
};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

const JOBS: u64 = 1_000;
/// Bytes that a simulated job moves in a simulated second.
const RATE: f64 = 1e9;
const CLASSES: [QosClass; 3] = [QosClass::Lsr, QosClass::Ls, QosClass::Be];

/// A job: its class, the process and nodes that it needs, and its simulated seconds.
struct Job {
    qos_class: QosClass,
    found: FoundTarget,
    seconds: f64,
}

/// The result of working through the queue.
struct Drained {
    /// Time of the first look, with all jobs waiting. `all` is the time of all looks together.
    first: Duration,
    all: Duration,
    /// When each job began. `order` has the jobs in the order in which they began.
    begins: Vec<f64>,
    order: Vec<u64>,
    end: f64,
}

/// Results with the daemon's default limits, and with one job for each node at a time.
pub fn figures(rounds: usize) -> Result<Vec<Figure>> {
    let jobs = jobs()?;
    // Planning takes no simulated time, so it must not hold anything up.
    let plans = NODES as usize;
    let wide = Queue { moves: plans, plans, moves_per_node: 1, rate_bytes_per_second: None };
    let narrow = Queue { plans, ..Queue::default() };
    let mut figures = Vec::new();
    for limits in [narrow, wide] {
        let runs: Vec<Drained> = (0..rounds.max(1)).map(|_| drain(&jobs, &limits)).collect();
        let drained = &runs[0];
        ensure!(drained.order.len() == jobs.len(), "jobs are left in the queue");
        let passed = passed_over(&jobs, &drained.order);
        ensure!(passed == 0, "{passed} jobs began before an earlier one that wanted the same");
        let mut figure = |metric: &str, unit: &str, values| {
            figures.push(Figure {
                bench: "scale".into(),
                kernel: NATIVE.into(),
                case: format!("{JOBS} jobs on {NODES} nodes"),
                subject: format!("{} at a time", limits.moves),
                metric: metric.into(),
                unit: unit.into(),
                values,
            });
        };
        let us = |time: fn(&Drained) -> Duration| {
            runs.iter().map(|run| time(run).as_secs_f64() * 1e6).collect()
        };
        figure("a look at all jobs", "us", us(|run| run.first));
        figure("all looks, by job", "us", us(|run| run.all / JOBS as u32));
        figure("passed over", "jobs", vec![passed as f64]);
        for (class, name) in CLASSES.into_iter().zip(["LSR", "LS", "BE"]) {
            let of_class =
                jobs.iter().zip(&drained.begins).filter(|(job, _)| job.qos_class == class);
            let waits = of_class.map(|(_, begin)| begin / drained.end).collect();
            figure(&format!("wait of {name}"), "share of the whole time", waits);
        }
    }
    Ok(figures)
}

/// The jobs. One in ten is LSR, three in ten are BE. One in five is for the same process as an earlier one.
fn jobs() -> Result<Vec<Job>> {
    let host = Host::new(Maps::Synthetic)?;
    let mut random = Rng::with_seed(1);
    let job = |_| {
        let index = random.usize(..2 * JOBS as usize);
        let process = host.process(index);
        let nodes = host.topology.local_nodes(&process.cpus);
        Job {
            qos_class: CLASSES[[0, 1, 1, 1, 1, 1, 1, 2, 2, 2][random.usize(..10)]],
            found: FoundTarget {
                processes: std::sync::Arc::new([process.identity].into()),
                nodes,
                ..FoundTarget::default()
            },
            seconds: host.bytes(index) as f64 / 4.0 / RATE,
        }
    };
    Ok((0..JOBS).map(job).collect())
}

/// Works through the queue, from the first look until the last job has ended.
fn drain(jobs: &[Job], limits: &Queue) -> Drained {
    let mut waiting: BTreeMap<u64, &Job> = (0..).zip(jobs).collect();
    let mut active: Vec<(f64, &Job)> = Vec::new();
    let mut looks = Vec::new();
    let (mut now, mut begins, mut order) = (0.0, vec![f64::NAN; jobs.len()], Vec::new());
    while !waiting.is_empty() || !active.is_empty() {
        let all = waiting.iter().map(|(&number, job)| Waiting {
            tenant: "",
            tenant_turn: 0,
            number,
            line: number,
            qos_class: job.qos_class,
            owner: "",
            turn: 0,
            found: Some(&job.found),
        });
        let all = all.collect();
        let moving = active.iter().map(|(_, job)| Active {
            tenant: "",
            number: JOBS,
            qos_class: job.qos_class,
            owner: "",
            stage: JobStage::Moving(Duration::ZERO),
            found: Some(&job.found),
        });
        let moving: Vec<_> = moving.collect();
        let begin = Instant::now();
        let started = next(all, &moving, limits);
        looks.push(begin.elapsed());
        // The queue may start more jobs, for planning, than there are places for moving.
        for number in started.into_iter().take(limits.moves - moving.len()) {
            let job = waiting.remove(&number).expect("it waits");
            begins[number as usize] = now;
            order.push(number);
            active.push((now + job.seconds, job));
        }
        // Continues to the next end of a job.
        active.sort_by(|one, other| other.0.total_cmp(&one.0));
        let Some((end, _)) = active.pop() else { break };
        now = end;
    }
    Drained { first: looks[0], all: looks.iter().sum(), begins, order, end: now }
}

/// Counts jobs that began although an earlier one (by class and age) still waited for a node or process that both need.
fn passed_over(jobs: &[Job], order: &[u64]) -> usize {
    let key = |number: u64| (jobs[number as usize].qos_class, number);
    let found = |number: u64| &jobs[number as usize].found;
    let later = |at: usize, &number: &u64| {
        order[at + 1..].iter().any(|&other| {
            key(other) < key(number)
                && (found(other).nodes.intersects(&found(number).nodes)
                    || !found(other).processes.is_disjoint(&found(number).processes))
        })
    };
    order.iter().enumerate().filter(|(at, number)| later(*at, number)).count()
}
