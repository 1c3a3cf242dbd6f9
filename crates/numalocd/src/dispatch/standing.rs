//! Schedules that place memory by its use: a target has one at most.

use super::dispatcher::Dispatcher;
use crate::refusal::Refusal;
use numaloc_api::value::{MigrationSpec, ScheduleId, ScheduleState};

impl Dispatcher {
    /// Refuses a second schedule that places memory of the same target by its use: each would bring back what the other has moved.
    pub(super) fn check_standing(
        &self,
        spec: &MigrationSpec,
        own: &ScheduleId,
    ) -> Result<(), Refusal> {
        let by_use = |spec: &MigrationSpec| spec.policy.options.placement.by_use().is_some();
        if !by_use(spec) {
            return Ok(());
        }
        let others = self.records.schedules().values().filter(|it| it.id != *own);
        let others = others.filter(|it| it.state != ScheduleState::Completed);
        for other in others.filter(|it| by_use(&it.spec.migration)) {
            if let Some(common) = spec.target.common(&other.spec.migration.target) {
                let message = format!(
                    "{} places the memory of {common} by its use, and two schedules would undo each other's moves: change that one, or delete it",
                    other.id
                );
                return Err(Refusal::HostCannot { message });
            }
        }
        Ok(())
    }
}
