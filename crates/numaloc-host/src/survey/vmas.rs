//! The VMAs of a process.

use crate::{
    Error,
    files::{
        maps::{self, Object, Vma, VmaNames},
        read,
    },
    survey::{mounts::Mounts, space::AddressSpace},
};

/// Properties that the VMAs of several processes have in common.
#[derive(Debug, Default)]
pub(crate) struct Common {
    names: VmaNames,
    mounts: Option<Mounts>,
}

/// The VMAs of a process whose pages can move; none if it has ended.
pub(crate) fn read(space: &AddressSpace, common: &mut Common) -> Result<Vec<Vma>, Error> {
    let mut vmas = read_all(space, common)?;
    vmas.retain(|vma| vma.fixed.is_none());
    Ok(vmas)
}

/// All VMAs of a process; none if it has ended.
pub(crate) fn read_all(space: &AddressSpace, common: &mut Common) -> Result<Vec<Vma>, Error> {
    let text = space.read("maps", read::text)?.unwrap_or_default();
    let (names, mounts) = (&mut common.names, &mut common.mounts);
    let vmas = text.lines().filter_map(maps::parse_line);
    let mut vmas: Vec<Vma> = vmas.map(|vma| Vma { name: names.once(vma.name), ..vma }).collect();
    if vmas.iter().any(|vma| matches!(vma.object, Object::Segment { .. })) {
        let Some(namespace) = space.read("ns/ipc", read::namespace)? else { return Ok(Vec::new()) };
        for vma in &mut vmas {
            vma.object = vma.object.within(namespace);
        }
    }
    let mounts = mounts.get_or_insert_with(|| Mounts::new(space.roots()));
    vmas.iter_mut().for_each(|vma| mounts.tell(space, vma));
    Ok(vmas)
}
