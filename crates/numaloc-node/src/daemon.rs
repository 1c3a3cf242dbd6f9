//! The calls of numalocd that keeping records takes.

use crate::{
    answer::within,
    mark::{MANAGED, Mark},
};
use numaloc_api::v1::{
    self, daemon_service_client::DaemonServiceClient, event_service_client::EventServiceClient,
    locality_service_client::LocalityServiceClient,
    migration_service_client::MigrationServiceClient,
    schedule_service_client::ScheduleServiceClient, workload_service_client::WorkloadServiceClient,
};
use std::{collections::BTreeMap, future::Future, pin::Pin, time::Duration};
use tokio_stream::{Stream, StreamExt};
use tonic::{
    Code, Request, Status,
    transport::{Channel, Endpoint},
};

/// Longest wait for a connection, and for an answer.
const CONNECT: Duration = Duration::from_secs(5);
const ANSWER: Duration = Duration::from_secs(30);
/// The daemon's own bound for a list or a set is longer than for other calls.
const LONG_ANSWER: Duration = Duration::from_secs(120);
const PAGE: i32 = 1000;

/// The events that are read: the ends of runs and targets, and whether another program moves memory back. A schedule that asks for all events has one for the start of each run as well.
const READ: [v1::EventType; 7] = [
    v1::EventType::Completed,
    v1::EventType::Skipped,
    v1::EventType::Failed,
    v1::EventType::TargetGone,
    v1::EventType::ScheduleRemoved,
    v1::EventType::PlacementContested,
    v1::EventType::PlacementStable,
];

/// The calls of numalocd that keeping records needs. Each may be made again after a failure.
pub trait Daemon {
    /// Connects, and returns our account.
    fn connect(&mut self) -> impl Future<Output = Result<String, Status>> + Send;
    /// The machine's nodes with their CPUs and memory.
    fn nodes(&mut self) -> impl Future<Output = Result<Vec<v1::Node>, Status>> + Send;
    /// Whether our schedules may name the nodes that memory goes to (ceiling `named_nodes`).
    fn may_name_nodes(&mut self) -> impl Future<Output = Result<bool, Status>> + Send;
    /// Declares all of our workloads. Returns the names of unregistered ones: each has no cgroup, or several.
    fn replace(
        &mut self,
        all: Vec<v1::Workload>,
    ) -> impl Future<Output = Result<Vec<String>, Status>> + Send;
    /// Registers one workload, or replaces it.
    fn register(
        &mut self,
        workload: v1::Workload,
    ) -> impl Future<Output = Result<(), Status>> + Send;
    /// Unregisters the workload of this name, if it is there.
    fn unregister(&mut self, name: String) -> impl Future<Output = Result<(), Status>> + Send;
    /// Begins all leases again. Returns the number of our workloads.
    fn renew(&mut self) -> impl Future<Output = Result<usize, Status>> + Send;
    /// Our schedules, if we are `me`.
    fn schedules(
        &mut self,
        me: String,
    ) -> impl Future<Output = Result<Vec<v1::Schedule>, Status>> + Send;
    /// Makes a schedule with the id that its name has.
    fn create(
        &mut self,
        schedule: v1::Schedule,
    ) -> impl Future<Output = Result<v1::Schedule, Status>> + Send;
    /// Changes these fields of a schedule.
    fn update(
        &mut self,
        schedule: v1::Schedule,
        fields: &'static [&'static str],
    ) -> impl Future<Output = Result<v1::Schedule, Status>> + Send;
    /// Runs a schedule now, unless it runs.
    fn run(&mut self, name: String) -> impl Future<Output = Result<(), Status>> + Send;
    /// Removes the schedule of this name.
    fn delete(&mut self, name: String) -> impl Future<Output = Result<(), Status>> + Send;
    /// The stored and then the new events of our schedules about the end of a run or of the target, oldest first, if we
    /// are `me`.
    fn events(&mut self, me: String) -> impl Future<Output = Result<Events, Status>> + Send;
    /// The workloads and schedules of another source, by any creator.
    fn others(
        &mut self,
        source: &'static str,
    ) -> impl Future<Output = Result<Others, Status>> + Send;
    /// The job of this name; `None`: numalocd does not keep it any more.
    fn job(&mut self, name: String)
    -> impl Future<Output = Result<Option<v1::Job>, Status>> + Send;
    /// The metrics of numalocd, as OpenMetrics text.
    fn metrics(&mut self) -> impl Future<Output = Result<String, Status>> + Send;
    /// Cancels our jobs that have not ended and have this value of the label that distinguishes our schedules.
    fn cancel(
        &mut self,
        me: String,
        value: String,
    ) -> impl Future<Output = Result<(), Status>> + Send;
}

