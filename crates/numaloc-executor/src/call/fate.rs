//! Decides what happens to a folio that a call did not bring to its target. Pure, so that tests can try every answer of the
//! kernel.

use crate::{call::page_status::PageStatus, pages::folio::Folio};
use nix::libc::{EACCES, EINTR, EINVAL, ENOMEM, EPERM, ESRCH};
use numaloc_core::Reason;

/// The next step for such a folio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Pass it again at once.
    Again,
    /// Take its NUMA-hint fault, then pass it again at once.
    Hint,
    /// Try it again later. After its last try, leave it for this reason.
    Later(Reason),
    /// The node had no room: it goes to its next target.
    Reroute,
    /// The kernel reported a node for it, but the verification found it off its target.
    MovedBack,
    /// It stays, for this reason, and is not tried again.
    Leave(Reason),
    /// It stays, and the errno is reported.
    Refused(Reason, i32),
}

/// Decides from how the call ended (`None`: it returned 0 or more) and from the status of the folio. The folio is known to be
/// mapped and off its target. With `is_part` it is one page of a larger folio of which another part arrived or vanished: the
/// status may then be of another page of the folio, and this page was not passed yet.
pub fn fate(folio: &Folio, is_part: bool, call_errno: Option<i32>, status: PageStatus) -> Fate {
    match (call_errno, status) {
        (Some(errno), PageStatus::Tried | PageStatus::Untried) => match errno {
            EINTR => Fate::Later(Reason::Busy),
            ENOMEM => Fate::Reroute,
            // A process that is ending gives up its memory before its pid (mm/migrate.c, `find_mm_struct`).
            ESRCH | EINVAL => Fate::Leave(Reason::ProcessGone),
            EACCES | EPERM => Fate::Refused(Reason::NotAllowed, errno),
            _ => Fate::Refused(Reason::NotMovable, errno),
        },
        (None, PageStatus::Tried) => Fate::Later(Reason::Pinned),
        (None, PageStatus::Untried) => Fate::Again,
        _ if is_part => Fate::Again,
        (_, PageStatus::On(_)) => Fate::MovedBack,
        (_, PageStatus::Busy) => Fate::Later(Reason::Busy),
        // A process has mapped it since it was found. A later look tells whose process that is.
        (_, PageStatus::Shared) => Fate::Later(Reason::Shared),
        (_, PageStatus::NoMemory) => Fate::Reroute,
        // Either it cannot be moved, or the kernel has marked it again since its hint fault was taken.
        (_, PageStatus::Unseen) if folio.hinted => Fate::Later(Reason::NotMovable),
        (_, PageStatus::Unseen) => Fate::Hint,
        (_, PageStatus::Refused(errno)) => Fate::Refused(Reason::NotMovable, errno),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::page_status::CallStatuses;
    use nix::libc::{EBUSY, EFAULT, ENODEV, ENOENT};
    use numaloc_core::{NodeId, page_size};
    use numaloc_sys::UNWRITTEN;
    use proptest::{collection::vec, prelude::*, sample::select};

    fn folio(hinted: bool) -> Folio {
        Folio { hinted, ..Folio::sample(0x1000, page_size()) }
    }

    #[test]
    fn answers_of_the_kernel() {
        let of = |errno, status| fate(&folio(false), false, errno, status);
        assert_eq!(of(None, PageStatus::Tried), Fate::Later(Reason::Pinned));
        assert_eq!(of(None, PageStatus::Untried), Fate::Again);
        assert_eq!(of(None, PageStatus::Unseen), Fate::Hint);
        let hinted = fate(&folio(true), false, None, PageStatus::Unseen);
        assert_eq!(hinted, Fate::Later(Reason::NotMovable));
        assert_eq!(of(None, PageStatus::On(NodeId(0))), Fate::MovedBack);
        assert_eq!(of(Some(ENOMEM), PageStatus::Tried), Fate::Reroute);
        assert_eq!(
            of(Some(ENOMEM), PageStatus::On(NodeId(0))),
            Fate::MovedBack,
            "its page list had gone through"
        );
        assert_eq!(of(Some(ESRCH), PageStatus::Tried), Fate::Leave(Reason::ProcessGone));
        assert_eq!(of(Some(EINVAL), PageStatus::Tried), Fate::Leave(Reason::ProcessGone));
        assert_eq!(of(Some(EACCES), PageStatus::Tried), Fate::Refused(Reason::NotAllowed, EACCES));
        assert_eq!(of(Some(ENODEV), PageStatus::Tried), Fate::Refused(Reason::NotMovable, ENODEV));
        assert_eq!(of(Some(EPERM), PageStatus::Untried), Fate::Refused(Reason::NotAllowed, EPERM));
        assert_eq!(of(Some(EINTR), PageStatus::Untried), Fate::Later(Reason::Busy));
        assert_eq!(of(None, PageStatus::Busy), Fate::Later(Reason::Busy));
        assert_eq!(of(Some(EINTR), PageStatus::Shared), Fate::Later(Reason::Shared));
        assert_eq!(of(None, PageStatus::NoMemory), Fate::Reroute);
        let refused = of(None, PageStatus::Refused(EFAULT));
        assert_eq!(refused, Fate::Refused(Reason::NotMovable, EFAULT));
    }

    #[test]
    fn the_status_of_a_folio_is_not_that_of_a_part_split_off() {
        let of = |errno, status| fate(&folio(false), true, errno, status);
        assert_eq!(
            of(None, PageStatus::On(NodeId(0))),
            Fate::Again,
            "it did not come back: it stayed"
        );
        assert_eq!(
            of(None, PageStatus::Unseen),
            Fate::Again,
            "it was the first page that went away"
        );
        assert_eq!(
            of(None, PageStatus::Tried),
            Fate::Later(Reason::Pinned),
            "split by the kernel itself"
        );
        assert_eq!(of(Some(ENOMEM), PageStatus::Tried), Fate::Reroute, "one call for all");
    }

    proptest! {
        // No folio may be passed again at once forever. In each call at least one folio ends, is deferred (which counts its
        // tries), loses a target, uses up its one hint of this try, or falls into its pages.
        #[test]
        fn each_call_makes_progress(
            statuses in vec(select(vec![UNWRITTEN, 0, 1, -EBUSY, -EACCES, -ENOENT, -EFAULT, -EINVAL, -ENOMEM]), 1..40),
            errno in select(vec![None, Some(EINTR), Some(ENOMEM), Some(ESRCH), Some(EPERM)]),
            hinted in any::<bool>(),
        ) {
            let (count, call_statuses) = (statuses.len(), CallStatuses::new(statuses));
            let fates: Vec<Fate> =
                (0..count).map(|index| fate(&folio(hinted), false, errno, call_statuses.get(index))).collect();
            prop_assert!(fates.iter().any(|fate| *fate != Fate::Again));
            prop_assert!(!hinted || !fates.contains(&Fate::Hint));
        }
    }
}
