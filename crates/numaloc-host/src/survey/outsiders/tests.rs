use super::*;
use crate::{
    Arrivals,
    fake::Fake,
    survey::{newcomers::Newcomers, space::AddressSpace},
};
use numaloc_core::{Claim, Claims, Mapping, Process, Topology};
use std::{fs, os::unix::fs::symlink, sync::Arc};

const BYTES: u64 = 0x4000_0000;

/// Processes that have come to the target.
#[derive(Debug)]
struct Members(Vec<Process>);

impl Arrivals for Members {
    fn arrived(&self, is_known: &dyn Fn(i32) -> bool) -> Vec<Process> {
        self.0.iter().filter(|process| !is_known(process.identity.pid)).cloned().collect()
    }

    fn admits(&self, _: &Process) -> bool {
        true
    }
}

fn maps(device: (u32, u32)) -> String {
    let (major, minor) = device;
    format!("40000000-80000000 rw-s 00000000 {major:02x}:{minor:02x} 77 /memfd:x (deleted)\n")
}

fn memfd() -> (u32, u32) {
    internal_device().expect("this kernel has memfds")
}

/// A host with a target of process 100, which maps an object of `device`, and of its child 101; `others` adds what is outside.
fn ruled_out(device: (u32, u32), others: impl Fn(&Fake)) -> RuledOut {
    let fake = Fake::new();
    fake.process(1, "init", &["0"]);
    fake.exec(1);
    fs::create_dir_all(fake.path("proc/self/ns")).expect("a directory");
    symlink("pid:[4026531836]", fake.path("proc/self/ns/pid")).expect("a link");
    for pid in [100, 101] {
        fake.process(pid, "server", &["0"]);
        fake.write(&format!("proc/{pid}/maps"), &maps(device));
    }
    fake.write("proc/100/mountinfo", "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n");
    others(&fake);
    let spaces: Vec<AddressSpace> = vec![fake.space(100)];
    let growth = Growth {
        roots: Arc::new(fake.roots()),
        topology: Topology::default(),
        options: Default::default(),
        arrivals: Arc::new(Members(vec![fake.space(101).process])),
    };
    let claims: Claims = [Claim::default()].into_iter().collect();
    let newcomers = Newcomers::new(Arc::new(growth), &spaces, &claims);
    let crew = newcomers.crew().expect("it may grow");
    let mappings = [Mapping { process: 0, start: BYTES }];
    newcomers.ruled_out(&crew, &mappings, &(0..BYTES), &|| false)
}

/// A process outside the target, of the same program or of another one.
fn other(fake: &Fake, pid: i32, is_kin: bool, maps: &str) {
    fake.process(pid, "other", &["0"]);
    fake.write(&format!("proc/{pid}/maps"), maps);
    if !is_kin {
        fake.exec(pid);
    }
}

#[test]
fn only_the_target_maps_what_its_children_map() {
    let all = RuledOut { file: true, anonymous: true };
    assert_eq!(ruled_out(memfd(), |_| ()), all);
    let elsewhere = "40000000-80000000 rw-p 00000000 00:00 0 [heap]\n";
    assert_eq!(ruled_out(memfd(), |fake| other(fake, 102, false, elsewhere)), all);
}

#[test]
fn a_stranger_is_known_by_the_object_or_by_the_program_that_it_was_forked_from() {
    let shown = maps(memfd());
    let found = ruled_out(memfd(), |fake| other(fake, 102, false, &shown));
    assert_eq!(found, RuledOut { file: false, anonymous: true });
    let found = ruled_out(memfd(), |fake| other(fake, 102, true, ""));
    assert_eq!(found, RuledOut { file: true, anonymous: false });
}

#[test]
fn a_process_that_ends_does_not_count() {
    let found = ruled_out(memfd(), |fake| {
        other(fake, 102, true, &maps(memfd()));
        fake.stat("proc/102", 102, "other", 'R', 0x40_0004);
    });
    assert_eq!(found, RuledOut { file: true, anonymous: true });
}

#[test]
fn a_file_may_be_below_an_overlay() {
    let overlay = maps((0, 99));
    let of = |device| ruled_out(device, |fake| other(fake, 102, false, &overlay));
    assert!(!of((8, 1)).file);
    assert!(of(memfd()).file, "no file system is stacked upon memory that is on no mount");
}

#[test]
fn without_a_look_at_all_processes_nothing_is_ruled_out() {
    let found = ruled_out(memfd(), |fake| fake.remove(1));
    assert_eq!(found, RuledOut::default());
}
