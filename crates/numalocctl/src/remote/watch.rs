//! Watches jobs, events and all records of a kind. A watch that breaks is retried and continues where it was.

use super::{
    Daemon,
    channel::unreachable,
    filter::wanted,
    interrupts::Interrupts,
    patience::Backoff,
    status::{is_forgotten, is_lost, retry_after},
};
use crate::{exit::Failure, job::is_end, output::complain};
use numaloc_api::{
    v1,
    value::{EventFilter, JobId},
};
use tokio::time::sleep;
use tonic::{Code, Response, Status, Streaming};

/// The effect of Ctrl-C while this program waits for a job.
#[derive(Debug)]
pub enum OnCtrlC<'a> {
    /// It is not handled: it ends this program, and the job continues.
    Default,
    /// The first one ends the waiting, and the job continues.
    Leave(&'a mut Interrupts),
    /// The first one cancels the job; the second one ends the waiting.
    Cancel(&'a mut Interrupts),
}

impl OnCtrlC<'_> {
    async fn next(&mut self) {
        match self {
            Self::Default => std::future::pending().await,
            Self::Leave(interrupts) | Self::Cancel(interrupts) => interrupts.next().await,
        }
    }
}

/// The end of a watch of a job.
#[derive(Debug)]
pub enum Watched {
    Ended(Box<v1::Job>),
    /// Ctrl-C ended the waiting; the job continues.
    Left {
        /// Whether the job was asked to cancel before.
        cancelled: bool,
    },
}

/// An answer of a watch of records.
pub trait WatchAnswer {
    /// The kind of record: a job, a schedule or a workload.
    type Record;
    /// The record; `None` if it does not exist any more, and once all existing records have been listed.
    fn present(&self) -> Option<&Self::Record>;
    /// The name of the record that does not exist any more.
    fn removed(&self) -> Option<&str>;
    /// The position at which a watch continues that breaks after this answer.
    fn resume_token(&self) -> &str;
}

macro_rules! record_watch {
    ($($answer:ident $record:ident $field:ident),+) => {$(
        impl WatchAnswer for v1::$answer {
            type Record = v1::$record;
            fn present(&self) -> Option<&Self::Record> {
                self.$field.as_ref().filter(|_| self.change() == v1::RecordChange::Present)
            }
            fn removed(&self) -> Option<&str> {
                let record = self.$field.as_ref();
                let is_there = self.change() == v1::RecordChange::Present;
                Some(record.filter(|_| !is_there)?.name.as_str())
            }
            fn resume_token(&self) -> &str {
                &self.resume_token
            }
        }
    )+};
}

record_watch!(
    WatchJobsResponse Job job,
    WatchSchedulesResponse Schedule schedule,
    WatchWorkloadsResponse Workload workload
);

/// Takes over what an answer of a watch has of a job.
fn take(job: &mut v1::Job, answer: v1::WatchJobResponse) {
    let v1::WatchJobResponse { job: now, is_progress } = answer;
    let now = now.unwrap_or_default();
    match is_progress {
        true => job.progress = now.progress,
        false => *job = now,
    }
}

impl Daemon {
    /// Follows a job to its end, and calls `seen` with each answer.
    pub fn watch_job(
        &self,
        id: &JobId,
        mut on_interrupt: OnCtrlC<'_>,
        mut seen: impl FnMut(&v1::Job) -> Result<(), Failure>,
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
                if cancelled || !matches!(on_interrupt, OnCtrlC::Cancel(_)) {
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
        seen: &mut impl FnMut(&v1::Job) -> Result<(), Failure>,
    ) -> Result<v1::Job, Failure> {
        let mut patience = Backoff::new(self.reconnect_timeout);
        // The job in the last whole answer, with the progress of later ones.
        let mut job = v1::Job::default();
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
                            Ok(answer) => {
                                patience.restore();
                                take(&mut job, answer);
                                seen(&job)?;
                                if is_end(job.state()) {
                                    return Ok(job);
                                }
                            }
                        }
                    }
                }
            };
            self.endure(broken, &mut patience, &format!("the watch of {id}")).await?;
        }
    }

    /// Calls `seen` with each event, from now on or after the event with number `after`. Does not end on its own.
    pub fn watch_events(
        &self,
        filter: &EventFilter,
        after: u64,
        mut seen: impl FnMut(&v1::Event) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let filter = wanted(filter);
        let mut after = format!("events/{after}");
        self.runtime.block_on(async {
            let mut patience = Backoff::new(self.reconnect_timeout);
            loop {
                let mut service = super::client!(self, event_service_client, EventServiceClient);
                let request =
                    v1::WatchEventsRequest { filter: Some(filter.clone()), after: after.clone() };
                let opened = service.watch_events(request).await;
                let each = |answer: v1::WatchEventsResponse| {
                    let event = answer.event.unwrap_or_default();
                    after.clone_from(&event.name);
                    seen(&event)
                };
                let broken = answers(opened, &mut patience, each).await?;
                self.endure(broken, &mut patience, "the watch").await?;
            }
        })
    }

    /// Shows `seen` all records of a kind and then their changes, without end. `open` watches after a resume token,
    /// empty at first. A daemon that does not know the token any more lists all records again.
    pub(super) fn watch_records<A: WatchAnswer>(
        &self,
        open: impl AsyncFn(String) -> Result<Response<Streaming<A>>, Status>,
        mut seen: impl FnMut(&A) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.runtime.block_on(async {
            let mut patience = Backoff::new(self.reconnect_timeout);
            let mut token = String::new();
            loop {
                let opened = open(token.clone()).await;
                let each = |answer: A| {
                    answer.resume_token().clone_into(&mut token);
                    seen(&answer)
                };
                let broken = answers(opened, &mut patience, each).await?;
                if is_forgotten(&broken) && !token.is_empty() {
                    complain(
                        "the daemon no longer has the changes since then: all records follow again",
                    );
                    token.clear();
                    // The daemon spreads the watches that begin again: after its restart that is all of them.
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
        patience: &mut Backoff,
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
    patience: &mut Backoff,
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
