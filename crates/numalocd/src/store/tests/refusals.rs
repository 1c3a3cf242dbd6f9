//! A file that is not a store is refused with advice on what to do, and stays unchanged.

use super::*;
use crate::store::OpenError;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use std::{fs, os::unix::fs::PermissionsExt};

const NAME: &str = "numalocd.redb";

/// Opens a directory whose file must be refused, and checks that nothing has changed.
fn refused(dir: &Path) -> OpenError {
    let before = fs::read(dir.join(NAME)).unwrap();
    let error = Store::open(dir).unwrap_err();
    assert!(fs::read(dir.join(NAME)).unwrap() == before, "the file was changed");
    let text = error.to_string();
    assert!(text.contains(&*dir.join(NAME).to_string_lossy()), "{text}");
    assert!(text.contains("nothing was changed") && text.contains("ove it away to"), "{text}");
    error
}

/// The bytes of a store with a few records.
fn sample(dir: &Path) -> Vec<u8> {
    let (mut store, _) = Store::open(dir).unwrap();
    store.commit(&[write_job(1), write_event(1), write_event(2)]).unwrap();
    store.commit(&[write_job(2), Write::Schedule(Arc::new(schedule(1)))]).unwrap();
    drop(store);
    fs::read(dir.join(NAME)).unwrap()
}

#[test]
fn other_files() {
    let dir = tempfile::tempdir().unwrap();
    for bytes in [&b""[..], b"x", b"redb", b"redb\x1a\x0a\xa9\x0d\x0a", &[7; 9999], &[0; 4096]] {
        fs::write(dir.path().join(NAME), bytes).unwrap();
        let error = refused(dir.path());
        let known = matches!(error, OpenError::Foreign { .. } | OpenError::Damaged { .. });
        assert!(known, "{error:?}");
    }
}

#[test]
fn databases_of_others() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(NAME);
    drop(Database::create(&path).unwrap());
    assert!(matches!(refused(dir.path()), OpenError::Foreign { .. }));
    fs::remove_file(&path).unwrap();
    let db = Database::create(&path).unwrap();
    let transaction = db.begin_write().unwrap();
    transaction.open_table(TableDefinition::<u64, u64>::new("meta")).unwrap();
    transaction.commit().unwrap();
    drop(db);
    assert!(matches!(refused(dir.path()), OpenError::Foreign { .. }));
}

#[test]
fn a_later_version() {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path());
    let db = Database::open(dir.path().join(NAME)).unwrap();
    let transaction = db.begin_write().unwrap();
    let meta = TableDefinition::<&str, u64>::new("meta");
    transaction.open_table(meta).unwrap().insert("schema", 3).unwrap();
    transaction.commit().unwrap();
    drop(db);
    let error = refused(dir.path());
    assert!(matches!(error, OpenError::Version { found: 3, known: 2, .. }), "{error:?}");
}

#[test]
fn truncated_files() {
    let dir = tempfile::tempdir().unwrap();
    let whole = sample(dir.path());
    let steps = (1..whole.len()).step_by(40_961).chain([9, 64, 320, 4096, whole.len() - 4096]);
    for len in steps.chain([whole.len() - 1]) {
        fs::write(dir.path().join(NAME), &whole[..len]).unwrap();
        refused(dir.path());
    }
    let longer = [&whole[..], b"\0"].concat();
    fs::write(dir.path().join(NAME), longer).unwrap();
    refused(dir.path());
}

#[test]
fn in_use() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = Store::open(dir.path()).unwrap();
    let error = Store::open(dir.path()).unwrap_err();
    assert!(matches!(error, OpenError::InUse { .. }), "{error:?}");
    store.commit(&[write_job(1)]).unwrap();
    drop(store);
    assert_eq!(stored_jobs(dir.path()), [1]);
}

#[test]
fn not_a_file() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join(NAME)).unwrap();
    let error = Store::open(dir.path()).unwrap_err();
    assert!(matches!(error, OpenError::Foreign { .. }), "{error:?}");
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let error = Store::open(&file).unwrap_err();
    assert!(matches!(error, OpenError::Io { .. }), "{error:?}");
}

#[test]
fn only_the_owner_may() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("state");
    drop(Store::open(&dir).unwrap());
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    let entries = fs::read_dir(&dir).unwrap().map(|entry| mode(&entry.unwrap().path()));
    assert_eq!((mode(&dir), entries.collect::<Vec<_>>()), (0o700, vec![0o600; 2]));
}

/// The unfinished file of a daemon that died at its first start is not an obstacle.
#[test]
fn an_unfinished_store_is_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("numalocd.redb.new"), "half").unwrap();
    let (mut store, _) = Store::open(dir.path()).unwrap();
    store.commit(&[write_job(1)]).unwrap();
    drop(store);
    assert_eq!(stored_jobs(dir.path()), [1]);
}

/// Replaces the record of a schedule by one with these bytes behind its own, as a later version would have written it.
fn append(dir: &Path, more: &[u8]) {
    let db = Database::open(dir.join(NAME)).unwrap();
    let transaction = db.begin_write().unwrap();
    {
        let table = TableDefinition::<u64, &[u8]>::new("schedules");
        let mut schedules = transaction.open_table(table).unwrap();
        let before = schedules.get(1).unwrap().unwrap().value()[4..].to_vec();
        let record = [&before[..], more].concat();
        let mut hasher = crc32fast::Hasher::new();
        for part in [&b"schedules"[..], &1_u64.to_le_bytes(), &record] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        let sum = hasher.finalize().to_le_bytes();
        schedules.insert(1, &[&sum[..], &record].concat()[..]).unwrap();
    }
    transaction.commit().unwrap();
}

#[test]
fn records_of_a_later_version() {
    // Field 4000, and a state that there is not.
    for more in [&[0x80, 0xfa, 0x01, 0x07][..], &[0x38, 0x4d]] {
        let dir = tempfile::tempdir().unwrap();
        sample(dir.path());
        append(dir.path(), &[]);
        drop(Store::open(dir.path()).expect("the record is as it was"));
        append(dir.path(), more);
        let error = refused(dir.path());
        let own = format!("numalocd {}", env!("CARGO_PKG_VERSION"));
        assert!(matches!(&error, OpenError::Newer { by, .. } if *by == own), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("Install that version") && !text.contains("damaged"), "{text}");
    }
}

/// 0.1.0 opens version 1 alone.
#[test]
fn the_version_rises_with_what_the_first_release_would_do_otherwise() {
    let version = |dir: &Path| {
        let db = Database::open(dir.join(NAME)).unwrap();
        let meta = TableDefinition::<&str, u64>::new("meta");
        let meta = db.begin_read().unwrap().open_table(meta).unwrap();
        meta.get("schema").unwrap().unwrap().value()
    };
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path());
    assert_eq!(version(dir.path()), 1);
    let mut newer = schedule(2);
    newer.spec.migration.policy.options.include_network = true;
    let (mut store, _) = Store::open(dir.path()).unwrap();
    store.commit(&[Write::Schedule(Arc::new(newer))]).unwrap();
    drop(store);
    assert_eq!(version(dir.path()), 2);
    let (mut store, contents) = Store::open(dir.path()).expect("it is known here");
    assert_eq!(contents.schedules.len(), 2);
    store.commit(&[write_job(3)]).unwrap();
    drop(store);
    assert_eq!(version(dir.path()), 2, "it never falls");
}
