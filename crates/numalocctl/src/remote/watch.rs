//! Watches jobs, events and all records of a kind. A watch that breaks is retried and continues where it was.

use super::{
    Daemon,
    channel::unreachable,
    fields::name,
    filter::wanted,
    interrupts::Interrupts,
    job::job,
    patience::Patience,
    record::event,
    status::{is_forgotten, is_lost, retry_after},
    topology::topology,
};
use crate::{
    doc::{ChangeDoc, EventDoc, JobDoc},
    exit::Failure,
    output::complain,
};
use numaloc_api::{
    timestamp, v1,
    value::{EventFilter, JobId},
};
use numaloc_core::Topology;
use std::time::SystemTime;
use tokio::time::sleep;
use tonic::{Code, Response, Status, Streaming};

/// What Ctrl-C does while this program waits for a job.
#[derive(Debug)]
pub enum OnInterrupt<'a> {
    /// It is not handled: it ends this program, and the job goes on.
    Default,
    /// The first one ends the waiting, and the job goes on.
    Leave(&'a mut Interrupts),
    /// The first one cancels the job; the second one ends the waiting.
    Cancel(&'a mut Interrupts),
}

impl OnInterrupt<'_> {
    async fn next(&mut self) {
        match self {
            Self::Default => std::future::pending().await,
            Self::Leave(interrupts) | Self::Cancel(interrupts) => interrupts.next().await,
        }
    }
}

/// How a watch of a job ended.
#[derive(Debug)]
pub enum Watched {
    /// The job has ended.
    Ended(Box<JobDoc>),
    /// Ctrl-C ended the waiting; the job goes on.
    Left {
        /// Whether the job was asked to cancel before.
        cancelled: bool,
    },
}

impl Daemon {
    /// Follows a job to its end, and calls `seen` with each answer.
    pub fn watch_job(
        &self,
        id: &JobId,
        mut on_interrupt: OnInterrupt<'_>,
        mut seen: impl FnMut(&JobDoc) -> Result<(), Failure>,
    ) -> Result<Watched, Failure> {
        self.runtime.block_on(async {
            let mut cancelled = false;
            let watch = self.follow_job(id, &mut seen);
            tokio::pin!(watch);
            loop {
                tokio::select! {
                    ended = &mut watch => return Ok(Watched::Ended(Box::new(ended?))),
                    () = on_interrupt.next() => {}
                }
                if cancelled || !matches!(on_interrupt, OnInterrupt::Cancel(_)) {
                    return Ok(Watched::Left { cancelled });
                }
                cancelled = true;
                tokio::select! {
                    ended = &mut watch => return Ok(Watched::Ended(Box::new(ended?))),
                    () = self.cancel(id) => {}
                    () = on_interrupt.next() => return Ok(Watched::Left { cancelled }),
                }
            }
        })
    }

    async fn cancel(&self, id: &JobId) {
        let mut service = super::client!(self, migration_service_client, MigrationServiceClient);
        let message = v1::CancelJobRequest { name: id.to_string() };
        let call = self.answer(message, |request| async move { service.cancel_job(request).await });
        match call.await {
            Ok(_) => complain(&format!("cancelling {id}; Ctrl-C again stops waiting for it")),
            Err(failure) => complain(&format!("cannot cancel {id}: {failure}")),
        }
    }

    async fn follow_job(
        &self,
        id: &JobId,
        seen: &mut impl FnMut(&JobDoc) -> Result<(), Failure>,
    ) -> Result<JobDoc, Failure> {
        let mut patience = Patience::new(self.reconnect_timeout);
        let mut machine = None;
        loop {
            let mut service =
                super::client!(self, migration_service_client, MigrationServiceClient);
            let request = v1::WatchJobRequest { name: id.to_string() };
            let broken = match service.watch_job(request).await {
                Err(status) => status,
                Ok(stream) => {
                    let mut stream = stream.into_inner();
                    loop {
                        match next(&mut stream).await {
                            Err(status) => break status,
                            Ok(v1::WatchJobResponse { job: message }) => {
                                patience.restore();
                                let message = message.unwrap_or_default();
                                let document =
                                    job(&message, self.machine(&message, &mut machine).await?);
                                seen(&document)?;
                                if document.state.is_end() {
                                    return Ok(document);
                                }
                            }
                        }
                    }
                }
            };
            self.endure(broken, &mut patience, &format!("the watch of {id}")).await?;
        }
    }

