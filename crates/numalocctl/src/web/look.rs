//! The page's single requests: advice, a picture, a job. Each call scans again.

use super::{
    doc::{AdviceDoc, FindingDoc, PictureDoc, RowDoc, TextDoc},
    route::Refusal,
};
use crate::{
    args::DrawSort,
    captions::Origin,
    doc::MapDoc,
    engine::{Chosen, LocalEngine},
    exit::{Code, Failure},
    fields,
    output::View,
    picture, svg, text,
    top::{RowKey, requested},
};
use http::StatusCode;
use numaloc_api::{
    timestamp, v1,
    value::{JobId, ScheduleId},
};
use numaloc_host::{Error, Roots, boot_id};
use std::time::SystemTime;

const VIEW: View = View { wide: true, ..View::TABLE };

/// Looks at the host and at records.
pub struct Looks {
    pub engine: Chosen,
    /// This host's files; `None`: the daemon is another host's.
    pub roots: Option<Roots>,
    pub host: String,
    pub advise: Box<dyn Fn() -> Result<v1::GetAdviceResponse, Failure> + Send + Sync>,
}

impl Looks {
    pub fn advice(&self) -> Result<AdviceDoc, Failure> {
        let answer = (self.advise)()?;
        let finding = |finding: &v1::Finding| {
            let (what, brings) = text::finding_lines(finding);
            let migrates = migrated(finding);
            FindingDoc { what, brings, commands: finding.commands.clone(), migrates }
        };
        let findings = answer.advice.iter().flat_map(|advice| &advice.findings).map(finding);
        Ok(AdviceDoc { findings: findings.collect(), end: text::advice_end(&answer) })
    }

    /// Draws a process with the rights of this program.
    pub fn picture(&self, row: &RowKey) -> Result<PictureDoc, Failure> {
        let Some(roots) = &self.roots else {
            return Err(Failure::NeedsStandalone { option: "a picture" });
        };
        let target = requested(row, || Ok(boot_id(roots)?))?;
        let engine = LocalEngine::new(roots.clone());
        let (viewer, missing) = engine.viewer(&target, svg::CELLS, false)?;
        let mut picture = viewer.look()?;
        picture::arrange(&mut picture, DrawSort::Size);
        let Some(panel) = picture.panels.first() else {
            return Err(Error::Empty { target: target.to_string() }.into());
        };
        let origin = Origin {
            host: self.host.clone(),
            time: fields::short(timestamp(SystemTime::now())),
            command: format!("locality --pid {} --draw", panel.pid),
        };
        let svg = svg::svg(&picture::drawn(&picture), &origin);
        let map = MapDoc::new(&picture, viewer.source(), None, &missing);
        Ok(PictureDoc { pid: panel.pid, comm: panel.comm.clone(), svg, map })
    }

    pub fn job(&self, id: &JobId) -> Result<TextDoc, Failure> {
        let engine = self.engine.open()?;
        let (job, topology) = (engine.job(id)?, engine.topology()?);
        let topology = topology.topology.unwrap_or_default();
        Ok(TextDoc { text: text::job(&job, &topology, VIEW) })
    }

    pub fn schedule(&self, id: &ScheduleId) -> Result<TextDoc, Failure> {
        let Some(mut daemon) = self.engine.daemon() else {
            return Err(Failure::NeedsDaemon { option: "a schedule" });
        };
        let schedule = daemon.ask(|daemon| daemon.get_schedule(id))?;
        Ok(TextDoc { text: text::schedule(&schedule, VIEW) })
    }

    pub fn cancel_job(&self, id: &JobId) -> Result<(), Failure> {
        self.engine.open()?.cancel_job(id)
    }
}

/// The row whose migration, as the page plans it, is all that a finding asks for: its only command is one without options.
fn migrated(finding: &v1::Finding) -> Option<RowDoc> {
    let [command] = &finding.commands[..] else { return None };
    let is_plain =
        command.starts_with("numalocctl migrate ") && command.matches(" --").count() == 1;
    match finding.who.as_ref().filter(|_| is_plain)? {
        v1::finding::Who::Cgroup(path) => Some(RowDoc::Cgroup { cgroup: path.clone() }),
        v1::finding::Who::Process(process) => Some(RowDoc::Process {
            pid: process.pid,
            start: fields::amount(process.start_time_ticks),
        }),
    }
}

/// A failure as an HTTP answer.
pub fn refusal(failure: &Failure) -> Refusal {
    let status = match Code::from(failure) {
        Code::Usage => StatusCode::BAD_REQUEST,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::Permission => StatusCode::FORBIDDEN,
        Code::Unreachable => StatusCode::BAD_GATEWAY,
        Code::TimedOut => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    Refusal::new(status, failure.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{args::Cli, place::Environment};
    use clap::Parser;
    use numaloc_host::identify;

    #[test]
    fn what_one_plain_migration_mends_can_be_migrated_here() {
        let who = Some(v1::finding::Who::Cgroup("/a b".into()));
        let finding = |commands: &[&str]| {
            let commands = commands.iter().map(|line| (*line).to_owned()).collect();
            migrated(&v1::Finding { who: who.clone(), commands, ..v1::Finding::default() })
        };
        let plain = "numalocctl migrate --cgroup '/a b'";
        assert_eq!(finding(&[plain]), Some(RowDoc::Cgroup { cgroup: "/a b".into() }));
        // The page would plan something else than these.
        for commands in [
            &["numalocctl migrate --cgroup '/a b' --home busy"][..],
            &[plain, plain],
            &["echo 1 > /a"],
            &[],
        ] {
            assert_eq!(finding(commands), None, "{commands:?}");
        }
        let id = v1::ProcessId { pid: 7, start_time_ticks: 9 };
        let process = v1::Finding {
            who: Some(v1::finding::Who::Process(id)),
            commands: vec!["numalocctl migrate --pid 7".into()],
            ..v1::Finding::default()
        };
        assert_eq!(migrated(&process), Some(RowDoc::Process { pid: 7, start: 9 }));
        let whole = v1::Finding { who: None, ..process };
        assert_eq!(migrated(&whole), None);
    }

    #[test]
    fn the_picture_of_a_process_is_not_that_of_a_later_one_with_its_pid() {
        let connect = Cli::try_parse_from(["numalocctl", "--standalone", "web"]).unwrap().connect;
        let environment = Environment { endpoint: None, files: Vec::new(), socket: "/none".into() };
        let engine = Chosen::new(&connect, &environment, &Roots::default()).expect("this process");
        let looks = Looks {
            engine,
            roots: Some(Roots::default()),
            host: String::new(),
            advise: Box::new(|| panic!("it is not asked for")),
        };
        let pid = std::process::id() as i32;
        let start = identify(&Roots::default(), [pid]).expect("it is there")[&pid].start_time;
        assert_eq!(looks.picture(&RowKey::Process(pid, start)).expect("it is ours").pid, pid);
        let later = looks.picture(&RowKey::Process(pid, start + 1)).map(drop).expect_err("another");
        let Failure::Engine(error) = &later else { panic!("{later}") };
        assert!(matches!(error.of_host(), Some(Error::OtherProcess { .. })), "{later}");
    }
}
