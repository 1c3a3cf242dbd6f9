//! Measures what kernel.numa_balancing makes of memory that is interleaved, and of memory in blocks.

use super::why_not;
use crate::{
    args::BenchArgs,
    cmd::Surroundings,
    doc::{PlacementBenchDoc, PlacementRunDoc},
    exit::{Code, Failure},
    output::{CommandResult, complain},
};
use numaloc_api::timestamp;
use numaloc_core::layout::Layout;
use numaloc_host::{
    Error, ErrorKind, Roots,
    balancing_trial::{self, BalancingTrial},
    numa_balancing, read, speed,
    spread::{self, HowSpread, Spread},
    topology,
};
use std::{
    io::{self, IsTerminal, Read, stderr},
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
    time::{Duration, SystemTime},
};

/// Memory of each node, unless another size is given.
const SIZE: u64 = 64 << 20;
/// Time for which the memory is written, unless another time is given: the kernel begins to scan a process after a
/// second, and scans 256 MiB a second at most (kernel/sched/fair.c, `sysctl_numa_balancing_scan_delay`).
const SECONDS: Duration = Duration::from_secs(15);

/// Measures.
///
/// # Errors
/// The host has one node that can be used, or the kernel refuses memory, CPUs, or to switch balancing.
pub fn measured(roots: &Roots, args: &BenchArgs) -> Result<PlacementBenchDoc, Failure> {
    if args.kept || args.base_pages {
        let message = "bench placement keeps nothing and has base pages alone: leave out --kept and --base-pages";
        return Err(Failure::Usage(message.into()));
    }
    let how = how(roots, args)?;
    let mut switch = if args.switch_balancing { Some(Switch::new(roots)?) } else { None };
    let present = numa_balancing::read(roots)?;
    let values = match &switch {
        Some(_) => vec![Some(1), Some(0)],
        None => vec![present],
    };
    let mut runs = Vec::new();
    for layout in Layout::ALL {
        for &value in &values {
            if let (Some(switch), Some(value)) = (&mut switch, value) {
                switch.trial.set(value)?;
            }
            report(layout, value);
            runs.push(document(layout, value, spread::run(roots, layout, &how)?));
        }
    }
    let before = switch.as_ref().map_or(present, |switch| Some(switch.trial.before()));
    if let Some(switch) = switch {
        switch.end()?;
    }
    Ok(PlacementBenchDoc {
        host: read::host_name(roots)?,
        time: timestamp(SystemTime::now()).to_string(),
        nodes: how.nodes.iter().map(|(node, _)| node.0).collect(),
        threads: how.nodes.iter().map(|(_, cpus)| cpus.len() as u64).sum(),
        memory_bytes: (how.node_bytes * how.nodes.len()) as u64,
        seconds: how.time.as_secs_f64(),
        numa_balancing: before,
        runs,
    })
}

/// The nodes that have CPUs and memory which this program may use, with as much free as each is to get.
fn how(roots: &Roots, args: &BenchArgs) -> Result<HowSpread, Failure> {
    let topology = topology::topology(roots)?;
    let (usable, bytes) = (speed::usable(roots, &topology)?, args.size.unwrap_or(SIZE));
    let mut nodes = usable.cpus.clone();
    nodes.retain(|(id, _)| {
        topology.node(*id).is_some_and(|node| why_not(node, &usable, bytes).is_none())
    });
    if nodes.len() < 2 {
        let reasons = topology.nodes().filter_map(|node| {
            Some(format!("; node {}: {}", node.id, why_not(node, &usable, bytes)?))
        });
        return Err(Failure::Usage(format!(
            "bench placement needs two NUMA nodes with CPUs and memory that it may use{}",
            reasons.collect::<String>()
        )));
    }
    let node_bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    Ok(HowSpread { nodes, node_bytes, time: args.seconds.unwrap_or(SECONDS) })
}

fn document(layout: Layout, numa_balancing: Option<u32>, spread: Spread) -> PlacementRunDoc {
    let Spread { passes, elapsed, user, system, .. } = spread;
    PlacementRunDoc {
        placement: layout.name().to_owned(),
        numa_balancing,
        passes,
        elapsed_seconds: elapsed.as_secs_f64(),
        user_seconds: user.as_secs_f64(),
        system_seconds: system.as_secs_f64(),
        pages: spread.pages,
        remote_pages: spread.remote_pages,
        moved_pages: spread.moved_pages,
        host_moved_pages: spread.host_moved_pages,
    }
}

fn report(layout: Layout, value: Option<u32>) {
    if stderr().is_terminal() {
        let value = value.map_or("none".to_owned(), |value| value.to_string());
        complain(&format!("{}, kernel.numa_balancing {value}", layout.name()));
    }
}

/// Switches balancing. A process of its own waits for the end of this one, however that comes, and puts it back.
struct Switch {
    trial: BalancingTrial,
    waiting: Child,
    roots: Roots,
}

impl Switch {
    fn new(roots: &Roots) -> Result<Self, Failure> {
        let trial = BalancingTrial::begin(roots).map_err(told)?.ok_or_else(|| {
            Failure::Usage(
                "this kernel has no NUMA balancing to switch: leave out --switch-balancing".into(),
            )
        })?;
        // Not of the terminal's foreground: Ctrl-C is not for it.
        let mut command = Command::new("/proc/self/exe");
        command.arg("__put-back").stdin(Stdio::piped()).process_group(0);
        let waiting = command
            .spawn()
            .map_err(|source| Failure::Write { path: "/proc/self/exe".into(), source })?;
        Ok(Self { trial, waiting, roots: roots.clone() })
    }

    /// Has it put back, and waits for that.
    fn end(self) -> Result<(), Failure> {
        let Self { trial, mut waiting, roots } = self;
        let before = trial.before();
        drop(trial);
        drop(waiting.stdin.take());
        drop(waiting.wait());
        match numa_balancing::read(&roots)? {
            Some(now) if now == before => Ok(()),
            // The other process has failed, or another program has set it.
            _ => Ok(balancing_trial::put_back(&roots).map(drop)?),
        }
    }
}

fn told(error: Error) -> Failure {
    match error.kind() {
        ErrorKind::Permission => Failure::Refused {
            code: Code::Permission,
            message: format!("{error}; run as root, or leave out --switch-balancing"),
        },
        _ => error.into(),
    }
}

/// Waits for the end of standard input, then puts balancing back.
///
/// # Errors
/// It cannot be put back. The note stays for the next measurement.
pub fn put_back(around: &Surroundings) -> Result<CommandResult, Failure> {
    // At the end of the input or after an error, the other process has ended.
    drop(io::stdin().read_to_end(&mut Vec::new()));
    balancing_trial::put_back_after_end(&around.roots)?;
    Ok(CommandResult { text: String::new(), code: Code::Done })
}
