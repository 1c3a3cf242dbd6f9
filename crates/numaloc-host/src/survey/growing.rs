//! Extents that are looked at again with the processes that the target has got meanwhile.

use crate::{
    Error,
    survey::{
        crew::{Crew, Cut},
        newcomers::Newcomers,
        outsiders::RuledOut,
        residency::{self, Looker},
    },
};
use numaloc_core::{Extent, Residency};

/// Number of times that extents are looked at again. A process that is born while the pages are looked at makes them
/// look like strangers' once more.
const LOOKS: u32 = 3;

/// With fewer bytes of strangers than this, an extent is not worth a look at all processes.
const LEAST: u64 = 1 << 20;

/// Counts the mappings of newcomers. Looks again only at extents of which strangers seem to map remote pages and which
/// newcomers map; a look that finds fewer such pages is the better one.
pub(super) fn count(
    newcomers: &Newcomers,
    extents: &mut [Extent],
    looker: &dyn Fn() -> Looker,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<(), Error> {
    let Some(mut crew) = newcomers.crew() else { return Ok(()) };
    rule_out(newcomers, &crew, extents, looker, stop)?;
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
            let cuts = crew.cuts(&extent.mappings, &extent.pages, 0..extent.bytes);
            // Otherwise no newcomer maps it.
            if cuts.iter().any(|cut| cut.mappings.len() != extent.mappings.len()) {
                improve(extent, &crew, &mut looker(), &cuts, RuledOut::default())?;
            }
        }
    }
    Ok(())
}

/// Looks again at extents much of which strangers seem to map, if it turns out that none can.
fn rule_out(
    newcomers: &Newcomers,
    crew: &Crew,
    extents: &mut [Extent],
    looker: &dyn Fn() -> Looker,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<(), Error> {
    for extent in extents.iter_mut().filter(|extent| strangers_bytes(&extent.residency) >= LEAST) {
        let range = 0..extent.bytes;
        let ruled_out = newcomers.ruled_out(crew, &extent.mappings, &range, stop);
        if stop() {
            return Err(Error::Stopped);
        }
        if ruled_out != RuledOut::default() {
            let cuts = crew.cuts(&extent.mappings, &extent.pages, range);
            improve(extent, crew, &mut looker(), &cuts, ruled_out)?;
        }
    }
    Ok(())
}

/// Takes what a further look at an extent finds, if it finds fewer pages of strangers.
fn improve(
    extent: &mut Extent,
    crew: &Crew,
    looker: &mut Looker,
    cuts: &[Cut],
    ruled_out: RuledOut,
) -> Result<(), Error> {
    let residency =
        residency::of_cuts(looker, &crew.spaces, &crew.claims, extent, cuts, ruled_out)?;
    if strangers_bytes(&residency) < strangers_bytes(&extent.residency) {
        extent.residency = residency;
    }
    Ok(())
}

fn strangers_bytes(residency: &Residency) -> u64 {
    residency.nodes.values().map(|on_node| on_node.shared_bytes).sum()
}
