//! Prints which processes outside a target map the memory of it that stays shared.

use super::first_lines::LINES;
use crate::{clean::clean, units::size};
use numaloc_api::v1;

/// A line for each of the processes with most of it.
pub fn sharing(plan: &v1::Plan) -> String {
    let mut text: String = plan.sharing.iter().take(LINES).map(line).collect();
    let shown = plan.sharing.len().min(LINES);
    let more = usize::try_from(plan.sharing_count()).unwrap_or(0).saturating_sub(shown);
    if more > 0 {
        let what = if shown == 0 { "processes that are not yours" } else { "more processes" };
        text += &format!("shared with: {more} {what}\n");
    }
    text
}

fn line(one: &v1::SharingProcess) -> String {
    let pid = one.process.as_ref().map_or(0, |process| process.pid);
    let within = match &*one.cgroup {
        "" => String::new(),
        cgroup => format!(" in {}", clean(cgroup)),
    };
    let of = match &*one.name {
        "" => String::new(),
        name => format!(" of {}", clean(name)),
    };
    format!("shared with: pid {pid} ({}){within}: {}{of}\n", clean(&one.comm), size(one.bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(pid: i32) -> v1::SharingProcess {
        v1::SharingProcess {
            process: Some(v1::ProcessId { pid, ..v1::ProcessId::default() }),
            comm: "virtiofsd".to_owned(),
            cgroup: "/other".to_owned(),
            bytes: 128 << 20,
            name: "/dev/shm/guest".to_owned(),
        }
    }

    #[test]
    fn the_first_have_a_line_and_the_rest_are_counted() {
        let private = v1::SharingProcess { cgroup: String::new(), name: String::new(), ..one(4) };
        let named = vec![one(1), one(2), one(3), private, one(5)];
        let plan = v1::Plan { sharing: named, sharing_count: Some(9), ..v1::Plan::default() };
        insta::assert_snapshot!(sharing(&plan));
    }

    #[test]
    fn those_that_a_client_may_not_see_are_counted() {
        let plan = |count| v1::Plan { sharing_count: count, ..v1::Plan::default() };
        assert_eq!(sharing(&plan(Some(2))), "shared with: 2 processes that are not yours\n");
        assert_eq!(sharing(&plan(Some(0))), "");
        assert_eq!(sharing(&plan(None)), "");
    }
}
