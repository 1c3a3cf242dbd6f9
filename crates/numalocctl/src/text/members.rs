//! Results of the members of a target.

use super::{
    cells::dash,
    table::{Table, list},
    target::target,
};
use crate::{
    fields::word,
    output::View,
    units::{percent, size},
};
use numaloc_api::v1;

/// A row per member. There is no table for a single member that takes part: the totals say the same.
pub fn members(members: &[v1::MemberResult], view: View) -> String {
    if let [] | [v1::MemberResult { movable_before: Some(_), .. }] = members {
        return String::new();
    }
    let mut table = Table::new().words("MEMBER").words("STATE").numbers("MOVED").words("FROM");
    table = table.words("HOME").numbers("LOCAL %").numbers("REMOTE").words("WHY");
    for member in members {
        let last = member.movable_after.or(member.movable_before);
        let failed = member.failed_processes.iter().map(|failed| {
            format!("process {}: {}", failed.process.unwrap_or_default().pid, failed.error)
        });
        let reason = Some(member.reason.clone()).filter(|reason| !reason.is_empty());
        let why: Vec<_> = reason.into_iter().chain(failed).collect();
        table.row(vec![
            target(member.member.as_ref()),
            word(member.state().as_str_name(), "MEMBER_STATE_"),
            size(member.account.as_ref().map_or(0, |account| account.moved_bytes)),
            list(member.remote.iter().map(|on| on.node_id)),
            list(&member.home_node_ids),
            last.map_or("?".to_owned(), |at| percent(at.local_percent)),
            last.map_or("-".to_owned(), |at| size(at.remote_bytes)),
            dash(&why.join("; ")),
        ]);
    }
    table.render(view)
}
