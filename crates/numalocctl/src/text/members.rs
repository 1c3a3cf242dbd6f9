//! Results of the members of a target.

use super::{
    cells::dash,
    table::{Table, list},
};
use crate::{
    doc::MemberDoc,
    output::View,
    units::{percent, size},
};

/// A row per member. There is no table for a single member that takes part: the totals say the same.
pub fn members(members: &[MemberDoc], view: View) -> String {
    if let [] | [MemberDoc { before: Some(_), .. }] = members {
        return String::new();
    }
    let mut table = Table::new().words("MEMBER").words("STATE").numbers("MOVED").words("FROM");
    table = table.words("HOME").numbers("LOCAL %").numbers("REMOTE").words("WHY");
    for member in members {
        let last = member.after.as_ref().or(member.before.as_ref());
        let failed = member.failed_processes.iter();
        let failed = failed.map(|each| format!("process {}: {}", each.pid, each.error));
        let why: Vec<_> = member.reason.clone().into_iter().chain(failed).collect();
        table.row(vec![
            member.member.to_string(),
            member.state.clone(),
            size(member.account.moved_bytes),
            list(member.remote.iter().map(|on| on.node)),
            list(member.home_nodes.iter().copied()),
            last.map_or("?".to_owned(), |at| percent(at.movable.local_percent)),
            last.map_or("-".to_owned(), |at| size(at.movable.remote_bytes)),
            dash(&Some(why.join("; ")).filter(|why| !why.is_empty())),
        ]);
    }
    table.render(view)
}
