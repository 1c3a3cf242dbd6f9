//! Redis under redis-benchmark before, during and after a move. The client and the mover share the CPU of the other node. So in a
//! machine with two CPUs the server has one for itself.

use crate::{
    figure::Series,
    movers::{AWAY, HOME, Mover},
    print,
};
use anyhow::{Context, Result, ensure};
use numaloc_tests::{
    cpus::pinned,
    truth::{Truth, on},
};
use std::{
    os::unix::net::UnixStream,
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// Number of keys, each with a value of 1 KiB.
const KEYS: u32 = 100_000;
/// Requests in one measurement. Some of them are slower than the p99.99.
const REQUESTS: u32 = 20_000;
/// Requests in the measurement with the move. The move has to end before they do.
const DURING: u32 = 2 * REQUESTS;
/// Time from the start of the measurement to the start of the move.
const DELAY: Duration = Duration::from_millis(500);

/// A server whose memory is on the other node. It is killed when this is dropped.
struct Server {
    child: Child,
    directory: TempDir,
}

/// The summary that redis-benchmark prints.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Load {
    per_second: f64,
    p99_ms: f64,
    p9999_ms: f64,
}

/// The results of one move.
struct Shown {
    wall: Duration,
    before: Load,
    during: Load,
    after: Load,
}

/// Measures all movers in turn, on the same server.
pub fn run(rounds: usize, kernel: &str) -> Result<()> {
    let mut movers = vec![Mover::nothing(Duration::ZERO), Mover::migratepages()];
    for profile in ["gentle", "balanced", "fast"] {
        movers.push(Mover::profile(profile)?);
    }
    let server = Server::start()?;
    let mut shown: Vec<_> = movers.iter().map(|_| Vec::new()).collect();
    for _ in 0..rounds {
        for (mover, shown) in movers.iter().zip(&mut shown) {
            shown.push(server.turn(mover)?);
        }
    }
    let mut figures = Vec::new();
    for (mover, shown) in movers.iter().zip(&shown) {
        let (subject, rounds) = (&*mover.name, &**shown);
        let series = Series { bench: "stall", kernel, case: "Redis", subject, rounds };
        let mut add = |metric: &str, unit: &str, value: &dyn Fn(&Shown) -> f64| {
            figures.push(series.figure(metric, unit, value));
        };
        if mover.moves() {
            add("wall", "ms", &|of| of.wall.as_secs_f64() * 1e3);
        }
        let share = "share of before";
        add("requests during", share, &|of| of.during.per_second / of.before.per_second);
        add("requests after", share, &|of| of.after.per_second / of.before.per_second);
        add("p99 before", "ms", &|of| of.before.p99_ms);
        add("p99 during", "ms", &|of| of.during.p99_ms);
        add("p99 after", "ms", &|of| of.after.p99_ms);
        add("p99.99 before", "ms", &|of| of.before.p9999_ms);
        add("p99.99 during", "ms", &|of| of.during.p9999_ms);
        add("p99.99 after", "ms", &|of| of.after.p9999_ms);
    }
    print::figures(&figures)
}

impl Server {
    fn start() -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--save", "", "--appendonly", "no", "--daemonize", "no"]);
        command.arg("--unixsocket").arg(directory.path().join("socket"));
        command.stdout(Stdio::null());
        let child = pinned(HOME, || command.spawn()).context("redis-server")?;
        let mut server = Self { child, directory };
        let begin = Instant::now();
        while UnixStream::connect(server.socket()).is_err() {
            ensure!(server.child.try_wait()?.is_none(), "redis-server has ended");
            ensure!(begin.elapsed() < Duration::from_secs(30), "redis-server does not answer");
            thread::sleep(Duration::from_millis(10));
        }
        let fill = server.load(2 * KEYS, &["-P", "32"])?.wait_with_output()?;
        ensure!(fill.status.success(), "redis-benchmark: {fill:?}");
        Ok(server)
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    fn load(&self, requests: u32, options: &[&str]) -> Result<Child> {
        let mut command = Command::new("redis-benchmark");
        command.arg("-s").arg(self.socket()).args(["-t", "set", "-c", "4", "-d", "1024"]);
        command.args(["-n", &requests.to_string(), "-r", &KEYS.to_string()]).args(options);
        command.stdout(Stdio::piped());
        pinned(AWAY, || command.spawn()).context("redis-benchmark")
    }

    fn measured(child: Child) -> Result<Load> {
        let output = child.wait_with_output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        ensure!(output.status.success(), "redis-benchmark: {}\n{text}", output.status);
        Load::parse(&text).with_context(|| format!("redis-benchmark said something else:\n{text}"))
    }

    /// Moves the memory away, and then home again under load.
    fn turn(&self, mover: &Mover) -> Result<Shown> {
        let pid = self.child.id();
        let back =
            Command::new("migratepages").args([pid, HOME, AWAY].map(|n| n.to_string())).status()?;
        ensure!(back.success(), "migratepages: {back}");
        let before = Self::measured(self.load(REQUESTS, &[])?)?;
        let load = self.load(DURING, &[])?;
        thread::sleep(DELAY);
        let turn = mover.turn_of(pid as i32, true)?;
        let during = Self::measured(load)?;
        let after = Self::measured(self.load(REQUESTS, &[])?)?;
        let share = self.share_at_home()?;
        ensure!(!mover.moves() || share >= 0.99, "{}: {share} at home", mover.name);
        Ok(Shown { wall: turn.wall, before, during, after })
    }

    /// The share of the pages at home, without file pages.
    fn share_at_home(&self) -> Result<f64> {
        let nodes = Truth::of(self.child.id() as i32).without_files().all();
        let all: u64 = nodes.values().sum();
        ensure!(all > 0, "numa_maps shows no pages");
        Ok(on(&nodes, HOME) as f64 / all as f64)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Load {
    /// Parses its long output: lines such as "99.902% <= 0.031 milliseconds (cumulative count 19986)" in finer and finer steps,
    /// and a summary.
    fn parse(text: &str) -> Option<Self> {
        let (_, distribution) = text.split_once("Latency by percentile distribution:")?;
        let points = distribution.lines().skip(1).map_while(|line| {
            let (percent, rest) = line.split_once("% <= ")?;
            Some((percent.parse::<f64>().ok()?, rest.split(' ').next()?.parse::<f64>().ok()?))
        });
        let points = points.collect::<Vec<_>>();
        let at = |percent| Some(points.iter().find(|(of, _)| *of >= percent)?.1);
        let (_, summary) = text.split_once("throughput summary: ")?;
        let per_second = summary.split(' ').next()?.parse().ok()?;
        Some(Self { per_second, p99_ms: at(99.0)?, p9999_ms: at(99.99)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redis_benchmark_is_understood() {
        let text = "\
====== SET ======
  20000 requests completed in 0.07 seconds

Latency by percentile distribution:
0.000% <= 0.007 milliseconds (cumulative count 7410)
50.000% <= 0.015 milliseconds (cumulative count 19805)
99.219% <= 0.023 milliseconds (cumulative count 19961)
99.988% <= 0.071 milliseconds (cumulative count 19998)
99.994% <= 3.679 milliseconds (cumulative count 19999)
100.000% <= 3.687 milliseconds (cumulative count 20000)

Cumulative distribution of latencies:
99.990% <= 0.103 milliseconds (cumulative count 19998)

Summary:
  throughput summary: 270270.28 requests per second
";
        let load = Load { per_second: 270270.28, p99_ms: 0.023, p9999_ms: 3.679 };
        assert_eq!(Load::parse(text), Some(load));
        assert_eq!(Load::parse("WARNING: nothing"), None);
    }
}
