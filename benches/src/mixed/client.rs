//! The clients of `mixed`, each a process with a user id of its own.

use anyhow::{Context, Result, bail};
use numaloc_api::v1::{
    self, event_service_client::EventServiceClient, locality_service_client::LocalityServiceClient,
    migration_service_client::MigrationServiceClient,
    schedule_service_client::ScheduleServiceClient,
};
use std::{
    collections::{BTreeMap, VecDeque},
    io::Read,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};
use tokio::time::sleep;
use tonic::{
    Code, Status,
    transport::{Channel, Endpoint},
};

/// Users with grants of their own, members of the group of a grant, and one without any.
pub const OWN: [u32; 2] = [14_001, 14_002];
pub const GROUP: u32 = 14_100;
pub const MEMBERS: [u32; 2] = [14_101, 14_102];
pub const STRANGER: u32 = 14_200;

/// Schedules of each tenant.
const SCHEDULES: usize = 50;
/// Age up to which a tenant checks that its jobs exist. A schedule that runs each 5 s keeps 20 of them.
const JOBS: Duration = Duration::from_secs(20);
/// Time between two calls of a tenant, and between two of other clients.
const PAUSE: Duration = Duration::from_millis(50);

/// The kind of client, and its endpoint.
#[derive(Debug, clap::Args)]
pub struct Args {
    does: Does,
    endpoint: String,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Does {
    /// Makes schedules and jobs, changes them, and compares them after each end of the daemon.
    Tenant,
    /// A watch whose messages are not read.
    Unread,
    /// Asks for the live view and for jobs, as a page does.
    Pages,
    /// Makes calls that it may not make.
    Refused,
}

pub fn run(args: &Args) -> Result<()> {
    let channel = Endpoint::from_shared(args.endpoint.clone())?;
    tokio::runtime::Runtime::new()?.block_on(async {
        let work = async {
            match args.does {
                Does::Tenant => Tenant::new(&channel)?.work().await,
                Does::Unread => unread(&channel).await,
                Does::Pages => pages(&channel).await,
                Does::Refused => refused(&channel).await,
            }
        };
        work.await
    })
}

/// Whether the client is to end: its input has.
fn ended() -> thread::JoinHandle<()> {
    thread::spawn(|| drop(std::io::stdin().read(&mut [0])))
}

/// A new connection, once there is a daemon.
async fn connect(endpoint: &Endpoint) -> Channel {
    loop {
        if let Ok(channel) = endpoint.connect().await {
            return channel;
        }
        sleep(PAUSE).await;
    }
}

/// Whether the daemon has ended under a call: then it is not known whether the call was carried out.
fn is_lost(status: &Status) -> bool {
    matches!(status.code(), Code::Unavailable | Code::Unknown | Code::Cancelled | Code::Internal)
}

/// The records that the daemon has acknowledged to a tenant.
struct Tenant {
    endpoint: Endpoint,
    /// The process that it has moved. It ends with this value.
    child: Child,
    /// Its schedules, and whether each is paused; `None`: a call about it was lost.
    schedules: BTreeMap<String, Option<bool>>,
    jobs: VecDeque<(Instant, String)>,
    made: u64,
    counts: Counts,
}

#[derive(Debug, Default)]
struct Counts {
    acknowledged: u64,
    refused: u64,
    ends: u64,
    compared: u64,
    lost: u64,
}

impl Drop for Tenant {
    fn drop(&mut self) {
        self.child.kill().and_then(|()| self.child.wait()).ok();
    }
}

impl Tenant {
    fn new(endpoint: &Endpoint) -> Result<Self> {
        let child = Command::new("sleep").arg("infinity").stdin(Stdio::null()).spawn()?;
        Ok(Self {
            endpoint: endpoint.clone(),
            child,
            schedules: BTreeMap::new(),
            jobs: VecDeque::new(),
            made: 0,
            counts: Counts::default(),
        })
    }

    async fn work(&mut self) -> Result<()> {
        let ended = ended();
        let mut channel = connect(&self.endpoint).await;
        while !ended.is_finished() {
            match self.act(&channel).await {
                Ok(()) => {}
                Err(status) if is_lost(&status) => {
                    self.counts.ends += 1;
                    channel = connect(&self.endpoint).await;
                    while let Err(status) = self.compare(&channel).await {
                        if !is_lost(&status) {
                            bail!("cannot compare: {status}");
                        }
                        channel = connect(&self.endpoint).await;
                    }
                }
                Err(status) if status.code() == Code::ResourceExhausted => self.counts.refused += 1,
                Err(status) => bail!("{status}"),
            }
            sleep(PAUSE).await;
        }
        self.compare(&channel).await.context("the last comparison")?;
        println!("{:?}", self.counts);
        Ok(())
    }

