//! Tests that the daemon can do its work within its sandbox.

use super::{bus::Bus, *};
use crate::{
    app::Layout,
    balancing::marked_pages_come_home_by,
    cli::command,
    daemon::{reason, request},
    disk::OnDisk,
    scene::Scene,
    settings::{Cgroup, Setting},
    truth::Truth,
    unit::Service,
};
use std::{
    io::Write,
    net::TcpStream,
    os::unix::fs::{MetadataExt, PermissionsExt},
};
use tonic::Code;

/// Creates a job for a target and waits for its end.
fn done(client: &Client, target: v1::Target) -> v1::Job {
    let spec = v1::MigrationSpec { target: Some(target), ..v1::MigrationSpec::default() };
    let request = v1::CreateJobRequest { spec: Some(spec), ..v1::CreateJobRequest::default() };
    let name = client.try_create(request).expect("it is taken").name;
    client.reaches(&name, v1::JobState::Succeeded)
}

#[test]
fn it_is_confined() {
    let installed = Installed::start();
    let pid = installed.pid();
    let (uid, gid) = ids();
    assert_ne!(uid, 0);
    assert_eq!(proc_status(pid, "Uid"), [uid; 4].map(|id| id.to_string()).join("\t"));
    assert_eq!(proc_status(pid, "Gid"), [gid; 4].map(|id| id.to_string()).join("\t"));
    assert_confined(pid, &SHIPPED);
    for (bound, value) in [("MemoryMax", "536870912"), ("TasksMax", "512"), ("WatchdogUSec", "30s")]
    {
        assert_eq!(installed.property(bound), value, "{bound}");
    }
    // Its state directory is its own, and no other user can read it. The mode of the socket decides who may connect.
    let state = fs::metadata(STATE).expect("a directory");
    assert_eq!((state.uid(), state.mode() & 0o777), (uid, 0o700));
    let socket = fs::metadata(SOCKET).expect("a socket");
    assert_eq!((socket.gid(), socket.permissions().mode() & 0o777), (gid, 0o660));
    assert_eq!(fs::metadata("/run/numaloc").expect("a directory").mode() & 0o777, 0o755);
}

/// Without CAP_SYS_RESOURCE, which the service does not have, the kernel takes windows of two seconds alone.
#[test]
fn the_kernel_reports_pressure_to_the_service() {
    let installed = Installed::start();
    let scene = Scene::remote(&["anon:8M"]);
    let pid = scene.app.pid().to_string();
    let words = ["schedules", "create", "--relieve", "1", "--free-below", "1M", "--pid", &pid];
    let output = command().args(words).args(["--interval", "1h"]).output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let daemon = installed.pid();
    let asks = || {
        let files = fs::read_dir(format!("/proc/{daemon}/fd")).expect("it runs").flatten();
        let links = files.filter_map(|file| fs::read_link(file.path()).ok());
        links.into_iter().any(|link| link.ends_with("pressure/memory"))
    };
    until("it waits for a report", asks);
    assert!(!installed.log().contains("no reports of memory pressure"), "{}", installed.log());
    scene.finish();
}

#[test]
fn a_process_of_another_user_comes_home() {
    let installed = Installed::start();
    let told = installed.property("StatusText");
    assert!(told.contains("listening on") || told.contains("under way"), "{told}");
    let client = installed.client();
    let scene = Scene::remote(&["anon:32M", "thp:16M", "shm:16M"]);
    let job = done(&client, v1::Target { pids: vec![scene.app.pid()], ..v1::Target::default() });
    for (region, size) in [("anon", 32), ("thp", 16), ("shm", 16)] {
        scene.assert_on(region, 0, size * MIB);
    }
    let outcome = job.outcome.expect("an outcome");
    assert!(outcome.movable_after.expect("a look afterwards").local_percent > 99.0);
    assert_eq!(status(&client).problems, [""; 0]);
    let log = installed.log();
    assert!(!log.contains("not scheduled as it should be"), "{log}");
    scene.finish();
}

