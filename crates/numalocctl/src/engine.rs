//! The engine of a command: this process, for its own host, or a daemon. Commands and views know this interface alone,
//! in words of the API.

mod chosen;
mod live;
mod local;
mod remote;

pub use chosen::Chosen;
pub use live::{OwnWork, ScanPace, ViewFeed};
pub use local::LocalEngine;

use crate::{
    args::{MigrateArgs, OptionArgs, PlanArgs},
    exit::Failure,
};
use numaloc_api::{
    v1,
    value::{JobId, MigrationSpec, Target},
};
use numaloc_core::NodeSet;
use std::time::Duration;

/// The result of a request for a migration.
pub enum Migrated {
    Ended(Box<v1::Job>),
    /// The daemon has a job, which is not waited for.
    Created(Box<v1::Job>),
    /// The daemon would take the job.
    Checked(Box<v1::Job>),
}

/// Looks at targets and moves their memory. Calls block.
pub trait Engine {
    /// Its name for people.
    fn via(&self) -> String;

    fn topology(&self) -> Result<v1::GetTopologyResponse, Failure>;

    /// What is on these nodes.
    fn contents(&self, nodes: &NodeSet) -> Result<v1::GetNodeContentsResponse, Failure>;

    /// The cgroups of all registered workloads of class BE.
    ///
    /// # Errors
    /// None is registered, or there is no daemon, which alone knows them.
    fn best_effort(&self) -> Result<Vec<String>, Failure>;

    /// The boot id of its host, which identifies processes together with pid and start time.
    fn boot_id(&self) -> Result<String, Failure>;

    /// The nodes with memory, if the options cannot be read without them; else none.
    ///
    /// # Errors
    /// Nodes are named by a device of this host, and the engine may be on another one.
    fn with_memory_for(&self, options: &OptionArgs) -> Result<NodeSet, Failure>;

    /// Refuses what this engine does not carry out.
    ///
    /// # Errors
    /// The first of such options, with what has it.
    fn check(&self, args: &PlanArgs) -> Result<(), Failure>;

    /// Placement of a target's memory. This process ends its scan early if `stop` returns true.
    fn locality(
        &self,
        target: &Target,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<v1::GetLocalityResponse, Failure>;

    /// The effect that a migration would have. `exchange_with` may make room for it.
    fn plan(
        &self,
        spec: &MigrationSpec,
        exchange_with: &[Target],
    ) -> Result<v1::PlanMigrationResponse, Failure>;

    /// Changes that would help a target, or all processes of the host; CPU times are read twice, `interval` apart.
    fn advice(
        &self,
        target: Option<&Target>,
        interval: Duration,
        min_bytes: u64,
    ) -> Result<v1::GetAdviceResponse, Failure>;

    /// Carries a migration out, with progress on standard error. Ctrl-C cancels it.
    fn migrate(&self, args: &MigrateArgs) -> Result<Migrated, Failure>;

    /// Carries a migration out for a view. `look` gets the job as it is, again and again, and decides about the rest.
    /// `None`: it continues without the view.
    fn run(
        &self,
        spec: &MigrationSpec,
        look: &mut dyn FnMut(&v1::Job) -> Next,
    ) -> Result<Option<v1::Job>, Failure>;

    /// A job's record.
    ///
    /// # Errors
    /// There is no daemon, which alone has records; it has no such job.
    fn job(&self, id: &JobId) -> Result<v1::Job, Failure>;

    /// Cancels a job.
    ///
    /// # Errors
    /// As [`Engine::job`]; it has ended already.
    fn cancel_job(&self, id: &JobId) -> Result<(), Failure>;
}

/// The next state of a migration that a view shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Continue,
    /// It ends after the batches in hand.
    Cancel,
    /// The view has gone. A job of the daemon continues; this process cancels its own.
    Leave,
}

/// Time between two looks of a view at a migration.
const VIEW_TICK: Duration = Duration::from_millis(200);
