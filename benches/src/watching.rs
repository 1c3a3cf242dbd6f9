//! Costs of a job's watchers: the CPU time of its executor, and how long it moves, with watchers against without. Jobs
//! with and without watchers take turns on the same process, whose memory moves there and back again.

use crate::{
    daemon::Daemon,
    figure::{Figure, kernel, quantile},
    hold::{self, Holder},
    rounds::met_or_missed,
};
use anyhow::{Context, Result, ensure};
use numaloc_api::v1::{self, migration_service_client::MigrationServiceClient, policy::Placement};
use std::{ops::AddAssign, time::Duration};
use tokio::{task::JoinSet, time::sleep};
use tonic::transport::Channel;

/// Pause between two questions whether a job has ended. It is the same with and without watchers.
const POLL: Duration = Duration::from_millis(100);
/// The most that watching may cost the executor, as a ratio.
const GOAL: f64 = 1.01;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// MiB that each job moves.
    #[arg(long, default_value_t = 512)]
    mib: usize,
    /// Number of clients that watch, each with a connection of its own.
    #[arg(long, default_value_t = 20)]
    watchers: usize,
    /// Rounds that count.
    #[arg(long, default_value_t = 20)]
    rounds: usize,
}

/// CPU time of jobs, with and without a watcher.
#[derive(Clone, Debug, Default)]
struct Cost {
    /// CPU time of the threads that planned and moved.
    executor: Duration,
    /// CPU time of all other threads of the daemon.
    rest: Duration,
    /// Time from the first batch to the last.
    moving: Duration,
    /// Number of answers to all watchers.
    answers: usize,
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.executor += other.executor;
        self.rest += other.rest;
        self.moving += other.moving;
        self.answers += other.answers;
    }
}

type Client = MigrationServiceClient<Channel>;

/// Measures jobs without watchers against jobs that all clients watch.
pub fn run(args: &Args) -> Result<()> {
    let daemon = Daemon::start("")?;
    let (mib, cpu_node, memory_node) = (args.mib, Some(0), Some(1));
    let holder =
        Holder::start(&hold::Args { mib, cpu_node, memory_node, ..hold::Args::default() })?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut alone, mut watched) = (Vec::new(), Vec::new());
    runtime.block_on(async {
        let mut clients = Vec::new();
        for _ in 0..args.watchers.max(1) {
            clients.push(Client::new(daemon.connect().await?));
        }
        // The first round does not count. Both variants go first equally often.
        for round in 0..=args.rounds {
            for is_watched in [round % 2 == 0, round % 2 == 1] {
                let watchers = if is_watched { &clients[..] } else { &[] };
                let mut cost = Cost::default();
                for to in [0, 1] {
                    cost += job(&daemon, &clients[0], watchers, &holder, to).await?;
                }
                if round > 0 {
                    if is_watched { &mut watched } else { &mut alone }.push(cost);
                }
            }
        }
        anyhow::Ok(())
    })?;
    print(args, &alone, &watched)
}

/// Creates a job that moves the memory of `holder` to a node, and waits for its end.
async fn job(
    daemon: &Daemon,
    client: &Client,
    watchers: &[Client],
    holder: &Holder,
    to: u32,
) -> Result<Cost> {
    let mut client = client.clone();
    let before = daemon.times().await?;
    let created = client.create_job(request(holder.pid(), to)).await?.into_inner();
    let name = created.job.context("a job")?.name;
    let mut watches = JoinSet::new();
    for watcher in watchers.iter().cloned() {
        watches.spawn(watch(watcher, name.clone()));
    }
    let job = loop {
        sleep(POLL).await;
        let request = v1::GetJobRequest { name: name.clone() };
        let job = client.get_job(request).await?.into_inner().job.context("a job")?;
        if job.end_time.is_some() {
            break job;
        }
    };
    let answers: Result<Vec<usize>> = watches.join_all().await.into_iter().collect();
    let after = daemon.times().await?;
    let all = [(to, holder.pages())];
    let nodes = holder.pages_by_node()?;
    ensure!(nodes == all, "{name} left pages behind: {nodes:?}, {}", job.state_message);
    let elapsed = job.outcome.and_then(|outcome| outcome.elapsed).context("an outcome")?;
    let (executor, rest) = after.since(&before);
    let moving = Duration::try_from(elapsed)?;
    Ok(Cost { executor, rest, moving, answers: answers?.into_iter().sum() })
}

