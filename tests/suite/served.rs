//! Files whose pages a server or another program fills: a call that moves them may wait for it.

use crate::{
    app::{App, Layout},
    engine::{inspect, migrate},
    fuse::{self, Files, Kind},
    scene::assert_complete,
    settings::Setting,
    truth::Truth,
};
use nix::{
    libc::EACCES,
    mount::{MntFlags, umount2},
};
use numaloc_core::{Options, Reason};
use numaloc_host::Target;
use std::{fs, io, path::Path};

const SIZE: u64 = 4096;
const AT: &str = "/run/served";

/// A file system with one file of a page.
struct OneFile;

impl Files for OneFile {
    fn kind(&self, path: &str) -> Option<Kind> {
        match path {
            "" => Some(Kind::Directory),
            "file" => Some(Kind::File),
            _ => None,
        }
    }
    fn names(&self, _: &str) -> Vec<String> {
        vec!["file".to_owned()]
    }
    fn read(&self, _: &str) -> io::Result<String> {
        Ok("x".repeat(SIZE as usize))
    }
    fn write(&self, _: &str, _: &str) -> io::Result<()> {
        Err(io::Error::from_raw_os_error(EACCES))
    }
    fn target(&self, _: &str) -> io::Result<String> {
        Err(io::Error::from_raw_os_error(EACCES))
    }
    fn is_cached(&self) -> bool {
        true
    }
}

fn on(app: &App) -> numaloc_tests::truth::Nodes {
    Truth::of(app.pid()).region(app.range("file"))
}

#[test]
fn files_of_a_server_stay_unless_they_are_asked_for() {
    let _balancing = Setting::numa_balancing(false);
    fs::create_dir_all(AT).expect("a directory");
    fuse::serve(OneFile, Path::new(AT));
    let app = Layout::remote(&["anon:4M", &format!("file:{AT}/file:4K:read")]);
    let app = app.load("idle").start("served");
    assert_eq!(on(&app), [(1, SIZE)].into(), "the scene");
    let start = app.range("file").start;

    let plan = inspect(&[Target::Pid(app.pid())], &Options::default()).plan;
    let left = plan.skipped.iter().find(|skip| skip.mapping.start == start).expect("it is left");
    assert_eq!((left.kind, left.reason), (numaloc_core::Kind::NetworkFile, Reason::NetworkFile));
    let outcome = migrate(&[Target::Pid(app.pid())], &Options::default());
    assert_eq!(on(&app), [(1, SIZE)].into(), "{outcome:?}");
    assert_eq!(outcome.account().left_for(Reason::NetworkFile), SIZE, "{outcome:?}");
    assert_complete(&outcome);

    let options = Options { include_network: true, ..Options::default() };
    let outcome = migrate(&[Target::Pid(app.pid())], &options);
    assert_eq!(on(&app), [(0, SIZE)].into(), "{outcome:?}");
    drop(app);
    umount2(AT, MntFlags::MNT_DETACH).expect("it is mounted");
}