/// Without page frames it cannot be told who maps a page beside the target.
#[test]
fn what_several_processes_share_stays_without_page_frames() {
    let installed = Installed::start();
    let client = installed.client();
    let mut scene = Scene::remote(&["shm:16M", "cow:32M"]);
    let (pid, child) = (scene.app.pid(), scene.app.ask("child").parse().expect("a pid"));
    let job = done(&client, v1::Target { pids: vec![pid, child], ..v1::Target::default() });
    scene.assert_on("shm", 0, 16 * MIB);
    // The second half is the parent's own: its copies came from the home node. The first half is of both.
    assert_eq!(scene.nodes("cow"), [(0, 16 * MIB), (1, 16 * MIB)].into());
    let account = job.outcome.and_then(|outcome| outcome.account).expect("an account");
    let shared = account.left.iter().find(|left| left.reason() == v1::LeftReason::Shared);
    assert!(shared.expect("a reason").bytes as u64 >= 16 * MIB, "{account:?}");
    scene.finish();
}

/// Files of other users take the right to act as their owners: a drop-in gives it.
#[test]
fn page_cache_of_files_of_others_takes_the_drop_in_for_it() {
    let _still = Setting::still_host();
    let file = OnDisk::new("of-others", 8);
    file.read(0);
    let cached = file.cached();
    let nodes = v1::policy::Placement::Nodes(v1::NodesPlacement { node_ids: vec![1] });
    let files = vec![file.path().display().to_string()];
    let spec = v1::MigrationSpec {
        target: Some(v1::Target { files, ..v1::Target::default() }),
        policy: Some(v1::Policy { placement: Some(nodes), ..v1::Policy::default() }),
        ..v1::MigrationSpec::default()
    };
    let request = v1::CreateJobRequest { spec: Some(spec), ..v1::CreateJobRequest::default() };
    let installed = Installed::start();
    let refused = installed.client().try_create(request.clone());
    let message = format!("{refused:?}");
    assert!(message.contains("numalocd-files.conf"), "{message}");
    assert_eq!(reason(refused), (Code::FailedPrecondition, "DAEMON_LACKS_RIGHTS".into()));
    drop(installed);
    let installed = Installed::new();
    installed.shipped("files");
    installed.run();
    // CAP_FOWNER besides.
    assert_confined(installed.pid(), &[2, 3, 19, 23]);
    let client = installed.client();
    let name = client.try_create(request).expect("it is taken").name;
    client.reaches(&name, v1::JobState::Succeeded);
    let all: u64 = cached.values().sum();
    assert!(all > 7 * MIB && cached[&0] == all, "the scene: {cached:?}");
    assert_eq!(file.cached(), [(1, all)].into());
}

/// For this it has to see the numbers of page frames, and how often each is mapped: a drop-in lets it.
#[test]
fn pages_of_strangers_are_distinguished() {
    let installed = Installed::new();
    installed.shipped("frames");
    installed.run();
    assert_confined(installed.pid(), &WITH_FRAMES);
    let client = installed.client();
    let mut scene = Scene::remote(&["cow:32M", "shm:16M"]);
    let (pid, child) = (scene.app.pid(), scene.app.ask("child").parse().expect("a pid"));
    let range = scene.app.range("cow");
    let job = done(&client, v1::Target { pids: vec![pid], ..v1::Target::default() });
    scene.assert_on("shm", 0, 16 * MIB);
    assert_eq!(Truth::of(child).region(range.clone()), [(1, 32 * MIB)].into());
    let account = job.outcome.and_then(|outcome| outcome.account).expect("an account");
    let shared = account.left.iter().find(|left| left.reason() == v1::LeftReason::Shared);
    assert!(shared.expect("a reason").bytes as u64 >= 16 * MIB, "{account:?}");
    // With both as the target neither is a stranger. To move what both map needs MPOL_MF_MOVE_ALL.
    done(&client, v1::Target { pids: vec![pid, child], ..v1::Target::default() });
    scene.assert_on("cow", 0, 32 * MIB);
    assert_eq!(Truth::of(child).region(range), [(0, 32 * MIB)].into());
    scene.finish();
}

/// On kernels 6.1 to 6.4 this requires reading their memory, from the CPUs of the other node.
#[test]
fn pages_that_the_kernel_has_marked_come_home() {
    let installed = Installed::new();
    installed.shipped("frames");
    installed.run();
    let client = installed.client();
    marked_pages_come_home_by("anon:32M", 32 * MIB, |pid| {
        // The marks stay. If the kernel could make new ones all the time, that would be another test.
        let _quiet = Setting::numa_balancing(false);
        let job = done(&client, v1::Target { pids: vec![pid], ..v1::Target::default() });
        let calls = job.outcome.and_then(|outcome| outcome.calls).expect("calls");
        calls.hinted_addresses as u64
    });
}

