//! Processes whose memory a job could not survey or move.

use numaloc_core::{Identity, ProcessOutcome, Reason};

/// A process whose memory a job could not survey or move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedProcess {
    /// Its pid and start time.
    pub identity: Identity,
    /// Command name as in /proc/PID/comm.
    pub comm: String,
    /// The error of the kernel, as text.
    pub error: String,
}

/// The error of a process that has ended: strerror(3) of ESRCH, as the standard library prints it.
const GONE: &str = "No such process (os error 3)";

impl FailedProcess {
    /// The failure that `process` reports, or that it ended before its memory was moved; `None` if it succeeded.
    pub fn of(process: &ProcessOutcome) -> Option<Self> {
        let (identity, comm) = (process.identity, process.comm.clone());
        let has_ended = process.account.left_for(Reason::ProcessGone) > 0;
        let gone = has_ended.then(|| GONE.to_owned());
        Some(Self { identity, comm, error: process.error.clone().or(gone)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_core::Account;
    use std::io;

    #[test]
    fn a_process_that_has_ended_is_named_with_the_error_of_the_kernel() {
        let sample = numaloc_core::samples::process_outcome();
        let mut process = ProcessOutcome { account: Account::default(), error: None, ..sample };
        assert_eq!(FailedProcess::of(&process), None);
        process.account.found(7);
        process.account.left(Reason::Shared, 7);
        assert_eq!(FailedProcess::of(&process), None, "memory that stays is no failure");
        process.account.found(3);
        process.account.left(Reason::ProcessGone, 3);
        let error =
            |process: &ProcessOutcome| FailedProcess::of(process).map(|failed| failed.error);
        let of_kernel = io::Error::from_raw_os_error(3).to_string();
        assert_eq!(error(&process), Some(of_kernel));
        process.error = Some("Bad address".to_owned());
        assert_eq!(error(&process).as_deref(), Some("Bad address"));
    }
}
