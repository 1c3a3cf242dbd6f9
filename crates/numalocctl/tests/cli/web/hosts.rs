//! Hosts for the page: one with hostile names, one with a thousand workloads, one with ten as they are in the field.

use crate::{
    answers::{ended, job, live, schedule},
    fake::Script,
};
use numaloc_api::v1::{self, JobState, ScheduleState};
use prost_types::{Duration, Timestamp};
use std::time::SystemTime;

/// A host whose names are markup.
pub fn hostile() -> Script {
    const EVIL: &str = "</script><img src=x onerror=alert(1)>";
    let mut view = live();
    view.groups[0].cgroup = format!("/{EVIL}");
    view.processes[0].comm = EVIL.into();
    view.processes[1].comm = "<!--<script>".into();
    let detail = view.detail.as_mut().unwrap();
    (detail.threads[0].comm, detail.mappings[0].name) = (EVIL.into(), EVIL.into());
    view.jobs[0].progress.as_mut().unwrap().held_back = EVIL.into();
    let evil =
        v1::Job { creator: EVIL.into(), state_message: EVIL.into(), ..job(JobState::Running, 1) };
    let schedules = vec![v1::Schedule { state_message: EVIL.into(), ..schedule() }];
    Script { live: Some(view), jobs: vec![evil], schedules, ..Script::default() }
}

/// A host with a thousand workloads, each with a process; every third has memory on the other node.
pub fn crowd() -> v1::LiveView {
    let mut view = hostile().live.unwrap();
    let (group, process) = (view.groups[0].clone(), view.processes[0].clone());
    for number in 1..1000 {
        let pid = 10_000 + number;
        let remote = if number % 3 == 0 { number } else { 0 };
        let cgroup = format!("/system.slice/service-{number:04}.service");
        let bytes = |mib: i32| i64::from(mib) << 20;
        let (local_bytes, remote_bytes) = (bytes(2000 - number), bytes(remote));
        let on = |node_id, bytes| v1::NodeBytes { node_id, bytes };
        let nodes = vec![on(0, local_bytes), on(2, remote_bytes)];
        let shares = Some(v1::LiveShares { local_bytes, remote_bytes, ..Default::default() });
        view.groups.push(v1::LiveGroup {
            cgroup,
            nodes: nodes.clone(),
            own_nodes: nodes.clone(),
            own_shares: shares,
            ..group.clone()
        });
        let pages = v1::LivePages { nodes, shares, ..process.pages.clone().unwrap() };
        view.processes.push(v1::LiveProcess {
            process: Some(v1::ProcessId { pid, start_time_ticks: 90_000 }),
            comm: format!("server-{number:04}"),
            group_index: Some(number),
            pages: Some(pages),
            ..process.clone()
        });
    }
    // One that lives: this program. A picture is drawn of the process with this start time alone.
    let drawn = i32::try_from(std::process::id()).unwrap();
    let started = numaloc_host::identify(&numaloc_host::Roots::default(), [drawn]).unwrap();
    let start_time_ticks = i64::try_from(started[&drawn].start_time).unwrap();
    view.processes.push(v1::LiveProcess {
        process: Some(v1::ProcessId { pid: drawn, start_time_ticks }),
        comm: "drawn".into(),
        group_index: Some(3),
        pages: Some(v1::LivePages {
            nodes: vec![v1::NodeBytes { node_id: 2, bytes: 4 << 30 }],
            shares: Some(v1::LiveShares { remote_bytes: 4 << 30, ..Default::default() }),
            ..process.pages.clone().unwrap()
        }),
        ..process
    });
    view
}

/// A moment some seconds before this one.
fn before(seconds: i64) -> Option<Timestamp> {
    let now = Timestamp::from(SystemTime::now());
    Some(Timestamp { seconds: now.seconds - seconds, nanos: 0 })
}

