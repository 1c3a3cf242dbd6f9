//! A fake tree with the files that the kernel would make.

use super::*;
use crate::{fake::Fake, killed};
use numaloc_core::{Heat, Identity, Temperature, Temperatures};
use std::ops::Range;

const ALL: &str = "sys/kernel/mm/damon/admin/kdamonds";

/// The values that are written for one process with one region, in this order.
const SET_UP: [(&str, &str); 22] = [
    ("nr_kdamonds", "16"),
    ("0/contexts/nr_contexts", "1"),
    ("0/contexts/0/operations", "fvaddr"),
    ("0/contexts/0/monitoring_attrs/intervals/sample_us", "5000"),
    ("0/contexts/0/monitoring_attrs/intervals/aggr_us", "1100000"),
    ("0/contexts/0/monitoring_attrs/nr_regions/max", "1000"),
    ("0/contexts/0/monitoring_attrs/nr_regions/min", "3"),
    ("0/contexts/0/targets/nr_targets", "1"),
    ("0/contexts/0/targets/0/pid_target", "7"),
    ("0/contexts/0/targets/0/regions/nr_regions", "1"),
    ("0/contexts/0/targets/0/regions/0/start", "4096"),
    ("0/contexts/0/targets/0/regions/0/end", "12288"),
    ("0/contexts/0/schemes/nr_schemes", "1"),
    ("0/contexts/0/schemes/0/action", "stat"),
    ("0/contexts/0/schemes/0/access_pattern/sz/max", "18446744073709551615"),
    ("0/contexts/0/schemes/0/access_pattern/nr_accesses/max", "4294967295"),
    ("0/contexts/0/schemes/0/access_pattern/age/max", "4294967295"),
    ("0/contexts/0/schemes/0/access_pattern/nr_accesses/min", "1"),
    ("0/contexts/0/schemes/0/apply_interval_us", "100000"),
    ("0/contexts/0/schemes/0/filters/nr_filters", "1"),
    ("0/contexts/0/schemes/0/filters/0/type", "target"),
    ("0/contexts/0/schemes/0/filters/0/damon_target_idx", "0"),
];

/// A host with DAMON, unused.
fn host() -> Fake {
    let fake = Fake::new();
    for (path, _) in SET_UP {
        fake.write(&format!("{ALL}/{path}"), "0");
    }
    for slot in 0..SLOTS {
        fake.write(&format!("{ALL}/{slot}/state"), "off");
    }
    fake.write("run/numaloc/other", "");
    let tried = format!("{ALL}/0/contexts/0/schemes/0/tried_regions");
    fake.write(&format!("{tried}/total_bytes"), "8192");
    for (name, value) in [("start", "4096"), ("end", "8192"), ("nr_accesses", "3")] {
        fake.write(&format!("{tried}/11/{name}"), value);
    }
    fake
}

fn text(fake: &Fake, path: &str) -> String {
    fs::read_to_string(fake.path(&format!("{ALL}/{path}"))).unwrap_or_default()
}

fn watched() -> [WatchedMemory; 1] {
    [WatchedMemory {
        process: 1,
        pid: 7,
        regions: Vec::from_iter([Range { start: 4096, end: 12288 }]),
    }]
}

fn sights(fake: &Fake) -> Result<Sights, Error> {
    let mut seen = Sights::new(2);
    sample(&fake.roots(), &watched(), Intervals::BRIEF, &|| false, &mut seen).map(|()| seen)
}

fn sampled(fake: &Fake) -> Result<Heat, Error> {
    sights(fake).map(Sights::into_heat)
}

fn taken(fake: &Fake) -> DamonJournal {
    taken_slot(fake, 0)
}

fn taken_slot(fake: &Fake, slot: usize) -> DamonJournal {
    DamonJournal::take(&fake.roots(), &slots::name(slot)).expect("a file").expect("it is free")
}

fn noted(fake: &Fake) -> bool {
    slots::is_any_noted(&fake.roots())
}

fn assert_free(fake: &Fake) {
    assert_eq!(text(fake, "nr_kdamonds"), "0");
    assert!(!noted(fake));
    for slot in 0..SLOTS {
        drop(taken_slot(fake, slot));
    }
}

fn assert_no_damon<T: std::fmt::Debug>(result: Result<T, Error>, words: &str) {
    let error = result.expect_err("refused");
    assert!(matches!(&error, Error::NoDamon { reason } if reason.contains(words)), "{error}");
}

#[test]
fn what_is_seen_is_read_and_all_is_taken_down() {
    let fake = host();
    let heat = sampled(&fake).expect("sampled");
    assert_eq!(heat.mean(1, 4096..8192), 3.0);
    assert_eq!(heat.mean(0, 4096..8192), 0.0);
    assert_eq!(text(&fake, "0/state"), "off");
    assert_free(&fake);
    for (path, value) in &SET_UP[1..] {
        assert_eq!(text(&fake, path), *value, "{path}");
    }
    check(&fake.roots()).expect("free again");
}

