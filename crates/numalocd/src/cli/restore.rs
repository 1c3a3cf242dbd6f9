//! `--restore-settings`: puts back what a daemon that was killed has changed on the host.

use numaloc_dma::{Offloading, dsa};
use numaloc_engine::balancing::Balancing;
use numaloc_host::{Roots, resctrl};
use std::{
    io::{self, Write},
    process::ExitCode,
};

/// Puts back the host settings that a dead daemon has left changed. Waits for nothing. Changes of a running daemon
/// stay: it puts them back itself.
///
/// # Errors
/// `out` cannot be written to.
pub fn restore_settings(roots: Roots, out: &mut impl Write) -> io::Result<ExitCode> {
    let settings = put_back_settings(roots.clone(), out)?;
    let group = remove_group(&roots, out)?;
    // Last, when nothing uses them any more.
    let queues = take_down_queues(&roots, out)?;
    Ok(if settings && group && queues { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Removes the resctrl group of a daemon that was killed. Returns whether none is left.
fn remove_group(roots: &Roots, out: &mut impl Write) -> io::Result<bool> {
    match resctrl::recover(roots) {
        Ok(None) => Ok(true),
        Ok(Some(group)) => {
            writeln!(out, "the resctrl group {group} is removed")?;
            Ok(true)
        }
        Err(error) => {
            writeln!(out, "{error}")?;
            Ok(false)
        }
    }
}

/// Takes down work queues of DSA devices. Returns whether none is left.
fn take_down_queues(roots: &Roots, out: &mut impl Write) -> io::Result<bool> {
    let reports = match dsa::recover(roots) {
        Ok(reports) => reports,
        Err(error) => {
            writeln!(out, "{error}")?;
            return Ok(false);
        }
    };
    for report in &reports {
        writeln!(out, "{report}")?;
    }
    Ok(!reports.iter().any(|report| report.is_problem()))
}

/// Puts back kernel.numa_balancing and the settings of offload. Returns whether nothing is left to do.
fn put_back_settings(roots: Roots, out: &mut impl Write) -> io::Result<bool> {
    let balancing = Balancing::new(roots.clone()).put_back().map_err(|error| error.to_string());
    let balancing = balancing.map(|value| value.map(|it| format!("kernel.numa_balancing = {it}")));
    let offload = Offloading::new(roots).put_back();
    let offload = offload.map_err(|error| error.to_string());
    let mut all = true;
    for done in [balancing.map(|line| line.into_iter().collect()), offload] {
        let lines: Vec<String> = match done {
            Ok(set) => set.iter().map(|set| format!("{set}, its value before a job")).collect(),
            Err(error) => {
                all = false;
                vec![error]
            }
        };
        lines.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    }
    Ok(all)
}
