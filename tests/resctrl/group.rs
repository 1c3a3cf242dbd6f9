//! The group: made, entered, and removed after a kill as well.

use crate::{Host, on, settings, write};
use nix::unistd::gettid;
use numaloc_host::{
    killed,
    resctrl::{self, ControlGroup, GroupError},
};
use numaloc_tests::resctrl::{Machine, in_private_mounts};
use std::{
    env, fs,
    io::{BufRead, BufReader},
    process::{Command, Stdio},
    thread,
};

fn make(
    host: &Host,
    bandwidth: Option<&str>,
    l3: Option<&str>,
) -> Result<ControlGroup, GroupError> {
    ControlGroup::make(&host.roots(), &settings(bandwidth, l3))
}

fn nothing() -> (Vec<String>, bool) {
    (Vec::new(), false)
}

#[test]
fn each_host_gets_the_values_in_its_own_format() {
    for (machine, bandwidth, l3, schemata, shown) in [
        (
            Machine::intel(),
            "20",
            "f",
            "    L3:0=f;1=f\n    MB:0=20;1=20\n",
            "MB:0=20;1=20 (percent), L3:0=f;1=f",
        ),
        (
            Machine::intel(),
            "1=50",
            "0=3",
            "    L3:0=3;1=7ff\n    MB:0=100;1=50\n",
            "MB:0=100;1=50 (percent), L3:0=3;1=7ff",
        ),
        (
            Machine::amd(),
            "0=16;17=2048",
            "8=a5",
            "    L3:0=ffff;1=ffff;8=a5;17=ffff\n    MB:0=16;1=2048;8=2048;17=2048\n",
            "MB:0=16;1=2048;8=2048;17=2048 (eighths of GB/s), L3:0=ffff;1=ffff;8=a5;17=ffff",
        ),
        (
            Machine::mebibytes(),
            "2500",
            "f0",
            "    L3:0=f0;1=f0\n    MB:0=2500;1=2500\n",
            "MB:0=2500;1=2500 (MiB/s), L3:0=f0;1=f0",
        ),
        (
            Machine::cdp(),
            "10",
            "3",
            "    L3CODE:0=3;1=3\n    L3DATA:0=3;1=3\n        MB:0=10;1=10\n",
            "MB:0=10;1=10 (percent), L3CODE:0=3;1=3, L3DATA:0=3;1=3",
        ),
    ] {
        on(machine, move |host| {
            let before = host.fs.schemata("");
            let group = make(host, Some(bandwidth), Some(l3)).expect("it has both");
            assert_eq!(host.fs.schemata("numaloc"), schemata);
            assert_eq!(group.settings().join(", "), shown);
            assert_eq!(host.fs.schemata(""), before, "the root group stays");
            assert_eq!(host.state(), (vec!["numaloc".to_owned()], true));
            drop(group);
            assert_eq!(host.state(), nothing());
        });
    }
}

#[test]
fn a_group_without_limits_keeps_what_the_kernel_sets() {
    on(Machine::intel(), |host| {
        let group = make(host, None, None).expect("it can be made");
        assert_eq!(host.fs.schemata("numaloc"), host.fs.schemata(""));
        group.remove().expect("it can be removed");
        assert_eq!(host.state(), nothing());
        group.remove().expect("it is removed already");
    });
}

