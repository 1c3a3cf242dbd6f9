//! Calls of a running daemon, compared with its own health check. The same compiled client makes all of them over one connection.
//! So what a client has to do with an answer is part of each time, as it is for users of generated code.

use anyhow::{Context, Result, ensure};
use numaloc_api::v1::{
    GetJobRequest, ListJobsRequest, RegisterWorkloadRequest, Workload,
    migration_service_client::MigrationServiceClient,
    workload_service_client::WorkloadServiceClient,
};
use std::{
    path::PathBuf,
    time::{Duration, Instant},
};
use tokio::{runtime::Runtime, task::JoinSet, time::MissedTickBehavior};
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The daemon's Unix socket.
    #[arg(long)]
    socket: PathBuf,
    /// Number of its jobs: jobs/1, jobs/2 and so on.
    #[arg(long, default_value_t = 10_000)]
    jobs: u64,
    /// Length of each measurement in seconds.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Rounds; in each all measurements are done, one after the other.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Calls a second in the paced measurement. It is slow, so that the time of a call is measured and not a queue before it.
    #[arg(long, default_value_t = 200)]
    rate: u64,
    /// Number of callers at a time in the unpaced measurement.
    #[arg(long, default_value_t = 8)]
    callers: usize,
    /// Clients that write meanwhile, each with the next change as soon as the last is answered.
    #[arg(long, default_value_t = 0)]
    writers: usize,
}

#[derive(Clone, Copy, Debug)]
enum Call {
    Health,
    Get,
    List,
}

const CALLS: [Call; 3] = [Call::Health, Call::Get, Call::List];
/// Jobs that one call asks for.
const PAGE: i32 = 100;

/// Measures all calls, paced and unpaced.
pub fn run(args: &Args) -> Result<()> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let endpoint = Endpoint::from_shared(format!("unix://{}", args.socket.display()))?;
    let client = Client { channel: runtime.block_on(endpoint.connect())?, jobs: args.jobs };
    let span = Duration::from_secs(args.seconds);
    let writers = runtime.block_on(write(&endpoint, args.writers))?;
    let (mut paced, mut crowded) = <([Vec<Duration>; 3], [Vec<Duration>; 3])>::default();
    for _ in 0..args.rounds {
        for (index, call) in CALLS.into_iter().enumerate() {
            paced[index].extend(client.paced(&runtime, call, args.rate, span)?);
        }
        for (index, call) in CALLS.into_iter().enumerate() {
            crowded[index].extend(client.crowded(&runtime, call, args.callers, span)?);
        }
    }
    runtime.block_on(finish(writers))?;
    if args.writers > 0 {
        println!("While {} clients write:\n", args.writers);
    }
    println!("{} calls a second:\n", args.rate);
    print(args.jobs, &mut paced);
    println!(
        "{} callers, each with the next call as soon as the last is answered:\n",
        args.callers
    );
    print(args.jobs, &mut crowded);
    Ok(())
}

/// Starts clients with a connection each. Each registers its workload again and again, each time with another label.
async fn write(endpoint: &Endpoint, writers: usize) -> Result<JoinSet<Result<()>>> {
    let mut open = JoinSet::new();
    for writer in 0..writers {
        let mut workloads = WorkloadServiceClient::new(endpoint.connect().await?);
        open.spawn(async move {
            for number in 0_u64.. {
                let workload = Workload {
                    name: format!("workloads/writer-{writer}"),
                    cgroup: format!("/writer-{writer}"),
                    labels: [("number".to_owned(), number.to_string())].into(),
                    ..Workload::default()
                };
                let request =
                    RegisterWorkloadRequest { workload: Some(workload), ..Default::default() };
                workloads.register_workload(request).await?;
            }
            Ok(())
        });
    }
    Ok(open)
}

/// Ends the writers. If one has ended before, it has failed.
async fn finish(mut writers: JoinSet<Result<()>>) -> Result<()> {
    if let Some(ended) = writers.try_join_next() {
        ended??;
    }
    writers.shutdown().await;
    Ok(())
}

