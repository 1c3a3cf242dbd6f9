//! Members of a target that are left out, and the places where the rest was found.

use super::target::target;
use crate::{clean::clean, units::counted};
use numaloc_api::v1;

/// A line for each member that is left out, or for its processes.
pub fn left_out(missing: &[v1::MissingMember]) -> String {
    let line = |left: &v1::MissingMember| {
        let (member, reason) = (target(left.member.as_ref()), &left.reason);
        let what = match left.process_count {
            0 => member,
            count => format!("{} of {member}", counted(count, "process", "processes")),
        };
        clean(&format!("left out: {what}: {reason}")) + "\n"
    };
    missing.iter().map(line).collect()
}

/// A line with where a member was found that had to be looked up.
pub fn found_member(member: Option<&v1::Target>, found: &v1::FoundMember) -> String {
    let v1::FoundMember { cgroup, found_by, .. } = found;
    let at = match &cgroup[..] {
        "" => found_by.clone(),
        cgroup => format!("{found_by}, cgroup {cgroup}"),
    };
    clean(&format!("found: {}: {at}", target(member))) + "\n"
}

/// A line for each member of an answer that had to be looked up.
pub fn found_members(members: &[v1::FoundMember]) -> String {
    members.iter().map(|found| found_member(found.member.as_ref(), found)).collect()
}
