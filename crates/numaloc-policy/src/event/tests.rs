//! The contract's examples, word for word, and what is between them.

use super::*;
use crate::{Container, Defaults, Pod, decide, result::tests::share};
use proptest::prelude::*;

fn nodes(list: &str) -> NodeSet {
    list.parse().expect("a list of nodes")
}

fn container(name: &str, verdict: Verdict, share: Option<Share>) -> ContainerResult {
    ContainerResult { name: name.to_owned(), verdict, share }
}

fn moved(from: &str, to: &str, failed: &[(i32, &str)]) -> Verdict {
    let failed = failed.iter().map(|&(pid, error)| (pid, error.to_owned())).collect();
    Verdict::Completed { from: nodes(from), to: nodes(to), failed }
}

fn told(containers: Vec<ContainerResult>) -> String {
    let PodEvent { kind, reason, message } = PodResult { containers, repeats: false }.event();
    format!("{} {} {message}", kind.name(), reason.name())
}

const HOME: Option<Share> =
    Some(Share { local_bytes: 4096, remote_bytes: 0, near_bytes: 0, demoted_bytes: 0 });

/// The document's first expected output.
#[test]
fn both_containers_are_completed() {
    insta::assert_snapshot!(told(vec![
        container("<container-name-1>", moved("1", "0", &[]), HOME),
        container("<container-name-2>", moved("0", "1", &[]), HOME),
    ]), @r"
    Normal MemoryLocalityCompleted Container <container-name-1> completed: migrated memory from remote numa: 1 to local numa: 0
    Container <container-name-2> completed: migrated memory from remote numa: 0 to local numa: 1
    Total: 2 container(s) completed, 0 failed, 0 skipped; cur local memory ratio 100, rest remote memory pages 0
    ");
}

/// The document's second expected output.
#[test]
fn a_process_ended_meanwhile() {
    insta::assert_snapshot!(told(vec![
        container("<container-name-1>", moved("1", "0", &[]), HOME),
        container("<container-name-2>", moved("0", "1", &[(111_111, "No such process")]), HOME),
    ]), @r"
    Normal MemoryLocalityCompleted Container <container-name-1> completed: migrated memory from remote numa: 1 to local numa: 0
    Container <container-name-2> completed: failed to migrate the following processes: failed pid: 111111, error: No such process,from remote numa: 0 to local numa: 1
    Total: 2 container(s) completed, 0 failed, 0 skipped; cur local memory ratio 100, rest remote memory pages 0
    ");
}

/// The document's third expected output.
#[test]
fn no_container_has_a_target() {
    let unpinned = |name| container(name, Verdict::NoTarget, HOME);
    let one = told(vec![unpinned("a")]);
    insta::assert_snapshot!(one, @"Normal MemoryLocalitySkipped no target numa");
    assert_eq!(told(vec![unpinned("a"), unpinned("b")]), one);
}

/// The document's numbers: "cur local memory ratio 98, rest remote memory pages 28586".
#[test]
fn enough_is_local_already() {
    let all = 28_586 * 100 / 2;
    let reached = |local, remote| container("a", Verdict::Reached, Some(share(local, remote)));
    let message = told(vec![reached(all - 28_586 - 1000, 28_586), reached(1000, 0)]);
    insta::assert_snapshot!(message, @"Normal MemoryLocalitySkipped already reach target in precheck, cur local memory ratio 98, rest remote memory pages 28586");
}

#[test]
fn different_ends_have_a_line_each() {
    insta::assert_snapshot!(told(vec![
        container("redis", moved("1-2,8", "0", &[(7, "Bad address"), (8, "No such process")]), Some(share(199, 1))),
        container("sidecar", Verdict::NoTarget, Some(share(0, 0))),
        container("cache", Verdict::Reached, Some(share(1, 0))),
        container("log", Verdict::Skipped("what is remote stays".to_owned()), None),
        container("init", Verdict::Failed("it could not be read".to_owned()), None),
    ]), @r"
    Normal MemoryLocalityCompleted Container redis completed: failed to migrate the following processes: failed pid: 7, error: Bad address; failed pid: 8, error: No such process,from remote numa: 1,2,8 to local numa: 0
    Container sidecar skipped: no target numa
    Container cache skipped: already reach target in precheck, cur local memory ratio 100, rest remote memory pages 0
    Container log skipped: what is remote stays
    Container init failed: it could not be read
    Total: 1 container(s) completed, 1 failed, 3 skipped; cur local memory ratio 100, rest remote memory pages 1
    ");
}

#[test]
fn failed_goes_before_skipped() {
    insta::assert_snapshot!(told(vec![
        container("a\nb", Verdict::Failed("no room".to_owned()), None),
        container("b", Verdict::NoTarget, None),
    ]), @r"
    Normal MemoryLocalityFailed Container a\u{a}b failed: no room
    Container b skipped: no target numa
    Total: failed to get memory allocation after memory locality
    ");
}

#[test]
fn a_bad_annotation_is_a_warning() {
    let event = |key: &str, value: &str| {
        let pod = Pod {
            namespace: "shop".to_owned(),
            name: "redis-0".to_owned(),
            annotations: [(key.to_owned(), value.to_owned())].into(),
            ..Pod::default()
        };
        let container = Container { name: "redis".to_owned(), ..Container::default() };
        let event = match decide(&pod, &container, &Defaults::default()) {
            Ok(decision) => decision.event("redis"),
            Err(bad) => Some(bad.event()),
        };
        event.map_or_else(String::new, |event| {
            format!("{} {} {}", event.kind.name(), event.reason.name(), event.message)
        })
    };
    let events = [
        event("koordinator.sh/memoryLocality", "{policy: bestEffort}"),
        event("koordinator.sh/memoryLocality", r#"{"policy": "bestest"}"#),
        event(
            "koordinator.sh/memoryLocality",
            r#"{"policy": "none", "migrateIntervalMinutes": "5"}"#,
        ),
        event("numaloc.io/policy", r#"{"spec": {"policy": {"profil": "gentle"}}}"#),
        event("numaloc.io/policies", r#"{"redis": {"spec": {"limits": {"workers": 0}}}}"#),
        event("numaloc.io/policy", r#"{"spec": {"policy": {"profile": "fast"}}}"#),
        event("numaloc.io/polcy", "none"),
        event("koordinator.sh/memoryLocality", r#"{"policy": "bestEffort"}"#),
    ];
    insta::assert_snapshot!(events.join("\n"));
}

prop_compose! {
    fn any_container()(
        name in any::<String>(),
        which in 0..5,
        text in "\\PC*",
        from in proptest::collection::btree_set(0..70_000_u32, 0..4),
        pid in any::<i32>(),
        share in proptest::option::of((any::<u64>(), any::<u64>())),
    ) -> ContainerResult {
        let verdict = match which {
            0 => Verdict::Completed {
                from: from.into_iter().map(numaloc_core::NodeId).collect(),
                to: NodeSet::new(),
                failed: vec![(pid, text)],
            },
            1 => Verdict::NoTarget,
            2 => Verdict::Reached,
            3 => Verdict::Skipped(text),
            _ => Verdict::Failed(text),
        };
        let share = share.map(|(local_bytes, remote_bytes)| Share { local_bytes, remote_bytes, ..Share::default() });
        ContainerResult { name, verdict, share }
    }
}

proptest! {
    #[test]
    fn any_result_has_an_event(containers in proptest::collection::vec(any_container(), 0..6)) {
        let count = containers.len();
        let result = PodResult { containers, repeats: true };
        let event = result.event();
        prop_assert!((-1..=100).contains(&result.ratio()));
        prop_assert!(event.reason != EventReason::Bounded);
        let lines = event.message.lines().count();
        prop_assert!(lines == 1 || lines == count + 1, "{}", event.message);
    }

    /// 100 % that is rounded up still shows its remote pages.
    #[test]
    fn remote_memory_shows(local in 0..u64::MAX / 2, remote in 1..u64::MAX / 2) {
        let all = Some(Share { local_bytes: local, remote_bytes: remote, ..Share::default() });
        let result = PodResult { containers: vec![container("a", Verdict::Reached, all)], repeats: false };
        prop_assert!(result.remote_pages() > 0);
        let exact = local as f64 * 100.0 / (local as f64 + remote as f64);
        prop_assert!((result.ratio() as f64 - exact.ceil()).abs() <= 1.0);
    }
}
