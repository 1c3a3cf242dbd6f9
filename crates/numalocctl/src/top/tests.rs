//! Pictures of the view, on terminals of several sizes.

use super::{
    draw::{DrawInput, draw},
    rows::{List, rows},
    state::{BegunMigration, Popup, Progress, Question, Stage, TopState},
};
use crate::{
    args::Cli,
    columns::{Column, Sort},
    doc::{DetailDoc, TopDoc, TopSource},
    output::View,
    text,
};
use clap::Parser;
use numaloc_api::{
    SnapshotView, WorkingJob, v1,
    value::{JobId, JobProgress, JobState},
};
use numaloc_core::{
    Identity, Kind, NodeId, NodeMemory, Profile,
    live::{
        CountedMemory, Detail, GroupNow, KernelEvents, MappingNow, NodeNow, ProcessNow, Seen,
        Snapshot, ThreadNow,
    },
};
use ratatui::{Terminal, backend::TestBackend, buffer::Buffer, style::Color};
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

const MIB: u64 = 1 << 20;

fn on(nodes: &[(u32, u64)]) -> BTreeMap<NodeId, u64> {
    nodes.iter().map(|&(node, mib)| (NodeId(node), mib * MIB)).collect()
}

fn node(id: u32, tier: u32, cpu_percent: Option<f64>) -> NodeNow {
    let memory = NodeMemory {
        total_bytes: 256 << 30,
        free_bytes: (4 + u64::from(id)) << 30,
        cache_bytes: 20 << 30,
        protected_bytes: 4 << 30,
        ..NodeMemory::default()
    };
    let foreign_per_second = cpu_percent.map(|percent| percent * 3.0);
    NodeNow {
        id: NodeId(id),
        memory,
        cpu_percent,
        foreign_per_second,
        traffic: None,
        tier: Some(tier),
        kind: Some(numaloc_core::NodeKind::Dram),
        is_lower_tier: tier > 4,
    }
}

fn process(pid: i32, comm: &str, cgroup: &str, home: &str, seen: Seen) -> ProcessNow {
    ProcessNow {
        identity: Identity { pid, start_time: 7 },
        comm: comm.into(),
        cgroup: Some(cgroup.into()),
        home: home.parse().unwrap(),
        near: Default::default(),
        resident_bytes: 1500 * MIB,
        cpu_percent: (pid != 900).then_some(f64::from(pid)),
        threads: 4,
        seen,
    }
}

fn pages(nodes: &[(u32, u64)], kernel_migrated_pages: Option<u64>, seconds: u64) -> Seen {
    let age = Duration::from_secs(seconds);
    Seen::Pages { nodes: on(nodes), unplaced_bytes: 0, kernel_migrated_pages, age }
}

/// Three nodes, one of them memory alone, and what a crowded host has: names that are long or hostile, processes that
/// may not be read, and some that have not been yet.
fn snapshot() -> Snapshot {
    let long = format!("/kubepods.slice/{}\x1b[2J\nx", "pod-of-a-name-without-end/".repeat(11));
    let processes = vec![
        process(
            17,
            "redis-server",
            "/system.slice/redis.service",
            "0",
            pages(&[(0, 100), (1, 1400)], Some(12), 3),
        ),
        process(
            42,
            "mysqld",
            "/system.slice/mysql.service",
            "0-1",
            pages(&[(0, 700), (1, 800)], None, 130),
        ),
        process(
            99,
            "\x1b]0;evil\x07",
            &long,
            "1",
            pages(&[(0, 300), (1, 700), (8, 500)], Some(0), 7200),
        ),
        process(300, "hidden", "/user.slice", "0", Seen::Hidden),
        process(900, "new", "/user.slice", "0", Seen::Never),
    ];
    let group = |nodes: &[(u32, u64)], pages| GroupNow {
        name: None,
        memory: Some(CountedMemory { nodes: on(nodes), ..CountedMemory::default() }),
        kernel: KernelEvents { migrated_pages: pages, ..KernelEvents::default() },
        traffic: None,
        age: Some(Duration::from_secs(2)),
    };
    let groups = [
        ("/system.slice/redis.service".into(), group(&[(0, 110), (1, 1450)], Some(12))),
        ("/system.slice/mysql.service".into(), group(&[(0, 900), (1, 900)], None)),
        (long, group(&[(0, 300), (1, 700), (8, 500)], Some(0))),
    ];
    Snapshot {
        nodes: vec![node(0, 4, Some(87.0)), node(1, 4, Some(3.0)), node(8, 22, None)],
        traffic: None,
        processes,
        groups: groups.into(),
        details: Vec::new(),
        unseen: 1,
        hidden: 1,
        used: Duration::from_millis(190),
    }
}

