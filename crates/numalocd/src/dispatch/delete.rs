//! Deletion of jobs by clients, before [`super::forget`] removes them.

use super::dispatcher::Dispatcher;
use crate::{access::Caller, refusal::Refusal, store::Write};
use numaloc_api::value::DeleteJob;

impl Dispatcher {
    /// Removes a job that has ended. References to it (events, the `last_job` of its schedule) stay, as when the job is
    /// forgotten.
    pub(super) fn delete_job(
        &mut self,
        caller: &Caller,
        request: &DeleteJob,
    ) -> Result<(), Refusal> {
        let job = match self.known(&request.id) {
            Err(Refusal::NotFound { .. }) if request.allow_missing => return Ok(()),
            known => known?,
        };
        self.check_owner_of(caller, &job)?;
        if !job.state.is_end() {
            let (name, state) = (job.id.to_string(), job.state.name());
            return Err(Refusal::NotEnded { name, state });
        }
        if request.validate_only {
            return Ok(());
        }
        // The job's own id has its number, also where a client has chosen the id.
        self.commit(vec![Write::DropJob(job.id.clone())])
    }
}
