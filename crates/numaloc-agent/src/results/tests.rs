//! Reports from numalocd's events and jobs, also those of another version.

use super::*;
use crate::tests::samples::end;
use numaloc_policy::PodEvent;

fn schedule() -> v1::Schedule {
    let labels = [(ID, "agent-1-web"), (CONTAINER, "web")];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    v1::Schedule { name: "schedules/agent-1-web".to_owned(), labels, ..v1::Schedule::default() }
}

#[test]
fn events_of_another_numalocd_are_read_or_left() {
    let event = || end(&schedule(), 1, 100, true, (100, 0));
    let mut results = Results::default();
    for (what, change) in [
        ("a type that is not known here", (|event| event.r#type = 99) as fn(&mut v1::Event)),
        ("no type", |event| event.r#type = 0),
        ("an older one without labels", |event| event.labels.clear()),
        ("without the name of the container", |event| drop(event.labels.remove(CONTAINER))),
        ("without a time", |event| event.create_time = None),
        ("a state that is not known here", |event| event.members[0].state = 99),
    ] {
        let mut event = event();
        change(&mut event);
        assert_eq!(results.take(event), None, "{what}");
    }
    assert_eq!(results.take(event()).as_deref(), Some("schedules/agent-1-web"));
    assert_eq!(results.take(event()), None, "it comes again with each connection");
}

#[test]
fn a_run_whose_event_is_gone_is_that_of_its_job() {
    let mut results = Results::default();
    let mut schedule = schedule();
    assert!(!results.is_unseen(&schedule), "it has not run");
    schedule.last_job = "jobs/7".to_owned();
    assert!(results.is_unseen(&schedule));
    // It is under way: its end will have an event.
    let mut job = crate::tests::samples::job(&schedule, 7, 100);
    job.state = v1::JobState::Running.into();
    results.take_last(&schedule, Some(job));
    // One that repeats has another run soon.
    results.take_last(&schedule, None);
    assert!(results.is_unseen(&schedule));
    results.take_last(&schedule, Some(crate::tests::samples::job(&schedule, 7, 100)));
    assert!(!results.is_unseen(&schedule));
    // It was ordered to run again, and the event of this run is gone, too.
    results.begin([schedule.name.clone()].into());
    assert!(!results.is_unseen(&schedule), "it has not begun yet");
    schedule.last_job = "jobs/8".to_owned();
    assert!(results.is_unseen(&schedule));
}

#[tokio::test(start_paused = true)]
async fn a_mistake_that_is_made_again_has_another_event() {
    let facts = Facts::new(serde_json::from_value(crate::tests::samples::pod(1)).expect("a pod"));
    let (right, mut wrong) = (WantedPod::default(), WantedPod::default());
    wrong.events.push(PodEvent::conflict("x"));
    let (mut told, none) = (Told::of(&facts), Results::default());
    let at = |minutes: u64| Now {
        instant: Instant::now(),
        wall: UNIX_EPOCH + Duration::from_secs(60 * minutes),
    };
    let mut posts = |wanted: &WantedPod, minutes| {
        let report = report(&facts, wanted, &none, |_| Standing::Scheduled, &mut told, at(minutes));
        let posts = report.map(|report| report.posts).unwrap_or_default();
        posts.into_iter().map(|post| post.id).collect::<Vec<_>>()
    };
    let first = posts(&wrong, 1);
    assert_eq!(first.len(), 1);
    assert_eq!(posts(&wrong, 2), [""; 0], "it was reported");
    assert_eq!(posts(&right, 3), [""; 0]);
    let again = posts(&wrong, 4);
    assert!(again.len() == 1 && again != first, "{again:?} {first:?}");
}

#[test]
fn a_new_store_of_numalocd_begins_with_the_same_jobs() {
    let event = |number, seconds| end(&schedule(), number, seconds, true, (100, 0));
    let mut results = Results::default();
    let mut takes = |number, seconds| results.take(event(number, seconds)).is_some();
    assert!(takes(7, 100) && !takes(7, 100) && !takes(6, 90));
    assert!(takes(8, 50), "the clock was set back");
    assert!(takes(1, 60) && !takes(1, 60), "its numbers begin again");
}

#[tokio::test(start_paused = true)]
async fn another_program_that_moves_memory_back_is_named_until_it_stops() {
    let facts = Facts::new(serde_json::from_value(crate::tests::samples::pod(1)).expect("a pod"));
    let id = numaloc_node::agent_id(&facts.pod.uid, "web");
    let mut schedule = schedule();
    schedule.name = format!("schedules/{id}");
    schedule.labels.insert(ID.to_owned(), id.clone());
    let records =
        numaloc_node::Wanted { id, schedule: Some(schedule.clone()), ..Default::default() };
    let container = WantedContainer {
        name: "web".to_owned(),
        container_id: None,
        decided_by: String::new(),
        policy: None,
        waits: false,
        records,
    };
    let wanted = WantedPod { containers: vec![container], ..WantedPod::default() };
    let (mut results, mut told) = (Results::default(), Told::of(&facts));
    let mut says = |kind: v1::EventType, message: &str| {
        let mut event = end(&schedule, 1, 100, true, (100, 0));
        event.r#type = kind.into();
        event.message = message.to_owned();
        assert_eq!(results.take(event).as_deref(), Some(&*schedule.name));
        let report =
            report(&facts, &wanted, &results, |_| Standing::Scheduled, &mut told, Now::new());
        let report = report.unwrap_or_default();
        let own = report.patch.map(|patch| OwnStatus::read(&patch.own).problems);
        let events = report.posts.into_iter().map(|post| {
            let PodEvent { kind, reason, message } = post.event;
            format!("{} {}: {message}", kind.name(), reason.name())
        });
        (events.collect::<Vec<_>>(), own.unwrap_or_default())
    };
    let numad = "placement contested, probably by numad (process 7): 90%";
    let (events, problems) = says(v1::EventType::PlacementContested, numad);
    assert_eq!(events, [format!("Warning MemoryLocalityConflict: Container web: {numad}")]);
    assert_eq!(problems, [format!("Container web: {numad}")]);
    let (events, problems) = says(v1::EventType::PlacementStable, "stable");
    assert!(events.is_empty() && problems.is_empty(), "{events:?} {problems:?}");
}
