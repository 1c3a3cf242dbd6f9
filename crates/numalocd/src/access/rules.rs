//! The role that each call needs, and its kind. A call without a rule is refused, and a test fails for it.

use super::lines::Kind;
use crate::config::Role;

/// Who may make a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// Everybody who may connect, with or without a role.
    Open,
    /// Callers with this role or one above it.
    Role(Role),
}

/// What a call needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    /// The path of its HTTP request.
    pub path: &'static str,
    /// Who may make it.
    pub need: Need,
    /// What it costs while it is answered.
    pub kind: Kind,
}

const fn open(path: &'static str) -> Rule {
    Rule { path, need: Need::Open, kind: Kind::Read }
}

const fn read(path: &'static str) -> Rule {
    viewer(path, Kind::Read)
}

const fn list(path: &'static str) -> Rule {
    viewer(path, Kind::List)
}

const fn stream(path: &'static str) -> Rule {
    viewer(path, Kind::Stream)
}

const fn watch(path: &'static str) -> Rule {
    viewer(path, Kind::Watch)
}

const fn viewer(path: &'static str, kind: Kind) -> Rule {
    Rule { path, need: Need::Role(Role::Viewer), kind }
}

const fn change(path: &'static str) -> Rule {
    Rule { path, need: Need::Role(Role::Operator), kind: Kind::Change }
}

const fn bulk(path: &'static str) -> Rule {
    Rule { path, need: Need::Role(Role::Operator), kind: Kind::Bulk }
}

const fn admin(path: &'static str) -> Rule {
    Rule { path, need: Need::Role(Role::Admin), kind: Kind::Change }
}

/// One rule for each call. `Check` of the health service is open to everybody, because probes have no role. Watching health and
/// reflection hold a stream, so they need a role.
pub(super) const RULES: &[Rule] = &[
    open("/grpc.health.v1.Health/Check"),
    stream("/grpc.health.v1.Health/Watch"),
    stream("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"),
    stream("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"),
    read("/numaloc.v1.DaemonService/GetStatus"),
    list("/numaloc.v1.DaemonService/GetMetrics"),
    admin("/numaloc.v1.DaemonService/DrainDaemon"),
    admin("/numaloc.v1.DaemonService/UndrainDaemon"),
    admin("/numaloc.v1.DaemonService/PauseDaemon"),
    admin("/numaloc.v1.DaemonService/ResumeDaemon"),
    admin("/numaloc.v1.DaemonService/BackupStore"),
    list("/numaloc.v1.LocalityService/GetTopology"),
    list("/numaloc.v1.LocalityService/GetLocality"),
    watch("/numaloc.v1.LocalityService/WatchLocality"),
    list("/numaloc.v1.LocalityService/GetAdvice"),
    list("/numaloc.v1.LocalityService/GetLiveView"),
    list("/numaloc.v1.MigrationService/PlanMigration"),
    change("/numaloc.v1.MigrationService/CreateJob"),
    read("/numaloc.v1.MigrationService/GetJob"),
    list("/numaloc.v1.MigrationService/ListJobs"),
    watch("/numaloc.v1.MigrationService/WatchJob"),
    watch("/numaloc.v1.MigrationService/WatchJobs"),
    change("/numaloc.v1.MigrationService/CancelJob"),
    change("/numaloc.v1.MigrationService/PauseJob"),
    change("/numaloc.v1.MigrationService/ResumeJob"),
    change("/numaloc.v1.ScheduleService/CreateSchedule"),
    read("/numaloc.v1.ScheduleService/GetSchedule"),
    list("/numaloc.v1.ScheduleService/ListSchedules"),
    watch("/numaloc.v1.ScheduleService/WatchSchedules"),
    change("/numaloc.v1.ScheduleService/UpdateSchedule"),
    change("/numaloc.v1.ScheduleService/DeleteSchedule"),
    change("/numaloc.v1.ScheduleService/RunSchedule"),
    list("/numaloc.v1.EventService/ListEvents"),
    watch("/numaloc.v1.EventService/WatchEvents"),
    change("/numaloc.v1.WorkloadService/RegisterWorkload"),
    bulk("/numaloc.v1.WorkloadService/ReplaceWorkloads"),
    change("/numaloc.v1.WorkloadService/RenewWorkloads"),
    change("/numaloc.v1.WorkloadService/UnregisterWorkload"),
    read("/numaloc.v1.WorkloadService/GetWorkload"),
    list("/numaloc.v1.WorkloadService/ListWorkloads"),
    watch("/numaloc.v1.WorkloadService/WatchWorkloads"),
];

/// The rule for the call with this path.
pub(super) fn find(path: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.path == path)
}

impl Rule {
    /// Whether the call is a change. Changes are audited.
    pub fn is_change(&self) -> bool {
        matches!(self.kind, Kind::Change | Kind::Bulk)
    }

    /// The name of the call, without its service.
    pub fn method(&self) -> &'static str {
        self.path.rsplit('/').next().unwrap_or(self.path)
    }
}