    /// The machine. It is read only once a message has a plan.
    async fn machine<'a>(
        &self,
        message: &v1::Job,
        known: &'a mut Option<Topology>,
    ) -> Result<&'a Topology, Failure> {
        if known.as_ref().is_none_or(|topology| topology.ids().is_empty()) {
            *known = Some(match message.plan {
                None => Topology::default(),
                Some(_) => {
                    let mut service =
                        super::client!(self, locality_service_client, LocalityServiceClient);
                    let request = v1::GetTopologyRequest {};
                    let answer = self.answer(request, |request| async move {
                        service.get_topology(request).await
                    });
                    // If the connection breaks here, the watch breaks as well and is retried.
                    answer
                        .await
                        .map(|answer| topology(&answer.topology.unwrap_or_default()))
                        .unwrap_or_default()
                }
            });
        }
        Ok(known.get_or_insert_default())
    }

    /// Calls `seen` with each event, from now on or after the event with number `after`. Does not end by itself.
    pub fn watch_events(
        &self,
        filter: &EventFilter,
        after: Option<u64>,
        mut seen: impl FnMut(&EventDoc) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let begin = SystemTime::now();
        let mut filter = wanted(filter);
        let mut after = after.map(|number| format!("events/{number}"));
        self.runtime.block_on(async {
            let mut patience = Patience::new(self.reconnect_timeout);
            loop {
                let mut service = super::client!(self, event_service_client, EventServiceClient);
                let request = v1::WatchEventsRequest {
                    filter: Some(filter.clone()),
                    after: after.clone().unwrap_or_default(),
                };
                let opened = service.watch_events(request).await;
                let each = |answer: v1::WatchEventsResponse| {
                    let document = event(&answer.event.unwrap_or_default());
                    after = Some(document.name.clone());
                    seen(&document)
                };
                let broken = answers(opened, &mut patience, each).await?;
                if after.is_none() {
                    // No event has been seen yet. The stored ones since `begin` are those that the broken watch would have
                    // shown.
                    after = Some("events/0".to_owned());
                    filter.since = Some(timestamp(begin));
                }
                self.endure(broken, &mut patience, "the watch").await?;
            }
        })
    }

    /// Shows `seen` all records of a kind and then what becomes of them, for ever. `open` watches after a resume token, empty at
    /// first, and `read` gives what an answer says, and its token. A daemon that does not know the token any more tells all
    /// anew.
    pub(super) fn watch_records<A, D>(
        &self,
        open: impl AsyncFn(String) -> Result<Response<Streaming<A>>, Status>,
        read: impl Fn(A) -> (ChangeDoc<D>, String),
        mut seen: impl FnMut(&ChangeDoc<D>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.runtime.block_on(async {
            let mut patience = Patience::new(self.reconnect_timeout);
            let mut token = String::new();
            loop {
                let opened = open(token.clone()).await;
                let each = |answer| {
                    let (change, resume_token) = read(answer);
                    token = resume_token;
                    seen(&change)
                };
                let broken = answers(opened, &mut patience, each).await?;
                if is_forgotten(&broken) && !token.is_empty() {
                    complain("the daemon does not know any more what has changed since: all is told anew");
                    token.clear();
                    // The daemon spreads the watches that begin anew: after its restart that is all of them.
                    sleep(retry_after(&broken).unwrap_or_default()).await;
                    continue;
                }
                self.endure(broken, &mut patience, "the watch").await?;
            }
        })
    }

    /// Waits before a broken watch is retried.
    ///
    /// # Errors
    /// The error is final, or --reconnect-timeout is over.
    async fn endure(
        &self,
        broken: Status,
        patience: &mut Patience,
        watch: &str,
    ) -> Result<(), Failure> {
        // ABORTED is retried, too: gRPC means it for errors that may pass.
        if !is_lost(&broken) && broken.code() != Code::Aborted {
            return Err(self.refused(&broken));
        }
        if patience.is_fresh() {
            complain(&format!("{watch} broke off ({}): trying again", cause(&broken)));
        }
        match patience.wait().await {
            true => Ok(()),
            false => Err(unreachable(self.endpoint(), cause(&broken))),
        }
    }
}

/// What an answer of a watch says: the change, and the name and the document of the record if it is about one.
pub fn change<M, D>(
    change: v1::RecordChange,
    record: Option<M>,
    name_of: impl Fn(&M) -> &String,
    document: impl Fn(&M) -> D,
) -> ChangeDoc<D> {
    let is_there = change == v1::RecordChange::Present;
    ChangeDoc {
        change: name(change.as_str_name(), "RECORD_CHANGE_"),
        name: record.as_ref().map(|record| name_of(record).clone()),
        record: record.as_ref().filter(|_| is_there).map(document),
    }
}

fn cause(status: &Status) -> String {
    let source = std::error::Error::source(status);
    source.map_or_else(|| status.message().to_owned(), super::channel::reason)
}

/// Hands each answer of a watch on, and returns how the watch broke.
///
/// # Errors
/// What `each` fails with.
async fn answers<A>(
    opened: Result<Response<Streaming<A>>, Status>,
    patience: &mut Patience,
    mut each: impl FnMut(A) -> Result<(), Failure>,
) -> Result<Status, Failure> {
    let mut stream = match opened {
        Ok(stream) => stream.into_inner(),
        Err(status) => return Ok(status),
    };
    patience.restore();
    loop {
        match next(&mut stream).await {
            Ok(answer) => each(answer)?,
            Err(status) => return Ok(status),
        }
    }
}

/// The next message. A stream that ends without a status counts as broken.
async fn next<T>(stream: &mut Streaming<T>) -> Result<T, Status> {
    let ended = || Status::unavailable("the daemon ended it");
    stream.message().await?.ok_or_else(ended)
}
