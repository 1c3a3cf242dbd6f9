//! Carries out `numalocctl advise --undo`.

use super::{memory, own_host};
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

/// Takes back the changes of the last `advise --apply`, the last one first.
pub fn run(cli: &Cli, around: &Surroundings, args: &AdviseArgs) -> Result<CommandResult, Failure> {
    if !args.target.is_empty() {
        let message = "--undo takes back all of the last --apply: leave the target out";
        return Err(Failure::Usage(message.into()));
    }
    own_host::check(cli, around, "--undo")?;
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
    let mut log = own_host::log(around)?;
    let last = log.last_run();
    let count = last.len();
    let undone = (1..).zip(last).map(|(at, (number, change))| {
        complain(&format!("{at} of {count}: {}", described(&change)));
        one(cli, around, &mut log, number, change)
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
    number: usize,
    change: Change,
) -> UndoneChange {
    let (end, reason) = match back(cli, around, log, number, &change) {
        Ok(end) => end,
        Err(failure) => (UndoEnd::Failed, failure.to_string()),
    };
    UndoneChange { end, reason: clean(&reason), ..planned(&change) }
}

fn back(
    cli: &Cli,
    around: &Surroundings,
    log: &mut ChangeLog,
    number: usize,
    change: &Change,
) -> Result<(UndoEnd, String), Failure> {
    if let Change::Memory { whose, bound, before } = change {
        let end = memory::bring_back(cli, around, whose, *bound, before)?;
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

/// The change that is taken back, and the value before it.
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
            let lists =
                if lists.len() == 1 { lists[0] } else { "the previous CPUs of each thread" };
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
    use crate::place::Environment;
    use clap::Parser;
    use numaloc_host::Roots;
    use std::fs;

    fn change(end: UndoEnd) -> UndoneChange {
        UndoneChange { change: "x".into(), end, reason: String::new() }
    }

    /// A host with two files of a cgroup that were changed, one of which another program has changed since.
    fn host() -> (tempfile::TempDir, Surroundings) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join(name);
        for name in ["proc/self", "run", "cgroup/a"] {
            fs::create_dir_all(path(name)).expect("a directory");
        }
        let (proc, run) = (path("proc"), path("run"));
        let roots = Roots { proc, run, ..Roots::default() };
        let mut log = ChangeLog::take(&roots).expect("nobody has it");
        for (name, before, after) in [("cpuset.cpus", "", "0-3"), ("cpuset.mems", "0-1", "1")] {
            let path = path("cgroup/a").join(name);
            fs::write(&path, before).expect("a file");
            let change = Change::File { path, before: before.into(), after: after.into() };
            log.make(&roots, change).expect("ours");
        }
        fs::write(path("cgroup/a/cpuset.mems"), "0\n").expect("a file");
        let environment = Environment { endpoint: None, files: Vec::new(), socket: "/none".into() };
        (directory, Surroundings { roots, environment })
    }

    #[test]
    fn what_was_changed_is_shown_and_taken_back_once() {
        let (directory, around) = host();
        let cgroup = directory.path().join("cgroup/a");
        let shown = |options: &str| {
            let line = format!("numalocctl --standalone advise --undo{options}");
            let cli = Cli::try_parse_from(line.split(' ')).expect("a command line");
            let result = crate::cmd::run(cli, &around).expect("it can be undone");
            (result.text.replace(cgroup.to_str().expect("text"), "/a"), result.code)
        };
        let planned = "/a/cpuset.mems: 1 to 0-1: would be undone\n\
            /a/cpuset.cpus: 0-3 to empty: would be undone\n";
        assert_eq!(shown(" --dry-run"), (planned.into(), Code::Done));
        let undone = "/a/cpuset.mems: 1 to 0-1: left: another program has changed it since (now 0)\n\
            /a/cpuset.cpus: 0-3 to empty: undone\n";
        assert_eq!(shown(""), (undone.into(), Code::Partly));
        assert_eq!(fs::read_to_string(cgroup.join("cpuset.cpus")).expect("a file"), "\n");
        let (nothing, code) = shown("");
        assert!(nothing.starts_with("nothing to undo") && code == Code::Done, "{nothing}");
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