fn view(detail: Option<Identity>) -> v1::LiveView {
    let snapshot = Snapshot { details: vec![self::detail()], ..snapshot() };
    let redis = "/system.slice/redis.service";
    let within =
        snapshot.processes.iter().filter(|process| process.cgroup.as_deref() == Some(redis));
    let job = WorkingJob {
        id: Some(JobId::numbered(42)),
        state: JobState::Running,
        state_message: String::new(),
        progress: Some(JobProgress {
            planned_bytes: 100 * MIB,
            moved_bytes: 37 * MIB,
            settled_bytes: 37 * MIB,
            held_back: "the CPUs of node 0 are busy".into(),
            measured: SystemTime::UNIX_EPOCH,
        }),
        moved_bytes: 512 * MIB,
        processes: Arc::new(within.map(|process| process.identity).collect()),
    };
    let node = |from, to| (NodeId(from), NodeId(to));
    SnapshotView {
        snapshot: &snapshot,
        jobs: &[job],
        detail: detail.map(|process| (process, true)),
        up: Duration::from_secs(10),
        time: SystemTime::UNIX_EPOCH + Duration::from_secs(1_780_000_000),
        flows: &[(node(1, 0), 512 * MIB), (node(8, 1), 3 * MIB)].into(),
        is_bounded: true,
    }
    .into()
}

fn document() -> TopDoc {
    TopDoc::new(&view(None), TopSource::Standalone)
}

fn opened() -> DetailDoc {
    let view = view(Some(detail().identity));
    DetailDoc::new(&view.detail.expect("it is watched"))
}

fn detail() -> Detail {
    let thread = |tid, comm: &str, home: &str, node, cpu_percent| ThreadNow {
        tid,
        comm: comm.into(),
        home: home.parse().unwrap(),
        node,
        cpu_percent,
    };
    let mapping = |start, bytes, kind, name: &str, shared, nodes: &[(u32, u64)]| MappingNow {
        start,
        bytes,
        kind,
        name: name.into(),
        shared,
        nodes: on(nodes),
    };
    Detail {
        identity: Identity { pid: 17, start_time: 7 },
        threads: vec![
            thread(17, "redis-server", "0", Some(NodeId(0)), Some(98.0)),
            thread(18, "bio_\x1b[2J", "0-1", None, None),
        ],
        mappings: vec![
            mapping(0x5555_0000_0000, 2 << 30, Kind::Heap, "[heap]", false, &[(0, 90), (1, 1400)]),
            mapping(0x7f00_0000_0000, 8 * MIB, Kind::Shmem, "/dev/shm/\na", true, &[(0, 8)]),
        ],
    }
}

fn state(list: List) -> TopState {
    let sort = Sort { column: Column::Remote, reverse: false };
    TopState { host: "db1".into(), ..TopState::new(list, sort, String::new(), None) }
}

/// Draws twice, as the loop does: the second time with the spots of the first.
fn picture(state: &mut TopState, width: u16, height: u16) -> Buffer {
    let (document, detail) = (document(), opened());
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    for _ in 0..2 {
        let rows = rows(&document, &state.list, &state.filter, state.sort);
        state.settle(&document, &rows);
        let scene = DrawInput { document: &document, rows: &rows, detail: Some(&detail) };
        let mut spots = state.spots.clone();
        terminal.draw(|frame| spots = draw(frame.buffer_mut(), state, scene)).unwrap();
        (state.scroll, state.spots) = (spots.scroll, spots);
    }
    terminal.backend().buffer().clone()
}

/// The picture as lines without styles.
fn lines(buffer: &Buffer) -> String {
    let area = buffer.area;
    let line = |y| (0..area.width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..area.height).map(|y| line(y).trim_end().to_owned() + "\n").collect()
}

#[test]
fn workloads_and_processes_on_narrow_and_wide_terminals() {
    for width in [40, 80, 120, 200] {
        let mut texts = Vec::new();
        for list in [List::Workloads, List::Processes] {
            let mut state = state(list);
            (state.line, state.is_chosen) = (1, true);
            texts.push(lines(&picture(&mut state, width, 16)));
        }
        insta::assert_snapshot!(format!("lists_{width}"), texts.join("\n"));
    }
}

