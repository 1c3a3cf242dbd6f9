//! Tests of copies of a store, and of replacing it.

use super::*;
use crate::store::{Holds, OpenError, Repaired, compact, repair, restore};
use redb::{Database, ReadableTable, TableDefinition};
use std::{
    fs::{self, File},
    io,
    path::PathBuf,
};

const NAME: &str = "numalocd.redb";
const JOBS: TableDefinition<u64, &[u8]> = TableDefinition::new("jobs");

/// Makes a store with some records of each kind, and closes it. Returns its contents and its id.
fn fill(dir: &Path) -> (String, u64) {
    let (mut store, _) = Store::open(dir).unwrap();
    let jobs = (1..=20).map(|number| Write::Job(Arc::new(job(number, JobState::Succeeded))));
    store.commit(&jobs.collect::<Vec<_>>()).unwrap();
    let holds = Holds { drained: Some(at(9)), paused: None };
    let rest = [
        Write::Schedule(Arc::new(schedule(3))),
        Write::Workload(Arc::new(workload("w"))),
        write_event(7),
        write_event(8),
        Write::Holds(holds),
        write_job(21),
    ];
    store.commit(&rest).unwrap();
    store.commit(&[Write::DropJob(JobId::numbered(21))]).unwrap();
    drop(store);
    contents_of(dir)
}

/// The contents of a store, and its id.
fn contents_of(dir: &Path) -> (String, u64) {
    let (mut store, contents) = Store::open(dir).unwrap();
    (all(&mut store, &contents), store.id())
}

/// All files but the room in reserve.
fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| !name.ends_with(".spare"));
    names.sort();
    names
}

/// Writes a copy of the store into a file.
fn save(store: &mut Store, file: &Path) {
    let mut copy = store.snapshot().unwrap().copy().unwrap();
    io::copy(&mut copy, &mut File::create(file).unwrap()).unwrap();
}

#[test]
fn a_copy_is_of_one_moment() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (expected, _) = fill(one.path());
    let (mut store, _) = Store::open(one.path()).unwrap();
    let snapshot = store.snapshot().unwrap();
    for number in 100..160 {
        let forgotten = Write::DropJob(JobId::numbered(number - 99));
        store.commit(&[write_job(number), write_event(number), forgotten]).unwrap();
    }
    let mut copy = snapshot.copy().unwrap();
    let file = other.path().join("copy");
    io::copy(&mut copy, &mut File::create(&file).unwrap()).unwrap();
    assert_eq!(names(one.path()), [NAME]);
    restore(&other.path().join("state"), &file).unwrap();
    assert_eq!(contents_of(&other.path().join("state")).0, expected);
    // The store continues after the copy.
    store.commit(&[write_job(200)]).unwrap();
    save(&mut store, &file);
    drop(store);
    let (now, _) = contents_of(one.path());
    restore(&other.path().join("state"), &file).unwrap();
    assert_eq!(contents_of(&other.path().join("state")).0, now);
}

#[test]
fn what_was_there_before_a_restore_is_kept() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (expected, id) = fill(one.path());
    let (mut store, _) = Store::open(other.path()).unwrap();
    let before = store.id();
    store.commit(&[write_job(50)]).unwrap();
    let file = one.path().join(NAME);
    assert!(matches!(restore(other.path(), &file), Err(OpenError::InUse { .. })));
    drop(store);
    let replaced = restore(other.path(), &file).unwrap();
    assert_eq!(replaced.records, 24);
    assert_eq!(replaced.old, Some(other.path().join("numalocd.redb.old")));
    assert_eq!(names(other.path()), [NAME, "numalocd.redb.old"]);
    let (now, new) = contents_of(other.path());
    assert_eq!(now, expected);
    // The new id shows clients that the numbers which they remember of either store are of no use.
    assert!(new != before && new != id, "{new:x} {before:x} {id:x}");
    fs::rename(other.path().join("numalocd.redb.old"), other.path().join(NAME)).unwrap();
    assert_eq!(stored_jobs(other.path()), [50]);
    assert_eq!(Store::open(other.path()).unwrap().0.id(), before);
    // The backup is unchanged.
    assert_eq!(contents_of(one.path()), (expected, id));
}

#[test]
fn what_is_no_store_is_not_restored() {
    let dir = tempfile::tempdir().unwrap();
    let (expected, id) = fill(dir.path());
    let file = dir.path().join("backup");
    let whole = fs::read(dir.path().join(NAME)).unwrap();
    for bytes in [&b""[..], b"x", &[7; 9999], &whole[..whole.len() / 2]] {
        fs::write(&file, bytes).unwrap();
        let error = restore(dir.path(), &file).unwrap_err();
        assert!(error.to_string().contains(&*file.to_string_lossy()), "{error}");
        assert_eq!(names(dir.path()), ["backup", NAME]);
    }
    assert!(restore(dir.path(), &dir.path().join("none")).is_err());
    assert_eq!(contents_of(dir.path()), (expected, id));
}