/// A client. All its calls go over one connection.
#[derive(Clone, Debug)]
struct Client {
    channel: Channel,
    jobs: u64,
}

impl Client {
    /// Begins each call when it is due, whether those before have been answered or not. Returns the times of all calls.
    fn paced(
        &self,
        runtime: &Runtime,
        call: Call,
        rate: u64,
        span: Duration,
    ) -> Result<Vec<Duration>> {
        runtime.block_on(async {
            let mut due = tokio::time::interval(Duration::from_secs(1) / u32::try_from(rate)?);
            due.set_missed_tick_behavior(MissedTickBehavior::Burst);
            let mut open = JoinSet::new();
            for number in 0..rate * span.as_secs() {
                due.tick().await;
                let begin = Instant::now();
                let client = self.clone();
                open.spawn(async move {
                    client.make(call, number).await?;
                    Ok(begin.elapsed())
                });
            }
            open.join_all().await.into_iter().collect()
        })
    }

    /// Each of `callers` begins a call when its last one has been answered. Returns the times of all calls.
    fn crowded(
        &self,
        runtime: &Runtime,
        call: Call,
        callers: usize,
        span: Duration,
    ) -> Result<Vec<Duration>> {
        let end = Instant::now() + span;
        runtime.block_on(async {
            let mut open = JoinSet::new();
            for caller in 0..callers as u64 {
                let client = self.clone();
                open.spawn(async move {
                    let mut times = Vec::new();
                    while Instant::now() < end {
                        let begin = Instant::now();
                        client.make(call, caller + times.len() as u64).await?;
                        times.push(begin.elapsed());
                    }
                    Ok(times)
                });
            }
            let times: Result<Vec<Vec<Duration>>> = open.join_all().await.into_iter().collect();
            Ok(times?.concat())
        })
    }

    /// Makes one call and checks its answer: a wrong answer would be hidden among the times of the others.
    async fn make(&self, call: Call, number: u64) -> Result<()> {
        let channel = self.channel.clone();
        match call {
            Call::Health => {
                let answer =
                    HealthClient::new(channel).check(HealthCheckRequest::default()).await?;
                ensure!(answer.get_ref().status == 1, "the daemon is not serving");
            }
            Call::Get => {
                // Spread over all jobs, so that a cache is of little use.
                let name = format!("jobs/{}", 1 + number * 7_919 % self.jobs);
                let request = GetJobRequest { name: name.clone() };
                let answer = MigrationServiceClient::new(channel).get_job(request).await?;
                let job = answer.into_inner().job.context("no job in the answer")?;
                ensure!(job.name == name, "{} instead of {name}", job.name);
            }
            Call::List => {
                let request = ListJobsRequest { page_size: PAGE, ..ListJobsRequest::default() };
                let answer = MigrationServiceClient::new(channel).list_jobs(request).await?;
                let (jobs, most) = (answer.get_ref().jobs.len() as u64, self.jobs.min(PAGE as u64));
                ensure!(jobs == most, "{jobs} jobs instead of {most}");
            }
        }
        Ok(())
    }
}

fn print(jobs: u64, times: &mut [Vec<Duration>; 3]) {
    println!("| call | calls | p50 in ms | p99 in ms | p99 / that of the health check |");
    println!("|---|--:|--:|--:|--:|");
    let base = percentile(&mut times[0], 99);
    for (call, times) in CALLS.into_iter().zip(times) {
        let title = match call {
            Call::Health => "health check".to_owned(),
            Call::Get => format!("GetJob, any of {jobs}"),
            Call::List => format!("ListJobs, {PAGE} of {jobs}"),
        };
        let (p50, p99) = (percentile(times, 50), percentile(times, 99));
        let count = times.len();
        println!("| {title} | {count} | {p50:.3} | {p99:.3} | {:.2} |", p99 / base);
    }
    println!();
}

/// The `percent`th percentile of `times`, in milliseconds.
pub fn percentile(times: &mut [Duration], percent: usize) -> f64 {
    times.sort_unstable();
    let at = times.len().saturating_sub(1) * percent / 100;
    times.get(at).map_or(0.0, |time| time.as_secs_f64() * 1e3)
}
