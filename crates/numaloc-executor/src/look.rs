//! The second look: where folios are after a call.

use crate::{folio::Folio, verdict::Verdict};
use numaloc_core::{NodeId, PAGE};
use numaloc_host::{AddressSpace, Place, Scanner};

/// Where the base pages of a folio were seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sighting {
    /// Bytes on the target.
    pub arrived_bytes: u64,
    /// Bytes that are mapped no more.
    pub absent_bytes: u64,
    /// Addresses of base pages that are elsewhere; one, the head's, for a folio of which none arrived or vanished.
    pub elsewhere: Vec<u64>,
}

/// Pages between two folios that it is cheaper to read over than to begin a new read.
const GAP: u64 = 64;
/// Pages to read at a time.
const SPAN: u64 = 4096;

/// Looks at each folio, in the order given; neighbours are read together. `verdicts` are what the call said of them:
/// a folio that was reported moved as a whole is one piece still, and its first page tells where that is; of others
/// every page is looked at, because the kernel may have split them on the way.
pub fn look(
    scanner: &mut Scanner,
    space: &AddressSpace,
    folios: &[Folio],
    verdicts: &[Verdict],
    to: NodeId,
) -> Vec<Sighting> {
    let seen = |index: usize| match verdicts[index] {
        Verdict::On(node) if node == to => 1,
        _ => folios[index].mapped_pages(),
    };
    let mut sightings = Vec::with_capacity(folios.len());
    let mut places = Vec::new();
    let mut begin = 0;
    while let Some(first) = folios.get(begin) {
        let mut end = first.address + seen(begin) * PAGE;
        let mut next = begin + 1;
        while let Some(folio) = folios.get(next) {
            let next_end = folio.address + seen(next) * PAGE;
            let is_near = folio.address >= end && folio.address <= end + GAP * PAGE;
            if !is_near || next_end > first.address + SPAN * PAGE {
                break;
            }
            (end, next) = (next_end, next + 1);
        }
        places.clear();
        scanner.locate(space, first.address, ((end - first.address) / PAGE) as usize, &mut places);
        for index in begin..next {
            let at = ((folios[index].address - first.address) / PAGE) as usize;
            sightings.push(sight(&folios[index], &places[at..at + seen(index) as usize], to));
        }
        begin = next;
    }
    sightings
}

fn sight(folio: &Folio, places: &[Place], to: NodeId) -> Sighting {
    let page_bytes = folio.bytes / places.len() as u64;
    let mut sighting = Sighting::default();
    for (index, place) in places.iter().enumerate() {
        match place {
            Place::On(node) if *node == to => sighting.arrived_bytes += page_bytes,
            Place::Absent => sighting.absent_bytes += page_bytes,
            Place::On(_) | Place::Unknown => {
                sighting.elsewhere.push(folio.address + index as u64 * PAGE)
            }
        }
    }
    if sighting.elsewhere.len() == places.len() {
        sighting.elsewhere.truncate(1);
    }
    sighting
}