    fn spec(&self) -> v1::MigrationSpec {
        let target = v1::Target { pids: vec![self.child.id() as i32], ..Default::default() };
        v1::MigrationSpec { target: Some(target), ..Default::default() }
    }

    async fn act(&mut self, channel: &Channel) -> Result<(), Status> {
        let mut client = ScheduleServiceClient::new(channel.clone());
        if self.schedules.len() < SCHEDULES || fastrand::u8(..) < 10 {
            self.made += 1;
            let id = format!("t{}-{}", std::process::id(), self.made);
            let interval = Some(prost_types::Duration { seconds: 5, nanos: 0 });
            let schedule = v1::Schedule { spec: Some(self.spec()), interval, ..Default::default() };
            let name = format!("schedules/{id}");
            self.schedules.insert(name.clone(), None);
            let request = v1::CreateScheduleRequest {
                schedule: Some(schedule),
                schedule_id: id,
                ..Default::default()
            };
            let made = client.create_schedule(request).await;
            self.settle(&name, Some(false), made.map(drop))?;
        }
        match fastrand::u8(..) {
            0..10 if self.schedules.len() > SCHEDULES / 2 => {
                let Some(name) = self.any() else { return Ok(()) };
                self.schedules.insert(name.clone(), None);
                let request =
                    v1::DeleteScheduleRequest { name: name.clone(), ..Default::default() };
                client.delete_schedule(request).await?;
                self.counts.acknowledged += 1;
                self.schedules.remove(&name);
            }
            10..120 => {
                let Some(name) = self.any() else { return Ok(()) };
                let paused = fastrand::bool();
                self.schedules.insert(name.clone(), None);
                let schedule = v1::Schedule { name: name.clone(), paused, ..Default::default() };
                let update_mask = Some(prost_types::FieldMask { paths: vec!["paused".to_owned()] });
                let schedule = Some(schedule);
                let request =
                    v1::UpdateScheduleRequest { schedule, update_mask, ..Default::default() };
                let changed = client.update_schedule(request).await;
                self.settle(&name, Some(paused), changed.map(drop))?;
            }
            _ => {
                let made = self.make_job(channel).await?;
                self.counts.acknowledged += 1;
                self.jobs.extend(made.map(|job| (Instant::now(), job.name)));
            }
        }
        Ok(())
    }

    /// Makes a job; on a host with one node, where no client may, by a run of a schedule.
    async fn make_job(&mut self, channel: &Channel) -> Result<Option<v1::Job>, Status> {
        let request = v1::CreateJobRequest {
            spec: Some(self.spec()),
            on_conflict: v1::ConflictAction::Join.into(),
            ..Default::default()
        };
        let mut jobs = MigrationServiceClient::new(channel.clone());
        match jobs.create_job(request).await {
            Ok(made) => return Ok(made.into_inner().job),
            Err(status) if status.code() == Code::FailedPrecondition => {}
            Err(status) => return Err(status),
        }
        let Some(name) = self.any() else { return Ok(None) };
        let mut schedules = ScheduleServiceClient::new(channel.clone());
        let request = v1::RunScheduleRequest { name, ..Default::default() };
        match schedules.run_schedule(request).await {
            Ok(made) => Ok(made.into_inner().job),
            Err(status) if status.code() == Code::FailedPrecondition => Ok(None),
            Err(status) => Err(status),
        }
    }

    /// One of its schedules of which it knows how it is.
    fn any(&self) -> Option<String> {
        let known: Vec<_> = self.schedules.iter().filter(|(_, paused)| paused.is_some()).collect();
        fastrand::choice(known).map(|(name, _)| name.clone())
    }

    /// Notes a change of a schedule that was made, or was not.
    fn settle(
        &mut self,
        name: &str,
        paused: Option<bool>,
        done: Result<(), Status>,
    ) -> Result<(), Status> {
        if done.is_ok() {
            self.counts.acknowledged += 1;
            self.schedules.insert(name.to_owned(), paused);
        }
        done
    }

