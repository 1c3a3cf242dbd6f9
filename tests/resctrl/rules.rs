//! The rules of the kernel that the file system keeps.

use crate::{Host, on, write};
use nix::{errno::Errno, unistd::gettid};
use numaloc_tests::resctrl::Machine;
use std::{fs, os::unix::fs::MetadataExt, os::unix::process::CommandExt, process::Command};

fn status(host: &Host) -> String {
    host.read("info/last_cmd_status")
}

fn errno(error: &std::io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().expect("of the kernel"))
}

#[test]
fn a_new_group_has_its_files_and_the_largest_values() {
    on(Machine::amd(), |host| {
        let group = host.root().join("one");
        fs::create_dir(&group).expect("a group");
        let mut names: Vec<String> = fs::read_dir(&group)
            .expect("listed")
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"))
            .collect();
        names.sort();
        let all = "cpus cpus_list mode mon_data mon_groups schemata size tasks";
        assert_eq!(names, all.split(' ').collect::<Vec<_>>());
        let largest = "    L3:0=ffff;1=ffff;8=ffff;17=ffff\n    MB:0=2048;1=2048;8=2048;17=2048\n";
        assert_eq!(host.read("one/schemata"), largest);
        assert_eq!(
            (host.read("one/tasks"), host.read("one/mode")),
            ("".into(), "shareable\n".into())
        );
        assert_eq!(host.read("info/MB/bandwidth_gran"), "1\n");
        assert_eq!(status(host), "ok\n");
        assert_eq!(errno(&fs::create_dir(&group).expect_err("it exists")), Errno::EEXIST);
    });
}

#[test]
fn groups_end_with_the_closids() {
    on(Machine::intel().with_closids(2), |host| {
        fs::create_dir(host.root().join("one")).expect("one beside the root group");
        let error = fs::create_dir(host.root().join("two")).expect_err("no more");
        assert_eq!((errno(&error), &*status(host)), (Errno::ENOSPC, "Out of CLOSIDs\n"));
        fs::create_dir(host.root().join("one/mon_groups/pod")).expect("a monitoring group");
        assert!(host.root().join("one/mon_groups/pod/mon_data/mon_L3_01").is_dir());
        assert!(!host.root().join("one/mon_groups/pod/schemata").exists());
        let error = fs::create_dir(host.root().join("one/else")).expect_err("no place for one");
        assert_eq!(errno(&error), Errno::EPERM);
    });
    on(Machine::monitoring(), |host| {
        let error = fs::create_dir(host.root().join("one")).expect_err("nothing is controlled");
        assert_eq!(errno(&error), Errno::EPERM);
        assert!(!host.root().join("schemata").exists() && !host.root().join("info/L3").exists());
        fs::create_dir(host.root().join("mon_groups/pod")).expect("a monitoring group");
    });
}

