//! The method of finding pages on this host. It is chosen once, for all scanners.

use crate::{
    Error, Roots,
    files::frames::FrameNodes,
    limits::probe::{self, OwnPageMap},
    survey::{merged::Assigned, remapped::Remapped},
};
use numaloc_core::Indexing;
use std::sync::Arc;

/// The method of finding page locations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// /proc/PID/pagemap with a table from page frame to node.
    Pagemap,
    /// move_pages(2) as a query, because page frames are hidden from this process (no CAP_SYS_ADMIN). Then it is not
    /// known who else maps a shared page, so it counts as shared with strangers.
    Query,
}

impl Source {
    /// [`Self::Pagemap`] if this process may read page frame numbers, else [`Self::Query`].
    pub fn probe(roots: &Roots) -> Self {
        Self::of(&OwnPageMap::open(roots))
    }

    fn of(own: &OwnPageMap) -> Self {
        if own.shows_frames() { Self::Pagemap } else { Self::Query }
    }
}

/// The facts about the host that scanners need.
#[derive(Clone, Debug)]
pub struct PageAccess {
    /// The method of finding page locations.
    pub source: Source,
    /// Finds the node of a page frame.
    pub frames: Arc<FrameNodes>,
    /// Whether the kernel has PAGEMAP_SCAN, which passes over what is empty or huge.
    pub can_scan: bool,
    /// The version of the kernel; `None` if it cannot be read.
    pub(crate) kernel: Option<(u32, u32)>,
    /// Whether a page that several processes map through one page table never shows as mapped once (Linux 6.10 and later).
    pub(crate) tells_shared_tables: bool,
    /// The kernel's way to compute the index of a folio.
    pub(crate) indexing: Indexing,
    /// The frame of the base page of zeros; `None` if frames are hidden.
    pub(crate) zero_frame: Option<u64>,
    /// The address that each page that KSM has merged is counted at; `None`: there are none, or each address counts.
    pub(crate) merged: Option<Arc<Assigned>>,
    /// The address that each page that several processes map at different addresses is counted at; `None`: it counts
    /// as shared with strangers at each of them.
    pub(crate) remapped: Option<Arc<Remapped>>,
}

impl PageAccess {
    /// Tries what the host allows.
    ///
    /// # Errors
    /// As [`FrameNodes::read`].
    pub fn new(roots: &Roots) -> Result<Self, Error> {
        let frames = Arc::new(FrameNodes::read(roots)?);
        let (own, kernel) = (OwnPageMap::open(roots), probe::kernel(roots));
        let indexing = if kernel >= Some((6, 7)) { Indexing::Full } else { Indexing::Narrow };
        Ok(Self {
            source: Source::of(&own),
            frames,
            can_scan: own.can_scan(),
            kernel,
            tells_shared_tables: kernel >= Some((6, 10)),
            indexing,
            zero_frame: own.zero_frame(),
            merged: Assigned::new(roots),
            remapped: None,
        })
    }

    /// The same for a new look: with page frames read again, since memory may have been plugged, and no page assigned.
    ///
    /// # Errors
    /// As [`FrameNodes::read`].
    pub fn again(&self, roots: &Roots) -> Result<Self, Error> {
        let frames = Arc::new(FrameNodes::read(roots)?);
        Ok(Self { frames, merged: Assigned::new(roots), remapped: None, ..*self })
    }
}
