//! Work queues of Data Streaming Accelerators for the kernel: set up when the daemon starts, if the configuration names them, and taken
//! down when it ends.
//!
//! Each change is noted beforehand in `/run/numaloc/dsa`. If the daemon is killed, the queue is taken down by the
//! next start, whatever its configuration says, and by `numalocd --restore-settings`. Nothing here makes a start
//! fail: without such a queue the CPU copies.

use crate::dsa::{self, DeviceReport, HeldQueues};
use numaloc_host::Roots;

/// Whether the daemon sets up a work queue for the kernel on unused devices, and takes it down at its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum WorkQueues {
    /// It leaves all devices alone.
    #[default]
    Disabled,
    /// On the devices of these names; none: on those near to nodes with memory.
    Enabled(Vec<String>),
}

/// The queues that this daemon has set up. Dropping this value takes them down.
#[derive(Debug)]
pub struct Accelerators(Option<HeldQueues>);

impl Accelerators {
    /// Takes down what a daemon that was killed has left, and sets up what the configuration asks for. Blocks.
    ///
    /// Also gives back a line for each thing that is not as it should be by then. The log has these lines, too.
    pub fn begin(roots: &Roots, config: &WorkQueues) -> (Self, Vec<String>) {
        let done = match config {
            WorkQueues::Enabled(devices) => {
                dsa::prepare(roots, devices).map(|(held, done)| (Some(held), done))
            }
            WorkQueues::Disabled => dsa::recover(roots).map(|done| (None, done)),
        };
        match done {
            Ok((held, reports)) => {
                tell(&reports);
                let problems = reports.iter().filter(|report| report.is_problem());
                (Self(held), problems.map(DeviceReport::to_string).collect())
            }
            Err(error) => {
                let line = format!("DSA devices: {error}");
                tracing::warn!("{line}");
                (Self(None), vec![line])
            }
        }
    }
}

impl Drop for Accelerators {
    fn drop(&mut self) {
        match self.0.take().map_or(Ok(Vec::new()), HeldQueues::undo) {
            Ok(reports) => tell(&reports),
            Err(error) => {
                tracing::error!(%error, "work queues of DSA devices stay as they are: try numalocd --restore-settings");
            }
        }
    }
}

fn tell(reports: &[DeviceReport]) {
    for report in reports {
        match report.is_problem() {
            true => tracing::warn!("{report}"),
            false => tracing::info!("{report}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const NOTE: &str = r#"{"boot":"","changed":[{"device":"dsa0","queue":"wq0.0","changes":[{"part":"wq0.0","attribute":"Size","before":"0","after":"128"}]}]}
"#;

    fn host() -> (tempfile::TempDir, Roots) {
        let host = tempfile::tempdir().expect("a directory");
        fs::create_dir_all(host.path().join("run/numaloc")).expect("directories");
        let at = |name: &str| host.path().join(name);
        let roots = Roots { sys: at("sys"), run: at("run"), proc: at("proc"), ..Roots::default() };
        (host, roots)
    }

    fn attribute(roots: &Roots, file: &str, text: &str) {
        let path = roots.sys.join("bus/dsa/devices").join(file);
        fs::create_dir_all(path.parent().expect("a directory")).expect("directories");
        fs::write(path, text).expect("a file");
    }

    #[test]
    fn a_host_without_devices_is_not_a_failure() {
        let (_host, roots) = host();
        for config in [WorkQueues::Disabled, WorkQueues::Enabled(Vec::new())] {
            let (queues, failed) = Accelerators::begin(&roots, &config);
            assert!(queues.0.is_none());
            // Only what is asked for is missed.
            assert_eq!(failed.len(), usize::from(config != WorkQueues::Disabled), "{failed:?}");
            assert!(failed.iter().all(|line| line.contains("modprobe idxd")), "{failed:?}");
        }
    }

    #[test]
    fn a_refused_step_is_reported_with_its_attribute_value_and_status() {
        let (_host, roots) = host();
        for (file, text) in [
            ("dsa0/state", "disabled\n"),
            ("dsa0/configurable", "1\n"),
            // The 0 that is written before the first step leaves the rest of a file, unlike in an attribute.
            ("dsa0/cmd_status", "0x80040000\n"),
            ("dsa0/max_work_queues_size", "128\n"),
            ("group0.0/engines", "\n"),
            ("engine0.0/group_id", "-1\n"),
            ("wq0.0/state", "disabled\n"),
            ("wq0.0/type", "none\n"),
            ("wq0.0/name", "\n"),
            ("wq0.0/mode", "shared\n"),
            ("wq0.0/size", "0\n"),
            ("wq0.0/group_id", "-1\n"),
            ("wq0.0/priority", "0\n"),
        ] {
            attribute(&roots, file, text);
        }
        // No driver exists that could take the device.
        let config = WorkQueues::Enabled(Vec::new());
        let (queues, failed) = Accelerators::begin(&roots, &config);
        // One daemon at a time has them.
        drop(queues);
        let [line] = failed.as_slice() else { panic!("{failed:?}") };
        for words in [
            "dsa0: no work queue is set up",
            "drivers/idxd/bind does not take 'dsa0'",
            "(cmd_status 0x80040000: the work queue has no name)",
            "what had been done is undone",
        ] {
            assert!(line.contains(words), "{words}: {line}");
        }
        let config = WorkQueues::Enabled(vec!["dsa7".into()]);
        let (_queues, failed) = Accelerators::begin(&roots, &config);
        assert!(failed.len() == 1 && failed[0].contains("the host has dsa0"), "{failed:?}");
    }

    #[test]
    fn what_is_left_is_taken_down_whatever_the_configuration_says() {
        for config in [WorkQueues::Disabled, WorkQueues::Enabled(Vec::new())] {
            let (_host, roots) = host();
            let note = roots.run.join("numaloc/dsa");
            fs::write(&note, NOTE).expect("a file");
            let size = roots.sys.join("bus/dsa/devices/wq0.0/size");
            attribute(&roots, "dsa0/state", "disabled\n");
            attribute(&roots, "wq0.0/size", "128\n");
            drop(Accelerators::begin(&roots, &config));
            // A file, unlike an attribute, keeps the end of a longer content.
            assert!(fs::read_to_string(size).expect("a file").starts_with('0'));
            assert_eq!(fs::read_to_string(&note).expect("a file"), "");
        }
    }
}
