//! A numalocd for a benchmark, and the CPU time of its threads.

use anyhow::{Context, Result, bail, ensure};
use nix::{time::ClockId, unistd::Pid};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;
use tokio::{net::UnixStream, time::sleep};
use tonic::transport::{Channel, Endpoint};

/// Pause between two looks at what is waited for; `PATIENCE` is the longest wait.
const PAUSE: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(60);

/// A daemon. It is killed when this value is dropped.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    command: Command,
    dir: TempDir,
}

impl Daemon {
    /// Starts the numalocd that is on PATH, with these sections in its configuration besides.
    pub fn start(sections: &str) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let config = dir.path().join("numalocd.toml");
        // All clients count as one caller here, so the quota must be high. Without the log level each job would be logged among
        // the figures.
        let always = "[log]\nlevel = \"warn,audit=warn\"\n[quota]\nrequests_per_second = 1000000\n";
        fs::write(&config, format!("{always}{sections}"))?;
        let mut command = Command::new("numalocd");
        command.arg("--socket").arg(socket(&dir)).arg("--config").arg(config);
        command.arg("--state-dir").arg(dir.path().join("state"));
        // As the unit has it.
        command.env("MALLOC_ARENA_MAX", "1");
        let child = command.stdin(Stdio::null()).spawn().context("cannot start numalocd")?;
        Ok(Self { child, dir, command })
    }

    /// Kills it and starts it again, with the records that it has stored.
    pub fn kill_and_restart(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        self.child = self.command.spawn().context("cannot start numalocd")?;
        Ok(())
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The directory of its socket, configuration and state.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The URI by which clients name it.
    pub fn endpoint(&self) -> String {
        format!("unix://{}", socket(&self.dir).display())
    }

    /// Opens a new connection, once the daemon listens.
    pub async fn connect(&self) -> Result<Channel> {
        let socket = socket(&self.dir);
        let begin = Instant::now();
        while let Err(error) = UnixStream::connect(&socket).await {
            ensure!(begin.elapsed() < PATIENCE, "numalocd does not listen: {error}");
            sleep(PAUSE).await;
        }
        Ok(Endpoint::from_shared(self.endpoint())?.connect().await?)
    }

    /// The CPU time that was used so far. Waits until no job has a thread any more.
    pub async fn times(&self) -> Result<Times> {
        let begin = Instant::now();
        loop {
            if let Some(times) = self.times_without_jobs()? {
                return Ok(times);
            }
            ensure!(begin.elapsed() < PATIENCE, "a job that has ended still has a thread");
            sleep(PAUSE).await;
        }
    }

    fn times_without_jobs(&self) -> Result<Option<Times>> {
        let pid = self.child.id();
        let mut threads = BTreeMap::new();
        for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
            let path = entry?.path();
            // The thread may have ended meanwhile.
            let Ok(comm) = fs::read_to_string(path.join("comm")) else { continue };
            let Ok(schedstat) = fs::read_to_string(path.join("schedstat")) else { continue };
            // The engine gives a job's thread this name, and the executor's threads inherit it.
            if comm.starts_with("job-") {
                return Ok(None);
            }
            let Some(Ok(nanos)) = schedstat.split(' ').next().map(str::parse) else {
                bail!("{} is not understood: {schedstat:?}", path.join("schedstat").display());
            };
            threads.insert(path, Duration::from_nanos(nanos));
        }
        let clock = ClockId::pid_cpu_clock_id(Pid::from_raw(pid as i32))?;
        Ok(Some(Times { process: clock.now()?.into(), threads }))
    }
}

fn socket(dir: &TempDir) -> PathBuf {
    dir.path().join("numalocd.sock")
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// CPU time at a moment when no job is under way.
#[derive(Debug)]
pub struct Times {
    /// CPU time of all threads that there ever were: the process's clock, in nanoseconds (clock_getcpuclockid(3)).
    process: Duration,
    /// CPU time of the threads that exist now, by directory: /proc/PID/task/TID/schedstat, in nanoseconds.
    threads: BTreeMap<PathBuf, Duration>,
}

impl Times {
    /// CPU time since `before`: of the threads of jobs, which are gone by now, and of all other threads.
    pub fn since(&self, before: &Self) -> (Duration, Duration) {
        let used = |(path, now): (&PathBuf, &Duration)| {
            now.saturating_sub(before.threads.get(path).copied().unwrap_or_default())
        };
        let rest: Duration = self.threads.iter().map(used).sum();
        ((self.process - before.process).saturating_sub(rest), rest)
    }
}
