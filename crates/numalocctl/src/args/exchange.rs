//! Options that name the processes and workloads whose memory makes room.

use super::target::cgroup_path;
use crate::exit::Failure;
use clap::Args;
use numaloc_api::value::Target;
use numaloc_core::MakeRoom;

/// Whose memory makes room without the daemon.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "What to move")]
pub struct ExchangeArgs {
    /// With --make-room exchange and without the daemon: whose memory makes room. A pid, a cgroup's path, or a systemd unit
    /// (repeatable).
    #[arg(long, value_name = "TARGET", value_delimiter = ',', value_parser = parse)]
    pub exchange_with: Vec<Target>,
}

/// Reads a pid, a path that begins with a slash, or a unit.
fn parse(text: &str) -> Result<Target, String> {
    match text.parse() {
        Ok(pid) if pid > 0 => Ok(Target { pids: [pid].into(), ..Target::default() }),
        _ if text.starts_with('/') => Ok(Target::cgroup(&cgroup_path(text))),
        Err(_) if !text.is_empty() && !text.starts_with('-') => {
            Ok(Target { units: [text.to_owned()].into(), ..Target::default() })
        }
        _ => {
            Err(format!("'{text}' is not a pid, the path of a cgroup (/batch), or a systemd unit"))
        }
    }
}

impl ExchangeArgs {
    /// Checks the options for a run without the daemon.
    ///
    /// # Errors
    /// They do not fit together.
    pub fn check_here(&self, make_room: Option<MakeRoom>) -> Result<(), Failure> {
        let message = match (make_room, self.exchange_with.is_empty()) {
            (Some(MakeRoom::Exchange), true) => {
                "--make-room exchange needs --exchange-with without the daemon: name whose memory makes room"
            }
            (Some(MakeRoom::Exchange), false) | (_, true) => return Ok(()),
            (_, false) => "--exchange-with needs --make-room exchange",
        };
        Err(Failure::Usage(message.into()))
    }

    /// Checks the options for the daemon.
    ///
    /// # Errors
    /// Partners are named: the daemon takes registered workloads.
    pub fn check_daemon(&self) -> Result<(), Failure> {
        if self.exchange_with.is_empty() {
            return Ok(());
        }
        let message = "--exchange-with is for --standalone: with the daemon, workloads that are registered with class be \
                       make room; leave it out";
        Err(Failure::Usage(message.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partner_is_a_process_a_cgroup_or_a_unit() {
        let read = |text| parse(text).ok();
        let pid = |pid| Target { pids: [pid].into(), ..Target::default() };
        assert_eq!(read("4711"), Some(pid(4711)));
        assert_eq!(read("/batch/"), Some(Target::cgroup("/batch")));
        let unit = Target { units: ["batch.service".to_owned()].into(), ..Target::default() };
        assert_eq!(read("batch.service"), Some(unit));
        for text in ["", "0", "-1", "-x"] {
            assert_eq!(read(text), None, "{text:?} was taken");
        }
    }

    #[test]
    fn without_the_daemon_partners_are_named_and_with_it_they_are_not() {
        let named = ExchangeArgs { exchange_with: vec![Target::cgroup("/batch")] };
        let none = ExchangeArgs::default();
        assert!(named.check_here(Some(MakeRoom::Exchange)).is_ok());
        assert!(none.check_here(Some(MakeRoom::Exchange)).is_err());
        for other in [None, Some(MakeRoom::Cache), Some(MakeRoom::None)] {
            assert!(none.check_here(other).is_ok());
            assert!(named.check_here(other).is_err());
        }
        assert!(none.check_daemon().is_ok() && named.check_daemon().is_err());
    }
}