/// The kernel lists what was used alone.
#[test]
fn what_is_watched_and_not_listed_is_cold() {
    let identities = [1, 7].map(|pid| Identity { pid, start_time: 7 });
    let seen = Temperatures::new(identities, sights(&host()).expect("sampled"));
    let of = |range| seen.of([(identities[1], range)]);
    assert_eq!(of(4096..8192), Temperature::Warm, "3 of 200 looks");
    assert_eq!(of(8192..12288), Temperature::Cold);
    assert_eq!(of(12288..16384), Temperature::Unseen);
    assert_eq!(seen.of([(identities[0], 8192..12288)]), Temperature::Unseen);
}

#[test]
fn a_kernel_whose_results_come_with_aggregations_alone_is_used() {
    let fake = host();
    let ready = fake.path(&format!("{ALL}/0/contexts/0/schemes/0/apply_interval_us"));
    fs::remove_file(&ready).expect("removed");
    assert_eq!(sampled(&fake).expect("sampled").mean(1, 4096..8192), 3.0);
    assert!(!ready.exists());
    assert_free(&fake);
}

#[test]
fn no_region_is_split_or_merged_to_a_longer_one() {
    let watched = |lengths: &[u64]| {
        let regions = lengths.iter().map(|length| 0..*length).collect();
        [WatchedMemory { process: 0, pid: 7, regions }]
    };
    // The kernel's limit of a region's length is the sum by this number.
    for (lengths, number) in [(&[4096; 500][..], 500), (&[8192, 4096, 4096, 8192, 4096], 3)] {
        let (sum, longest) = (lengths.iter().sum::<u64>(), lengths.iter().max());
        assert_eq!(regions_min(&watched(lengths)), number);
        assert!(Some(sum / number) >= longest.copied(), "{sum} by {number}");
    }
    assert_eq!([regions_min(&watched(&[4096])), regions_min(&[])], [3, 3]);
}

#[test]
fn a_failure_on_the_way_leaves_nothing_behind() {
    for (failing, (path, _)) in SET_UP.iter().enumerate().skip(1) {
        let fake = host();
        let file = fake.path(&format!("{ALL}/{path}"));
        fs::remove_file(&file).and_then(|()| fs::create_dir(&file)).expect("a directory");
        let error = sampled(&fake).expect_err("it cannot be written");
        assert!(matches!(&error, Error::Write { path, .. } if *path == file), "{error}");
        for (later, (path, _)) in SET_UP.iter().enumerate().skip(1) {
            let untouched = text(&fake, path) == if later == failing { "" } else { "0" };
            // File 21 holds the index of the first target, which is 0 before and after.
            assert!(
                untouched == (later >= failing) || later == 21,
                "{path} with {failing} failing"
            );
        }
        assert_free(&fake);
    }
}

#[test]
fn who_is_wanted_no_more_ends_at_once() {
    let fake = host();
    let mut seen = Sights::new(2);
    sample(&fake.roots(), &watched(), Intervals::BRIEF, &|| true, &mut seen).expect("nothing done");
    assert_eq!(text(&fake, "0/contexts/nr_contexts"), "0");
    assert_eq!(seen, Sights::new(2));
    assert_free(&fake);
}

#[test]
fn what_others_have_set_up_stays() {
    let fake = host();
    fake.write(&format!("{ALL}/nr_kdamonds"), "1");
    fake.write(&format!("{ALL}/0/contexts/0/targets/0/pid_target"), "8");
    assert_no_damon(check(&fake.roots()), "another program");
    assert_no_damon(sampled(&fake), "another program");
    taken(&fake).note(&vec![7, 9]).expect("written");
    assert_no_damon(check(&fake.roots()), "another program");
    assert_no_damon(sampled(&fake), "another program");
    assert!(!recover(&fake.roots()).expect("looked"));
    assert_eq!(text(&fake, "nr_kdamonds"), "1");
}

#[test]
fn what_a_killed_run_left_is_known_again() {
    let fake = host();
    fake.write(&format!("{ALL}/nr_kdamonds"), "1");
    fake.write(&format!("{ALL}/0/state"), "on");
    fake.write(&format!("{ALL}/0/contexts/0/targets/0/pid_target"), "9");
    taken(&fake).note(&vec![7, 9]).expect("written");
    check(&fake.roots()).expect("it is ours");
    assert!(recover(&fake.roots()).expect("taken down"));
    assert_eq!(text(&fake, "0/state"), "off");
    assert_free(&fake);
    assert!(!recover(&fake.roots()).expect("nothing left"));
}

#[test]
fn a_run_that_is_killed_at_any_point_leaves_nothing() {
    let points = killed::leaves_nothing(
        host,
        |fake| (text(fake, "nr_kdamonds"), text(fake, "0/state"), noted(fake)),
        |fake| {
            // Waits for nothing once it has been set up.
            let stop = || text(fake, "0/state") == "on";
            let mut seen = Sights::new(2);
            let _ = sample(&fake.roots(), &watched(), Intervals::BRIEF, &stop, &mut seen);
        },
        |fake| drop(recover(&fake.roots())),
    );
    // The files of the setup, matching and state, what takes it down, and the notes before and after.
    assert_eq!(points, SET_UP.len() + 2 + 2 + 2);
}

