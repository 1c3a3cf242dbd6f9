//! Remote memory traffic of this host before and after a migration, for `migrate --benefit`. It goes to standard error:
//! it covers all processes on the host, and so does not belong to the result.

use crate::{
    args::{Cli, MigrateArgs},
    cmd::{Surroundings, chosen},
    exit::Failure,
    output::complain,
    units::size,
};
use numaloc_host::{Roots, traffic};
use std::{thread, time::Instant};

/// Remote bytes a second before a migration.
pub struct Before(u64);

/// Measures before a migration, if that is asked for and possible. If it is not possible, standard error names the
/// reason.
///
/// # Errors
/// The options contradict each other, or the address of the daemon is wrong.
pub fn before(
    cli: &Cli,
    around: &Surroundings,
    args: &MigrateArgs,
) -> Result<Option<Before>, Failure> {
    if !args.plan.benefit || args.validate_only {
        return Ok(None);
    }
    let roots = &around.roots;
    let is_this_host = chosen(cli, around)?.is_this_host();
    let why = if args.plan.job.detach {
        "--detach does not wait for the end".to_owned()
    } else if !is_this_host {
        "the daemon may be on another host".to_owned()
    } else if traffic::read(roots).is_empty() {
        format!(
            "no counters of memory bandwidth in {} (mount -t resctrl resctrl there, if the processor has them)",
            roots.resctrl().display()
        )
    } else {
        match rate(roots) {
            Some(rate) => return Ok(Some(Before(rate))),
            None => "the counters of memory bandwidth were reset meanwhile".to_owned(),
        }
    };
    complain(&format!("--benefit: remote memory traffic is not measured: {why}"));
    Ok(None)
}

impl Before {
    /// Measures again, and prints both.
    pub fn compare(self, roots: &Roots) {
        let after = rate(roots).map_or("unknown".to_owned(), |rate| format!("{}/s", size(rate)));
        complain(&format!(
            "remote memory traffic of this host: {}/s before, {after} after (resctrl, one second each)",
            size(self.0)
        ));
    }
}

/// Remote bytes a second, over a second; `None`: no counter was readable from the beginning to the end.
fn rate(roots: &Roots) -> Option<u64> {
    let (begin, before) = (Instant::now(), traffic::read(roots));
    thread::sleep(traffic::SPAN);
    let traffic = before.until(&traffic::read(roots), begin.elapsed());
    Some(traffic.sum()?.remote_bytes_per_second)
}