#[test]
fn what_this_host_does_not_take_is_refused_before_it_is_written() {
    let cases = [
        (Machine::intel(), Some("5"), None, "expected 10 to 100 percent"),
        (Machine::intel(), Some("101"), None, "expected 10 to 100 percent"),
        (Machine::intel(), Some("25"), None, "steps of 10 percent: write 20 or 30"),
        (Machine::intel(), Some("7=20"), None, "MB has no domain 7; it has 0, 1"),
        (Machine::intel(), None, Some("fff"), "expected a mask of bits of 7ff"),
        (Machine::intel(), None, Some("0"), "expected a mask of bits of 7ff"),
        (Machine::intel(), None, Some("5"), "5 has a gap, which this host does not allow"),
        (Machine::intel().with_min_bits(2), None, Some("1"), "1 has fewer than 2 bits in a row"),
        (Machine::amd(), Some("2049"), None, "expected 1 to 2048 eighths of GB/s"),
        (Machine::amd(), Some("2=16"), None, "MB has no domain 2; it has 0, 1, 8, 17"),
        (Machine::mebibytes(), Some("0"), None, "expected 1 to 4294967295 MiB/s"),
        (Machine::monitoring(), Some("20"), None, "monitors and controls nothing"),
        (Machine::monitoring(), None, None, "monitors and controls nothing"),
    ];
    for (machine, bandwidth, l3, why) in cases {
        on(machine, move |host| {
            let error = make(host, bandwidth, l3).expect_err(why).to_string();
            assert!(error.contains(why), "{why}: {error}");
            assert_eq!(host.state(), nothing());
            assert_eq!(host.read("info/last_cmd_status"), "ok\n", "the kernel was not asked");
        });
    }
}

#[test]
fn what_can_be_checked_without_a_group_is_checked_without_one() {
    on(Machine::intel(), |host| {
        let check = |bandwidth, l3| {
            resctrl::check(&host.roots(), &settings(bandwidth, l3))
                .map_err(|error| error.to_string())
        };
        assert_eq!(check(Some("20"), Some("f")), Ok(()));
        assert!(check(Some("9=20"), None).is_err_and(|why| why.contains("no domain 9")));
        assert!(check(None, Some("5")).is_err_and(|why| why.contains("has a gap")));
        assert_eq!(host.state(), nothing());
    });
    let directory = tempfile::tempdir().expect("a directory");
    let roots = numaloc_host::Roots { sys: directory.path().into(), ..Default::default() };
    let error = resctrl::check(&roots, &settings(None, None)).expect_err("it is not mounted");
    assert!(error.to_string().contains("resctrl is not mounted at"), "{error}");
}

#[test]
fn the_kernels_refusal_is_quoted() {
    on(Machine::intel().with_closids(2), |host| {
        fs::create_dir(host.root().join("pods")).expect("the last one");
        let error = make(host, Some("20"), None).expect_err("no more groups").to_string();
        assert!(error.contains("cannot make") && error.contains("fs/resctrl/numaloc"), "{error}");
        assert!(error.ends_with("(last_cmd_status: Out of CLOSIDs)"), "{error}");
        assert_eq!(host.state(), (vec!["pods".to_owned()], false));
    });
}

#[test]
fn a_group_of_others_is_never_touched() {
    on(Machine::intel(), |host| {
        let path = host.root().join("numaloc");
        fs::create_dir(&path).expect("another program's");
        write(&path.join("schemata"), "MB:0=70\n").expect("valid");
        let before = host.fs.schemata("numaloc");
        let untouched = || {
            assert_eq!((host.fs.schemata("numaloc"), host.fs.groups().len()), (before.clone(), 1));
        };
        let error = make(host, Some("20"), None).expect_err("it exists");
        assert!(matches!(error, GroupError::Foreign { .. }), "{error}");
        untouched();
        fs::remove_dir(&path).expect("a group");
        // Ours is removed while the daemon runs, and another program makes one of the same name.
        let group = make(host, Some("20"), None).expect("it is free");
        fs::remove_dir(&path).expect("a group");
        fs::create_dir(&path).expect("another program's");
        write(&path.join("schemata"), "MB:0=70\n").expect("valid");
        drop(group);
        untouched();
        assert!(!host.is_noted());
        // A daemon is killed before it has made its group, and another program makes one that it uses.
        fs::remove_dir(&path).expect("a group");
        assert!(killed::after(1, || drop(make(host, Some("20"), None))));
        assert_eq!(host.state(), (Vec::new(), true));
        fs::create_dir(&path).expect("another program's");
        write(&path.join("schemata"), "MB:0=70\n").expect("valid");
        write(&path.join("tasks"), &gettid().to_string()).expect("root may");
        assert_eq!(resctrl::recover(&host.roots()).expect("it can be read"), None);
        untouched();
        assert!(!host.is_noted());
    });
}

