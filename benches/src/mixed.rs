//! A daemon under a mixed load: four tenants with 50 schedules each that make jobs and change what they have, watchers that do not read,
//! live views as pages ask for them, and a caller without a role. First it is killed at random while the tenants compare what they were
//! told is stored with what is; then its memory, threads, files and store are read over time.
//!
//! Where there is one node, jobs find all memory local; in the NUMA machine they move.

pub mod client;

use crate::daemon::Daemon;
use anyhow::{Context, Result, bail};
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    os::unix::fs::PermissionsExt,
    process::{Child, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};
use tokio::time::sleep;

/// Time between two readings.
const PERIOD: Duration = Duration::from_secs(10);
/// The longest time between two kills.
const BETWEEN_KILLS: Duration = Duration::from_secs(3);

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Number of kills of the daemon, which come first.
    #[arg(long, default_value_t = 600)]
    kills: usize,
    /// Time for which its memory is read after that, in minutes.
    #[arg(long, default_value_t = 120)]
    minutes: u64,
}

/// A client in a process of its own.
struct Client {
    child: Child,
    output: BufReader<ChildStdout>,
    name: String,
}

impl Client {
    fn start(daemon: &Daemon, uid: u32, gid: u32, does: &str) -> Result<Self> {
        let mut command = Command::new("setpriv");
        command.args([format!("--reuid={uid}"), format!("--regid={gid}"), "--clear-groups".into()]);
        command.arg(format!("/proc/{}/exe", std::process::id()));
        command.args(["mixed-client", does, &daemon.endpoint()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("cannot start setpriv (util-linux)")?;
        let output = BufReader::new(child.stdout.take().context("no pipe")?);
        Ok(Self { child, output, name: format!("{does} as uid {uid}") })
    }

    /// Has it end, and gives back its account.
    fn end(mut self) -> Result<String> {
        drop(self.child.stdin.take());
        let mut last = String::new();
        for line in self.output.by_ref().lines() {
            last = line?;
        }
        let status = self.child.wait()?;
        if !status.success() {
            bail!("{}: {status}: {last}", self.name);
        }
        Ok(format!("{}: {last}", self.name))
    }
}

/// The daemon's use of resources at a moment.
struct Reading {
    seconds: u64,
    memory_kib: u64,
    threads: u64,
    files: usize,
    store_bytes: u64,
}

impl Reading {
    fn of(daemon: &Daemon, seconds: u64) -> Result<Self> {
        let status = fs::read_to_string(format!("/proc/{}/status", daemon.pid()))?;
        let field = |name: &str| {
            let value = status.lines().find_map(|line| line.strip_prefix(name));
            let value = value.and_then(|value| value.split_whitespace().next()?.parse().ok());
            value.with_context(|| format!("no {name}"))
        };
        Ok(Self {
            seconds,
            memory_kib: field("RssAnon:")?,
            threads: field("Threads:")?,
            files: fs::read_dir(format!("/proc/{}/fd", daemon.pid()))?.count(),
            store_bytes: fs::metadata(daemon.dir().join("state/numalocd.redb"))?.len(),
        })
    }
}

pub fn run(args: &Args) -> Result<()> {
    tokio::runtime::Runtime::new()?.block_on(mixed(args))
}

async fn mixed(args: &Args) -> Result<()> {
    let grant = |to: String| format!("[[grants]]\n{to}\nrole = \"operator\"\ncgroups = [\"/\"]\n");
    let grants = [
        grant(format!("user = {}", client::OWN[0])),
        grant(format!("user = {}", client::OWN[1])),
        grant(format!("group = {}", client::GROUP)),
    ];
    let mut daemon = Daemon::start(&format!("[listen]\nmode = \"0666\"\n{}", grants.concat()))?;
    fs::set_permissions(daemon.dir(), fs::Permissions::from_mode(0o755))?;
    daemon.connect().await?;
    let mut clients = Vec::new();
    for uid in client::OWN {
        clients.push(Client::start(&daemon, uid, uid, "tenant")?);
    }
    for uid in client::MEMBERS {
        clients.push(Client::start(&daemon, uid, client::GROUP, "tenant")?);
    }
    clients.push(Client::start(&daemon, client::OWN[0], client::OWN[0], "unread")?);
    clients.push(Client::start(&daemon, client::OWN[1], client::OWN[1], "pages")?);
    clients.push(Client::start(&daemon, client::STRANGER, client::STRANGER, "refused")?);

    let begin = Instant::now();
    for _ in 0..args.kills {
        sleep(BETWEEN_KILLS.mul_f64(fastrand::f64())).await;
        daemon.kill_and_restart()?;
        daemon.connect().await?;
    }
    println!("{} kills in {} s", args.kills, begin.elapsed().as_secs());

    println!("seconds,memory_kib,threads,files,store_bytes");
    let begin = Instant::now();
    let until = Duration::from_secs(args.minutes * 60);
    let mut readings = Vec::new();
    while begin.elapsed() < until {
        let reading = Reading::of(&daemon, begin.elapsed().as_secs())?;
        let Reading { seconds, memory_kib, threads, files, store_bytes } = reading;
        println!("{seconds},{memory_kib},{threads},{files},{store_bytes}");
        std::io::stdout().flush()?;
        readings.push(reading);
        sleep(PERIOD).await;
    }
    show(&readings);
    for client in clients {
        println!("{}", client.end()?);
    }
    Ok(())
}

/// The highest of each tenth of the time, so that growth shows.
fn show(readings: &[Reading]) {
    println!("from second: memory MiB, threads, files, store MiB (the highest of each tenth)");
    for part in readings.chunks(readings.len().div_ceil(10).max(1)) {
        let most = |of: fn(&Reading) -> u64| part.iter().map(of).max().unwrap_or(0);
        println!(
            "{:>6}: {:>6.1} {:>4} {:>5} {:>7.1}",
            part[0].seconds,
            most(|it| it.memory_kib) as f64 / 1024.0,
            most(|it| it.threads),
            most(|it| it.files as u64),
            most(|it| it.store_bytes) as f64 / 1048576.0,
        );
    }
}