#[test]
fn a_large_terminal_shows_more_below_a_short_list() {
    let mut texts = Vec::new();
    for list in [List::Workloads, List::Processes] {
        let mut state = state(list);
        state.has_blocks = true;
        texts.push(lines(&picture(&mut state, 200, 50)));
        // A click there selects no row.
        let (_, height) = state.spots.rows;
        assert_eq!(usize::from(height), if state.list == List::Workloads { 4 } else { 5 });
    }
    insta::assert_snapshot!(texts.join("\n"));
    let small = lines(&picture(&mut state(List::Workloads), 200, 39));
    assert!(!small.contains("processes of "), "{small}");
}

#[test]
fn bars_have_block_characters_where_the_terminal_has_them() {
    for (has_blocks, wanted, other) in [(true, "█▒", "#="), (false, "#=", "█▒")] {
        let mut state = state(List::Workloads);
        state.has_blocks = has_blocks;
        let text = lines(&picture(&mut state, 120, 24));
        assert!(text.contains(wanted) && !text.contains(other), "{text}");
        let line = text.lines().find(|line| line.starts_with("    0 ")).unwrap();
        assert_eq!(line.chars().count(), 119, "as long either way: {line}");
    }
}

#[test]
fn threads_and_mappings() {
    let mut state = state(List::Within("/system.slice/redis.service".into()));
    state.opened = Some((Identity { pid: 17, start_time: 7 }, "redis-server".into()));
    insta::assert_snapshot!(lines(&picture(&mut state, 80, 16)));
}

#[test]
fn what_lies_over_the_lists() {
    let mut texts = Vec::new();
    for popup in [Popup::Help, Popup::Columns(3)] {
        let mut state = state(List::Processes);
        state.popup = popup;
        texts.push(lines(&picture(&mut state, 80, 24)));
    }
    let progress = Progress {
        job: "jobs/42 is running".into(),
        settled_bytes: 300 * MIB,
        planned_bytes: 1000 * MIB,
        held_back: "the CPUs of node 0 are busy".into(),
        is_cancelled: false,
    };
    for stage in [
        Stage::Planning,
        Stage::Asked(Question {
            plan: "moves    1.0 GiB of 1.2 GiB remote\nroute    node 1 -> 0: 1.0 GiB".into(),
            takes: Duration::from_secs(2),
        }),
        Stage::Running(progress),
        Stage::Ended("moved: 1.0 GiB".into()),
        Stage::Ended(
            "not migrated: this machine has one NUMA node with memory (node 0): there is no other node that memory could come from"
                .into(),
        ),
    ] {
        let mut state = state(List::Processes);
        state.popup = Popup::Migration;
        let (target, profile) = ("17 (redis\x1b-server)".into(), Profile::Balanced);
        state.migration = Some(BegunMigration { target, profile, stage });
        texts.push(lines(&picture(&mut state, 80, 16)));
    }
    insta::assert_snapshot!(texts.join("\n"));
}

#[test]
fn what_is_told_is_whole_and_the_list_stays_where_it_is() {
    let mut state = state(List::Workloads);
    state.message = Some("word ".repeat(40));
    let text = lines(&picture(&mut state, 80, 24));
    assert_eq!(text.matches("word").count(), 40, "{text}");
    assert!(text.ends_with("q quit\n"), "{text}");
    // A help that has no room says how much is missing.
    state.popup = Popup::Help;
    let text = lines(&picture(&mut state, 60, 14));
    assert!(text.contains("0 lines above, 25 below"), "{text}");
}

#[test]
fn the_first_row_is_selected_until_another_one_is() {
    let mut state = state(List::Processes);
    let selected = |state: &mut TopState| {
        let text = lines(&picture(state, 120, 16));
        text.lines().find(|line| line.starts_with('>')).unwrap_or_default().to_owned()
    };
    assert!(selected(&mut state).contains("redis-server"));
    state.sort = Sort { column: Column::Cpu, reverse: false };
    assert!(selected(&mut state).contains("hidden"), "it uses most CPU time");
    state.is_chosen = true;
    state.sort = Sort { column: Column::Remote, reverse: false };
    assert!(selected(&mut state).contains("hidden"), "the selection stays on its row");
}

#[test]
fn the_keys_fit_80_columns() {
    let text = lines(&picture(&mut state(List::Processes), 80, 24));
    assert!(text.ends_with("  q quit\n"), "{text}");
}

#[test]
fn a_filter_that_nothing_matches_says_so() {
    let mut state = state(List::Workloads);
    state.filter = "no-such-thing".into();
    let text = lines(&picture(&mut state, 80, 14));
    assert!(text.contains("workloads: 0  filter: no-such-thing"), "{text}");
    assert!(text.contains("nothing matches 'no-such-thing': Esc"), "{text}");
}

