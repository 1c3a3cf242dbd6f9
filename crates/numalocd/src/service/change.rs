//! Calls that change something: each leaves a line in the audit log, also when it is refused.

use crate::{
    access::{Caller, Denials, audit, caller, denials},
    refusal::Refusal,
    service::caught::caught,
};
use numaloc_api::{
    Violations,
    value::{
        CreateJob, CreateSchedule, DeleteJob, DeleteSchedule, JobId, RegisterWorkload, RunSchedule,
        UnregisterWorkload, UpdateSchedule, WorkloadSet,
    },
};
use std::future::Future;
use tonic::{Request, Status};

/// A change that is asked for.
#[derive(Debug)]
pub struct ChangeRequest {
    /// The client that requests the change.
    pub caller: Caller,
    method: &'static str,
    subject: String,
    denials: Denials,
}

impl ChangeRequest {
    /// Reads the request.
    ///
    /// # Errors
    /// Its fields are out of bounds.
    pub fn read<Q, V>(method: &'static str, request: Request<Q>) -> Result<(Self, V), Status>
    where
        V: TryFrom<Q, Error = Violations> + LoggedSubject,
    {
        let (caller, denials) = (caller(&request)?, denials(&request));
        let read = V::try_from(request.into_inner()).map_err(Refusal::from);
        let subject = read.as_ref().map_or_else(|_| "-".to_owned(), LoggedSubject::subject);
        let change = Self { caller, method, subject, denials };
        change.refused(read).map(|value| (change, value))
    }

    /// A change of the daemon itself; the request says nothing more.
    ///
    /// # Errors
    /// The call has no caller: a bug.
    pub fn of_daemon<Q>(method: &'static str, request: &Request<Q>) -> Result<Self, Status> {
        let (caller, denials) = (caller(request)?, denials(request));
        Ok(Self { caller, method, subject: "daemon".to_owned(), denials })
    }

    /// A change whose request comes in parts. Its subject is not known yet.
    ///
    /// # Errors
    /// The call has no caller: a bug.
    pub fn begin<T>(method: &'static str, request: &Request<T>) -> Result<Self, Status> {
        let (caller, denials) = (caller(request)?, denials(request));
        Ok(Self { caller, method, subject: "-".to_owned(), denials })
    }

    /// Sets what the change is about, once that is known.
    pub fn set_subject(&mut self, subject: &impl LoggedSubject) {
        self.subject = subject.subject();
    }

    /// The result of a look before anything is changed; a refusal is logged. If the client leaves meanwhile, nothing
    /// has happened.
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
            audit::change(&self.caller, self.method, &self.subject, &result, &self.denials);
        }
        result.map_err(Status::from)
    }

    /// Makes the change, also if the client does not wait for it any more, so that the log says its result.
    ///
    /// # Errors
    /// Those of `make`.
    pub async fn make<T: Send + 'static>(
        self,
        make: impl Future<Output = Result<T, Refusal>> + Send + 'static,
    ) -> Result<T, Status> {
        self.create(make, |_| None).await
    }

    /// Makes the change; if it is only checked, only a refusal is logged.
    ///
    /// # Errors
    /// Those of `make`.
    pub async fn make_or_check<T: Send + 'static>(
        self,
        is_check: bool,
        make: impl Future<Output = Result<T, Refusal>> + Send + 'static,
    ) -> Result<T, Status> {
        if is_check { self.first(make).await } else { self.make(make).await }
    }

    /// As [`Self::make`]. The log also names what was made: `name`.
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
            let Self { caller, method, mut subject, denials } = self;
            if let Some(name) = result.as_ref().ok().and_then(name) {
                subject = format!("{name} ({subject})");
            }
            audit::change(&caller, method, &subject, &result, &denials);
            result
        });
        let stopped = |_| Err(super::watch::stopping());
        made.await.unwrap_or_else(stopped).map_err(Status::from)
    }
}

/// The record that a request is about, for the log.
pub trait LoggedSubject {
    /// A few words that name the record, without line breaks.
    fn subject(&self) -> String;
}

macro_rules! subjects {
    ($($request:ty => |$it:ident| $subject:expr;)+) => {$(
        impl LoggedSubject for $request {
            fn subject(&self) -> String {
                let $it = self;
                $subject
            }
        }
    )+};
}

subjects! {
    JobId => |id| id.to_string();
    RunSchedule => |request| request.id.to_string();
    CreateJob => |request| request.spec.target.to_string();
    CreateSchedule => |request| request.spec.migration.target.to_string();
    UpdateSchedule => |request| match &request.update.target {
        None => request.id.to_string(),
        Some(new) => format!("{} ({new})", request.id),
    };
    DeleteJob => |request| request.id.to_string();
    DeleteSchedule => |request| request.id.to_string();
    RegisterWorkload => |request| {
        let spec = &request.spec;
        match &spec.container_id {
            Some(container) if spec.cgroup.is_empty() => format!("{} (container {container})", spec.id),
            _ => format!("{} (cgroup {})", spec.id, spec.cgroup),
        }
    };
    WorkloadSet => |set| {
        let source = set.source.as_ref().map(|source| format!(" of source {source}"));
        format!("{} workloads{}", set.specs.len(), source.unwrap_or_default())
    };
    UnregisterWorkload => |request| request.id.to_string();
}

#[cfg(test)]
mod tests;