/// Events of numalocd as they come. It ends when numalocd is lost.
pub type Events = Pin<Box<dyn Stream<Item = Result<v1::Event, Status>> + Send>>;

/// The records of another source.
#[derive(Clone, Debug, Default)]
pub struct Others {
    pub workloads: Vec<v1::Workload>,
    pub schedules: Vec<v1::Schedule>,
}

/// Whether an error is about the connection or the daemon as a whole, not about one request.
pub fn is_lost(status: &Status) -> bool {
    let codes = [Code::Unavailable, Code::DeadlineExceeded, Code::Cancelled, Code::Unknown];
    codes.contains(&status.code())
}

/// A client of numalocd's gRPC API.
#[derive(Clone, Debug)]
pub struct Grpc {
    endpoint: Endpoint,
    mark: Mark,
    channel: Option<Channel>,
}

impl Grpc {
    /// numalocd at this address, for the records with this mark. It is not connected yet.
    ///
    /// # Errors
    /// The address is none.
    pub fn new(address: &str, mark: Mark) -> anyhow::Result<Self> {
        let is_known = ["unix:///", "http://"].iter().any(|scheme| address.starts_with(scheme));
        anyhow::ensure!(
            is_known,
            "'{address}' is not a valid address of numalocd: write unix:///PATH, or http://HOST:PORT for this machine"
        );
        let endpoint = Endpoint::from_shared(address.to_owned())?.connect_timeout(CONNECT);
        Ok(Self { endpoint, mark, channel: None })
    }

    /// The connection.
    ///
    /// # Errors
    /// [`Daemon::connect`] has not succeeded.
    pub fn channel(&self) -> Result<Channel, Status> {
        self.channel.clone().ok_or_else(|| Status::unavailable("not connected"))
    }
}

/// Reads page after page of a list: `$call` of a client with these fields in its request.
macro_rules! all_pages {
    ($client:expr, $call:ident, $request:ident { $filter:expr }, $records:ident) => {{
        let mut client = $client;
        let (mut all, mut page_token) = (Vec::new(), String::new());
        loop {
            let filter = Some($filter.clone());
            let request = v1::$request { filter, page_size: PAGE, page_token };
            let answer = within(LONG_ANSWER, client.$call(request)).await?;
            all.extend(answer.$records);
            page_token = answer.next_page_token;
            if page_token.is_empty() {
                break all;
            }
        }
    }};
}

/// Jobs with these labels that have not ended and are ours alone: a run under way whose schedule was removed belongs to
/// the schedule's creator, and all others end with it. Others may give their jobs the same labels.
async fn open_jobs(
    channel: Channel,
    creator: String,
    labels: BTreeMap<String, String>,
) -> Result<Vec<v1::Job>, Status> {
    use v1::JobState::{Paused, Planning, Queued, Running, Suspended};
    let states = [Queued, Planning, Running, Paused, Suspended].map(i32::from).to_vec();
    let labels = labels.into_iter().collect();
    let filter = v1::JobFilter { states, creator, labels, ..Default::default() };
    let client = MigrationServiceClient::new(channel);
    Ok(all_pages!(client, list_jobs, ListJobsRequest { filter }, jobs))
}

