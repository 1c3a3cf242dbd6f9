//! Extents that are looked at again with the processes that the target has got meanwhile.

use crate::{
    Error,
    survey::{
        crew::{Crew, Newcomers},
        residency::{self, Looker},
    },
};
use numaloc_core::{Extent, Residency};

/// How often extents are looked at again. A process that is born while the pages are looked at makes them look like
/// strangers' once more.
const LOOKS: u32 = 3;

/// Counts the mappings of newcomers. Looks again only at extents of which strangers seem to map remote pages and which
/// newcomers map; a look that finds fewer such pages is the better one.
pub(super) fn count(
    newcomers: &Newcomers,
    extents: &mut [Extent],
    looker: &dyn Fn() -> Looker,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<(), Error> {
    let Some(mut crew) = newcomers.crew() else { return Ok(()) };
    for _ in 0..LOOKS {
        let doubtful = |extent: &&mut Extent| strangers_bytes(&extent.residency) > 0;
        let doubtful: Vec<&mut Extent> = extents.iter_mut().filter(doubtful).collect();
        if doubtful.is_empty() {
            return Ok(());
        }
        let now = newcomers.look(&crew);
        if !now.has_newcomers() {
            return Ok(());
        }
        crew = now;
        for extent in doubtful {
            if stop() {
                return Err(Error::Stopped);
            }
            if let Some(residency) = again(&crew, extent, &mut looker())?
                && strangers_bytes(&residency) < strangers_bytes(&extent.residency)
            {
                extent.residency = residency;
            }
        }
    }
    Ok(())
}

/// Where the pages of an extent are. `None`: no newcomer maps it.
fn again(crew: &Crew, extent: &Extent, looker: &mut Looker) -> Result<Option<Residency>, Error> {
    let cuts = crew.cuts(&extent.mappings, &extent.pages, 0..extent.bytes);
    if cuts.iter().all(|cut| cut.mappings.len() == extent.mappings.len()) {
        return Ok(None);
    }
    residency::of_cuts(looker, (&crew.spaces, &crew.claims), extent, &cuts).map(Some)
}

fn strangers_bytes(residency: &Residency) -> u64 {
    residency.nodes.values().map(|on_node| on_node.shared_bytes).sum()
}
