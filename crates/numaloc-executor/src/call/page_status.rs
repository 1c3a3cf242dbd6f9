//! The report of one move_pages call on each address that was passed to it.

use nix::libc::{EACCES, EBUSY, EFAULT, ENOENT, ENOMEM};
use numaloc_core::NodeId;
use numaloc_sys::UNWRITTEN;

/// The kernel's answer for one address. Only the verification tells whether the page has moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageStatus {
    /// The call reported it on this node: there already, or moved by the call.
    On(NodeId),
    /// It was queued and tried, and its page list did not succeed as a whole.
    Tried,
    /// The call ended before it reached the address.
    Untried,
    /// -EBUSY: could not be isolated.
    Busy,
    /// -EACCES: another process maps it too.
    Shared,
    /// -ENOENT or -EFAULT: nothing is mapped, or it cannot be moved, or it is a NUMA-hint entry of kernels 6.1 to 6.4.
    Unseen,
    /// -ENOMEM: the target has no page for it.
    NoMemory,
    /// Another errno of the page, such as EACCES.
    Refused(i32),
}

/// The statuses of a call that returned 0 or more, or that failed part way, for all its addresses.
///
/// Statuses are written by page list. When a page list fails, the call ends: its statuses stay unwritten, and so do
/// the statuses after the entry that ended it (mm/migrate.c, `do_pages_move`). So the first unwritten
/// stretch was tried and everything unwritten after it was not.
#[derive(Debug)]
pub struct CallStatuses {
    statuses: Vec<i32>,
    /// Where the first unwritten stretch ends.
    tried: usize,
}

impl CallStatuses {
    /// Takes a call's statuses. Statuses that the kernel did not write must be `UNWRITTEN`.
    pub fn new(statuses: Vec<i32>) -> Self {
        let written = statuses.iter().take_while(|&&status| status != UNWRITTEN).count();
        let unwritten = statuses[written..].iter().take_while(|&&status| status == UNWRITTEN);
        Self { tried: written + unwritten.count(), statuses }
    }

    /// Number of addresses whose page was reported on this node.
    pub fn count_on(&self, node: NodeId) -> usize {
        let on = i32::try_from(node.0).ok();
        on.map_or(0, |on| self.statuses.iter().filter(|&&status| status == on).count())
    }

    /// The status of the address with this index among the passed ones.
    pub fn get(&self, index: usize) -> PageStatus {
        let status = self.statuses[index];
        match status {
            UNWRITTEN if index < self.tried => PageStatus::Tried,
            UNWRITTEN => PageStatus::Untried,
            0.. => PageStatus::On(NodeId(status.cast_unsigned())),
            _ => match -status {
                EBUSY => PageStatus::Busy,
                EACCES => PageStatus::Shared,
                ENOENT | EFAULT => PageStatus::Unseen,
                ENOMEM => PageStatus::NoMemory,
                errno => PageStatus::Refused(errno),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{PageStatus::*, *};

    fn all(statuses: &[i32]) -> Vec<PageStatus> {
        let call_statuses = CallStatuses::new(statuses.to_vec());
        (0..statuses.len()).map(|index| call_statuses.get(index)).collect()
    }

    #[test]
    fn the_first_unwritten_stretch_was_tried_and_the_rest_was_not() {
        let statuses = [0, -EBUSY, UNWRITTEN, UNWRITTEN, -ENOENT, UNWRITTEN, UNWRITTEN];
        assert_eq!(all(&statuses), [On(NodeId(0)), Busy, Tried, Tried, Unseen, Untried, Untried]);
    }

    #[test]
    fn a_failed_last_page_list_was_tried_to_its_end() {
        assert_eq!(all(&[1, UNWRITTEN, UNWRITTEN]), [On(NodeId(1)), Tried, Tried]);
        assert_eq!(all(&[0, -EACCES, -EFAULT]), [On(NodeId(0)), Shared, Unseen]);
        assert_eq!(all(&[]), []);
    }

    #[test]
    fn pages_on_a_node_are_counted() {
        let statuses = CallStatuses::new(vec![1, -EFAULT, 1, 0, UNWRITTEN]);
        assert_eq!([0, 1, 2].map(|node| statuses.count_on(NodeId(node))), [1, 2, 0]);
    }
}
