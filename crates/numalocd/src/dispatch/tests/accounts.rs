//! Accounts that records and changes are charged to, and clients that have room when others have used up theirs.

use super::{
    schedules::{MINUTE, get, schedule, spec},
    workloads::workload,
    *,
};
use numaloc_api::Stored;
use numaloc_api::value::{
    Condition, CreateSchedule, Event, EventFilter, EventType, ListEvents, Requirement, ScheduleId,
    ScheduleSpec, ScheduleState, ScheduleUpdate, Selector, UpdateSchedule,
};
use std::time::Instant;
use tokio::task::JoinSet;

/// A member of the group of a grant.
fn member(uid: u32) -> Caller {
    Caller { gid: Some(3000), ..caller(&format!("uid:{uid}"), Role::Operator) }
}

/// A selector of labels whose requirements take about this many KiB.
fn large(kib: usize) -> ScheduleSpec {
    let one = |number: usize| {
        let values = (0..4).map(|value| format!("{value:0>250}")).collect();
        Requirement { key: format!("key{number:0>8}"), condition: Condition::In(values) }
    };
    let labels = Selector { namespace: None, requirements: (0..kib).map(one).collect() };
    let target = Target { labels, ..Target::default() };
    let migration = MigrationSpec { target, ..MigrationSpec::default() };
    ScheduleSpec { migration, paused: true, ..spec(MINUTE) }
}

async fn make(rig: &Rig, by: Caller, spec: ScheduleSpec) -> Result<ScheduleId, Refusal> {
    let request = CreateSchedule { spec, ..CreateSchedule::default() };
    rig.handle.create_schedule(by, request, Pins::new()).await.map(|made| made.id.clone())
}

/// Fills with schedules what a client may have, and says how many fit.
async fn fill(rig: &Rig, by: Caller) -> (usize, Refusal) {
    for made in 0..1000 {
        if let Err(refusal) = make(rig, by.clone(), large(16)).await {
            return (made, refusal);
        }
    }
    panic!("there is no bound");
}

async fn events(rig: &Rig) -> Vec<Arc<Event>> {
    let page = Page { size: 1000, token: None };
    let list = ListEvents { filter: EventFilter::default(), page };
    rig.handle.list_events(list).await.expect("events").entries
}

/// D3: one group's members fill what all clients have together.
#[tokio::test(start_paused = true)]
async fn when_all_bytes_are_used_up_root_and_runs_have_room_and_it_is_seen() {
    let dir = dir();
    let mut config = Config::default();
    (config.quota.bytes, config.quota.all_bytes) = (128 << 10, 480 << 10);
    let mut rig = Rig::with(&dir, config);
    // A schedule of a client, and one of a file, that wait for their next runs.
    let own = schedule(&rig, spec(MINUTE)).await;
    let mut made = 0;
    let mut last = None;
    for uid in 3001..=3005 {
        let (more, refusal) = fill(&rig, member(uid)).await;
        (made, last) = (made + more, Some(refusal));
    }
    assert!((12..=16).contains(&made), "{made} of 16 KiB each");
    assert_refused!(Err::<(), _>(last.expect("a refusal")), Refusal::Quota { what, limit, .. }
        if what.contains("members of the group") && limit == 256 << 10);
    assert_eq!(rig.accounts.problems(Instant::now()), [""; 0], "the others have room");
    // Other clients fill the rest.
    for uid in [1000, 1001] {
        fill(&rig, caller(&format!("uid:{uid}"), Role::Operator)).await;
    }
    let refused = make(&rig, caller("uid:7", Role::Operator), large(16)).await;
    assert_refused!(refused, Refusal::Quota { what, .. } if what.contains("all clients together"));
    let problems = rig.accounts.problems(Instant::now());
    assert!(
        matches!(&problems[..], [one] if one.contains("by gid:3000") && one.contains("quota.all_bytes")),
        "{problems:?}"
    );
    // Root has room, and so have runs, also of the client that has none for anything else.
    make(&rig, admin(), large(16)).await.expect("root has room of its own");
    tokio::time::sleep(2 * MINUTE).await;
    let probe = rig.probes.recv().await.expect("it is due");
    assert_eq!(probe.schedule, own);
    let found = Ok(found(&[1], "0"));
    rig.probed
        .send(ProbeAnswer { schedule: probe.schedule, etag: probe.etag, found })
        .expect("it listens");
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(get(&rig, &own).await.state, ScheduleState::Active);
    // A restart counts the same.
    let held = rig.accounts.held(crate::accounts::Resource::Records);
    let config = (**rig.config.borrow()).clone();
    rig.kill().await;
    let rig = Rig::with(&dir, config);
    assert_eq!(rig.accounts.held(crate::accounts::Resource::Records), held);
    assert!(make(&rig, member(3009), large(16)).await.is_err());
    rig.kill().await;
}

