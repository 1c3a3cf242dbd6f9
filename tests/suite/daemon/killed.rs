//! The daemon is killed at random moments. Nothing that it acknowledged is lost, nothing runs twice, and its store opens every
//! time.

use super::*;
use crate::{
    app::{App, Layout},
    settings::Setting,
};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Write as _},
    sync::atomic::AtomicBool,
    thread,
};

/// Number of kills of the daemon: 200, or as NUMALOC_KILLS says.
fn rounds() -> u32 {
    env::var("NUMALOC_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(200)
}

/// Clients that write at the same time, so that changes share commits. One creates jobs; each of the others has its own workloads
/// and schedules.
const CLIENTS: u32 = 8;
/// Workloads of each client, which it writes again and again.
const WORKLOADS: u32 = 4;

/// Records that the daemon has acknowledged.
#[derive(Debug, Default)]
struct Acknowledged {
    /// Jobs, and whether they were cancelled.
    jobs: BTreeMap<String, bool>,
    /// Schedules: whose they are, and whether they are there.
    schedules: BTreeMap<String, (u32, bool)>,
    /// Workloads, and the label of each; `None`: it is not registered. A workload is missing here while its state is not known.
    workloads: BTreeMap<String, Option<String>>,
    /// Jobs that were seen at their end, and the state that they must keep.
    ends: BTreeMap<String, i32>,
    /// Clients that had a workload registered or unregistered.
    writers: BTreeSet<u32>,
}

/// Registers and unregisters workloads, and creates and deletes schedules, until told to end or the daemon is gone.
fn write(endpoint: &str, own: u32, round: u32, seen: &Mutex<Acknowledged>, end: &AtomicBool) {
    let client = Client::new(endpoint);
    let mut step = 0;
    while !end.load(Ordering::Relaxed) {
        step += 1;
        let done = match step % 3 {
            0 => schedule(&client, own, seen),
            _ => workload(&client, own, &format!("{round}-{step}"), step, seen),
        };
        if done.is_err() {
            return;
        }
    }
}

/// Gives a workload a new label, or unregisters it. Until the daemon answers, it is not known whether it was done.
fn workload(
    client: &Client,
    own: u32,
    label: &str,
    step: u32,
    seen: &Mutex<Acknowledged>,
) -> Result<(), Status> {
    let name = format!("workloads/c{own}-{}", step % WORKLOADS);
    let before = seen.lock().workloads.remove(&name);
    let mut workloads = client.workloads();
    let after = match before {
        Some(Some(_)) if step.is_multiple_of(5) => {
            let request =
                v1::UnregisterWorkloadRequest { name: name.clone(), ..Default::default() };
            client.runtime.block_on(workloads.unregister_workload(request))?;
            None
        }
        _ => {
            let workload = v1::Workload {
                name: name.clone(),
                cgroup: format!("/killed/{own}"),
                labels: [("step".to_owned(), label.to_owned())].into(),
                ..v1::Workload::default()
            };
            let request =
                v1::RegisterWorkloadRequest { workload: Some(workload), ..Default::default() };
            client.runtime.block_on(workloads.register_workload(request))?;
            Some(label.to_owned())
        }
    };
    let mut seen = seen.lock();
    seen.workloads.insert(name, after);
    seen.writers.insert(own);
    Ok(())
}

/// Creates a paused schedule, or deletes one that this client has created.
fn schedule(client: &Client, own: u32, seen: &Mutex<Acknowledged>) -> Result<(), Status> {
    let cgroup = format!("/killed/{own}");
    let known = {
        let seen = seen.lock();
        seen.schedules
            .iter()
            .find(|(_, known)| **known == (own, true))
            .map(|(name, _)| name.clone())
    };
    if let Some(name) = known {
        seen.lock().schedules.remove(&name);
        let request = v1::DeleteScheduleRequest { name: name.clone(), ..Default::default() };
        client.runtime.block_on(client.schedules().delete_schedule(request))?;
        seen.lock().schedules.insert(name, (own, false));
        return Ok(());
    }
    let target = v1::Target { cgroups: vec![cgroup], ..v1::Target::default() };
    let spec = v1::MigrationSpec { target: Some(target), ..v1::MigrationSpec::default() };
    let schedule = v1::Schedule { spec: Some(spec), paused: true, ..v1::Schedule::default() };
    let request = v1::CreateScheduleRequest { schedule: Some(schedule), ..Default::default() };
    let made = client.runtime.block_on(client.schedules().create_schedule(request))?;
    let name = made.into_inner().schedule.expect("a schedule").name;
    seen.lock().schedules.insert(name, (own, true));
    Ok(())
}

/// Creates and cancels jobs until told to end or the daemon is gone.
fn work(endpoint: &str, pids: &[i32], round: u32, seen: &Mutex<Acknowledged>, end: &AtomicBool) {
    let client = Client::new(endpoint);
    let mut step = 0;
    while !end.load(Ordering::Relaxed) {
        step += 1;
        let mut request = request(pids[step % pids.len()], slow(4 * MIB));
        request.request_id = format!("r{round}-{step}");
        if step % 2 == 0 {
            let resume = v1::InterruptAction::Resume.into();
            request.spec.as_mut().unwrap().policy =
                Some(v1::Policy { on_interrupt: resume, ..v1::Policy::default() });
        }
        match client.try_create(request) {
            Ok(job) => {
                seen.lock().jobs.entry(job.name.clone()).or_default();
                // Without this the queue would grow without end.
                if client.cancel(&job.name).is_ok() {
                    seen.lock().jobs.insert(job.name, true);
                }
            }
            Err(status) if status.code() == Code::Aborted => {}
            Err(_) => return,
        }
    }
}

fn check(client: &Client, seen: &mut Acknowledged) {
    for (name, cancelled) in &seen.jobs {
        let job = client.try_job(name).unwrap_or_else(|status| panic!("{name} is lost: {status}"));
        // A cancelled job does not come back to life. It has ended, by itself or because it was cancelled.
        if *cancelled {
            assert!(
                job.end_time.is_some() || job.wanted_state() == v1::JobState::Cancelled,
                "{name} was cancelled: {job:?}"
            );
        }
        if let Some(end) = seen.ends.get(name) {
            assert_eq!(job.state, *end, "{name} has changed after its end");
        }
        if job.end_time.is_some() {
            seen.ends.insert(name.clone(), job.state);
        }
    }
    for (name, (_, there)) in &seen.schedules {
        let get = v1::GetScheduleRequest { name: name.clone() };
        match client.runtime.block_on(client.schedules().get_schedule(get)) {
            Ok(_) => assert!(there, "{name} is back"),
            Err(status) => assert!(!there, "{name} is lost: {status}"),
        }
    }
    let list = v1::ListWorkloadsRequest::default();
    let listed = client.runtime.block_on(client.workloads().list_workloads(list));
    let listed = listed.expect("it answers").into_inner().workloads;
    for (name, label) in &seen.workloads {
        let known = listed.iter().find(|known| known.name == *name);
        let known = known.and_then(|known| known.labels.get("step"));
        assert_eq!(known, label.as_ref(), "{name}");
    }
    // Older entries have been checked often enough.
    seen.schedules.retain(|_, (_, there)| *there);
    while seen.jobs.len() > 40 {
        let oldest = seen.jobs.keys().next().cloned().expect("there are some");
        seen.jobs.remove(&oldest);
        seen.ends.remove(&oldest);
    }
}

/// Asserts that no two running jobs have a process in common.
fn assert_alone(client: &Client) {
    let states = vec![v1::JobState::Running.into()];
    let filter = v1::JobFilter { states, ..v1::JobFilter::default() };
    let list = v1::ListJobsRequest { filter: Some(filter), ..v1::ListJobsRequest::default() };
    let Ok(answer) = client.runtime.block_on(client.migrations().list_jobs(list)) else { return };
    let mut pids: Vec<i32> = answer
        .into_inner()
        .jobs
        .into_iter()
        .flat_map(|job| job.spec.unwrap().target.unwrap().pids)
        .collect();
    let all = pids.len();
    pids.sort_unstable();
    pids.dedup();
    assert_eq!(pids.len(), all, "two jobs on one process");
}

#[test]
fn at_random_moments() {
    let _balancing = Setting::numa_balancing(false);
    let mut daemon = Daemon::with("[queue]\nmoves = 4\nmoves_per_node = 4\n");
    let apps: Vec<App> = (0..3)
        .map(|index| Layout::remote(&["anon:4M"]).load("idle").start(&format!("killed{index}")))
        .collect();
    let pids: Vec<i32> = apps.iter().map(App::pid).collect();
    let mut seen = Acknowledged::default();
    {
        // A schedule that runs all the time, on a process of its own.
        let client = daemon.client();
        let schedule = v1::Schedule {
            spec: request(pids[2], v1::Limits::default()).spec,
            interval: Some(prost_types::Duration { seconds: 1, nanos: 0 }),
            ..v1::Schedule::default()
        };
        let request = v1::CreateScheduleRequest { schedule: Some(schedule), ..Default::default() };
        let made = client.runtime.block_on(client.schedules().create_schedule(request));
        let ticks = made.expect("it is taken").into_inner().schedule.unwrap().name;
        // It belongs to none of the writers.
        seen.schedules.insert(ticks, (0, true));
    }
    let seen = Mutex::new(seen);
    // A simple generator gives different moments; neither a clock nor real random numbers are needed.
    let mut state = 0x2545_f491_u32;
    for round in 0..rounds() {
        let end = AtomicBool::new(false);
        thread::scope(|scope| {
            let endpoint = daemon.endpoint();
            let (seen, pids, end) = (&seen, &pids[..2], &end);
            for own in 1..CLIENTS {
                let endpoint = endpoint.clone();
                scope.spawn(move || write(&endpoint, own, round, seen, end));
            }
            scope.spawn(move || work(&endpoint, pids, round, seen, end));
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            thread::sleep(Duration::from_millis(u64::from(state >> 16) % 700));
            daemon.kill();
            end.store(true, Ordering::Relaxed);
        });
        daemon.spawn();
        let client = daemon.client();
        check(&client, &mut seen.lock());
        assert_alone(&client);
        if round % 10 == 9 {
            // A sign of life for people who wait for all rounds. It goes to stderr itself, which the test harness does not
            // capture.
            writeln!(io::stderr(), "killed {} times", round + 1).expect("stderr is there");
        }
    }
    let seen = seen.lock();
    // The test was effective: each client has written something. On a slow machine some have nothing at its end, because a workload
    // whose change was not answered is forgotten.
    assert_eq!(seen.writers, (1..CLIENTS).collect());
    println!(
        "killed {} times, {} ends, {} workloads",
        rounds(),
        seen.ends.len(),
        seen.workloads.len()
    );
}