#[test]
fn a_cgroup_comes_home() {
    let installed = Installed::start();
    let cgroup = Cgroup::new("service");
    let scene = Scene::of(Layout::remote(&["anon:32M"]).within(cgroup.path()));
    let target = v1::Target { cgroups: vec!["/numaloc-service".into()], ..v1::Target::default() };
    done(&installed.client(), target);
    scene.assert_on("anon", 0, 32 * MIB);
    drop(scene.finish());
    drop(cgroup);
}

#[test]
fn a_unit_comes_home() {
    let _bus = Bus::start();
    let installed = Installed::start();
    let service = Service::start("numaloc-u.service", "");
    let target = |name: &str| v1::Target { units: vec![name.into()], ..v1::Target::default() };
    done(&installed.client(), target("numaloc-u"));
    service.assert_on(0);
    let mut unknown = request(1, v1::Limits::default());
    unknown.spec.as_mut().expect("a spec").target = Some(target("numaloc-none"));
    let answer = installed.client().try_create(unknown);
    assert_eq!(reason(answer), (Code::NotFound, "TARGET_NOT_FOUND".into()));
}

#[test]
fn without_a_bus_the_error_says_why_no_unit_is_found() {
    let installed = Installed::start();
    let mut unit = request(1, v1::Limits::default());
    let target = v1::Target { units: vec!["numaloc-vm".into()], ..v1::Target::default() };
    unit.spec.as_mut().expect("a spec").target = Some(target);
    let status = installed.client().try_create(unit).expect_err("systemd is out of reach");
    assert!(status.message().contains("connect to bus"), "{status}");
}

#[test]
fn metrics_and_the_group_of_the_socket_are_as_configured() {
    let config =
        "[listen]\ngroup = \"numaloc\"\nmode = \"0666\"\n[metrics]\nlisten = \"127.0.0.1:9464\"\n";
    let installed = Installed::with(config);
    installed.shipped("network");
    installed.run();
    let socket = fs::metadata(SOCKET).expect("a socket");
    assert_eq!((socket.gid(), socket.permissions().mode() & 0o777), (ids().1, 0o666));
    let mut stream = TcpStream::connect("127.0.0.1:9464").expect("it listens");
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        .expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("# EOF"), "{answer}");
}

#[test]
fn metrics_without_a_network_are_refused_at_a_reload_and_a_problem_after_a_start() {
    let installed = Installed::with("");
    installed.run();
    installed.configure("[metrics]\nlisten = \"127.0.0.1:9464\"\n");
    let reload = Command::new("systemctl").args(["reload", SERVICE]).output().expect("systemctl");
    assert!(!reload.status.success(), "{reload:?}");
    systemctl(&["restart", SERVICE]);
    let problems = status(&installed.client()).problems;
    let is = |problem: &String| problem.starts_with("metrics are not served at 127.0.0.1:9464: ");
    assert!(problems.iter().any(is), "{problems:?}");
}

#[test]
fn fewer_tasks_than_the_configuration_needs_are_a_problem_until_there_are_enough() {
    let installed = Installed::with("");
    installed.run();
    let client = installed.client();
    let problem = || {
        let mut problems = status(&client).problems.into_iter();
        problems.find(|problem| problem.contains("numalocd.service/pids.max allows 512"))
    };
    assert_eq!(problem(), None);
    installed.configure("[queue]\nmoves = 16\n");
    systemctl(&["reload", SERVICE]);
    until("it is reported", || problem().is_some());
    let text = problem().expect("a problem");
    let log = installed.log();
    assert!(text.contains("16 moves") && log.contains(&text), "{text}\n{log}");
    systemctl(&["set-property", "--runtime", SERVICE, "TasksMax=4096"]);
    assert_eq!(problem(), None);
    systemctl(&["set-property", "--runtime", SERVICE, "TasksMax=512"]);
    systemctl(&["restart", SERVICE]);
    let restarted = installed.log().matches(&text).count();
    assert_eq!(restarted, 2, "at each start, too: {}", installed.log());
}
