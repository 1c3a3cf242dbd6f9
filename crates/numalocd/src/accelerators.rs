//! Work queues of Data Streaming Accelerators for the kernel: set up when the daemon starts, if the configuration says so, and taken
//! down when it ends.
//!
//! What is changed is noted beforehand in `/run/numaloc/dsa`. If the daemon is killed, it is taken down by the next start, whatever
//! its configuration says, and by `numalocd --restore-settings`. Nothing here makes a start fail: without such a queue the CPU
//! copies.

use crate::config::Dsa;
use numaloc_host::{
    Error, Roots,
    dsa::{self, Held, Report},
};

/// The queues that this daemon has set up. Dropping this value takes them down.
#[derive(Debug)]
pub struct Accelerators(Option<Held>);

impl Accelerators {
    /// Takes down what a daemon that was killed has left, and sets up what the configuration asks for. Blocks.
    pub fn begin(roots: &Roots, config: &Dsa) -> Self {
        let done = match config.manage_work_queue {
            true => dsa::prepare(roots, &config.devices).map(|(held, done)| (Some(held), done)),
            false => dsa::recover(roots).map(|done| (None, done)),
        };
        match done {
            Ok((held, reports)) => {
                tell(&reports);
                Self(held)
            }
            Err(error) => {
                tracing::warn!(%error, "the kernel gets no work queue of a DSA device");
                Self(None)
            }
        }
    }
}

impl Drop for Accelerators {
    fn drop(&mut self) {
        match self.0.take().map_or(Ok(Vec::new()), Held::undo) {
            Ok(reports) => tell(&reports),
            Err(error) => {
                tracing::error!(%error, "work queues of DSA devices stay as they are: try numalocd --restore-settings");
            }
        }
    }
}

fn tell(reports: &[Report]) {
    for report in reports {
        match report.is_problem() {
            true => tracing::warn!("{report}"),
            false => tracing::info!("{report}"),
        }
    }
}

/// Takes down what a daemon that was killed has left.
///
/// # Errors
/// The note cannot be read or written.
pub fn take_down(roots: &Roots) -> Result<Vec<Report>, Error> {
    dsa::recover(roots)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const NOTE: &str = "device\tdsa0\twq0.0\nset\twq0.0\tsize\t0\t128\nbegin\tdsa0\n";

    fn host() -> (tempfile::TempDir, Roots) {
        let host = tempfile::tempdir().expect("a directory");
        fs::create_dir_all(host.path().join("run/numaloc")).expect("directories");
        let at = |name: &str| host.path().join(name);
        let roots = Roots { sys: at("sys"), run: at("run"), proc: at("proc"), ..Roots::default() };
        (host, roots)
    }

    #[test]
    fn a_host_without_devices_is_no_failure() {
        let (_host, roots) = host();
        for manage_work_queue in [false, true] {
            let config = Dsa { manage_work_queue, devices: Vec::new() };
            assert!(Accelerators::begin(&roots, &config).0.is_none());
        }
    }

    #[test]
    fn what_is_left_is_taken_down_whatever_the_configuration_says() {
        for manage_work_queue in [false, true] {
            let (_host, roots) = host();
            let note = roots.run.join("numaloc/dsa");
            fs::write(&note, NOTE).expect("a file");
            let size = roots.sys.join("bus/dsa/devices/wq0.0/size");
            for (file, text) in [("dsa0/state", "disabled\n"), ("wq0.0/size", "128\n")] {
                let path = roots.sys.join("bus/dsa/devices").join(file);
                fs::create_dir_all(path.parent().expect("a directory")).expect("directories");
                fs::write(path, text).expect("a file");
            }
            let config = Dsa { manage_work_queue, devices: Vec::new() };
            drop(Accelerators::begin(&roots, &config));
            // A file, unlike an attribute, keeps the end of what was longer.
            assert!(fs::read_to_string(size).expect("a file").starts_with('0'));
            assert_eq!(fs::read_to_string(&note).expect("a file"), "");
        }
    }
}