#[test]
fn colours_say_nothing_that_numbers_do_not() {
    let reds = |has_colour| {
        let mut state = state(List::Processes);
        state.has_colour = has_colour;
        let buffer = picture(&mut state, 80, 16);
        let coloured = buffer.content.iter().filter(|cell| cell.fg != Color::Reset).count();
        (coloured, lines(&buffer))
    };
    let (with, without) = (reds(true), reds(false));
    assert!(with.0 > 0 && without.0 == 0, "{} {}", with.0, without.0);
    assert_eq!(with.1, without.1);
}

#[test]
fn no_terminal_is_too_small_and_no_name_reaches_it_as_it_is() {
    let running = Stage::Running(Progress::default());
    for (width, height) in [(1, 1), (2, 3), (5, 2), (9, 9), (13, 4), (40, 6), (300, 3), (300, 100)]
    {
        for popup in [Popup::None, Popup::Help, Popup::Columns(11), Popup::Migration] {
            for is_open in [false, true] {
                let mut state = state(List::Processes);
                state.popup = popup.clone();
                (state.scroll, state.line) = (1000, 1000);
                let (target, profile) = ("x".into(), Profile::Fast);
                state.migration = Some(BegunMigration { target, profile, stage: running.clone() });
                let opened = (Identity { pid: 17, start_time: 7 }, "redis".to_owned());
                state.opened = is_open.then_some(opened);
                let buffer = picture(&mut state, width, height);
                let is_clean = |symbol: &str| !symbol.chars().any(char::is_control);
                assert!(buffer.content.iter().all(|cell| is_clean(cell.symbol())));
            }
        }
    }
}

#[test]
fn a_screen_full_of_rows_follows_the_selection() {
    let mut state = state(List::Processes);
    state.sort = Sort { column: Column::Pid, reverse: false };
    let shown = |state: &mut TopState, line: usize| {
        (state.line, state.selected, state.is_chosen) = (line, None, true);
        let text = lines(&picture(state, 80, 11));
        ["redis", "mysqld", "?]0;evil?", "300 hidden", "new"].map(|name| text.contains(name))
    };
    // Two of five rows fit.
    assert_eq!(shown(&mut state, 0), [true, true, false, false, false]);
    assert_eq!(shown(&mut state, 4), [false, false, false, true, true]);
    assert_eq!(shown(&mut state, 3), [false, false, false, true, true], "it need not move");
    assert_eq!(shown(&mut state, 2), [false, false, true, true, false]);
}

#[test]
fn batches_are_tables_csv_and_json() {
    let document = document();
    let sort = Sort { column: Column::Remote, reverse: false };
    let mut texts = Vec::new();
    for list in [List::Workloads, List::Processes] {
        let rows = rows(&document, &list, "", sort);
        let view = View::TABLE;
        texts.push(text::top(&document, &rows, &Column::ALL, view));
        texts.push(text::csv(&document, &rows, &Column::ALL, true).replace('\r', "<CR>"));
    }
    let all = rows(&document, &List::Processes, "", sort);
    let alone = text::top(&document, &all, &Column::ALL, View { headers: false, ..View::TABLE });
    assert_eq!(alone.lines().count(), all.len(), "rows alone: {alone}");
    let alone = text::csv(&document, &all, &Column::ALL, false);
    assert_eq!(alone.lines().count(), all.len(), "rows alone: {alone}");
    texts.push(serde_json::to_string_pretty(&document).unwrap());
    insta::assert_snapshot!(texts.join("\n"));
    let value = serde_json::to_value(&document).unwrap();
    assert_eq!(text::tests::undocumented(&value), Vec::<String>::new());
}

#[test]
fn nonsense_is_refused() {
    for (line, words) in [
        (
            "top --columns name,rss",
            "'rss' is not a valid column: there are PID, NAME, HOME, MEM, CACHE, REMOTE",
        ),
        ("top --sort size", "'size' is not a valid column"),
        ("top --cpu-budget 0", "expected a share of a CPU above 0 %"),
        ("top --cpu-budget 101", "expected a percentage"),
        ("top -d 0", "from 100ms to 1h"),
        ("top -b -n 0", "a whole number of at least 1"),
        ("top -n 1", "--batch"),
    ] {
        let refused = Cli::try_parse_from(format!("numalocctl {line}").split(' '));
        let refused = refused.expect_err(line).to_string();
        assert!(refused.contains(words), "{line}: {refused}");
    }
}
