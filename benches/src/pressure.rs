//! Duration of `balanced` where the kernel does not measure the pressure (PSI) of the target's cgroup, against where it
//! does.
//!
//! One boot shows what its kernel has: pressure with the cgroup's switched on and off in turns, or none (`psi=0`), or none of single
//! cgroups (cgroup v1).

use crate::{
    figure::{Figure, Series, kernel},
    hold::{self, Holder},
    movers::{AWAY, HOME, Mover},
    print,
    subject::{CGROUP_OFF, ON_V1, PSI_OFF, WITH_PSI},
};
use anyhow::Result;
use numaloc_tests::settings::{Cgroup, NUMA_BALANCING, Setting};
use std::{path::Path, time::Duration};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// MiB to move.
    #[arg(long, default_value_t = 64)]
    mib: usize,
    /// Number of rounds, each with one move for each state of the kernel's pressure.
    #[arg(long, default_value_t = 10)]
    rounds: usize,
}

/// A state of the kernel's pressure.
struct Subject {
    name: &'static str,
    /// The value that `cgroup.pressure` of the target's cgroup is set to.
    switch: Option<&'static str>,
    walls: Vec<Duration>,
}

/// Moves the memory of a process that writes to it, alone on the machine and beside others.
pub fn run(args: &Args) -> Result<()> {
    let _off = Setting::set_if_present(NUMA_BALANCING, "0");
    let kernel = kernel()?;
    hold::touch_all(&[HOME, AWAY])?;
    let mover = Mover::profile("balanced")?;
    let cgroup = is_v2().then(|| Cgroup::new("pressure"));
    let mut figures = Vec::new();
    for (strangers, beside) in [(0, "alone"), (2, "beside two strangers")] {
        let stranger = hold::Args { mib: 1, ..hold::Args::default() };
        let start = |_| Holder::start_as("writer", &stranger);
        let _strangers = (0..strangers).map(start).collect::<Result<Vec<_>>>()?;
        let mut subjects = subjects();
        for _ in 0..args.rounds {
            for subject in &mut subjects {
                let wall = turn(args.mib, cgroup.as_ref().zip(subject.switch), &mover)?;
                subject.walls.push(wall);
            }
        }
        let case = format!("{} MiB, {beside}", args.mib);
        figures.extend(subjects.iter().map(|subject| figure(&kernel, &case, subject)));
    }
    print::figures(&figures)
}

fn is_v2() -> bool {
    Path::new("/sys/fs/cgroup/cgroup.controllers").exists()
}

/// The states that this machine can be in.
fn subjects() -> Vec<Subject> {
    let of = |name, switch| Subject { name, switch, walls: Vec::new() };
    // The kernel does not have these files if it was started with psi=0 (kernel/sched/psi.c, `psi_proc_init`).
    if !Path::new("/proc/pressure/cpu").exists() {
        vec![of(PSI_OFF, None)]
    } else if is_v2() {
        vec![of(WITH_PSI, Some("1")), of(CGROUP_OFF, Some("0"))]
    } else {
        vec![of(ON_V1, None)]
    }
}

/// One move of a new process that writes at random to all of its memory.
fn turn(mib: usize, switched: Option<(&Cgroup, &str)>, mover: &Mover) -> Result<Duration> {
    let (cpu_node, memory_node) = (Some(HOME), Some(AWAY));
    let target = hold::Args { mib, cpu_node, memory_node, ..hold::Args::default() };
    let holder = Holder::start_as("writer", &target)?;
    if let Some((cgroup, switch)) = switched {
        cgroup.write("cgroup.pressure", switch);
        cgroup.write("cgroup.procs", &holder.pid().to_string());
    }
    let turn = mover.turn(&holder, true)?;
    holder.ensure_on(HOME, &mover.name)?;
    Ok(turn.wall)
}

fn figure(kernel: &str, case: &str, subject: &Subject) -> Figure {
    let (subject, rounds) = (subject.name, &*subject.walls);
    let series = Series { bench: "pressure", kernel, case, subject, rounds };
    series.figure("wall", "ms", |wall| wall.as_secs_f64() * 1e3)
}
