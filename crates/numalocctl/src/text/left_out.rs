//! What of a target is left out.

use crate::{clean::clean, doc::MissingDoc, units::counted};

/// A line for each member that is left out, or for its processes.
pub fn left_out(missing: &[MissingDoc]) -> String {
    let line = |left: &MissingDoc| {
        let (member, reason) = (left.member.to_string(), &left.reason);
        let what = match left.process_count {
            0 => member,
            count => format!("{} of {member}", counted(count, "process", "processes")),
        };
        clean(&format!("left out: {what}: {reason}")) + "\n"
    };
    missing.iter().map(line).collect()
}
