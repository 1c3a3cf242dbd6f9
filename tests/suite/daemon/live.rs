//! GetLiveView, and `numalocctl top` as its client.

use super::*;
use crate::{app::Layout, cli, settings::Cgroup, truth::Truth};
use numaloc_api::v1::locality_service_client::LocalityServiceClient;
use numaloc_core::Identity;
use serde_json::Value;
use std::io::{BufRead, BufReader};

/// The daemon's view by now.
fn view(client: &Client, process: Option<Identity>) -> v1::LiveView {
    let mut service = LocalityServiceClient::new(client.channel.clone());
    let request = v1::GetLiveViewRequest { process: process.map(Into::into) };
    let answer = client.runtime.block_on(service.get_live_view(request)).expect("a view");
    answer.into_inner().view.expect("a view")
}

/// Asks until something is known.
fn known<T>(
    client: &Client,
    process: Option<Identity>,
    find: impl Fn(&v1::LiveView) -> Option<T>,
) -> T {
    let mut found = None;
    until("it is known", || {
        found = find(&view(client, process));
        std::thread::sleep(Duration::from_millis(50));
        found.is_some()
    });
    found.expect("it was just found")
}

fn bytes(nodes: &[v1::NodeBytes], node: i32) -> u64 {
    nodes.iter().filter(|each| each.node_id == node).map(|each| each.bytes as u64).sum()
}

#[test]
fn what_the_daemon_knows_is_what_numa_maps_says() {
    let app = Layout::remote(&["anon:16M"]).load("idle").start("live");
    let daemon = Daemon::start();
    let client = daemon.client();
    let row = known(&client, None, |view| {
        let is_its =
            |row: &&v1::LiveProcess| row.process.as_ref().is_some_and(|id| id.pid == app.pid());
        view.processes.iter().find(is_its).filter(|row| row.pages.is_some()).cloned()
    });
    assert_eq!(row.home_node_ids, [0]);
    let pages = row.pages.as_ref().expect("it was looked at");
    let truth = Truth::of(app.pid()).all();
    let all: u64 = truth.values().sum();
    for (&node, &expected) in &truth {
        let found = bytes(&pages.nodes, node as i32);
        // A page now and then, and the page of zeros, which numa_maps does not count.
        assert!(found.abs_diff(expected) <= all / 20, "node {node}: {found} of {expected}");
    }
    // Its threads and mappings.
    let range = app.range("anon");
    let id = row.process.as_ref().expect("it has one");
    let identity = Identity { pid: id.pid, start_time: id.start_time_ticks as u64 };
    let (threads, mapping) = known(&client, Some(identity), |view| {
        let detail = view.detail.as_ref()?;
        assert!(!detail.is_hidden, "root may see them");
        let is_its = |each: &&v1::LiveMapping| {
            let end = each.start_address + each.length_bytes as u64;
            each.start_address <= range.start && range.end <= end
        };
        let mapping = detail.mappings.iter().find(is_its)?.clone();
        (!detail.threads.is_empty()).then(|| (detail.threads.clone(), mapping))
    });
    assert!(threads.iter().any(|thread| thread.tid == app.pid()), "{threads:?}");
    assert!(bytes(&mapping.nodes, 1) >= 16 * MIB, "{mapping:?}");
    let now = view(&client, None);
    assert_eq!(now.nodes.len(), crate::truth::node_count());
    assert_eq!(now.detail, None, "it was not asked for");
}

