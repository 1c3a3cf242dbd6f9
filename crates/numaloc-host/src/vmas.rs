//! The VMAs of a process.

use crate::{
    Error,
    maps::{self, Names, Object, Vma},
    read,
    space::AddressSpace,
};

/// The VMAs of a process; none if it has ended.
pub(crate) fn read(space: &AddressSpace, names: &mut Names) -> Result<Vec<Vma>, Error> {
    let text = space.read("maps", read::text)?.unwrap_or_default();
    let vmas = text.lines().filter_map(maps::parse_line);
    let mut vmas: Vec<Vma> = vmas.map(|vma| Vma { name: names.once(vma.name), ..vma }).collect();
    if vmas.iter().any(|vma| matches!(vma.object, Object::Segment { .. })) {
        let Some(namespace) = space.read("ns/ipc", read::namespace)? else { return Ok(Vec::new()) };
        for vma in &mut vmas {
            vma.object = vma.object.within(namespace);
        }
    }
    Ok(vmas)
}
