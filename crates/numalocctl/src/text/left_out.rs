//! What of a target is left out.

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
