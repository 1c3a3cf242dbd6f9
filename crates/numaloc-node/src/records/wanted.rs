//! The records that a client wants numalocd to have.

use numaloc_api::{v1, value::ScheduleId};
use numaloc_policy::PodBounds;

/// The records that numalocd should have for a container.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wanted {
    /// The id of its workload and of its schedule.
    pub id: String,
    /// The workload; `None`: another client registers the container.
    pub workload: Option<v1::Workload>,
    /// The schedule; `None`: its memory stays where it is.
    pub schedule: Option<v1::Schedule>,
    /// Whether its schedule, if it has one, stays as it is, because what is wanted is not known.
    pub stays: bool,
    /// Whether runs of its schedule that are under way are cancelled when it is paused.
    pub stops: bool,
    /// Notices for its operator: a bad annotation, or a request that was reduced.
    pub notes: Vec<String>,
    /// The bounds of its pod.
    pub bounds: PodBounds,
}

impl Wanted {
    /// The name of the schedule that it has, or that stays.
    pub fn scheduled(&self) -> Option<String> {
        let stays = || self.stays.then(|| format!("{}{}", ScheduleId::PREFIX, self.id));
        self.schedule.as_ref().map(|schedule| schedule.name.clone()).or_else(stays)
    }
}