#[test]
fn schemata_are_taken_as_a_whole_or_refused_with_the_reason() {
    on(Machine::intel(), |host| {
        fs::create_dir(host.root().join("one")).expect("a group");
        let schemata = host.root().join("one/schemata");
        for (text, why) in [
            ("MB:0=20", "ok\n"),
            ("MB 0=20\n", "Missing ':'\n"),
            ("MB:\n", "Missing 'MB' value\n"),
            ("MB:0\n", "Missing '=' or non-numeric domain\n"),
            ("MB:x=20\n", "Missing '=' or non-numeric domain\n"),
            ("MB:7=20\n", "ok\n"),
            ("L2:0=f\n", "Unknown or unsupported resource name 'L2'\n"),
            ("MB:0=20;0=30\n", "Duplicate domain 0\n"),
            ("MB:0=5\n", "MB value 5 out of range [10,100]\n"),
            ("MB:0=110\n", "MB value 110 out of range [10,100]\n"),
            ("MB:0=2x\n", "Invalid MB value 2x\n"),
            ("L3:0=fff\n", "Mask out of range\n"),
            ("L3:0=0\n", "Mask out of range\n"),
            ("L3:0=5\n", "The mask 5 has non-consecutive 1-bits\n"),
            ("MB:0=20\nL3:0=xyz\n", "Non-hex character in the mask xyz\n"),
        ] {
            let error = write(&schemata, text).expect_err(text);
            assert_eq!((error, &*status(host)), (Errno::EINVAL, why), "{text}");
            assert_eq!(host.fs.schemata("one"), host.fs.schemata(""), "{text}");
        }
        write(&schemata, "MB:0=21;1= 50\nL3:1=f0\n").expect("valid");
        assert_eq!(
            host.read("one/schemata"),
            "    L3:0=7ff;1=f0\n    MB:0=30;1=50\n",
            "rounded up"
        );
        assert_eq!(status(host), "ok\n");
    });
    on(Machine::amd(), |host| {
        write(&host.root().join("schemata"), "L3:17=a5\nMB:17=1\n").expect("gaps are allowed");
    });
    on(Machine::mebibytes(), |host| {
        write(&host.root().join("schemata"), "MB:0=7\n").expect("any value");
        assert_eq!(host.read("schemata"), "    L3:0=7ff;1=7ff\n    MB:0=7;1=4294967295\n");
    });
    on(Machine::intel().with_min_bits(2), |host| {
        let schemata = host.root().join("schemata");
        assert_eq!(write(&schemata, "L3:0=1\n"), Err(Errno::EINVAL));
        assert_eq!(status(host), "Need at least 2 bits in the mask\n");
    });
}

#[test]
fn tasks_are_moved_by_root_and_by_their_owner() {
    on(Machine::intel(), |host| {
        fs::create_dir(host.root().join("one")).expect("a group");
        let tasks = host.root().join("one/tasks");
        let own = gettid().to_string();
        write(&tasks, &own).expect("one's own");
        assert_eq!(host.read("one/tasks"), format!("{own}\n"));
        let mut child = Command::new("sleep").arg("600").uid(7).spawn().expect("a process");
        write(&tasks, &format!("{}\n", child.id())).expect("root may");
        child.kill().and_then(|()| child.wait()).expect("a child");
        assert_eq!(host.read("one/tasks"), format!("{own}\n"), "it has ended");
        let gone = child.id();
        assert_eq!(write(&tasks, &format!("{gone}\n")), Err(Errno::ESRCH));
        assert!(status(host).starts_with(&format!("No task {gone}\n")), "{}", status(host));
        assert_eq!(write(&tasks, "x\n"), Err(Errno::EINVAL));
        // Another user: its own shell, and this thread, which is root's.
        let as_other = |tid: &str| {
            let script = format!("echo {tid} > {}", tasks.display());
            let mut shell = Command::new("sh");
            shell.args(["-c", &script]).uid(7).gid(7).output().expect("a shell").status.success()
        };
        fs::set_permissions(
            host.directory.path(),
            std::os::unix::fs::PermissionsExt::from_mode(0o755),
        )
        .expect("readable for all");
        assert!(as_other("$$"));
        assert!(!as_other(&own));
        assert!(status(host).starts_with(&format!("No permission to move task {own}\n")));
    });
}

#[test]
fn a_removed_group_gives_its_tasks_back() {
    on(Machine::intel(), |host| {
        let group = host.root().join("one");
        fs::create_dir(&group).expect("a group");
        let inode = fs::metadata(&group).expect("it exists").ino();
        write(&group.join("tasks"), &gettid().to_string()).expect("root may");
        fs::remove_dir(&group).expect("although it has tasks and files");
        fs::create_dir(&group).expect("a group");
        assert_eq!(host.read("one/tasks"), "");
        assert_ne!(fs::metadata(&group).expect("it exists").ino(), inode, "another one");
        for kernels in ["info", "mon_data", "one/mon_groups"] {
            let error = fs::remove_dir(host.root().join(kernels)).expect_err(kernels);
            assert_eq!(errno(&error), Errno::EPERM, "{kernels}");
        }
    });
}
