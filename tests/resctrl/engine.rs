//! What runs in the group.

use crate::{on, settings};
use nix::unistd::gettid;
use numaloc_core::Profile;
use numaloc_engine::MoverGroup;
use numaloc_tests::resctrl::Machine;
use std::{fs, panic};

#[test]
fn work_is_done_in_the_group_by_a_thread_that_ends_with_it() {
    on(Machine::intel(), |host| {
        let (group, why) = MoverGroup::begin(&host.roots(), Some(&settings(Some("20"), None)));
        assert_eq!(why, None);
        for profile in [Profile::Balanced, Profile::Fast] {
            let tid = group.run(profile, || {
                let tid = gettid().as_raw();
                assert_eq!(host.read("numaloc/tasks"), format!("{tid}\n"));
                tid
            });
            assert_ne!(tid, gettid().as_raw());
            assert_eq!(host.read("numaloc/tasks"), "");
        }
        host.fs.forget();
        assert_eq!(group.run(Profile::Gentle, gettid), gettid(), "gentle never uses it");
        assert_eq!(MoverGroup::Disabled.run(Profile::Fast, gettid), gettid());
        assert_eq!(host.fs.entered("numaloc"), [0; 0]);
        let panics = panic::catch_unwind(panic::AssertUnwindSafe(|| {
            group.run(Profile::Fast, || panic!("a defect"))
        }));
        assert!(panics.is_err(), "the caller gets the panic");
        group.end();
        assert_eq!(host.state(), (Vec::new(), false));
    });
}

#[test]
fn memory_is_moved_without_a_group_that_cannot_be_had() {
    on(Machine::intel(), |host| {
        let (group, why) = MoverGroup::begin(&host.roots(), Some(&settings(Some("25"), None)));
        let why = why.expect("25 is no step");
        assert!(why.starts_with("memory is moved without the resctrl group: "), "{why}");
        assert_eq!(group.run(Profile::Fast, || 7), 7);
        let (group, why) = MoverGroup::begin(&host.roots(), Some(&settings(Some("20"), None)));
        assert_eq!(why, None);
        // An operator removes it meanwhile.
        fs::remove_dir(host.root().join("numaloc")).expect("a group");
        assert_eq!(group.run(Profile::Fast, || 7), 7);
        let (none, why) = MoverGroup::begin(&host.roots(), None);
        assert!(matches!(none, MoverGroup::Disabled) && why.is_none());
        group.end();
        assert_eq!(host.state(), (Vec::new(), false));
    });
}