fn request(pid: i32, to: u32) -> v1::CreateJobRequest {
    let placement = Placement::Nodes(v1::NodesPlacement { node_ids: vec![to as i32] });
    let profile = v1::Profile::Fast.into();
    let policy = v1::Policy { placement: Some(placement), profile, ..v1::Policy::default() };
    let target = v1::Target { pids: vec![pid], ..v1::Target::default() };
    let spec = v1::MigrationSpec { target: Some(target), policy: Some(policy), limits: None };
    v1::CreateJobRequest { spec: Some(spec), ..v1::CreateJobRequest::default() }
}

/// Reads all answers until the job ends. Returns how many there were.
async fn watch(mut client: Client, name: String) -> Result<usize> {
    let mut stream = client.watch_job(v1::WatchJobRequest { name }).await?.into_inner();
    let mut answers = 0;
    while stream.message().await?.is_some() {
        answers += 1;
    }
    Ok(answers)
}

fn print(args: &Args, alone: &[Cost], watched: &[Cost]) -> Result<()> {
    let kernel = kernel()?;
    let Args { mib, watchers, rounds } = args;
    println!("watch: {mib} MiB there and back, kernel {kernel}, medians of {rounds} rounds\n");
    println!("| | executor, ms of CPU | moving, ms | rest of the daemon, ms of CPU | answers |");
    println!("|---|--:|--:|--:|--:|");
    for (name, costs) in
        [("no watcher".to_owned(), alone), (format!("{watchers} watchers"), watched)]
    {
        let ms = |of: fn(&Cost) -> Duration| {
            costs.iter().map(|cost| of(cost).as_secs_f64() * 1e3).collect::<Vec<_>>()
        };
        let case = format!("{mib} MiB there and back");
        let (bench, metric, unit) = ("watch".into(), "executor's CPU time".into(), "ms".into());
        let (kernel, subject, values) = (kernel.clone(), name.clone(), ms(|cost| cost.executor));
        Figure { bench, kernel, case, subject, metric, unit, values }.emit()?;
        let ms = |of| quantile(&ms(of), 0.5);
        let (executor, moving) = (ms(|cost| cost.executor), ms(|cost| cost.moving));
        let rest = ms(|cost| cost.rest);
        let answers = costs.iter().map(|cost| cost.answers).sum::<usize>() / costs.len().max(1);
        println!("| {name} | {executor:.1} | {moving:.1} | {rest:.1} | {answers} |");
    }
    println!("\n| watched / not watched, round by round | median | quartiles | all |");
    println!("|---|--:|--:|--:|");
    let ratios = |of: fn(&Cost) -> Duration| {
        let pairs = alone.iter().zip(watched);
        let mut ratios: Vec<f64> = pairs
            .map(|(alone, watched)| of(watched).as_secs_f64() / of(alone).as_secs_f64())
            .collect();
        ratios.sort_unstable_by(f64::total_cmp);
        move |part: f64| ratios[((ratios.len() - 1) as f64 * part).round() as usize]
    };
    let executor = ratios(|cost| cost.executor);
    let moving = ratios(|cost| cost.moving);
    for (name, at) in
        [("executor's CPU time", &executor as &dyn Fn(f64) -> f64), ("moving", &moving)]
    {
        let [least, lower, middle, upper, most] = [0.0, 0.25, 0.5, 0.75, 1.0].map(at);
        println!("| {name} | {middle:.4} | {lower:.4} to {upper:.4} | {least:.4} to {most:.4} |");
    }
    println!("\nexecutor's CPU time: goal {GOAL}: {}", met_or_missed(executor(0.5), GOAL));
    Ok(())
}
