//! What waits, and in which order it is written.

use super::*;

use numaloc_policy::PodEvent;
use proptest::prelude::*;

fn waiting(outbox: &Outbox) -> (usize, usize, u64) {
    let Pending { events, statuses, lost, .. } = outbox.counts();
    (events, statuses, lost.values().sum())
}

fn subject(pod: u8) -> Subject {
    let uid = pod.to_string();
    let name = format!("pod-{pod}");
    Subject { kind: "Pod", namespace: "shop".to_owned(), name, uid: uid.clone(), api_uid: uid }
}

fn post(number: usize) -> Post {
    Post { id: number.to_string(), event: PodEvent::conflict("x"), at: None }
}

/// Does all pending writes.
fn drain(outbox: &Outbox) -> Vec<Work> {
    std::iter::from_fn(|| {
        let work = outbox.next(true, true, |_| true)?;
        outbox.done(&work);
        Some(work)
    })
    .collect()
}

#[test]
fn a_status_comes_after_its_events_and_the_newest_counts() {
    let outbox = Outbox::default();
    let patch = |status: Option<&str>, own: &str| {
        Some(StatusPatch { status: status.map(str::to_owned), own: own.to_owned() })
    };
    outbox.push(subject(1), Report { posts: vec![post(1), post(2)], patch: patch(Some("a"), "1") });
    outbox.push(subject(2), Report { posts: vec![], patch: patch(Some("b"), "2") });
    assert_eq!(waiting(&outbox), (2, 1, 0), "the other one waits for its events");
    let first = outbox.next(true, false, |_| true).expect("an event");
    outbox.done(&first);
    outbox.push(subject(1), Report { posts: vec![], patch: patch(None, "3") });
    outbox.push(subject(1), Report { posts: vec![post(3)], patch: None });
    let done = drain(&outbox);
    let patches: Vec<_> = done
        .into_iter()
        .filter_map(|work| match work {
            Work::Patch(subject, patch) => Some((subject.name.clone(), patch)),
            Work::Post(..) => None,
        })
        .collect();
    let one = |pod: &str, status: &str, own: &str| {
        let (status, own) = (Some(status.to_owned()), own.to_owned());
        (pod.to_owned(), StatusPatch { status, own })
    };
    assert_eq!(patches, [one("pod-2", "b", "2"), one("pod-1", "a", "3")]);
}

proptest! {
    /// In whatever order reports come, every event is posted once, the last status of each existing pod is written,
    /// and nothing is left.
    #[test]
    fn nothing_is_lost_or_done_twice(
        reports in prop::collection::vec((0u8..3, 0usize..3, any::<bool>(), 0usize..4, 0u8..8), 0..12),
    ) {
        let outbox = Outbox::default();
        let (mut number, mut done, mut last) = (0, Vec::new(), BTreeMap::new());
        for (pod, posts, has_patch, steps, gone) in reports {
            let posts: Vec<_> = (0..posts).map(|_| { number += 1; post(number) }).collect();
            let patch = has_patch.then(|| {
                number += 1;
                last.insert(format!("pod-{pod}"), number.to_string());
                StatusPatch { status: Some(number.to_string()), own: String::new() }
            });
            outbox.push(subject(pod), Report { posts, patch });
            for _ in 0..steps {
                if let Some(work) = outbox.next(true, true, |_| true) {
                    outbox.done(&work);
                    done.push(work);
                }
            }
            // In about half of the cases, while the first pending write is being done.
            let under_way = outbox.next(true, true, |_| true);
            if gone < 3 {
                outbox.gone(&gone.to_string());
                last.remove(&format!("pod-{gone}"));
                done.retain(|work| !matches!(work, Work::Patch(of, _) if of.uid == gone.to_string()));
            }
            if let Some(work) = under_way {
                outbox.done(&work);
                if !matches!(&work, Work::Patch(of, _) if of.uid == gone.to_string()) {
                    done.push(work);
                }
            }
        }
        done.extend(drain(&outbox));
        let posted: Vec<_> = done.iter().filter_map(|work| match work {
            Work::Post(_, post) => Some(post.id.clone()),
            Work::Patch(..) => None,
        }).collect();
        let mut once = posted.clone();
        once.sort();
        once.dedup();
        prop_assert_eq!(once.len(), posted.len());
        let mut written = BTreeMap::new();
        for work in &done {
            if let Work::Patch(subject, patch) = work {
                written.insert(subject.name.clone(), patch.status.clone().unwrap_or_default());
            }
        }
        prop_assert_eq!(written, last);
        prop_assert_eq!(waiting(&outbox), (0, 0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_changes_all_the_time_has_its_newest_event_now_and_then() {
    let outbox = Outbox::default();
    let patch = |number: usize| StatusPatch { status: None, own: number.to_string() };
    for number in 0..100 {
        let posts = vec![post(number)];
        outbox.push(subject(1), Report { posts, patch: Some(patch(number)) });
    }
    outbox.push(subject(2), Report { posts: vec![post(1000)], patch: None });
    assert_eq!(waiting(&outbox), (27, 0, 74), "one is held back");
    let ids = |work: Vec<Work>| -> Vec<String> {
        let id = |work| match work {
            Work::Post(_, post) => post.id,
            Work::Patch(_, patch) => format!("status {}", patch.own),
        };
        work.into_iter().map(id).collect()
    };
    let done = ids(drain(&outbox));
    assert_eq!(done[..25], (0..25).map(|number| number.to_string()).collect::<Vec<_>>());
    assert_eq!(done[25..], ["1000", "status 99"], "the status is the newest at once");
    let release = outbox.next_release().expect("one is held back");
    tokio::time::sleep_until(release).await;
    assert_eq!(ids(drain(&outbox)), ["99"]);
    outbox.push(subject(1), Report { posts: vec![post(100)], patch: None });
    assert_eq!(ids(drain(&outbox)), [""; 0]);
    tokio::time::sleep(25 * INTERVAL).await;
    assert_eq!(ids(drain(&outbox)), ["100"]);
    for number in 0..24 {
        outbox.push(subject(1), Report { posts: vec![post(number)], patch: None });
    }
    assert_eq!(drain(&outbox).len(), 24, "its budget is whole again");
}

#[test]
fn what_may_not_be_written_now_keeps_nobody_waiting() {
    let outbox = Outbox::default();
    for (pod, number) in [(1, 1), (1, 2), (2, 3)] {
        outbox.push(subject(pod), Report { posts: vec![post(number)], patch: None });
    }
    let is_open = |work: &Work| matches!(work, Work::Post(of, _) if of.name == "pod-2");
    let work = outbox.next(true, true, is_open).expect("the other one");
    assert!(matches!(&work, Work::Post(_, post) if post.id == "3"));
    outbox.done(&work);
    assert_eq!(outbox.next(true, true, is_open), None);
    assert_eq!(drain(&outbox).len(), 2, "in their order");
}