#[test]
fn compaction_keeps_all_but_the_room() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path());
    let (mut store, _) = Store::open(dir.path()).unwrap();
    let large = |number| {
        let state_message = "m".repeat(20_000);
        Write::Job(Arc::new(Job { state_message, ..job(number, JobState::Queued) }))
    };
    store.commit(&(101..=600).map(large).collect::<Vec<_>>()).unwrap();
    // The remaining records are spread over the file, up to its end.
    let drops = (101..600).filter(|number| number % 100 != 0);
    let drops = drops.map(|number| Write::DropJob(JobId::numbered(number)));
    store.commit(&drops.collect::<Vec<_>>()).unwrap();
    assert!(matches!(compact(dir.path()), Err(OpenError::InUse { .. })));
    drop(store);
    let before = contents_of(dir.path());
    let replaced = compact(dir.path()).unwrap();
    assert!(2 * replaced.bytes[1] < replaced.bytes[0], "{:?}", replaced.bytes);
    assert_eq!((contents_of(dir.path()), names(dir.path())), (before, vec![NAME.to_owned()]));
    let none = tempfile::tempdir().unwrap();
    for dir in [none.path(), &none.path().join("no")] {
        assert!(compact(dir).is_err() && repair(dir).is_err());
    }
    assert_eq!(names(none.path()), [""; 0]);
}

/// Changes a byte of a stored job through the database. So the database's own pages stay valid, which damage on a disk
/// would not do.
fn spoil(dir: &Path, key: u64) {
    let db = Database::open(dir.join(NAME)).unwrap();
    let transaction = db.begin_write().unwrap();
    {
        let mut jobs = transaction.open_table(JOBS).unwrap();
        let mut value = jobs.get(key).unwrap().unwrap().value().to_vec();
        value[10] ^= 1;
        jobs.insert(key, &value[..]).unwrap();
    }
    transaction.commit().unwrap();
}

#[test]
fn one_bad_record_is_set_aside() {
    let dir = tempfile::tempdir().unwrap();
    let (_, id) = fill(dir.path());
    assert!(matches!(repair(dir.path()), Ok(Repaired::Whole)));
    assert_eq!(names(dir.path()), [NAME]);
    spoil(dir.path(), 7);
    spoil(dir.path(), 20);
    let damaged = fs::read(dir.path().join(NAME)).unwrap();
    let error = Store::open(dir.path()).unwrap_err().to_string();
    assert!(error.contains("jobs/7 does not match") && error.contains("--repair"), "{error}");
    let Repaired::Set { old, aside, file, records } = repair(dir.path()).unwrap() else {
        panic!("nothing was found")
    };
    let why = "does not match its checksum";
    assert_eq!(aside, [format!("jobs/7: {why}"), format!("jobs/20: {why}")]);
    assert_eq!(records, 22);
    assert!(fs::read(&old).unwrap() == damaged, "what was there is not kept as it was");
    let side = fs::read_to_string(&file).unwrap();
    assert_eq!(side.lines().count(), 2);
    assert!(side.starts_with(&format!("jobs/7\t{why}\t")), "{side}");
    let (store, contents) = Store::open(dir.path()).unwrap();
    assert_eq!(store.id(), id);
    let numbers: Vec<_> = contents.jobs.iter().filter_map(|kept| kept.job.id.number()).collect();
    assert_eq!(numbers, (1..=19).filter(|number| *number != 7).collect::<Vec<_>>());
    assert_eq!((contents.last.job, contents.events.len()), (21, 2));
    assert!(contents.holds.drained.is_some());
    drop(store);
    assert!(matches!(repair(dir.path()), Ok(Repaired::Whole)));
}

/// The disk flips bits: each job that is there after a repair is unchanged, and a refused repair changes nothing.
#[test]
fn flipped_bytes_are_repaired_or_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path: PathBuf = dir.path().join(NAME);
    fill(dir.path());
    let (mut store, contents) = Store::open(dir.path()).unwrap();
    let jobs: Vec<_> = contents.jobs.iter().map(|kept| kept.job.id.clone()).collect();
    let jobs: Vec<Job> = jobs.iter().map(|id| store.job(id).unwrap().unwrap()).collect();
    drop(store);
    let whole = fs::read(&path).unwrap();
    let used = |page: &usize| whole[page * 4096..][..4096].iter().any(|&byte| byte != 0);
    let pages: Vec<_> = (1..whole.len() / 4096).filter(used).collect();
    let mut random = fastrand::Rng::with_seed(17);
    let (mut repaired, mut refused) = (0, 0);
    for _ in 0..150 {
        let mut bytes = whole.clone();
        let at = pages[random.usize(..pages.len())] * 4096 + random.usize(..4096);
        bytes[at] ^= 1 << random.u8(..8);
        fs::write(&path, &bytes).unwrap();
        match repair(dir.path()) {
            Ok(Repaired::Whole) => {}
            Ok(Repaired::Set { .. }) => {
                repaired += 1;
                let (mut store, contents) = Store::open(dir.path()).unwrap();
                for kept in &contents.jobs {
                    let job = store.job(&kept.job.id).unwrap().unwrap();
                    assert!(jobs.contains(&job), "byte {at}: {job:?}");
                }
            }
            Err(error) => {
                refused += 1;
                assert!(fs::read(&path).unwrap() == bytes, "byte {at}: {error}, and a change");
            }
        }
    }
    println!("{repaired} repaired, {refused} refused, {} pages in use", pages.len());
    assert!(repaired > refused, "{repaired} repaired, {refused} refused");
}
