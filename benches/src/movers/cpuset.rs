//! A write to cpuset.mems of a cgroup v2: the kernel then moves the memory of all members (kernel/cgroup/cpuset.c,
//! `update_tasks_nodemask`).

use super::{AWAY, HOME, Turn};
use crate::hold::Holder;
use anyhow::{Context, Result};
use numaloc_tests::settings::Cgroup;
use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

const ROOT: &str = "/sys/fs/cgroup";

/// Puts the process into a cgroup of its own, on the node where its memory is. Then measures from the write of the other node
/// until numa_maps shows no page elsewhere: kernel threads do the work, and the write need not wait for them.
pub fn turn(holder: &Holder) -> Result<Turn> {
    let of_process = fs::read_to_string(format!("/proc/{}/cgroup", holder.pid()))?;
    let former = of_process.lines().find_map(|line| line.strip_prefix("0::/"));
    let former = Path::new(ROOT).join(former.context("no cgroup v2 here")?);
    let group = Cgroup::new("bench");
    group.write("cpuset.mems", &AWAY.to_string());
    group.write("cgroup.procs", &holder.pid().to_string());
    let wall = bring(&group, holder);
    fs::write(former.join("cgroup.procs"), holder.pid().to_string())?;
    Ok(Turn { wall: wall?, cpu: None, read_bytes: None, report: None })
}

fn bring(group: &Cgroup, holder: &Holder) -> Result<Duration> {
    let begin = Instant::now();
    group.write("cpuset.mems", &HOME.to_string());
    loop {
        let wall = begin.elapsed(); // without the look itself
        if holder.pages_by_node()? == [(HOME, holder.pages())] || wall > Duration::from_secs(60) {
            return Ok(wall);
        }
    }
}
