//! Shared memory that processes have attached: the part of their cgroup's shared memory that belongs to them although
//! no process maps it now.

use crate::files::maps::{Object, Vma};
use numaloc_core::Kind;
use std::collections::BTreeMap;

/// Shared objects that some processes have attached, each with the length of its longest mapping in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AttachedObjects(BTreeMap<Object, u64>);

impl AttachedObjects {
    /// The shared objects of a process's mappings. hugetlb memory is in no count of shared memory.
    pub(crate) fn of<'a>(vmas: impl IntoIterator<Item = &'a Vma>) -> Self {
        let mut all = Self::default();
        let is_attached =
            |vma: &&Vma| vma.shared && vma.kind == Kind::Shmem && vma.hugetlb_bytes.is_none();
        for vma in vmas.into_iter().filter(is_attached) {
            all.insert(vma.object, vma.end - vma.start);
        }
        all
    }

    /// Adds those of another process.
    pub(crate) fn add(&mut self, other: &Self) {
        other.0.iter().for_each(|(&object, &bytes)| self.insert(object, bytes));
    }

    fn insert(&mut self, object: Object, bytes: u64) {
        let known = self.0.entry(object).or_default();
        *known = bytes.max(*known);
    }

    /// Length of all objects, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.values().sum()
    }
}
