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

/// The findings that were not carried out, and how to take back the others.
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
    let mut undone = document.applied.iter().flat_map(|one| &one.undone);
    let is_left = undone.any(|change| change.end == UndoEnd::Failed);
    match done {
        0 if is_left => format!("{stopped}`numalocctl advise --undo` takes back what is left\n"),
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
        UndoEnd::Changed => format!("left: another program has changed it since (now {reason})"),
        UndoEnd::Failed => format!("failed: {reason}; --undo tries it again"),
    };
    format!("{}: {end}", clean(change))
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_api::v1::{self, finding::Who};

    fn one(path: &str, end: FindingEnd, local: Option<(f64, f64)>, reason: &str) -> AppliedFinding {
        let finding = v1::Finding {
            kind: v1::FindingKind::PinnedRemote.into(),
            who: Some(Who::Cgroup(path.into())),
            from_node_ids: vec![0],
            flows: vec![v1::Flow { from_node_id: 1, to_node_id: 0, bytes: 1 << 30 }],
            bytes: 1 << 30,
            resident_bytes: 2 << 30,
            commands: vec![format!("numalocctl migrate --cgroup {path}")],
            ..v1::Finding::default()
        };
        let (before, after) = local.unzip();
        AppliedFinding {
            finding,
            end,
            reason: reason.into(),
            local_percent_before: before,
            local_percent_after: after,
            undone: Vec::new(),
        }
    }

    fn shown(applied: Vec<AppliedFinding>, dry_run: bool) -> String {
        advice_applied(&AdviceAppliedDoc { applied, dry_run }, View::TABLE)
    }

    #[test]
    fn what_was_done_is_said_and_how_to_take_it_back() {
        let back = UndoneChange {
            change: "CPUs of process 7: 0-3 to 0-7".into(),
            end: UndoEnd::Undone,
            reason: String::new(),
        };
        let worse = one("/b", FindingEnd::Worse, None, "it has ended");
        let worse = AppliedFinding { undone: vec![back], ..worse };
        let text = shown(
            vec![
                one("/a", FindingEnd::Done, Some((50.0, 99.6)), ""),
                worse.clone(),
                one("/c", FindingEnd::NotDone, None, ""),
            ],
            false,
        );
        let expected = "\
1. cgroup /a: done, local 50% before, 100% now
2. cgroup /b: got worse: it has ended; taken back:
     CPUs of process 7: 0-3 to 0-7: undone
3. cgroup /c: not done
stopped: 1 finding not carried out. `numalocctl advise --undo` takes back 1 finding
";
        assert_eq!(text, expected);
        let text = shown(vec![worse], false);
        assert!(
            text.ends_with("\nstopped: 0 findings not carried out. Nothing has changed\n"),
            "{text}"
        );
    }

    #[test]
    fn what_would_be_done_is_said_with_its_commands() {
        let text = shown(vec![one("/a", FindingEnd::NotDone, None, "")], true);
        let expected = "\
1. cgroup /a: runs on node 0, and 1.0 GiB of its 2.0 GiB are elsewhere
   moves 1.0 GiB from node 1 to node 0 in about 0 us; it uses 0.0 CPUs
     numalocctl migrate --cgroup /a
1 finding would be carried out in this order; nothing has changed
";
        assert_eq!(text, expected);
        assert_eq!(shown(Vec::new(), true), "nothing to do: there is no advice\n");
    }
}
