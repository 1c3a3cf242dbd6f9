//! numad(8), which runs only as a daemon: it is started for one process and ended by its own command.

use anyhow::{Context, Result, bail};
use std::{
    fs,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

/// The file in which numad notes its pid (numad.c).
const PID_FILE: &str = "/var/run/numad.pid";
/// Longest time that its end may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// A numad that looks after one process.
#[derive(Debug)]
pub struct Numad(());

impl Numad {
    /// Starts numad for `pid` alone. It looks at the process every second; its own default is every 5 to 15 seconds.
    pub fn start(pid: i32) -> Result<Self> {
        for directory in ["/var/run", "/var/log"] {
            fs::create_dir_all(directory)?;
        }
        let pid = pid.to_string();
        numad(&["-S", "0", "-p", &pid, "-i", "1:1"])?;
        Ok(Self(()))
    }

    /// Ends numad, and waits until it is gone.
    pub fn end(self) -> Result<()> {
        let pid = fs::read_to_string(PID_FILE).context(PID_FILE)?;
        let process = Path::new("/proc").join(pid.trim());
        numad(&["-i", "0"])?;
        let begin = Instant::now();
        while process.exists() {
            if begin.elapsed() > PATIENCE {
                bail!("numad, pid {}, has not ended after {PATIENCE:?}", pid.trim());
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

fn numad(options: &[&str]) -> Result<()> {
    let output = Command::new("numad").args(options).output().context("numad")?;
    if !output.status.success() {
        bail!("numad {options:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}