/// The schedules that a filter meets.
async fn schedules(
    channel: Channel,
    filter: v1::ScheduleFilter,
) -> Result<Vec<v1::Schedule>, Status> {
    let client = ScheduleServiceClient::new(channel);
    Ok(all_pages!(client, list_schedules, ListSchedulesRequest { filter }, schedules))
}

/// The workloads that a filter meets.
async fn workloads(
    channel: Channel,
    filter: v1::WorkloadFilter,
) -> Result<Vec<v1::Workload>, Status> {
    let client = WorkloadServiceClient::new(channel);
    Ok(all_pages!(client, list_workloads, ListWorkloadsRequest { filter }, workloads))
}

/// The label that all schedules of a source have.
fn managed(source: &str) -> [(String, String); 1] {
    [(MANAGED.to_owned(), source.to_owned())]
}

impl Daemon for Grpc {
    async fn connect(&mut self) -> Result<String, Status> {
        self.channel = None;
        let connect = tokio::time::timeout(CONNECT, self.endpoint.connect());
        let lost = |why: String| Status::unavailable(format!("cannot reach numalocd: {why}"));
        let channel = match connect.await {
            Ok(Ok(channel)) => channel,
            Ok(Err(error)) => return Err(lost(numaloc_api::innermost(&error))),
            Err(_) => return Err(lost(format!("no connection within {} s", CONNECT.as_secs()))),
        };
        self.channel = Some(channel.clone());
        let mut client = DaemonServiceClient::new(channel);
        let status = within(ANSWER, client.get_status(v1::GetStatusRequest {})).await?;
        Ok(status.caller)
    }

    async fn nodes(&mut self) -> Result<Vec<v1::Node>, Status> {
        let mut client = LocalityServiceClient::new(self.channel()?);
        let answer = within(ANSWER, client.get_topology(v1::GetTopologyRequest {})).await?;
        Ok(answer.topology.unwrap_or_default().nodes)
    }

    async fn may_name_nodes(&mut self) -> Result<bool, Status> {
        let mut client = DaemonServiceClient::new(self.channel()?);
        let status = within(ANSWER, client.get_status(v1::GetStatusRequest {})).await?;
        // An admin has no ceilings.
        Ok(status.ceilings.is_none_or(|ceilings| ceilings.named_nodes))
    }

    async fn replace(&mut self, all: Vec<v1::Workload>) -> Result<Vec<String>, Status> {
        let mut client = WorkloadServiceClient::new(self.channel()?);
        // Each has its own lease.
        let parts = v1::ReplaceWorkloadsRequest::parts(Some(self.mark.source), all, None);
        let stream = tokio_stream::iter(parts);
        let answer = within(LONG_ANSWER, client.replace_workloads(Request::new(stream))).await?;
        Ok(answer.missing)
    }

    async fn register(&mut self, workload: v1::Workload) -> Result<(), Status> {
        let mut client = WorkloadServiceClient::new(self.channel()?);
        let request =
            v1::RegisterWorkloadRequest { workload: Some(workload), ..Default::default() };
        within(ANSWER, client.register_workload(request)).await.map(drop)
    }

    async fn unregister(&mut self, name: String) -> Result<(), Status> {
        let mut client = WorkloadServiceClient::new(self.channel()?);
        let request =
            v1::UnregisterWorkloadRequest { name, allow_missing: true, ..Default::default() };
        within(ANSWER, client.unregister_workload(request)).await.map(drop)
    }

    async fn renew(&mut self) -> Result<usize, Status> {
        let mut client = WorkloadServiceClient::new(self.channel()?);
        let request = v1::RenewWorkloadsRequest { source: self.mark.source.to_owned() };
        let answer = within(ANSWER, client.renew_workloads(request)).await?;
        Ok(usize::try_from(answer.workload_count).unwrap_or(0))
    }

    async fn schedules(&mut self, me: String) -> Result<Vec<v1::Schedule>, Status> {
        let labels = managed(self.mark.source).into();
        let filter = v1::ScheduleFilter { creator: me, labels, ..Default::default() };
        schedules(self.channel()?, filter).await
    }

