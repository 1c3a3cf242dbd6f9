//! Tests on real file systems that are small or read-only.

use super::*;
use crate::store::{OpenError, StoreError};
use std::{fs, path::PathBuf, process::Command};

fn run(program: &str, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).status().unwrap();
    assert!(status.success(), "{program} {arguments:?}: {status}");
}

/// Runs `test` in a thread with its own mounts, on a tmpfs with these options. Thread and mounts end together.
fn on_tmpfs(options: &str, test: impl FnOnce(&Path) + Send + 'static) {
    let options = options.to_owned();
    let thread = std::thread::spawn(move || {
        if let Err(error) = nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS) {
            assert_eq!(error, nix::errno::Errno::EPERM);
            numaloc_sys::fixture::skipped("mounts of one's own need root with CAP_SYS_ADMIN");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        run("mount", &["--make-rprivate", "/"]);
        let path = dir.path().to_str().unwrap();
        run("mount", &["-t", "tmpfs", "-o", &options, "tmpfs", path]);
        test(dir.path());
        run("umount", &["-l", path]);
    });
    thread.join().unwrap();
}

/// Fills the free room of a file system.
fn fill(dir: &Path) -> PathBuf {
    let path = dir.join("ballast");
    for size in [1 << 16, 4096, 1] {
        use std::io::Write;
        let mut file = fs::OpenOptions::new().append(true).create(true).open(&path).unwrap();
        while file.write_all(&vec![1; size]).is_ok() {}
    }
    path
}

/// Commits jobs from the number `first` on until the disk is full. Returns the number of the job that did not fit.
fn commit_until_full(store: &mut Store, first: u64) -> u64 {
    for number in first..100_000 {
        match store.commit(&[write_job(number)]) {
            Ok(()) => {}
            Err(StoreError::Full { .. }) => return number,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("it is never full");
}

#[test]
fn a_full_disk() {
    on_tmpfs("size=1m", |root| {
        let dir = root.join("state");
        let (mut store, _) = Store::open(&dir).unwrap();
        store.commit(&[write_job(1)]).unwrap();
        let ballast = fill(root);
        let full = commit_until_full(&mut store, 2);
        for _ in 0..3 {
            let error = store.commit(&[write_job(full)]).unwrap_err();
            assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
            assert_eq!(
                store.job(&JobId::numbered(full - 1)).unwrap().unwrap().id.number(),
                Some(full - 1)
            );
            assert_eq!(store.job(&JobId::numbered(full)).unwrap(), None);
        }
        fs::remove_file(&ballast).unwrap();
        store.commit(&[write_job(full)]).unwrap();
        // Now the store itself fills the file system.
        let end = commit_until_full(&mut store, full + 1);
        drop(store);
        assert_eq!(stored_jobs(&dir), (1..end).collect::<Vec<_>>());
        // A store on a full file system can be opened and emptied.
        let (mut store, _) = Store::open(&dir).unwrap();
        store
            .commit(&(1..end).map(|n| Write::DropJob(JobId::numbered(n))).collect::<Vec<_>>())
            .unwrap();
        store.commit(&[write_job(end)]).unwrap();
        drop(store);
        assert_eq!(stored_jobs(&dir), [end]);
        println!("{full} jobs beside the ballast, {end} in 1 MiB");
    });
}

#[test]
fn no_room_to_begin_with() {
    on_tmpfs("size=64k", |root| {
        let ballast = fill(root);
        let error = Store::open(root).unwrap_err();
        assert!(matches!(error, OpenError::Full { .. }), "{error:?}");
        fs::remove_file(ballast).unwrap();
        assert_eq!(fs::read_dir(root).unwrap().count(), 0);
        drop(Store::open(root).unwrap());
    });
}

#[test]
fn read_only() {
    on_tmpfs("size=4m", |root| {
        let dir = root.join("state");
        let (mut store, _) = Store::open(&dir).unwrap();
        store.commit(&[write_job(1)]).unwrap();
        drop(store);
        run("mount", &["-o", "remount,ro", root.to_str().unwrap()]);
        for dir in [&dir, &root.join("new"), root] {
            let error = Store::open(dir).unwrap_err();
            assert!(matches!(error, OpenError::Denied { .. }), "{error:?}");
        }
        run("mount", &["-o", "remount,rw", root.to_str().unwrap()]);
        assert_eq!(stored_jobs(&dir), [1]);
    });
}

/// Removed records leave the file, and the others stay as they were; not during a read.
#[test]
fn a_file_shrinks_when_its_records_are_gone() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = Store::open(dir.path()).unwrap();
    for first in (1..20_000).step_by(1000) {
        let jobs: Vec<Write> = (first..first + 1000).map(write_job).collect();
        store.commit(&jobs).unwrap();
    }
    let large = store.bytes();
    for first in (1..20_000).step_by(1000) {
        let gone = (first.max(11)..first + 1000).map(JobId::numbered).map(Write::DropJob);
        store.commit(&gone.collect::<Vec<_>>()).unwrap();
    }
    assert!(store.bytes() > large / 2, "the database gives back room by itself: {}", store.bytes());
    let reader = store.reader().unwrap();
    assert!(!store.shrink().unwrap(), "it shrinks below a reader");
    drop(reader);
    assert!(store.shrink().unwrap());
    assert!(store.bytes() < large / 8, "{} of {large}", store.bytes());
    store.commit(&[write_job(30_000)]).unwrap();
    drop(store);
    assert_eq!(stored_jobs(dir.path()), (1..=10).chain([30_000]).collect::<Vec<u64>>());
}
