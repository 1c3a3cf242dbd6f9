//! Carries out `numalocctl advise --undo`.

use super::{apply::check_place, memory};
use crate::{
    args::{AdviseArgs, Cli},
    clean::clean,
    cmd::{Surroundings, shown},
    doc::{AdviceUndoneDoc, UndoEnd, UndoneChange},
    exit::{Code, Failure},
    output::{CommandResult, complain},
    text,
    units::size,
};
use numaloc_host::advised::{Change, ChangeLog, Moved, Undone, Whom};

/// Takes back what the last `advise --apply` has changed, the last change first.
pub fn run(cli: &Cli, around: &Surroundings, args: &AdviseArgs) -> Result<CommandResult, Failure> {
    if !args.target.is_empty() {
        let message = "--undo takes back all of the last --apply: leave the target out";
        return Err(Failure::Usage(message.into()));
    }
    check_place(cli, around, "--undo")?;
    let dry_run = args.carry.dry_run;
    let undone = match dry_run {
        true => ChangeLog::peek(&around.roots)?.iter().map(planned).collect(),
        false => all(cli, around)?,
    };
    let document = AdviceUndoneDoc { undone, dry_run };
    let code = code(&document.undone);
    Ok(CommandResult { code, ..shown(cli, &document, text::advice_undone)? })
}

fn all(cli: &Cli, around: &Surroundings) -> Result<Vec<UndoneChange>, Failure> {
    if ChangeLog::peek(&around.roots)?.is_empty() {
        return Ok(Vec::new());
    }
    let mut log = ChangeLog::take(&around.roots)?;
    let last = log.last_run();
    let count = last.len();
    let undone = (1..).zip(last).map(|(number, change)| {
        complain(&format!("{number} of {count}: {}", described(&change.1)));
        one(cli, around, &mut log, change)
    });
    Ok(undone.collect())
}

fn code(undone: &[UndoneChange]) -> Code {
    let any = |ends: &[UndoEnd]| undone.iter().any(|change| ends.contains(&change.end));
    match () {
        () if any(&[UndoEnd::Failed]) => Code::Failure,
        () if any(&[UndoEnd::Changed, UndoEnd::Partly]) => Code::Partly,
        () => Code::Done,
    }
}

/// Takes one change back.
pub fn one(
    cli: &Cli,
    around: &Surroundings,
    log: &mut ChangeLog,
    (number, change): (usize, Change),
) -> UndoneChange {
    let (end, reason) = match back(cli, around, log, (number, &change)) {
        Ok(end) => end,
        Err(failure) => (UndoEnd::Failed, failure.to_string()),
    };
    UndoneChange { end, reason: clean(&reason), ..planned(&change) }
}

fn back(
    cli: &Cli,
    around: &Surroundings,
    log: &mut ChangeLog,
    (number, change): (usize, &Change),
) -> Result<(UndoEnd, String), Failure> {
    if let Change::Memory { whose, bound, before } = change {
        let end = memory::bring_back(cli, around, (whose, *bound), before)?;
        log.forget(number)?;
        return Ok((end, String::new()));
    }
    Ok(match log.undo(&around.roots, number)? {
        Undone::Done => (UndoEnd::Undone, String::new()),
        Undone::Gone => (UndoEnd::Gone, String::new()),
        Undone::Changed(now) => (UndoEnd::Changed, now),
    })
}

fn planned(change: &Change) -> UndoneChange {
    let change = described(change);
    UndoneChange { change, end: UndoEnd::Planned, reason: String::new() }
}

/// What is taken back, and what it was before.
fn described(change: &Change) -> String {
    let value = |value: &str| if value.is_empty() { "empty".to_owned() } else { value.to_owned() };
    clean(&match change {
        Change::Property { unit, name, before, after } => {
            format!("{name} of {unit}: {} to {}", value(after), value(before))
        }
        Change::File { path, before, after } => {
            format!("{}: {} to {}", path.display(), value(after), value(before))
        }
        Change::Affinity { whom, before, after } => {
            let whom = match whom {
                Whom::Members(directory) => format!("processes of {directory}"),
                Whom::Process(pid) => format!("process {pid}"),
                Whom::Thread(tid) => format!("thread {tid}"),
            };
            let mut lists: Vec<&str> = before.iter().map(|thread| &thread.cpus[..]).collect();
            lists.dedup();
            let lists = if lists.len() == 1 { lists[0] } else { "those of each thread" };
            format!("CPUs of {whom}: {after} to {lists}")
        }
        Change::Memory { whose, before, .. } => {
            let whose = match whose {
                Moved::Cgroup(path) => format!("cgroup {path}"),
                Moved::Process { pid, .. } => format!("process {pid}"),
            };
            let on = before.iter().filter(|(_, bytes)| **bytes > 0);
            let on = on.map(|(node, &bytes)| format!("{} on node {node}", size(bytes)));
            let on = on.collect::<Vec<_>>().join(", ");
            format!("memory of {whose}: to {on}")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(end: UndoEnd) -> UndoneChange {
        UndoneChange { change: "x".into(), end, reason: String::new() }
    }

    #[test]
    fn what_is_left_decides_the_exit_code() {
        for (ends, expected) in [
            (&[][..], Code::Done),
            (&[UndoEnd::Undone, UndoEnd::Gone], Code::Done),
            (&[UndoEnd::Undone, UndoEnd::Changed], Code::Partly),
            (&[UndoEnd::Partly, UndoEnd::Failed], Code::Failure),
        ] {
            let changes: Vec<UndoneChange> = ends.iter().map(|&end| change(end)).collect();
            assert_eq!(code(&changes), expected, "{ends:?}");
        }
    }
}
