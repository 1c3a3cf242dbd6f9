//! Killed at any moment: nothing acknowledged is lost, nothing runs twice, the store opens every time.

use super::*;
use crate::{
    app::{App, Layout},
    settings::Setting,
};
use std::{
    collections::BTreeMap,
    io::{self, Write as _},
    sync::{Mutex, atomic::AtomicBool},
    thread,
};

/// As often as the issue of this suite asks for, unless told otherwise.
fn rounds() -> u32 {
    env::var("NUMALOC_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(200)
}

/// What the daemon has acknowledged.
#[derive(Debug, Default)]
struct Acknowledged {
    /// Jobs, and whether they were cancelled.
    jobs: BTreeMap<String, bool>,
    /// Schedules.
    schedules: Vec<String>,
    /// Ends that were seen: they last.
    ends: BTreeMap<String, i32>,
}

/// Creates and cancels jobs, and schedules, until told to end or the daemon has gone.
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
                seen.lock().unwrap().jobs.entry(job.name.clone()).or_default();
                // Without this the queue would grow and grow.
                if client.cancel(&job.name).is_ok() {
                    seen.lock().unwrap().jobs.insert(job.name, true);
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
        // One that was cancelled does not come back to life: it has ended, by itself or because it was told to.
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
    for name in &seen.schedules {
        let get = v1::GetScheduleRequest { name: name.clone() };
        let got = client.runtime.block_on(client.schedules().get_schedule(get));
        got.unwrap_or_else(|status| panic!("{name} is lost: {status}"));
    }
    // Older ones have been checked often enough.
    while seen.jobs.len() > 40 {
        let oldest = seen.jobs.keys().next().cloned().expect("there are some");
        seen.jobs.remove(&oldest);
        seen.ends.remove(&oldest);
    }
}

/// No two jobs that move have a process in common.
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
        // One that ticks all the time, on a process of its own.
        let client = daemon.client();
        let schedule = v1::Schedule {
            spec: request(pids[2], v1::Limits::default()).spec,
            interval: Some(prost_types::Duration { seconds: 1, nanos: 0 }),
            ..v1::Schedule::default()
        };
        let request =
            v1::CreateScheduleRequest { schedule: Some(schedule), request_id: String::new() };
        let made = client.runtime.block_on(client.schedules().create_schedule(request));
        seen.schedules.push(made.expect("it is taken").into_inner().schedule.unwrap().name);
    }
    let seen = Mutex::new(seen);
    // No clock and no generator of random numbers is needed for moments that differ.
    let mut state = 0x2545_f491_u32;
    for round in 0..rounds() {
        let end = AtomicBool::new(false);
        thread::scope(|scope| {
            let endpoint = daemon.endpoint();
            let (seen, pids, end) = (&seen, &pids[..2], &end);
            scope.spawn(move || work(&endpoint, pids, round, seen, end));
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            thread::sleep(Duration::from_millis(u64::from(state >> 16) % 700));
            daemon.kill();
            end.store(true, Ordering::Relaxed);
        });
        daemon.spawn();
        let client = daemon.client();
        check(&client, &mut seen.lock().unwrap());
        assert_alone(&client);
        if round % 10 == 9 {
            // A sign of life for who waits for all rounds: stderr itself, which is not captured.
            writeln!(io::stderr(), "killed {} times", round + 1).expect("stderr is there");
        }
    }
    println!("killed {} times, {:?}", rounds(), seen.lock().unwrap().ends.len());
}
