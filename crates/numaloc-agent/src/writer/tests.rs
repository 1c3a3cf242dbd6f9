//! Writes to the cluster.

use super::*;
use numaloc_policy::{EventKind, EventReason, PodEvent};

fn subject() -> Subject {
    Subject {
        kind: "Pod",
        namespace: "shop".to_owned(),
        name: "x".repeat(253),
        uid: "node-uid".to_owned(),
        api_uid: "api-uid".to_owned(),
    }
}

fn post(kind: EventKind, reason: EventReason) -> Post {
    let event = PodEvent { kind, reason, message: "line\n".repeat(1000) };
    Post { id: "0123456789abcdef".to_owned(), event, at: Some(SystemTime::UNIX_EPOCH) }
}

#[test]
fn events_are_those_of_the_contract_and_ours_are_told_apart() {
    let config = Config::default();
    let made = |kind, reason| event(&config, "node-1", &subject(), &post(kind, reason));
    let completed = made(EventKind::Normal, EventReason::Completed);
    assert_eq!(completed["source"]["component"], "koordlet");
    assert_eq!(completed["reportingComponent"], "numaloc-agent");
    assert_eq!(completed["involvedObject"]["uid"], "node-uid", "kubectl describe looks for it");
    assert_eq!(completed["firstTimestamp"], "1970-01-01T00:00:00Z");
    assert_eq!(
        completed["message"].as_str().map(str::len),
        Some(5000),
        "no bound of events.k8s.io"
    );
    let name = completed["metadata"]["name"].as_str().expect("text");
    assert!(name.len() == NAME_MAX && name.ends_with(".0123456789abcdef"), "{name}");
    for (kind, reason) in [
        (EventKind::Warning, EventReason::Failed),
        (EventKind::Normal, EventReason::Bounded),
        (EventKind::Warning, EventReason::Conflict),
    ] {
        assert_eq!(made(kind, reason)["source"]["component"], "numaloc-agent");
    }
}

#[test]
fn a_conflict_of_a_status_is_tried_again_unless_the_pod_is_another_one() {
    let patch = Work::Patch(Arc::new(subject()), StatusPatch { status: None, own: "o".to_owned() });
    let posted = Work::Post(Arc::new(subject()), post(EventKind::Normal, EventReason::Bounded));
    let refusal =
        |code, message: &str| Refusal { code, message: message.to_owned(), is_lasting: false };
    let busy = refusal(409, "the object has been modified; please apply your changes to it");
    let other = refusal(409, "Precondition failed: UID in precondition: a, UID in object meta: b");
    assert!(is_conflict(&patch, &busy) && !is_conflict(&patch, &other));
    assert!(!is_conflict(&posted, &busy), "an event of that name exists");
    assert!(!is_conflict(&patch, &refusal(404, "not found")));
}

#[test]
fn a_patch_has_our_annotations_and_the_uid_alone() {
    let patch = StatusPatch { status: Some("s".to_owned()), own: "o".to_owned() };
    let expected = json!({"metadata": {"uid": "api-uid", "annotations": {STATUS_KEY: "s", OWN_STATUS_KEY: "o"}}});
    assert_eq!(status(&subject(), &patch), expected);
    let own = status(&subject(), &StatusPatch { status: None, ..patch });
    assert!(own["metadata"]["annotations"].get(STATUS_KEY).is_none());
}
