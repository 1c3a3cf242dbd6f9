//! Changes through a running daemon, which stores each one before it answers. They are compared with the least work that stores
//! anything on the same disk: a write of a page, and fdatasync(2).

use crate::{
    calls::percentile,
    figure::{Figure, NATIVE},
    subject::STORED,
};
use anyhow::{Context, Result, ensure};
use numaloc_api::v1::{
    CancelJobRequest, CreateJobRequest, DrainDaemonRequest, MigrationSpec, ReplaceWorkloadsRequest,
    Target, UndrainDaemonRequest, Workload, daemon_service_client::DaemonServiceClient,
    migration_service_client::MigrationServiceClient,
    workload_service_client::WorkloadServiceClient,
};
use std::{
    fs::File,
    os::unix::fs::FileExt,
    path::PathBuf,
    process::{Child, Command},
    thread,
    time::{Duration, Instant},
};
use tokio::{runtime::Runtime, task::JoinSet};
use tonic::transport::{Channel, Endpoint};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The daemon's Unix socket.
    #[arg(long)]
    socket: PathBuf,
    /// A directory on the disk that has the daemon's store.
    #[arg(long)]
    directory: PathBuf,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Rounds; in each all measurements are done, one after the other.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Writers at a time, each with the next change as soon as the last is answered.
    #[arg(long, default_value_t = 8)]
    writers: usize,
    /// Workloads that are registered with one call.
    #[arg(long, default_value_t = 10_000)]
    workloads: usize,
}

const CREATED: &str = "CreateJob";
/// Workloads in one message: the most that the daemon takes.
const PART: usize = 1000;

pub fn run(args: &Args) -> Result<()> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let endpoint = Endpoint::from_shared(format!("unix://{}", args.socket.display()))?;
    let channel = runtime.block_on(endpoint.connect())?;
    let mut daemon = DaemonServiceClient::new(channel.clone());
    // The daemon is drained, so jobs stay in the queue: their work is not to be measured.
    runtime.block_on(daemon.drain_daemon(DrainDaemonRequest {}))?;
    let done = measure(args, &runtime, &endpoint, &channel);
    runtime.block_on(daemon.undrain_daemon(UndrainDaemonRequest {}))?;
    done
}

fn measure(args: &Args, runtime: &Runtime, endpoint: &Endpoint, channel: &Channel) -> Result<()> {
    let span = Duration::from_secs(args.seconds);
    let (mut alone, mut bare, mut created, mut bulk) =
        <(Vec<_>, Vec<_>, Vec<_>, Vec<_>)>::default();
    let mut figures = [STORED, CREATED].map(|subject| Figure {
        bench: "writing".into(),
        kernel: NATIVE.into(),
        case: format!("{} writers", args.writers),
        subject: subject.into(),
        metric: "p99".into(),
        unit: "ms".into(),
        values: Vec::new(),
    });
    for _ in 0..args.rounds {
        alone.extend(store_bare(args, 1, span)?);
        let mut round = [
            store_bare(args, args.writers, span)?,
            runtime.block_on(create(endpoint, args.writers, span))?,
        ];
        for (figure, times) in figures.iter_mut().zip(&mut round) {
            figure.values.push(percentile(times, 99));
        }
        let [stored, made] = round;
        bare.extend(stored);
        created.extend(made);
        bulk.push(runtime.block_on(replace(channel, args.workloads))?);
        runtime.block_on(replace(channel, 0))?;
    }
    println!("| change | writers | times | p50 in ms | p99 in ms | p99 / that of a bare write |");
    println!("|---|--:|--:|--:|--:|--:|");
    let base = percentile(&mut bare, 99);
    let rows: [(String, usize, &mut Vec<Duration>); 4] = [
        (STORED.into(), 1, &mut alone),
        (STORED.into(), args.writers, &mut bare),
        (CREATED.into(), args.writers, &mut created),
        (format!("ReplaceWorkloads, {}", args.workloads), 1, &mut bulk),
    ];
    for (title, writers, times) in rows {
        let (p50, p99) = (percentile(times, 50), percentile(times, 99));
        let (count, ratio) = (times.len(), p99 / base);
        println!("| {title} | {writers} | {count} | {p50:.3} | {p99:.3} | {ratio:.2} |");
    }
    println!();
    figures.iter().try_for_each(Figure::emit)
}

