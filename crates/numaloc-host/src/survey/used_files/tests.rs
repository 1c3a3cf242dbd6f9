use super::*;
use crate::fake::Fake;
use numaloc_core::{Node, NodeMemory};
use std::os::unix::fs::symlink;

const MOUNTINFO: &str = "\
22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
23 22 0:5 / /dev rw - devtmpfs udev rw
24 22 0:40 / /dev/shm rw - tmpfs tmpfs rw
25 22 0:51 / /srv rw,relatime - nfs4 server:/srv rw
30 22 254:17 / /data rw master:7 - xfs /dev/vdb1 rw
31 22 0:52 / /merged rw - overlay overlay rw,lowerdir=/data/a:/data/b
";

fn topology() -> Topology {
    let memory = NodeMemory { total_bytes: 1 << 30, ..NodeMemory::default() };
    let node = |id, cpus: &str| Node {
        id: NodeId(id),
        cpus: cpus.parse().unwrap(),
        memory: memory.clone(),
    };
    Topology::new([node(0, "0-1"), node(1, "2-3")], [])
}

/// A process of a user, on these CPUs, with these mappings and open files (mount, inode).
fn process(fake: &Fake, (pid, uid): (i32, u32), cpus: &str, maps: &str, open: &[(u32, u32)]) {
    let at = |name: &str| format!("proc/{pid}/{name}");
    fake.write(&at("maps"), maps);
    fake.write(&at("mountinfo"), MOUNTINFO);
    fake.write(&at("cgroup"), "0::/user.slice\n");
    let zeros = "0 ".repeat(30);
    let stat = format!("{pid} (x) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 77 {zeros}\n");
    fake.write(&at("stat"), &stat);
    let status = format!(
        "Uid:\t{uid}\t{uid}\t{uid}\t{uid}\nCpus_allowed_list:\t{cpus}\nMems_allowed_list:\t0-1\n"
    );
    fake.write(&at("status"), &status);
    fs::create_dir_all(fake.path(&at("fd"))).unwrap();
    for (fd, (mount, inode)) in open.iter().enumerate() {
        fake.write(
            &at(&format!("fdinfo/{fd}")),
            &format!("pos:\t0\nmnt_id:\t{mount}\nino:\t{inode}\n"),
        );
        symlink("/data/file", fake.path(&at(&format!("fd/{fd}")))).unwrap();
    }
}

fn found(fake: &Fake, whose: &Whose) -> Vec<u64> {
    let found = used_files(&fake.roots(), &topology(), NodeId(0), whose, &|| false).unwrap();
    found.into_iter().map(|file| file.inode).collect()
}

fn of(uid: u32) -> Whose {
    Whose::Of { uid: Some(uid), cgroups: Vec::new() }
}

#[test]
fn files_on_disks_are_found_and_those_used_near_the_node_come_first() {
    let fake = Fake::new();
    let maps = "\
1000-2000 r--s 00000000 fe:11 50 /data/mapped
2000-3000 r--p 00000000 fe:01 60 /usr/lib/x.so
3000-4000 r-xp 00001000 fe:01 60 /usr/lib/x.so
4000-5000 rw-s 00000000 00:28 70 /dev/shm/a
5000-6000 rw-p 00000000 00:00 0
";
    process(&fake, (10, 7), "2-3", maps, &[(30, 51), (25, 52), (24, 53), (99, 54)]);
    process(&fake, (11, 7), "0", "1000-2000 rw-p 00000000 00:00 0\n", &[(30, 55)]);
    assert_eq!(found(&fake, &Whose::Anybody), [55, 50, 51]);
    let all = used_files(&fake.roots(), &topology(), NodeId(0), &Whose::Anybody, &|| false);
    let mapped = all.unwrap().into_iter().find(|file| file.inode == 50).unwrap();
    assert_eq!(mapped.path, fake.path("proc/10/map_files/1000-2000"));
    fake.write("proc/locks", "1: LEASE  ACTIVE    READ  10 fe:11:51 0 EOF\n2: POSIX  ADVISORY  WRITE 11 fe:11:55 0 EOF\n");
    assert_eq!(found(&fake, &Whose::Anybody), [55, 50], "a lease would be broken");
}

#[test]
fn what_others_use_too_is_left_alone() {
    let fake = Fake::new();
    let none = "5000-6000 rw-p 00000000 00:00 0\n";
    process(&fake, (10, 7), "0", none, &[(30, 51), (30, 52)]);
    process(&fake, (11, 8), "0", none, &[(30, 52), (30, 53)]);
    assert_eq!(found(&fake, &of(7)), [51]);
    assert_eq!(found(&fake, &of(8)), [53]);
    assert!(found(&fake, &of(9)).is_empty());
    let slice = Whose::Of { uid: None, cgroups: vec!["/user.slice".into()] };
    assert_eq!(found(&fake, &slice), [51, 52, 53]);
}

/// The same file has another device in an overlay, and its inode number.
#[test]
fn what_others_use_in_an_overlay_is_left_alone() {
    let fake = Fake::new();
    let none = "5000-6000 rw-p 00000000 00:00 0\n";
    process(&fake, (10, 7), "0", none, &[(30, 51), (30, 52), (30, 53), (31, 53), (30, 54)]);
    let maps = "1000-2000 r--s 00000000 00:34 51 /merged/a\n";
    process(&fake, (11, 8), "0", maps, &[(31, 52)]);
    assert_eq!(found(&fake, &of(7)), [53, 54]);
    assert_eq!(found(&fake, &Whose::Anybody), [51, 52, 53, 54]);
    let status = "Uid:\t7\t7\t7\t7\nCpus_allowed_list:\t0\nMems_allowed_list:\t1\n";
    process(&fake, (12, 7), "0", none, &[(31, 54)]);
    fake.write("proc/12/status", status);
    let all = used_files(&fake.roots(), &topology(), NodeId(0), &of(7), &|| false).unwrap();
    let of_inode = |inode| all.iter().find(|file| file.inode == inode).expect("it is found");
    assert_eq!(of_inode(54).mems_allowed, "1".parse().unwrap());
    assert_eq!(of_inode(53).mems_allowed, "0-1".parse().unwrap());
}

#[test]
fn a_search_that_is_stopped_finds_nothing() {
    let fake = Fake::new();
    process(&fake, (10, 7), "0", "5000-6000 rw-p 00000000 00:00 0\n", &[(30, 51)]);
    let stopped = used_files(&fake.roots(), &topology(), NodeId(0), &Whose::Anybody, &|| true);
    assert!(stopped.unwrap().is_empty());
}

#[test]
fn only_regular_files_of_some_size_are_opened() {
    let directory = tempfile::tempdir().unwrap();
    let open = |name: &str, bytes: u64, offset: u64| {
        let path = directory.path().join(name);
        let file = File::create(&path).unwrap();
        file.set_len(bytes).unwrap();
        let inode = file.metadata().unwrap().ino() + offset;
        UsedFile { path, inode, mems_allowed: every_node(), near: true }.open(&Roots::default())
    };
    assert_eq!(open("large", LEAST + 5, 0).map(|(_, bytes)| bytes), Some(LEAST + 5));
    assert!(open("small", LEAST - 1, 0).is_none());
    assert!(open("other", LEAST, 1).is_none(), "it is another file by now");
    let path = directory.path().join("pipe");
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let inode = fs::metadata(&path).unwrap().ino();
    let pipe = UsedFile { path, inode, mems_allowed: every_node(), near: true };
    assert!(pipe.open(&Roots::default()).is_none(), "and no thread waits for its other end");
}