    async fn events(&mut self, me: String) -> Result<Events, Status> {
        let mut client = EventServiceClient::new(self.channel()?);
        let labels = managed(self.mark.source).into();
        let types = READ.map(i32::from).to_vec();
        let filter = Some(v1::EventFilter { types, creator: me, labels, ..Default::default() });
        let request = v1::WatchEventsRequest { filter, after: "events/0".to_owned() };
        let events = within(ANSWER, client.watch_events(request)).await?;
        Ok(Box::pin(events.map(|event| Ok(event?.event.unwrap_or_default()))))
    }

    async fn others(&mut self, source: &'static str) -> Result<Others, Status> {
        let filter = v1::WorkloadFilter { source: source.to_owned(), ..Default::default() };
        let workloads = workloads(self.channel()?, filter).await?;
        let filter = v1::ScheduleFilter { labels: managed(source).into(), ..Default::default() };
        Ok(Others { workloads, schedules: schedules(self.channel()?, filter).await? })
    }

    async fn job(&mut self, name: String) -> Result<Option<v1::Job>, Status> {
        let mut client = MigrationServiceClient::new(self.channel()?);
        match within(ANSWER, client.get_job(v1::GetJobRequest { name })).await {
            Ok(answer) => Ok(answer.job),
            Err(status) if status.code() == Code::NotFound => Ok(None),
            Err(status) => Err(status),
        }
    }

    async fn metrics(&mut self) -> Result<String, Status> {
        let mut client = DaemonServiceClient::new(self.channel()?);
        Ok(within(ANSWER, client.get_metrics(v1::GetMetricsRequest {})).await?.text)
    }

    async fn create(&mut self, schedule: v1::Schedule) -> Result<v1::Schedule, Status> {
        let mut client = ScheduleServiceClient::new(self.channel()?);
        let schedule_id = schedule.name.rsplit('/').next().unwrap_or_default().to_owned();
        let schedule = Some(schedule);
        let request = v1::CreateScheduleRequest { schedule, schedule_id, ..Default::default() };
        Ok(within(ANSWER, client.create_schedule(request)).await?.schedule.unwrap_or_default())
    }

    async fn update(
        &mut self,
        schedule: v1::Schedule,
        fields: &'static [&'static str],
    ) -> Result<v1::Schedule, Status> {
        let mut client = ScheduleServiceClient::new(self.channel()?);
        let paths = fields.iter().map(|&field| field.to_owned()).collect();
        let request = v1::UpdateScheduleRequest {
            schedule: Some(schedule),
            update_mask: Some(prost_types::FieldMask { paths }),
            ..Default::default()
        };
        Ok(within(ANSWER, client.update_schedule(request)).await?.schedule.unwrap_or_default())
    }

    async fn run(&mut self, name: String) -> Result<(), Status> {
        let mut client = ScheduleServiceClient::new(self.channel()?);
        let request = v1::RunScheduleRequest { name, ..Default::default() };
        within(ANSWER, client.run_schedule(request)).await.map(drop)
    }

    async fn delete(&mut self, name: String) -> Result<(), Status> {
        let mut client = ScheduleServiceClient::new(self.channel()?);
        let request = v1::DeleteScheduleRequest { name, ..Default::default() };
        within(ANSWER, client.delete_schedule(request)).await.map(drop)
    }

    async fn cancel(&mut self, me: String, value: String) -> Result<(), Status> {
        let Mark { source, key } = self.mark;
        let labels = [(MANAGED.to_owned(), source.to_owned()), (key.to_owned(), value)];
        let mut client = MigrationServiceClient::new(self.channel()?);
        for job in open_jobs(self.channel()?, me, labels.into()).await? {
            let cancelled =
                within(ANSWER, client.cancel_job(v1::CancelJobRequest { name: job.name })).await;
            match cancelled {
                // It has ended meanwhile.
                Err(status) if is_lost(&status) => return Err(status),
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
