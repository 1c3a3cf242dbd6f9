//! Pages of lists, that end by number and by size. A token names the list that it belongs to, and the last entry that was shown.

use super::{Listed, Refusal};
use numaloc_api::{
    encoded::ListedJob,
    value::{Event, Page, Schedule, Target, Workload},
};
use std::{fmt::Debug, sync::Arc};

/// About as many bytes make a page: gRPC clients take no message above 4 MiB unless told to.
const BYTES: usize = 2 << 20;

/// What takes room in an answer.
pub trait Weight {
    /// About how many bytes.
    fn weight(&self) -> usize;
}

/// Everything but the target.
const REST: usize = 1024;

fn weight(target: &Target) -> usize {
    let names = [&target.cgroups, &target.units, &target.container_ids, &target.pod_uids];
    let names = names.into_iter().flatten().map(|name| name.len() + 4);
    let labels = target.labels.iter().map(|(key, value)| key.len() + value.len() + 8);
    REST + names.chain(labels).sum::<usize>() + 6 * target.pids.len()
}

impl Weight for ListedJob {
    fn weight(&self) -> usize {
        self.as_ref().len()
    }
}
impl<T: Weight> Weight for Arc<T> {
    fn weight(&self) -> usize {
        (**self).weight()
    }
}
impl Weight for Schedule {
    fn weight(&self) -> usize {
        weight(&self.spec.migration.target)
    }
}
impl Weight for Workload {
    fn weight(&self) -> usize {
        let labels = self.spec.labels.iter().map(|(key, value)| key.len() + value.len() + 8);
        REST + self.spec.cgroup.len() + labels.sum::<usize>()
    }
}
impl Weight for Event {
    fn weight(&self) -> usize {
        let failed = self.failed.iter().map(|failed| failed.comm.len() + failed.error.len() + 32);
        weight(&self.target) + self.message.len() + failed.sum::<usize>()
    }
}

/// Cuts a page out of `entries`, which begin after the position in the token.
///
/// `list` names the list with its filter. `entries` gives those after a position (`None`: from the start), each with its
/// own position.
///
/// # Errors
/// The token belongs to another list.
pub fn page<T: Weight, I: Iterator<Item = (String, T)>>(
    page: &Page,
    list: &dyn Debug,
    entries: impl FnOnce(Option<&str>) -> Option<I>,
) -> Result<Listed<T>, Refusal> {
    let mark = format!("{:08x}", crc32fast::hash(format!("{list:?}").as_bytes()));
    let after = match &page.token {
        None => None,
        Some(token) => match token.split_once('.') {
            Some((of, position)) if of == mark => Some(position),
            _ => return Err(Refusal::PageToken),
        },
    };
    let mut rest = entries(after).ok_or(Refusal::PageToken)?.peekable();
    let mut listed = Listed { entries: Vec::new(), next: None };
    let mut position = String::new();
    let mut bytes = 0;
    while listed.entries.len() < page.size
        && bytes < BYTES
        && let Some((at, entry)) = rest.next()
    {
        position = at;
        bytes += entry.weight();
        listed.entries.push(entry);
    }
    if rest.peek().is_some() && !listed.entries.is_empty() {
        listed.next = Some(format!("{mark}.{position}"));
    }
    Ok(listed)
}