/// Makes the files of one more slot.
fn with_slot(fake: &Fake, slot: usize) {
    for (path, _) in &SET_UP[1..] {
        fake.write(&format!("{ALL}/{slot}{}", &path[1..]), "0");
    }
}

/// As another run has set up a slot.
fn other(fake: &Fake, slot: usize, pid: i32) -> DamonJournal {
    let mut journal = taken_slot(fake, slot);
    journal.note(&vec![pid]).expect("written");
    fake.write(&format!("{ALL}/nr_kdamonds"), "2");
    fake.write(&format!("{ALL}/{slot}/contexts/0/targets/0/pid_target"), &pid.to_string());
    fake.write(&format!("{ALL}/{slot}/state"), "on");
    journal
}

#[test]
fn runs_watch_at_the_same_time_and_the_last_one_takes_all_down() {
    let fake = host();
    with_slot(&fake, 1);
    let roots = fake.roots();
    let mut first = other(&fake, 0, 9);
    check(&roots).expect("it is shared");
    assert!(!recover(&roots).expect("it is not a leftover"));
    let session = || begin(&roots, &watched(), Intervals::BRIEF, &|| false).expect("begins");
    let second = session().expect("not stopped");
    assert_eq!((second.slot, text(&fake, "1/state")), (1, "on".into()));
    assert_eq!(text(&fake, "1/contexts/0/targets/0/pid_target"), "7");
    assert_eq!(slots::setup(&roots).expect("looked"), Setup::Ours);
    second.end().expect("taken down");
    // The kernel removes what is in a slot without contexts.
    fake.write(&format!("{ALL}/1/contexts/0/targets/0/pid_target"), "0");
    // The first one is as it was.
    assert_eq!(
        (text(&fake, "1/state"), text(&fake, "1/contexts/nr_contexts")),
        ("off".into(), "0".into())
    );
    assert_eq!((text(&fake, "nr_kdamonds"), text(&fake, "0/state")), ("2".into(), "on".into()));
    let second = session().expect("not stopped");
    fake.write(&format!("{ALL}/0/state"), "off");
    first.forget().expect("written");
    fake.write(&format!("{ALL}/0/contexts/0/targets/0/pid_target"), "0");
    drop((first, second));
    assert_free(&fake);
}

#[test]
fn what_a_killed_run_left_goes_while_another_one_watches() {
    let fake = host();
    with_slot(&fake, 1);
    drop(other(&fake, 0, 9));
    let mut second = other(&fake, 1, 8);
    assert!(recover(&fake.roots()).expect("taken down"));
    assert_eq!(
        (text(&fake, "0/state"), text(&fake, "0/contexts/nr_contexts")),
        ("off".into(), "0".into())
    );
    assert_eq!((text(&fake, "nr_kdamonds"), text(&fake, "1/state")), ("2".into(), "on".into()));
    assert_eq!(DamonJournal::peek(&fake.roots(), &slots::name(0)), None);
    second.forget().expect("written");
}

#[test]
fn a_kernel_thread_is_waited_for_while_other_runs_have_all() {
    let fake = host();
    let roots = fake.roots();
    let mut first = other(&fake, 0, 9);
    fake.write(&format!("{ALL}/nr_kdamonds"), "1");
    let asked = std::cell::Cell::new(0);
    let stop = || asked.replace(asked.get() + 1) > 4;
    let mut seen = Sights::new(2);
    sample(&roots, &watched(), Intervals::BRIEF, &stop, &mut seen)
        .expect("stopped while it waited");
    assert_eq!((text(&fake, "nr_kdamonds"), text(&fake, "0/state")), ("1".into(), "on".into()));
    first.forget().expect("written");
}

#[test]
fn the_error_names_why_it_cannot_be_used() {
    assert_no_damon(check(&Fake::new().roots()), "CONFIG_DAMON_SYSFS");
    let fake = host();
    fake.write("sys/module/damon_stat/parameters/enabled", "Y\n");
    assert_no_damon(check(&fake.roots()), "damon_stat uses it");
    assert_no_damon(sampled(&fake), "damon_stat uses it");
    fake.write("sys/module/damon_stat/parameters/enabled", "N\n");
    check(&fake.roots()).expect("free");
}

#[test]
fn no_link_is_followed_to_a_foreign_file() {
    let fake = host();
    fake.write("run/passwords", "root");
    std::os::unix::fs::symlink(fake.path("run/passwords"), fake.path("run/numaloc/damon"))
        .expect("a link");
    assert!(matches!(sampled(&fake), Err(Error::Write { .. })));
    assert_eq!(fs::read_to_string(fake.path("run/passwords")).expect("a file"), "root");
}