/// Each of `writers` writes a page and waits for the disk, again and again, in a file of its own.
fn store_bare(args: &Args, writers: usize, span: Duration) -> Result<Vec<Duration>> {
    let end = Instant::now() + span;
    let write = || -> Result<Vec<Duration>> {
        let file: File = tempfile::tempfile_in(&args.directory)?;
        let (page, mut times) = ([1; 4096], Vec::new());
        while Instant::now() < end {
            let begin = Instant::now();
            file.write_all_at(&page, times.len() as u64 % 64 * 4096)?;
            file.sync_data()?;
            times.push(begin.elapsed());
        }
        Ok(times)
    };
    thread::scope(|scope| {
        let all: Vec<_> = (0..writers).map(|_| scope.spawn(write)).collect();
        let times: Result<Vec<_>> = all
            .into_iter()
            .map(|writer| writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect();
        Ok(times?.concat())
    })
}

/// A process that does nothing, as the target of a job.
struct Idler(Child);

impl Idler {
    fn start() -> Result<Self> {
        Ok(Self(Command::new("sleep").arg("3600").spawn().context("sleep")?))
    }
}

impl Drop for Idler {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Each of `writers` creates jobs for a process of its own and cancels them, over a connection of its own. Returns how long
/// creating took.
async fn create(endpoint: &Endpoint, writers: usize, span: Duration) -> Result<Vec<Duration>> {
    let end = Instant::now() + span;
    let mut open = JoinSet::new();
    for _ in 0..writers {
        let mut jobs = MigrationServiceClient::new(endpoint.connect().await?);
        let idler = Idler::start()?;
        open.spawn(async move {
            let target = Target { pids: vec![idler.0.id() as i32], ..Target::default() };
            let spec = MigrationSpec { target: Some(target), ..MigrationSpec::default() };
            let mut times = Vec::new();
            while Instant::now() < end {
                let request = CreateJobRequest { spec: Some(spec.clone()), ..Default::default() };
                let begin = Instant::now();
                let made = jobs.create_job(request).await?.into_inner();
                times.push(begin.elapsed());
                ensure!(!made.existing, "it was there before");
                let name = made.job.context("no job in the answer")?.name;
                jobs.cancel_job(CancelJobRequest { name }).await?;
            }
            Ok(times)
        });
    }
    let times: Result<Vec<Vec<Duration>>> = open.join_all().await.into_iter().collect();
    Ok(times?.concat())
}

/// Declares a set of `count` workloads. Returns how long that took.
async fn replace(channel: &Channel, count: usize) -> Result<Duration> {
    let workload = |number: usize| Workload {
        name: format!("workloads/bench-{number}"),
        cgroup: format!("/kubepods.slice/bench-{number}.scope"),
        container_id: format!("{number:064x}"),
        labels: [("app".to_owned(), format!("app-{}", number % 100))].into(),
        ..Workload::default()
    };
    let all: Vec<Workload> = (0..count).map(workload).collect();
    let mut parts: Vec<ReplaceWorkloadsRequest> = all
        .chunks(PART)
        .map(|part| ReplaceWorkloadsRequest {
            source: "bench".into(),
            workloads: part.to_vec(),
            ..ReplaceWorkloadsRequest::default()
        })
        .collect();
    if parts.is_empty() {
        parts.push(ReplaceWorkloadsRequest { source: "bench".into(), ..Default::default() });
    }
    parts.last_mut().expect("there is one").last = true;
    let begin = Instant::now();
    WorkloadServiceClient::new(channel.clone())
        .replace_workloads(tokio_stream::iter(parts))
        .await?;
    Ok(begin.elapsed())
}