#[test]
fn a_process_that_is_killed_at_any_point_leaves_nothing() {
    let is_run = in_private_mounts(|| {
        let points = killed::leaves_nothing(
            || Host::new(Machine::intel()),
            Host::state,
            |host| drop(make(host, Some("20"), Some("f"))),
            |host| drop(resctrl::recover(&host.roots())),
        );
        // The note, mkdir, the note of the inode, the values, rmdir, and the note.
        assert_eq!(points, 6);
    });
    if !is_run {
        numaloc_sys::fixture::skipped(
            "the file system of the test takes root, and a kernel with FUSE",
        );
    }
}

#[test]
fn one_process_at_a_time_has_a_group() {
    on(Machine::intel(), |host| {
        let group = make(host, Some("20"), None).expect("it is free");
        assert!(matches!(make(host, Some("20"), None), Err(GroupError::InUse)));
        assert_eq!(resctrl::recover(&host.roots()).expect("it can be read"), None, "it runs");
        assert_eq!(host.fs.groups(), ["numaloc"]);
        drop(group);
    });
}

#[test]
fn a_thread_enters_and_a_removed_group_is_an_error_that_names_it() {
    on(Machine::intel(), |host| {
        let group = make(host, Some("20"), None).expect("it is free");
        let (tid, tasks) = thread::scope(|scope| {
            let inside = || {
                group.enter().expect("one's own thread");
                (gettid().as_raw(), host.read("numaloc/tasks"))
            };
            scope.spawn(inside).join().expect("no panic")
        });
        assert_eq!(tasks, format!("{tid}\n"));
        assert_eq!(host.read("numaloc/tasks"), "", "the thread has ended");
        fs::remove_dir(host.root().join("numaloc")).expect("an operator may");
        let error = group.enter().expect_err("it is gone").to_string();
        assert!(
            error.starts_with("cannot write to ") && error.contains("numaloc/tasks"),
            "{error}"
        );
    });
}

/// The directory of the host, for the process that is killed.
const DIRECTORY: &str = "NUMALOC_RESCTRL_TEST";

/// Makes the group, enters it, and waits to be killed. Another test starts it.
#[test]
#[ignore = "started by a_killed_process_leaves_a_group_that_the_next_start_removes"]
fn makes_a_group_and_waits() {
    let Some(directory) = env::var_os(DIRECTORY) else { return };
    let path = |name| std::path::Path::new(&directory).join(name);
    let roots = numaloc_host::Roots { sys: path("sys"), run: path("run"), ..Default::default() };
    let group = ControlGroup::make(&roots, &settings(Some("20"), None)).expect("it is free");
    group.enter().expect("one's own thread");
    println!("inside");
    loop {
        thread::park();
    }
}

#[test]
fn a_killed_process_leaves_a_group_that_the_next_start_removes() {
    on(Machine::intel(), |host| {
        for _ in 0..3 {
            let mut child = Command::new(env::current_exe().expect("this program"))
                .args(["group::makes_a_group_and_waits", "--exact", "--ignored", "--nocapture"])
                .env(DIRECTORY, host.directory.path())
                .stdout(Stdio::piped())
                .spawn()
                .expect("it starts");
            let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
            assert!(lines.any(|line| line.is_ok_and(|line| line.contains("inside"))), "it enters");
            assert_ne!(host.read("numaloc/tasks"), "");
            assert_eq!(resctrl::recover(&host.roots()).expect("it can be read"), None, "it runs");
            child.kill().and_then(|()| child.wait()).expect("a child");
            assert_eq!(host.state(), (vec!["numaloc".to_owned()], true), "it was killed");
            assert_eq!(host.fs.schemata("numaloc"), "    L3:0=7ff;1=7ff\n    MB:0=20;1=20\n");
            let removed = resctrl::recover(&host.roots()).expect("it can be removed");
            assert_eq!((removed.as_deref(), host.state()), (Some("numaloc"), nothing()));
        }
    });
}
