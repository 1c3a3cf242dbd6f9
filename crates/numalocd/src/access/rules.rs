//! The role that each call needs, its kind, and how large its request may be. A call without a rule is refused, and a
//! test fails for it.

use super::lines::CallKind;
use crate::config::Role;

/// The callers that may make a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// All clients that may connect, with or without a role.
    Open,
    /// Callers with this role or one above it.
    Role(Role),
}

/// Largest message of a request, in bytes, of calls that take a target, labels or workloads.
pub const REQUEST_MAX: usize = 1 << 20;
/// Limit for all other calls, whose requests are small.
pub const SMALL_REQUEST_MAX: usize = 16 << 10;

/// Whether a request is one message or a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asks {
    /// As one message of at most this many bytes, which is read before the call gets a turn.
    Once(usize),
    /// As a stream of messages, which the service reads.
    Stream,
}

/// Requirements of a method on its caller, and its cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    /// The path of its HTTP request.
    pub path: &'static str,
    /// The role that the caller must have, if any.
    pub need: Need,
    /// Cost of the call while it is answered.
    pub kind: CallKind,
    pub asks: Asks,
}

const fn open(path: &'static str) -> Rule {
    new(path, Need::Open, CallKind::Read)
}

const fn read(path: &'static str) -> Rule {
    viewer(path, CallKind::Read)
}

const fn list(path: &'static str) -> Rule {
    viewer(path, CallKind::List)
}

const fn stream(path: &'static str) -> Rule {
    viewer(path, CallKind::Stream)
}

const fn watch(path: &'static str) -> Rule {
    viewer(path, CallKind::Watch)
}

const fn viewer(path: &'static str, kind: CallKind) -> Rule {
    new(path, Need::Role(Role::Viewer), kind)
}

const fn change(path: &'static str) -> Rule {
    new(path, Need::Role(Role::Operator), CallKind::Change)
}

const fn bulk(path: &'static str) -> Rule {
    new(path, Need::Role(Role::Operator), CallKind::Bulk)
}

const fn admin(path: &'static str) -> Rule {
    new(path, Need::Role(Role::Admin), CallKind::Change)
}

const fn new(path: &'static str, need: Need, kind: CallKind) -> Rule {
    Rule { path, need, kind, asks: Asks::Once(SMALL_REQUEST_MAX) }
}

/// One rule for each call. `Check` of the health service is open to all clients, because probes have no role. Watching
/// health and reflection hold a stream, so they need a role.
pub(super) const RULES: &[Rule] = &[
    open("/grpc.health.v1.Health/Check"),
    stream("/grpc.health.v1.Health/Watch"),
    stream("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo").streamed(),
    stream("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo").streamed(),
    read("/numaloc.v1.DaemonService/GetStatus"),
    list("/numaloc.v1.DaemonService/GetMetrics"),
    admin("/numaloc.v1.DaemonService/DrainDaemon"),
    admin("/numaloc.v1.DaemonService/UndrainDaemon"),
    admin("/numaloc.v1.DaemonService/PauseDaemon"),
    admin("/numaloc.v1.DaemonService/ResumeDaemon"),
    admin("/numaloc.v1.DaemonService/BackupStore"),
    list("/numaloc.v1.LocalityService/GetTopology"),
    list("/numaloc.v1.LocalityService/GetLocality").large(),
    watch("/numaloc.v1.LocalityService/WatchLocality").large(),
    viewer("/numaloc.v1.LocalityService/GetAdvice", CallKind::Advice).large(),
    list("/numaloc.v1.LocalityService/GetLiveView"),
    list("/numaloc.v1.LocalityService/GetNodeContents"),
    list("/numaloc.v1.MigrationService/PlanMigration").large(),
    change("/numaloc.v1.MigrationService/CreateJob").large(),
    read("/numaloc.v1.MigrationService/GetJob"),
    list("/numaloc.v1.MigrationService/ListJobs").large(),
    watch("/numaloc.v1.MigrationService/WatchJob"),
    watch("/numaloc.v1.MigrationService/WatchJobs").large(),
    change("/numaloc.v1.MigrationService/CancelJob"),
    change("/numaloc.v1.MigrationService/PauseJob"),
    change("/numaloc.v1.MigrationService/ResumeJob"),
    change("/numaloc.v1.MigrationService/DeleteJob"),
    change("/numaloc.v1.ScheduleService/CreateSchedule").large(),
    read("/numaloc.v1.ScheduleService/GetSchedule"),
    list("/numaloc.v1.ScheduleService/ListSchedules").large(),
    watch("/numaloc.v1.ScheduleService/WatchSchedules").large(),
    change("/numaloc.v1.ScheduleService/UpdateSchedule").large(),
    change("/numaloc.v1.ScheduleService/DeleteSchedule"),
    change("/numaloc.v1.ScheduleService/RunSchedule"),
    list("/numaloc.v1.EventService/ListEvents"),
    watch("/numaloc.v1.EventService/WatchEvents"),
    change("/numaloc.v1.WorkloadService/RegisterWorkload").large(),
    bulk("/numaloc.v1.WorkloadService/ReplaceWorkloads").streamed(),
    change("/numaloc.v1.WorkloadService/RenewWorkloads"),
    change("/numaloc.v1.WorkloadService/UnregisterWorkload"),
    read("/numaloc.v1.WorkloadService/GetWorkload"),
    list("/numaloc.v1.WorkloadService/ListWorkloads").large(),
    watch("/numaloc.v1.WorkloadService/WatchWorkloads").large(),
];

/// The rule for the call with this path.
pub(super) fn find(path: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.path == path)
}

impl Rule {
    /// With a request that may be large.
    const fn large(self) -> Self {
        Self { asks: Asks::Once(REQUEST_MAX), ..self }
    }

    /// With a request that is a stream.
    const fn streamed(self) -> Self {
        Self { asks: Asks::Stream, ..self }
    }

    /// Whether the call is a change. Changes are audited.
    pub fn is_change(&self) -> bool {
        matches!(self.kind, CallKind::Change | CallKind::Bulk)
    }

    /// The name of the call, without its service.
    pub fn method(&self) -> &'static str {
        self.path.rsplit('/').next().unwrap_or(self.path)
    }
}