/// D4: a change of one flag writes the whole record.
#[tokio::test(start_paused = true)]
async fn what_changes_write_is_charged_and_events_are_small() {
    let dir = dir();
    let mut config = Config::default();
    config.quota.written_bytes_per_minute = 8 << 20;
    let rig = Rig::with(&dir, config);
    let id = make(&rig, operator(), large(900)).await.expect("it is taken");
    let toggle = async |rig: &Rig, paused| {
        let update = ScheduleUpdate { paused: Some(paused), ..ScheduleUpdate::default() };
        let update = UpdateSchedule { id: id.clone(), etag: None, update, validate_only: false };
        rig.handle.update_schedule(operator(), update, Pins::new()).await.map(drop)
    };
    let mut changes = 0;
    let refused = loop {
        if let Err(refusal) = toggle(&rig, changes % 2 == 1).await {
            break refusal;
        }
        changes += 1;
        assert!(changes < 100, "nothing refuses");
    };
    assert!((7..=9).contains(&changes), "{changes} changes of 0.9 MiB");
    assert_refused!(Err::<(), _>(refused), Refusal::TooFast { what, retry_after, .. }
        if what == "bytes written per minute" && retry_after < Duration::from_secs(60));
    rig.register(caller("uid:1001", Role::Operator), workload("a")).await.expect("others may");
    make(&rig, admin(), large(900)).await.expect("root may");
    let told = events(&rig).await;
    let toggled =
        |event: &&Arc<Event>| matches!(event.kind, EventType::Paused | EventType::Resumed);
    assert_eq!(told.iter().filter(toggled).count(), changes);
    for event in told.iter().filter(toggled) {
        assert!(event.encoded_len() < 8 << 10, "{event:?}");
        let shown = event.target.labels.requirements.len();
        assert!(shown >= 1 && shown + event.more_target_names == 900, "{shown}");
    }
    rig.kill().await;
}

/// Changes that wait together share a commit only as far as it stays small: on a full disk no client fails with the
/// large ones of another.
#[tokio::test(start_paused = true)]
async fn large_changes_do_not_share_a_commit() {
    let dir = dir();
    let rig = Rig::at(&dir);
    let mut ids = Vec::new();
    for _ in 0..6 {
        ids.push(make(&rig, operator(), large(900)).await.expect("it is taken"));
    }
    let before = rig.commits.load(Relaxed);
    let mut changes = JoinSet::new();
    for id in ids {
        let update = ScheduleUpdate { jitter: Some(MINUTE), ..ScheduleUpdate::default() };
        let update = UpdateSchedule { id, etag: None, update, validate_only: false };
        let handle = rig.handle.clone();
        changes.spawn(async move { handle.update_schedule(operator(), update, Pins::new()).await });
    }
    let done = changes.join_all().await;
    assert!(done.iter().all(Result::is_ok), "{done:?}");
    assert!(rig.commits.load(Relaxed) - before >= 3, "6 of 0.9 MiB, at most 2 in a commit");
    rig.kill().await;
}

/// Events of much weight are not left to the next round of retention, and the file becomes small again.
#[tokio::test(start_paused = true)]
async fn a_store_that_was_large_gives_back_its_room() {
    let dir = dir();
    let mut config = Config::default();
    config.retention.bytes = 1 << 20;
    config.quota.written_bytes_per_minute = 1 << 30;
    let rig = Rig::with(&dir, config);
    let mut made = Vec::new();
    for _ in 0..30 {
        made.push(make(&rig, operator(), large(900)).await.expect("it is taken"));
    }
    let size = || std::fs::metadata(dir.path().join("numalocd.redb")).expect("a store").len();
    assert!(size() > 32 << 20, "{}", size());
    for id in made {
        let request = numaloc_api::value::DeleteSchedule {
            id,
            etag: None,
            allow_missing: false,
            validate_only: false,
        };
        rig.handle.delete_schedule(operator(), request).await.expect("it is removed");
    }
    tokio::time::sleep(2 * MINUTE).await;
    rig.handle.status().await.expect("an answer");
    assert!(size() < 8 << 20, "{}", size());
    let config = (**rig.config.borrow()).clone();
    make(&rig, operator(), large(9)).await.expect("it continues");
    rig.kill().await;
    let rig = Rig::with(&dir, config);
    assert_eq!(rig.handle.status().await.expect("an answer").schedules, 1);
    rig.kill().await;
}