/// The target names neither the process nor its cgroup: the daemon says on which rows its job is.
#[test]
fn a_job_by_a_pattern_is_on_the_rows_of_its_process_and_cgroup() {
    let cgroup = Cgroup::new("live-1.scope");
    let app = Layout::remote(&["anon:64M"]).load("idle").within(cgroup.path()).start("rows");
    let daemon = Daemon::start();
    let client = daemon.client();
    let target =
        v1::Target { cgroups: vec!["/numaloc-live-?.scope".into()], ..v1::Target::default() };
    // It lasts until it is cancelled: on a busy machine it takes a minute and more until the view has the row.
    let limits = Some(slow(MIB / 16));
    let spec = v1::MigrationSpec { target: Some(target), limits, ..v1::MigrationSpec::default() };
    let request = v1::CreateJobRequest { spec: Some(spec), ..v1::CreateJobRequest::default() };
    let job = client.try_create(request).expect("it is created").name;
    let is_its = |row: &v1::LiveProcess| row.process.as_ref().is_some_and(|id| id.pid == app.pid());
    let row_of = |view: &v1::LiveView| view.processes.iter().find(|row| is_its(row)).cloned();
    let (row, view) = known(&client, None, |view| {
        let row = row_of(view)?;
        (row.moved_bytes > 0).then(|| (row, view.clone()))
    });
    assert_eq!(row.job_indexes, [0]);
    let shown = &view.jobs[0];
    assert_eq!((shown.job.as_str(), shown.state()), (job.as_str(), v1::JobState::Running));
    let group = &view.groups[row.group_index.expect("it has one") as usize];
    assert!(group.cgroup.ends_with("/numaloc-live-1.scope"), "{group:?}");
    assert_eq!((&group.job_indexes, group.moved_bytes), (&row.job_indexes, row.moved_bytes));
    let moved: u64 = Truth::of(app.pid()).all().get(&0).copied().unwrap_or_default();
    assert!(moved >= row.moved_bytes as u64, "{moved} on node 0: {row:?}");
    let printed = daemon.ctl(&["top", "-b", "-n", "1", "-d", "500ms", "-o", "json"]);
    let document: Value = serde_json::from_slice(&printed.stdout).expect("JSON");
    for (rows, key, value) in [
        ("processes", "pid", Value::from(app.pid())),
        ("workloads", "cgroup", Value::from(group.cgroup.as_str())),
    ] {
        let row = document[rows].as_array().expect("rows").iter().find(|row| row[key] == value);
        let row = row.unwrap_or_else(|| panic!("{rows}: {document}"));
        let name = row["job"].as_str().unwrap_or_else(|| panic!("no job: {row}"));
        assert!(name.starts_with(&format!("{job} ")), "{name}");
        assert!(row["moved_bytes"].as_u64().expect("bytes") > 0, "{row}");
    }
    client.cancel(&job).expect("it is cancelled");
    client.reaches(&job, v1::JobState::Cancelled);
    let after = known(&client, None, |view| row_of(view).filter(|row| row.job_indexes.is_empty()));
    assert!(after.moved_bytes >= row.moved_bytes, "what was moved stays: {after:?}");
}

#[test]
fn top_continues_when_the_daemon_is_started_again() {
    let app = Layout::remote(&["anon:4M"]).load("idle").start("live");
    let mut daemon = Daemon::start();
    let said = daemon.dir.join("top.stderr");
    let mut child = cli::command()
        .args(["top", "-b", "-d", "200ms", "-o", "json"])
        .env("NUMALOC_ENDPOINT", daemon.endpoint())
        .stdout(Stdio::piped())
        .stderr(fs::File::create(&said).expect("a file"))
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut first = |what: &str, fits: &dyn Fn(&Value) -> bool| -> Value {
        let documents = lines.by_ref().map_while(Result::ok).take(3000);
        let mut documents =
            documents.map(|line| serde_json::from_str::<Value>(&line).expect("JSON"));
        let found = documents.find(fits);
        found.unwrap_or_else(|| panic!("{what}: {:?}", fs::read_to_string(&said)))
    };
    let is_seen = |document: &Value| {
        let rows = document["processes"].as_array().expect("rows");
        let is_its = |row: &Value| row["pid"] == app.pid() && row["age_seconds"].is_number();
        rows.iter().any(is_its)
    };
    let before = first("the daemon has looked", &is_seen);
    assert_eq!(before["source"], "daemon");
    daemon.kill();
    let stale = first("it reports that the daemon does not answer", &|_| {
        fs::read_to_string(&said).is_ok_and(|said| said.contains("the daemon does not answer"))
    });
    assert!(is_seen(&stale), "what it said last is still shown: {stale}");
    daemon.spawn();
    let after = first("the new daemon has looked", &|document| {
        document["time"] != stale["time"] && is_seen(document)
    });
    assert_eq!(after["source"], "daemon");
    child.kill().ok();
    child.wait().ok();
}
