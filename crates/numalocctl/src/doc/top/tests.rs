//! The rows of workloads and processes, by what the daemon answers.

use super::*;

fn on(node_id: i32, bytes: i64) -> v1::NodeBytes {
    v1::NodeBytes { node_id, bytes }
}

#[test]
fn the_memory_of_a_process_is_the_sum_of_its_parts() {
    let pages = v1::LivePages {
        nodes: vec![on(0, 8192), on(1, 4096)],
        unplaced_bytes: 4096,
        shares: Some(v1::LiveShares {
            local_bytes: 8192,
            remote_bytes: 4096,
            ..v1::LiveShares::default()
        }),
        ..v1::LivePages::default()
    };
    let message =
        v1::LiveProcess { resident_bytes: 8192, pages: Some(pages), ..v1::LiveProcess::default() };
    let row = process(&message, &v1::LiveView::default());
    let parts = (row.resident_bytes, row.local_bytes, row.remote_bytes, row.local_percent);
    assert_eq!(parts, (Some(16384), Some(8192), Some(4096), Some(66.66)));
    let unseen = v1::LiveProcess { pages: None, ..message };
    let row = process(&unseen, &v1::LiveView::default());
    assert_eq!((row.resident_bytes, row.local_bytes), (Some(8192), None), "the kernel's count");
}

#[test]
fn a_workload_and_its_processes_have_the_name_of_their_container() {
    let group = |name: &str| v1::LiveGroup {
        cgroup: "/docker/0123".to_owned(),
        name: name.to_owned(),
        ..v1::LiveGroup::default()
    };
    let process = v1::LiveProcess {
        comm: "nginx".to_owned(),
        group_index: Some(0),
        ..v1::LiveProcess::default()
    };
    let rows = |name: &str| {
        let (groups, processes) = (vec![group(name)], vec![process.clone()]);
        let view = v1::LiveView { groups, processes, ..v1::LiveView::default() };
        let TopDoc { workloads, processes, .. } = TopDoc::new(&view, TopSource::Daemon);
        let of_process = (processes[0].name().to_owned(), processes[0].container.clone());
        (workloads[0].name().to_owned(), of_process)
    };
    let named = ("nginx".to_owned(), Some("web".to_owned()));
    assert_eq!(rows("web"), ("web".to_owned(), named));
    assert_eq!(rows(""), ("/docker/0123".to_owned(), ("nginx".to_owned(), None)));
}

/// Memory that is at home on every node is not well placed by that.
#[test]
fn what_may_run_everywhere_has_no_share() {
    let node = |node_id: i32, total_bytes: i64, is_lower_tier: bool| v1::LiveNode {
        node_id,
        total_bytes,
        is_lower_tier,
        ..v1::LiveNode::default()
    };
    let share = |home: &[i32], nodes: &[v1::LiveNode]| {
        let shares = Some(v1::LiveShares { local_bytes: 8192, ..v1::LiveShares::default() });
        let pages = v1::LivePages { nodes: vec![on(0, 8192)], shares, ..v1::LivePages::default() };
        let home_node_ids = home.to_vec();
        let process =
            v1::LiveProcess { home_node_ids, pages: Some(pages), ..v1::LiveProcess::default() };
        let view = v1::LiveView {
            nodes: nodes.to_vec(),
            processes: vec![process],
            ..v1::LiveView::default()
        };
        let row = TopDoc::new(&view, TopSource::Daemon).processes.remove(0);
        (row.is_unpinned, row.local_percent)
    };
    let two = [node(0, 1, false), node(1, 1, false), node(2, 1, true), node(3, 0, false)];
    assert_eq!(share(&[0, 1], &two), (true, None), "slow and empty nodes do not count");
    assert_eq!(share(&[0], &two), (false, Some(100.0)));
    assert_eq!(share(&[0], &two[..1]), (false, Some(100.0)), "there is one node");
}

#[test]
fn a_row_shows_its_first_job() {
    let job = |job: &str, state: v1::JobState, held_back: &str| v1::LiveJob {
        job: job.to_owned(),
        state: state.into(),
        state_message: "it waits".to_owned(),
        progress: (state == v1::JobState::Running).then(|| v1::JobProgress {
            planned_bytes: 100,
            settled_bytes: 37,
            held_back: held_back.to_owned(),
            ..v1::JobProgress::default()
        }),
    };
    let jobs = vec![
        job("jobs/7", v1::JobState::Running, "node 0 is busy"),
        job("jobs/8", v1::JobState::Queued, ""),
        job("", v1::JobState::Running, ""),
    ];
    let view = v1::LiveView { jobs, ..v1::LiveView::default() };
    let shown = |indexes: &[i32]| {
        let job_indexes = indexes.to_vec();
        let group = v1::LiveGroup { job_indexes, moved_bytes: 5, ..v1::LiveGroup::default() };
        let row = workload(&group, &view);
        (row.job.unwrap_or_default(), row.held_back.unwrap_or_default(), row.moved_bytes)
    };
    let is = |job: &str, held_back: &str| (job.to_owned(), held_back.to_owned(), 5);
    assert_eq!(shown(&[0, 1]), is("jobs/7 37 %", "node 0 is busy"));
    assert_eq!(shown(&[1]), is("jobs/8 queued", "it waits"));
    assert_eq!(shown(&[2]), is("here 37 %", "it waits"));
    assert_eq!((shown(&[]), shown(&[9, -1])), (is("", ""), is("", "")));
}
