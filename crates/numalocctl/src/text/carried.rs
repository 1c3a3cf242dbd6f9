//! Prints what `numalocctl advise --apply` and `--undo` have done.

use super::advise::{finding_lines, title};
use crate::{
    clean::clean,
    doc::{AdviceAppliedDoc, AdviceUndoneDoc, AppliedFinding, FindingEnd, UndoEnd, UndoneChange},
    output::View,
    units::counted,
};
use std::fmt::Write;

/// A line a finding, and what comes next.
pub fn advice_applied(document: &AdviceAppliedDoc, _: View) -> String {
    if document.applied.is_empty() {
        return "nothing to do: there is no advice\n".into();
    }
    let mut text = String::new();
    for (number, one) in (1..).zip(&document.applied) {
        match document.dry_run {
            true => planned(&mut text, number, one),
            false => ended(&mut text, number, one),
        }
    }
    text + &end(document)
}

fn planned(text: &mut String, number: usize, one: &AppliedFinding) {
    let (what, brings) = finding_lines(&one.finding);
    let _ = writeln!(text, "{number}. {what}\n   {brings}");
    for command in &one.finding.commands {
        let _ = writeln!(text, "     {}", clean(command));
    }
}

fn ended(text: &mut String, number: usize, one: &AppliedFinding) {
    let _ = writeln!(text, "{number}. {}{}", title(&one.finding), result(one));
    for change in &one.undone {
        let _ = writeln!(text, "     {}", line(change));
    }
}

fn result(one: &AppliedFinding) -> String {
    let local = match (one.local_percent_before, one.local_percent_after) {
        (Some(before), Some(after)) => format!(", local {before:.0}% before, {after:.0}% now"),
        _ => String::new(),
    };
    match one.end {
        FindingEnd::Done => format!("done{local}"),
        FindingEnd::Partly => format!("done but for memory that stayed{local}"),
        FindingEnd::Worse => format!("got worse: {}; taken back:", one.reason),
        FindingEnd::Failed => format!("failed: {}; taken back:", one.reason),
        FindingEnd::Gone => "has ended before its turn".into(),
        FindingEnd::NotDone => "not done".into(),
    }
}

/// What was not done, and how to take back what was.
fn end(document: &AdviceAppliedDoc) -> String {
    let count = |ends: &[FindingEnd]| {
        let of = document.applied.iter().filter(|one| ends.contains(&one.end)).count();
        i32::try_from(of).unwrap_or(i32::MAX)
    };
    let done = count(&[FindingEnd::Done, FindingEnd::Partly]);
    let rest = count(&[FindingEnd::NotDone]);
    let findings = |count| counted(count, "finding", "findings");
    if document.dry_run {
        return format!(
            "{} would be carried out in this order; nothing has changed\n",
            findings(rest)
        );
    }
    let stopped = match count(&[FindingEnd::Worse, FindingEnd::Failed, FindingEnd::NotDone]) {
        0 => String::new(),
        _ => format!("stopped: {} not carried out. ", findings(rest)),
    };
    match done {
        0 => format!("{stopped}Nothing has changed\n"),
        _ => format!("{stopped}`numalocctl advise --undo` takes back {}\n", findings(done)),
    }
}

/// A line a change.
pub fn advice_undone(document: &AdviceUndoneDoc, _: View) -> String {
    if document.undone.is_empty() {
        return "nothing to undo: no advise --apply since the last boot has changes that are left\n".into();
    }
    document.undone.iter().map(|change| line(change) + "\n").collect()
}

fn line(UndoneChange { change, end, reason }: &UndoneChange) -> String {
    let end = match end {
        UndoEnd::Planned => "would be undone".to_owned(),
        UndoEnd::Undone => "undone".to_owned(),
        UndoEnd::Partly => "undone but for memory that stayed".to_owned(),
        UndoEnd::Gone => "gone, nothing to undo".to_owned(),
        UndoEnd::Changed => format!("left: somebody else has changed it since (now {reason})"),
        UndoEnd::Failed => format!("failed: {reason}; --undo tries it again"),
    };
    format!("{}: {end}", clean(change))
}
