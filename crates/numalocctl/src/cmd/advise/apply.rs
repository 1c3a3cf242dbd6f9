//! Carries out `numalocctl advise --apply`.

use super::{
    carry::{Carried, Doing, Hands, carry_out},
    memory, own_host, request, undo,
};
use crate::{
    args::{AdviseArgs, Cli},
    clean::clean,
    cmd::{Surroundings, shown},
    doc::{AdviceAppliedDoc, AppliedFinding, FindingEnd, UndoneChange},
    engine::LocalEngine,
    exit::{Code, Failure},
    output::{CommandResult, View, complain},
    signals, text,
    units::counted,
};
use numaloc_api::v1;
use numaloc_core::advise::{Action, Sight, Who, order::smallest_first};
use numaloc_host::{
    advised::{ChangeLog, check, replaced},
    sight,
};
use std::{
    io::{BufRead, IsTerminal, Write, stderr, stdin},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

/// Looks at this host, shows what it will do, asks, and does it.
pub fn run(cli: &Cli, around: &Surroundings, args: &AdviseArgs) -> Result<CommandResult, Failure> {
    let asks = !args.carry.dry_run && !args.carry.yes;
    if asks && !stdin().is_terminal() {
        let message = "--apply asks first, and standard input is not a terminal: add --yes, or see what it would do with --dry-run";
        return Err(Failure::Usage(message.into()));
    }
    own_host::check(cli, around, "--apply")?;
    let engine = LocalEngine::new(around.roots.clone());
    let looked = engine.advise(request(args).as_ref(), args.seconds, args.min_bytes)?;
    let findings = smallest_first(looked.findings.clone());
    let answer = looked.answer(&findings);
    text::left_out(&answer.missing).lines().for_each(complain);
    let shown_findings = answer.advice.clone().unwrap_or_default().findings;
    if args.carry.dry_run || findings.is_empty() {
        let none = vec![Carried::new(FindingEnd::NotDone); findings.len()];
        let document = document(shown_findings, none, args.carry.dry_run);
        let code = Code::left_out(&answer.missing);
        return Ok(CommandResult { code, ..shown(cli, &document, text::advice_applied)? });
    }
    // Before the question: it fails at once if rights are missing.
    let log = own_host::log(around)?;
    if asks && !is_confirmed(&answer)? {
        return Err(Failure::Refused {
            code: Code::Failure,
            message: "nothing was changed".into(),
        });
    }
    let stop = signals::interrupted()?;
    let mut hands = Host { cli, around, interval: args.seconds, stop, log, begin: 0 };
    let count = findings.len();
    let results = carry_out(&mut hands, &findings, |at, doing| {
        let what = match doing {
            Doing::Step(action) => action.shell(),
            Doing::SecondLook => "looking again".into(),
        };
        complain(&format!("{} of {count}: {what}", at + 1));
    });
    let document = document(shown_findings, results, false);
    let code = match code(&document) {
        Code::Done => Code::left_out(&answer.missing),
        code => code,
    };
    Ok(CommandResult { code, ..shown(cli, &document, text::advice_applied)? })
}

/// Shows what would be done, and asks for it.
fn is_confirmed(answer: &v1::GetAdviceResponse) -> Result<bool, Failure> {
    let findings = answer.advice.as_ref().map_or(0, |advice| advice.findings.len());
    let question = format!(
        "{}Carry out {}, in this order? Each is undone if it gets worse. [y/N] ",
        text::advice(answer, View::TABLE),
        counted(i32::try_from(findings).unwrap_or(i32::MAX), "finding", "findings"),
    );
    let asked = stderr().lock().write_all(question.as_bytes());
    let mut line = String::new();
    asked.and_then(|()| stdin().lock().read_line(&mut line)).map_err(Failure::Output)?;
    Ok(matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

fn document(findings: Vec<v1::Finding>, results: Vec<Carried>, dry_run: bool) -> AdviceAppliedDoc {
    let applied = findings.into_iter().zip(results).map(|(finding, result)| {
        let [local_percent_before, local_percent_after] = result.local;
        let (end, reason, undone) = (result.end, clean(&result.reason), result.undone);
        AppliedFinding { finding, end, reason, local_percent_before, local_percent_after, undone }
    });
    AdviceAppliedDoc { applied: applied.collect(), dry_run }
}

fn code(document: &AdviceAppliedDoc) -> Code {
    let any = |ends: &[FindingEnd]| document.applied.iter().any(|one| ends.contains(&one.end));
    match () {
        () if any(&[FindingEnd::Worse, FindingEnd::Failed, FindingEnd::NotDone]) => Code::Failure,
        () if any(&[FindingEnd::Partly]) => Code::Partly,
        () => Code::Done,
    }
}

struct Host<'a> {
    cli: &'a Cli,
    around: &'a Surroundings,
    interval: Duration,
    stop: Arc<AtomicBool>,
    log: ChangeLog,
    /// The number of the first change of the present finding.
    begin: usize,
}

impl Hands for Host<'_> {
    fn sight(&mut self, who: Option<&Who>) -> Result<Option<Sight>, Failure> {
        let stop = || self.stop.load(Relaxed);
        Ok(sight(&stop, &self.around.roots, who, self.interval)?)
    }

    fn check(&mut self, action: &Action) -> Result<(), Failure> {
        Ok(check(action)?)
    }

    fn step(
        &mut self,
        who: Option<&Who>,
        action: &Action,
        before: &Sight,
    ) -> Result<Code, Failure> {
        let roots = &self.around.roots;
        match (replaced(roots, action)?, action, who) {
            (Some(change), ..) => self.log.make(roots, change).map(drop)?,
            (None, Action::Migrate(words), Some(who)) => {
                self.log.make(roots, memory::change(who, words, before))?;
                return memory::migrate(self.cli, self.around, words);
            }
            (None, ..) => {}
        }
        Ok(Code::Done)
    }

    fn take_back(&mut self) -> Vec<UndoneChange> {
        let last = self.log.last_run();
        let own = last.into_iter().filter(|(number, _)| *number >= self.begin);
        let one =
            |(number, change)| undo::one(self.cli, self.around, &mut self.log, number, change);
        own.map(one).collect()
    }

    fn begin(&mut self) {
        self.begin = self.log.next();
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }
}
