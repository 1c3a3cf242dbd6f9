//! Lists, selectors, and changes as they are watched.

use super::*;

#[tokio::test(start_paused = true)]
async fn lists_show_what_meets_every_condition() {
    let dir = dir();
    let rig = Rig::at(&dir);
    let namespaced = |id, namespace: &str| WorkloadSpec {
        namespace: Some(namespace.to_owned()),
        ..workload(id)
    };
    rig.register(operator(), workload("a-1")).await.expect("it is taken");
    rig.register(operator(), namespaced("a-2", "prod")).await.expect("it is taken");
    rig.replace(admin(), Some("node"), vec![workload("a-3"), namespaced("b-1", "prod")])
        .await
        .expect("it is taken");
    let any = WorkloadFilter::default;
    let some = |text: &str| Some(text.to_owned());
    let selector = |text: &str| text.parse::<Selector>().expect("a selector");
    let prod = || Selector { namespace: some("prod"), ..Selector::default() };
    for (filter, expected) in [
        (any(), &["a-1", "a-2", "a-3", "b-1"][..]),
        (WorkloadFilter { creator: some("uid:1000"), ..any() }, &["a-1", "a-2"]),
        (WorkloadFilter { source: some("node"), ..any() }, &["a-3", "b-1"]),
        (WorkloadFilter { id_prefix: some("a-"), ..any() }, &["a-1", "a-2", "a-3"]),
        (WorkloadFilter { id_prefix: some("b"), ..any() }, &["b-1"]),
        (WorkloadFilter { id_prefix: some("c"), ..any() }, &[]),
        (WorkloadFilter { selector: prod(), ..any() }, &["a-2", "b-1"]),
        (WorkloadFilter { selector: selector("app in (a-1,b-1)"), ..any() }, &["a-1", "b-1"]),
        (WorkloadFilter { selector: prod(), id_prefix: some("a"), ..any() }, &["a-2"]),
    ] {
        assert_eq!(rig.listed(filter.clone()).await, expected, "{filter:?}");
        // The same one page at a time.
        let mut page = Page { size: 1, token: None };
        let mut found = Vec::new();
        loop {
            let request = ListWorkloads { filter: filter.clone(), page: page.clone() };
            let listed = rig.handle.list::<Workload>(request).await.expect("a page");
            found.extend(listed.entries.iter().map(|entry| entry.spec.id.id().to_owned()));
            page.token = listed.next;
            if page.token.is_none() {
                break;
            }
        }
        assert_eq!(found, expected, "{filter:?}");
    }
    let first = rig.workloads(Page { size: 1, token: None }).await.expect("a page");
    let filter = WorkloadFilter { id_prefix: some("a"), ..any() };
    let page = Page { size: 1, token: first.next };
    let other = rig.handle.list::<Workload>(ListWorkloads { filter, page }).await;
    assert_refused!(other, Refusal::PageToken);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn targets_select_by_conditions_and_namespace() {
    let dir = dir();
    let rig = Rig::at(&dir);
    let labels = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
    };
    for (id, namespace, pairs) in [
        ("a", "prod", &[("app", "redis"), ("tier", "db")][..]),
        ("b", "prod", &[("app", "redis")]),
        ("c", "test", &[("app", "web"), ("tier", "db")]),
    ] {
        let namespace = Some(namespace.to_owned());
        let spec = WorkloadSpec { namespace, labels: labels(pairs), ..workload(id) };
        rig.register(operator(), spec).await.expect("it is taken");
    }
    let selector = |text: &str| text.parse::<Selector>().expect("a selector");
    let in_prod = Selector { namespace: Some("prod".to_owned()), ..selector("tier") };
    for (labels, expected) in [
        (selector("app=redis,!tier"), &["/pods/b"][..]),
        (selector("app notin (web)"), &["/pods/a", "/pods/b"]),
        (selector("tier in (db,cache)"), &["/pods/a", "/pods/c"]),
        (in_prod, &["/pods/a"]),
    ] {
        let target = Target { labels, ..Target::default() };
        let selected = rig.handle.select(target.clone()).await.expect("found");
        let cgroups = expected.iter().map(|&path| HostTarget::Cgroup(path.to_owned()));
        assert_eq!(targets(&selected.aim), cgroups.collect::<Vec<_>>(), "{target}");
    }
    let none = Target { labels: selector("app=none"), ..Target::default() };
    assert_refused!(
        rig.handle.select(none).await,
        Refusal::TargetNotFound { message } if message.contains("label app=none")
    );
    rig.stop().await;
}

