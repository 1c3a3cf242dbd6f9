//! The documents that the page gets. Output of other commands is in them as `-o json` prints it there.

use crate::{
    doc::{DetailDoc, MapDoc, TopDoc},
    top::Stage,
    units::seconds,
};
use numaloc_api::v1;
use numaloc_core::Profile;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The data that changes while the page is open.
#[derive(Serialize)]
pub struct ViewDoc<'a> {
    /// Counts views; the next one is asked for by this number.
    pub serial: u64,
    pub host: &'a HostDoc,
    /// As `top -b -o json`.
    pub top: TopDoc,
    /// The process that is opened, once it has been read, with its largest mappings in descending order.
    pub detail: Option<DetailDoc>,
    /// As `jobs ls -o json`, without plans; null without the daemon, or before its first answer.
    pub jobs: Option<&'a [v1::Job]>,
    /// As `schedules ls -o json`; null where jobs are.
    pub schedules: Option<&'a [v1::Schedule]>,
    /// The target of each job and schedule, as `jobs ls` prints it, by the record's name.
    pub targets: BTreeMap<&'a str, String>,
    /// As `status -o json`.
    pub status: Option<&'a v1::GetStatusResponse>,
    pub migration: Option<&'a MigrationDoc>,
    /// Information that the daemon does not provide, and the reason.
    pub trouble: Option<String>,
    pub note: Option<&'a str>,
}

/// The data that stays the same.
#[derive(Clone, Serialize)]
pub struct HostDoc {
    /// The host's name; of another host's daemon its address.
    pub name: String,
    pub version: &'static str,
    /// Whether pictures by address can be drawn: only this host's pages can be read.
    pub has_pictures: bool,
    /// Whether there is a daemon with jobs.
    pub has_jobs: bool,
    /// Whether the page changes nothing.
    pub is_read_only: bool,
}

/// The data that the page sends with its requests.
#[derive(Serialize)]
pub struct SessionDoc<'a> {
    pub token: &'a str,
}

/// A migration that was begun on the page.
#[derive(Clone, Debug, Default, Serialize)]
pub struct MigrationDoc {
    /// Counts migrations: what is confirmed is the plan of this number.
    pub plan: u64,
    /// The row, in words.
    pub target: String,
    /// `planning`, `asked`, `running` or `ended`.
    pub stage: &'static str,
    /// The plan, or the result.
    pub text: String,
    /// The profiles in which it may be done, and the duration of each.
    pub profiles: Vec<ProfileDoc>,
    /// The daemon's job and its state.
    pub job: String,
    pub settled_bytes: u64,
    pub planned_bytes: u64,
    /// The reason why it is throttled at the moment.
    pub held_back: String,
    pub is_cancelled: bool,
}

#[derive(Clone, Debug, Serialize)]
pub struct ProfileDoc {
    pub name: &'static str,
    pub takes: String,
}

impl MigrationDoc {
    /// The same at another stage.
    pub fn reach(&mut self, stage: Stage) {
        let Self { plan, target, .. } = std::mem::take(self);
        *self = match stage {
            Stage::Planning => Self { stage: "planning", ..Self::default() },
            Stage::Asked(question) => Self {
                stage: "asked",
                profiles: Profile::ALL
                    .map(|profile| ProfileDoc {
                        name: profile.name(),
                        takes: seconds(question.takes(profile).as_secs_f64()),
                    })
                    .into(),
                text: question.plan,
                ..Self::default()
            },
            Stage::Ended(text) => Self { stage: "ended", text, ..Self::default() },
            Stage::Running(progress) => Self {
                stage: "running",
                job: progress.job,
                settled_bytes: progress.settled_bytes,
                planned_bytes: progress.planned_bytes,
                held_back: progress.held_back,
                is_cancelled: progress.is_cancelled,
                ..Self::default()
            },
        };
        (self.plan, self.target) = (plan, target);
    }

    pub fn is_running(&self) -> bool {
        self.stage == "running"
    }
}

#[derive(Serialize)]
pub struct AdviceDoc {
    pub findings: Vec<FindingDoc>,
    /// The number of scanned processes, and the ones that were not scanned.
    pub end: String,
}

#[derive(Serialize)]
pub struct FindingDoc {
    /// The findings, with their subjects.
    pub what: String,
    /// The benefit of the commands.
    pub brings: String,
    /// Commands of a shell, in the order in which to run them.
    pub commands: Vec<String>,
    /// The row that it takes to migrate, if that is all there is to do.
    pub migrates: Option<RowDoc>,
}

/// A row, as requests of the page name it.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum RowDoc {
    Process { pid: i32, start: u64 },
    Cgroup { cgroup: String },
}

/// Placement of a process's memory, by address.
#[derive(Serialize)]
pub struct PictureDoc {
    pub pid: i32,
    pub comm: String,
    /// The picture; empty if the process has nothing to draw.
    pub svg: String,
    /// As `locality --draw -o json`.
    pub map: MapDoc,
}

/// A job or a schedule in full, as `jobs get` or `schedules get` prints it.
#[derive(Serialize)]
pub struct TextDoc {
    pub text: String,
}

/// The reason why a request was not answered.
#[derive(Serialize)]
pub struct RefusalDoc<'a> {
    pub error: &'a str,
}

/// All of it, as of one moment.
#[derive(Serialize)]
pub struct ReportDoc<'a> {
    pub view: ViewDoc<'a>,
    /// The arguments of the command line.
    pub command: String,
    /// Jobs and schedules in full, by their names: the latest jobs.
    pub texts: BTreeMap<String, String>,
    /// The view of an earlier report, to compare with.
    pub before: Option<BeforeDoc>,
    pub advice: Option<AdviceDoc>,
    /// Pictures by address: of processes with most remote memory, then of the largest.
    pub pictures: Vec<PictureDoc>,
    /// Missing information, and the reason.
    pub missing: Vec<String>,
}

/// An earlier report, as far as a later one compares with it.
#[derive(Debug, Deserialize, Serialize)]
pub struct BeforeDoc {
    pub view: BeforeViewDoc,
}

#[derive(Debug, Deserialize, Serialize)]
pub struct BeforeViewDoc {
    pub host: BeforeHostDoc,
    pub top: BeforeTopDoc,
}

#[derive(Debug, Deserialize, Serialize)]
pub struct BeforeHostDoc {
    pub name: String,
}

#[derive(Debug, Deserialize, Serialize)]
pub struct BeforeTopDoc {
    pub time: Option<String>,
    pub workloads: Vec<BeforeRowDoc>,
    pub processes: Vec<BeforeRowDoc>,
}

/// What identifies a row, and what is compared.
#[derive(Debug, Deserialize, Serialize)]
pub struct BeforeRowDoc {
    pub pid: Option<i32>,
    pub start_time_ticks: Option<u64>,
    pub cgroup: Option<String>,
    pub remote_bytes: Option<u64>,
}
