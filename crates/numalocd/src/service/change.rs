//! Calls that change something: each leaves a line in the audit log, also when it is refused.

use crate::{
    access::{Caller, audit, caller},
    dispatch::Refusal,
    service::caught::caught,
};
use numaloc_api::{
    Violations,
    value::{
        CreateJob, CreateSchedule, DeleteSchedule, JobId, ScheduleId, Target, UpdateSchedule,
        WorkloadId, WorkloadSpec,
    },
};
use std::{collections::BTreeSet, fmt::Display, future::Future};
use tonic::{Request, Status};

/// So many names of a sort are written to the log.
const NAMED: usize = 3;

/// A change that is asked for.
#[derive(Debug)]
pub struct Change {
    /// Who asks.
    pub caller: Caller,
    method: &'static str,
    subject: String,
}

impl Change {
    /// Reads the request.
    ///
    /// # Errors
    /// Its fields are out of bounds.
    pub fn read<Q, V>(method: &'static str, request: Request<Q>) -> Result<(Self, V), Status>
    where
        V: TryFrom<Q, Error = Violations> + Subject,
    {
        let caller = caller(&request)?;
        let read = V::try_from(request.into_inner()).map_err(Refusal::from);
        let subject = read.as_ref().map_or_else(|_| "-".to_owned(), Subject::subject);
        let change = Self { caller, method, subject };
        change.refused(read).map(|value| (change, value))
    }

    /// What was found before anything is changed. If the client leaves meanwhile, nothing has happened.
    ///
    /// # Errors
    /// Those of `look`.
    pub async fn first<T>(
        &self,
        look: impl Future<Output = Result<T, Refusal>>,
    ) -> Result<T, Status> {
        self.refused(look.await)
    }

    fn refused<T>(&self, result: Result<T, Refusal>) -> Result<T, Status> {
        if result.is_err() {
            audit::change(&self.caller, self.method, &self.subject, &result);
        }
        result.map_err(Status::from)
    }

    /// Makes the change, whether the client still waits for it or not, so that the log says what became of it.
    ///
    /// # Errors
    /// Those of `make`.
    pub async fn make<T: Send + 'static>(
        self,
        make: impl Future<Output = Result<T, Refusal>> + Send + 'static,
    ) -> Result<T, Status> {
        self.create(make, |_| None).await
    }

    /// As [`Self::make`]; the log is told the `name` of what was made.
    ///
    /// # Errors
    /// Those of `make`.
    pub async fn create<T: Send + 'static>(
        self,
        make: impl Future<Output = Result<T, Refusal>> + Send + 'static,
        name: fn(&T) -> Option<String>,
    ) -> Result<T, Status> {
        let made = tokio::spawn(async move {
            let result = caught(make).await.and_then(|result| result);
            let Self { caller, method, mut subject } = self;
            if let Some(name) = result.as_ref().ok().and_then(name) {
                subject = format!("{name} ({subject})");
            }
            audit::change(&caller, method, &subject, &result);
            result
        });
        let stopped = |_| Err(super::watch::stopping());
        made.await.unwrap_or_else(stopped).map_err(Status::from)
    }
}

/// What a request is about, for the log.
pub trait Subject {
    /// In few words.
    fn subject(&self) -> String;
}

macro_rules! subjects {
    ($($request:ty => |$it:ident| $subject:expr;)+) => {$(
        impl Subject for $request {
            fn subject(&self) -> String {
                let $it = self;
                $subject
            }
        }
    )+};
}

subjects! {
    JobId => |id| id.to_string();
    ScheduleId => |id| id.to_string();
    WorkloadId => |id| id.to_string();
    CreateJob => |request| target(&request.spec.target);
    CreateSchedule => |request| target(&request.spec.migration.target);
    UpdateSchedule => |request| match &request.update.target {
        None => request.id.to_string(),
        Some(new) => format!("{} ({})", request.id, target(new)),
    };
    DeleteSchedule => |request| request.id.to_string();
    WorkloadSpec => |spec| format!("{} (cgroup {})", spec.id, spec.cgroup);
}

/// The first few of what it names.
fn target(target: &Target) -> String {
    let labels = target.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let parts = [
        few("process", &target.pids),
        few("cgroup", &target.cgroups),
        few("unit", &target.units),
        few("container", &target.container_ids),
        few("pod", &target.pod_uids),
        few("label", &labels),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

fn few<T: Display>(sort: &str, names: &BTreeSet<T>) -> Option<String> {
    let first: Vec<_> = names.iter().take(NAMED).map(ToString::to_string).collect();
    let more = names.len().saturating_sub(NAMED);
    match (first.is_empty(), more) {
        (true, _) => None,
        (false, 0) => Some(format!("{sort} {}", first.join(", "))),
        (false, _) => Some(format!("{sort} {} and {more} more", first.join(", "))),
    }
}

#[cfg(test)]
mod tests;