/// A workload: its cgroup, the name of its process, its home nodes, GiB on nodes 0 and 1, and CPU use in percent.
type Named = (&'static str, &'static str, &'static [i32], [f64; 2], f64);

const WORKLOADS: [Named; 10] = [
    ("/system.slice/postgresql@17-main.service", "postgres", &[0], [38.5, 9.2], 412.0),
    ("/system.slice/redis-server.service", "redis-server", &[1], [6.1, 11.8], 97.4),
    ("/system.slice/mariadb.service", "mariadbd", &[0], [24.0, 0.0], 156.2),
    (
        "/machine.slice/machine-qemu\\x2d1\\x2dbuild01.scope",
        "qemu-system-x86",
        &[1],
        [2.7, 29.3],
        288.0,
    ),
    ("/system.slice/elasticsearch.service", "java", &[0, 1], [16.2, 14.9], 203.5),
    ("/system.slice/nginx.service", "nginx", &[0], [0.9, 0.0], 12.1),
    ("/system.slice/prometheus.service", "prometheus", &[1], [0.0, 6.4], 31.0),
    ("/system.slice/memcached.service", "memcached", &[0], [7.1, 0.9], 44.8),
    ("/user.slice/user-1000.slice/session-3.scope", "bash", &[0, 1], [0.1, 0.2], 0.3),
    ("/system.slice/sshd.service", "sshd", &[0, 1], [0.0, 0.0], 0.0),
];

/// Ten workloads, jobs in several states and two schedules.
pub fn named() -> Script {
    let mut view = live();
    let (group, process) = (view.groups[0].clone(), view.processes[0].clone());
    (view.groups, view.processes, view.hidden_count) = (Vec::new(), Vec::new(), 0);
    view.left_out_count = 0;
    for (index, node) in view.nodes.iter_mut().enumerate() {
        node.node_id = index as i32;
        (node.total_bytes, node.cpu_percent) = (128 << 30, Some([61.0, 34.0][index]));
        node.free_bytes = [9, 41][index] << 30;
        let bytes_per_second = [31, 22][index] * 1_000_000_000;
        node.traffic = Some(v1::NodeTraffic { bytes_per_second, is_lower_bound: false });
    }
    let ours = v1::LiveJob { job: "jobs/31".into(), ..view.jobs[0].clone() };
    view.jobs = vec![ours];
    view.flows = vec![v1::Flow { from_node_id: 0, to_node_id: 1, bytes: 3 << 30 }];
    for (index, &(cgroup, comm, home, gib, cpu)) in WORKLOADS.iter().enumerate() {
        let bytes = gib.map(|gib| (gib * f64::from(1 << 30)) as i64);
        let nodes: Vec<_> = (0..2)
            .map(|node| v1::NodeBytes { node_id: node, bytes: bytes[node as usize] })
            .collect();
        let is_home = |node: &&v1::NodeBytes| home.contains(&node.node_id);
        let local_bytes = nodes.iter().filter(is_home).map(|node| node.bytes).sum();
        let remote_bytes = bytes.iter().sum::<i64>() - local_bytes;
        let shares = Some(v1::LiveShares { local_bytes, remote_bytes, ..Default::default() });
        let moves = comm == "redis-server";
        let job_indexes = if moves { vec![0] } else { Vec::new() };
        let moved_bytes = if moves { 3 << 30 } else { 0 };
        let home_node_ids = home.to_vec();
        let name = if comm == "qemu-system-x86" { "qemu-1-build01" } else { "" };
        view.groups.push(v1::LiveGroup {
            cgroup: cgroup.to_owned(),
            name: name.to_owned(),
            nodes: nodes.clone(),
            own_nodes: nodes.clone(),
            own_shares: shares,
            own_cache_bytes: 0,
            kernel_demoted_pages: None,
            kernel_promoted_pages: None,
            kernel_hint_faults: None,
            cpu_percent: Some(cpu),
            traffic: None,
            job_indexes: job_indexes.clone(),
            home_node_ids: home_node_ids.clone(),
            moved_bytes,
            ..group.clone()
        });
        // One was scanned minutes ago.
        let age = Some(Duration { seconds: if comm == "memcached" { 250 } else { 3 }, nanos: 0 });
        view.processes.push(v1::LiveProcess {
            process: Some(v1::ProcessId { pid: 4711 + index as i32, start_time_ticks: 90_000 }),
            comm: comm.to_owned(),
            group_index: Some(index as i32),
            cpu_percent: Some(cpu),
            home_node_ids,
            job_indexes,
            moved_bytes,
            pages: Some(v1::LivePages { nodes, shares, age, ..process.pages.clone().unwrap() }),
            ..process.clone()
        });
    }
    view.read_time = before(0);
    Script { live: Some(view), jobs: jobs(), schedules: schedules(), ..Script::default() }
}

fn of_unit(unit: &str) -> Option<v1::MigrationSpec> {
    let target = v1::Target { units: vec![unit.to_owned()], ..v1::Target::default() };
    Some(v1::MigrationSpec { target: Some(target), ..v1::MigrationSpec::default() })
}

/// The latest comes first, as the daemon has them.
fn jobs() -> Vec<v1::Job> {
    let of = |number: i32, age, unit, job: v1::Job| v1::Job {
        name: format!("jobs/{number}"),
        spec: of_unit(unit),
        create_time: before(age),
        ..job
    };
    let waits = v1::Job {
        state_message: "2 other jobs move now".to_owned(),
        progress: Some(v1::JobProgress::default()),
        ..job(JobState::Queued, 0)
    };
    let failed = v1::Job {
        state_message: "no process of the target has a node to go to".to_owned(),
        ..ended(JobState::Failed, 0, v1::LeftReason::Busy)
    };
    vec![
        of(32, 4, "postgresql@17-main", waits),
        of(31, 41, "redis-server", job(JobState::Running, 190)),
        of(30, 260, "memcached", ended(JobState::Partial, 410, v1::LeftReason::Shared)),
        of(29, 7300, "mariadb", ended(JobState::Succeeded, 600, v1::LeftReason::Shared)),
        of(28, 200_000, "nginx", failed),
    ]
}

fn schedules() -> Vec<v1::Schedule> {
    let of = |number: i32, unit, state: ScheduleState| v1::Schedule {
        name: format!("schedules/{number}"),
        spec: of_unit(unit),
        state: state.into(),
        interval: Some(Duration { seconds: 600, nanos: 0 }),
        ..schedule()
    };
    let waits = v1::Schedule {
        last_job: "jobs/29".to_owned(),
        last_run_time: before(7300),
        next_run_time: before(-250),
        ..of(7, "mariadb", ScheduleState::Waiting)
    };
    let paused = v1::Schedule { paused: true, ..of(8, "nginx", ScheduleState::Paused) };
    vec![waits, paused]
}
