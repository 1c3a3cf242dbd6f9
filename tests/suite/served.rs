//! Files whose pages a server or another program fills: a call that moves them may wait for it.

use crate::{
    app::{App, Layout},
    engine::{inspect, migrate},
    place::{away, home},
    scene::assert_complete,
    settings::Setting,
    truth::Truth,
};
use nix::mount::{MntFlags, umount2};
use numaloc_core::{Options, Reason};
use numaloc_host::Target;
use numaloc_tests::fuse::{self, OneFile};
use std::{fs, path::Path};

const SIZE: u64 = 4096;
const AT: &str = "/run/served";

fn on(app: &App) -> numaloc_tests::truth::Nodes {
    Truth::of(app.pid()).region(app.range("file"))
}

#[test]
fn files_of_a_server_stay_unless_they_are_asked_for() {
    let _balancing = Setting::numa_balancing(false);
    fs::create_dir_all(AT).expect("a directory");
    fuse::serve(OneFile(|| Ok("x".repeat(SIZE as usize))), Path::new(AT));
    let app = Layout::remote(&["anon:4M", &format!("file:{AT}/file:4K:read")]);
    let app = app.load("idle").start("served");
    assert_eq!(on(&app), [(away(), SIZE)].into(), "the scene");
    let start = app.range("file").start;

    let plan = inspect(&[Target::Pid(app.pid())], &Options::default()).plan;
    let left = plan.skipped.iter().find(|skip| skip.mapping.start == start).expect("it is left");
    assert_eq!((left.kind, left.reason), (numaloc_core::Kind::NetworkFile, Reason::NetworkFile));
    let outcome = migrate(&[Target::Pid(app.pid())], &Options::default());
    assert_eq!(on(&app), [(away(), SIZE)].into(), "{outcome:?}");
    assert_eq!(outcome.account().left_for(Reason::NetworkFile), SIZE, "{outcome:?}");
    assert_complete(&outcome);

    let options = Options { include_network: true, ..Options::default() };
    let outcome = migrate(&[Target::Pid(app.pid())], &options);
    assert_eq!(on(&app), [(home(), SIZE)].into(), "{outcome:?}");
    drop(app);
    umount2(AT, MntFlags::MNT_DETACH).expect("it is mounted");
}