/// Changes after a number, in short form, and the number of the last one that was looked at.
async fn changes(rig: &Rig, filter: WorkloadFilter, after: u64) -> (Vec<String>, u64) {
    let read =
        rig.handle.changes_after::<Workload>(filter, after, 100).await.expect("they are known");
    let told = read.changes.iter().map(|(_, change, _)| match change {
        RecordChange::Present(workload) => format!("+{}", workload.spec.id.id()),
        RecordChange::Removed(id) => format!("-{}", id.id()),
        RecordChange::CaughtUp => unreachable!("no change"),
    });
    (told.collect(), read.seen)
}

#[tokio::test(start_paused = true)]
async fn changes_are_known_as_soon_as_they_are_stored() {
    let dir = dir();
    let rig = Rig::at(&dir);
    let any = WorkloadFilter::default;
    for id in ["a", "b", "c"] {
        rig.register(operator(), workload(id)).await.expect("it is taken");
    }
    let (told, seen) = changes(&rig, any(), 0).await;
    assert_eq!(told, ["+a", "+b", "+c"]);
    let begun = rig.handle.begin_watch::<Workload>(None).await;
    let mut last = begun.expect("there is no token").last;
    assert_eq!(*last.borrow_and_update(), seen);
    // A renewal is not a change.
    rig.register(operator(), workload("a")).await.expect("it is taken");
    assert!(!last.has_changed().expect("it continues"));
    // Watchers are not notified of a change that could not be stored.
    (rig.fail)(DiskFault { after: 0, takes_effect: false, errno: nix::libc::EIO });
    assert_refused!(rig.unregister(operator(), id("a")).await, Refusal::Unavailable { .. });
    assert!(!last.has_changed().expect("it continues"));
    assert!(!changes(&rig, any(), seen).await.0.contains(&"-a".to_owned()));
    rig.replace(operator(), None, vec![workload("b"), leased("d", 10)]).await.expect("taken");
    assert!(last.has_changed().expect("it continues"));
    let (mut told, _) = changes(&rig, any(), seen).await;
    told.sort_unstable();
    assert_eq!(told, ["+d", "-a", "-c"]);
    let (_, seen) = changes(&rig, any(), seen).await;
    sleep(11).await;
    assert_eq!(changes(&rig, any(), seen).await.0, ["-d"], "its lease has ended");
    // A watcher with a filter gets all other workloads as removed.
    let of_b = WorkloadFilter { id_prefix: Some("b".to_owned()), ..any() };
    let (told, _) = changes(&rig, of_b, 0).await;
    assert_eq!(told.iter().filter(|told| told.starts_with('+')).collect::<Vec<_>>(), ["+b"]);
    // Another run of the daemon has numbers of its own.
    let before = rig_token(&rig).await;
    rig.kill().await;
    let rig = Rig::at(&dir);
    assert_eq!(changes(&rig, any(), 0).await.0, ["+b"]);
    let resume = |token| rig.handle.begin_watch::<Workload>(Some(token));
    assert_refused!(resume(before).await, Refusal::ResumeToken);
    let own = rig_token(&rig).await;
    assert_eq!(resume(own).await.expect("it is of this run").after, Some(1));
    rig.stop().await;
}

async fn rig_token(rig: &Rig) -> String {
    let read = rig.handle.changes_after::<Workload>(WorkloadFilter::default(), 0, 1).await;
    read.expect("they are known").token
}