    /// Compares the acknowledged records with the stored ones. The record of a lost call is taken as it is.
    async fn compare(&mut self, channel: &Channel) -> Result<(), Status> {
        let mut client = ScheduleServiceClient::new(channel.clone());
        for name in self.schedules.keys().cloned().collect::<Vec<_>>() {
            let known = self.schedules[&name];
            let request = v1::GetScheduleRequest { name: name.clone() };
            let found = match client.get_schedule(request).await {
                Ok(found) => found.into_inner().schedule,
                Err(status) if status.code() == Code::NotFound => None,
                Err(status) => return Err(status),
            };
            self.counts.compared += 1;
            match (known, found) {
                (Some(paused), Some(found)) if found.paused == paused => {}
                (Some(paused), found) => {
                    self.counts.lost += 1;
                    println!("lost: {name} was stored with paused {paused} and is {found:?}");
                    self.schedules.remove(&name);
                }
                (None, Some(found)) => drop(self.schedules.insert(name, Some(found.paused))),
                (None, None) => drop(self.schedules.remove(&name)),
            }
        }
        let mut client = MigrationServiceClient::new(channel.clone());
        self.jobs.retain(|(made, _)| made.elapsed() < JOBS);
        for (_, name) in self.jobs.clone() {
            self.counts.compared += 1;
            match client.get_job(v1::GetJobRequest { name: name.clone() }).await {
                Ok(_) => {}
                Err(status) if status.code() == Code::NotFound => {
                    self.counts.lost += 1;
                    println!("lost: {name} was made and is not there");
                    self.jobs.retain(|(_, job)| *job != name);
                }
                Err(status) => return Err(status),
            }
        }
        Ok(())
    }
}

/// Opens watches of all records, reads nothing, and begins again when the daemon has ended.
async fn unread(endpoint: &Endpoint) -> Result<()> {
    let ended = ended();
    let endpoint = endpoint.clone().initial_stream_window_size(1);
    let mut rounds = 0;
    while !ended.is_finished() {
        let channel = connect(&endpoint).await;
        rounds += 1;
        let mut held = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..20 {
            let mut events = EventServiceClient::new(channel.clone());
            let mut jobs = MigrationServiceClient::new(channel.clone());
            let mut schedules = ScheduleServiceClient::new(channel.clone());
            held.0.extend(events.watch_events(v1::WatchEventsRequest::default()).await);
            held.1.extend(jobs.watch_jobs(v1::WatchJobsRequest::default()).await);
            held.2.extend(schedules.watch_schedules(v1::WatchSchedulesRequest::default()).await);
        }
        let mut jobs = MigrationServiceClient::new(channel.clone());
        while !ended.is_finished() {
            sleep(Duration::from_secs(1)).await;
            let list = v1::ListJobsRequest { page_size: 1, ..Default::default() };
            if jobs.list_jobs(list).await.is_err() {
                break;
            }
        }
    }
    println!("{rounds} rounds of 60 watches");
    Ok(())
}

/// The calls of a page, each second, from four pages.
async fn pages(endpoint: &Endpoint) -> Result<()> {
    let ended = ended();
    let (mut answered, mut failed) = (0_u64, 0_u64);
    let mut channel = connect(endpoint).await;
    while !ended.is_finished() {
        let mut locality = LocalityServiceClient::new(channel.clone());
        let mut jobs = MigrationServiceClient::new(channel.clone());
        for _ in 0..4 {
            let view = locality.get_live_view(v1::GetLiveViewRequest::default()).await.map(drop);
            let list = v1::ListJobsRequest { page_size: 100, ..Default::default() };
            let list = jobs.list_jobs(list).await.map(drop);
            match view.and(list) {
                Ok(()) => answered += 1,
                Err(status) => {
                    failed += 1;
                    if is_lost(&status) {
                        channel = connect(endpoint).await;
                        break;
                    }
                }
            }
        }
        sleep(Duration::from_secs(1)).await;
    }
    println!("{answered} pages answered, {failed} not");
    Ok(())
}

async fn refused(endpoint: &Endpoint) -> Result<()> {
    let ended = ended();
    let mut refused = 0_u64;
    let mut channel = connect(endpoint).await;
    while !ended.is_finished() {
        let mut jobs = MigrationServiceClient::new(channel.clone());
        let cancel = v1::CancelJobRequest { name: "jobs/1".to_owned() };
        match jobs.cancel_job(cancel).await {
            Err(status) if status.code() == Code::PermissionDenied => refused += 1,
            Err(status) if is_lost(&status) => channel = connect(endpoint).await,
            other => bail!("a caller without a role: {other:?}"),
        }
        sleep(PAUSE).await;
    }
    println!("{refused} refused");
    Ok(())
}
