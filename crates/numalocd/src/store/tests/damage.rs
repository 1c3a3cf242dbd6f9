//! Tests of changed bytes: the store opens with its original contents, or is refused.

use super::*;
use std::{fs, path::PathBuf};

/// The bytes and contents of a store of some size. `clean`: it was closed properly; otherwise it is as a killed daemon
/// leaves it.
fn sample(dir: &Path, clean: bool) -> (Vec<u8>, String) {
    let (mut store, _) = Store::open(dir).unwrap();
    for round in 0..6 {
        let jobs = (round * 4..round * 4 + 4).map(|n| job(n + 1, JobState::Succeeded));
        let jobs = jobs.map(|job| Write::Job(Arc::new(job)));
        store.commit(&jobs.chain([write_event(round + 1)]).collect::<Vec<_>>()).unwrap();
    }
    store.commit(&[Write::DropJob(JobId::numbered(1)), write_event(99)]).unwrap();
    let path = dir.join("numalocd.redb");
    let unclean = fs::read(&path).unwrap();
    drop(store);
    let bytes = if clean { fs::read(&path).unwrap() } else { unclean };
    let (mut store, contents) = Store::open(dir).unwrap();
    (bytes, all(&mut store, &contents))
}

/// A directory where syncing costs nothing, if there is one.
fn fast_dir() -> tempfile::TempDir {
    let shm = PathBuf::from("/dev/shm");
    if shm.is_dir() { tempfile::tempdir_in(shm) } else { tempfile::tempdir() }.unwrap()
}

fn flip(clean: bool) {
    let dir = fast_dir();
    let path = dir.path().join("numalocd.redb");
    let (whole, expected) = sample(dir.path(), clean);
    let used = |page: &usize| whole[page * 4096..][..4096].iter().any(|&byte| byte != 0);
    let pages: Vec<_> = (0..whole.len() / 4096).filter(used).collect();
    // Every byte of the header, then places all over the pages that are in use.
    let header = (0..320).flat_map(|at| [(at, 1 << (at % 8)), (at, 0xff)]);
    let flags = (0..8).map(|bit| (9, 1 << bit));
    let mut random = fastrand::Rng::with_seed(4711);
    let places = (0..900).map(|_| {
        let page = pages[random.usize(..pages.len())];
        // The beginning of a page is hit more often, because its structure is described there.
        let within = if random.bool() { random.usize(..64) } else { random.usize(..4096) };
        (page * 4096 + within, 1 << random.u8(..8))
    });
    let (mut refused, mut opened) = (0, 0);
    for (at, bits) in header.chain(flags).chain(places) {
        let mut bytes = whole.clone();
        bytes[at] ^= bits;
        fs::write(&path, &bytes).unwrap();
        match Store::open(dir.path()) {
            Ok((mut store, contents)) => {
                opened += 1;
                assert_eq!(all(&mut store, &contents), expected, "byte {at}, bits {bits}");
            }
            Err(error) => {
                refused += 1;
                assert!(fs::read(&path).unwrap() == bytes, "byte {at}: {error}, and a change");
                assert!(error.to_string().contains("nothing was changed"), "byte {at}: {error}");
            }
        }
    }
    println!("{refused} refused, {opened} opened, {} pages in use", pages.len());
    assert!(refused > 100 && opened > 100, "{refused} refused, {opened} opened");
}

#[test]
fn flipped_bytes_after_an_orderly_end() {
    flip(true);
}

#[test]
fn flipped_bytes_after_a_sudden_end() {
    flip(false);
}
