//! Paths with globs in their components.

use super::read;
use numaloc_core::Glob;
use std::path::{Path, PathBuf};

/// The paths below `top` that match one with globs ([`Glob`]), in ascending order; none for a path without. `keep` says of each path that
/// matches a beginning whether it counts.
pub(crate) fn matches(top: &Path, relative: &Path, keep: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
    let parts = relative.iter().filter_map(|part| part.to_str());
    if !parts.clone().any(Glob::is_pattern) {
        return Vec::new();
    }
    parts.fold(vec![top.to_path_buf()], |above, part| {
        let glob = Glob::new(part);
        let below = above.into_iter().flat_map(|above| match Glob::is_pattern(part) {
            true => {
                let matching = |name: &str| glob.matches(name).then(|| name.to_owned());
                read::entries(&above, matching).into_values().collect()
            }
            false => vec![above.join(part)],
        });
        below.filter(|path: &PathBuf| keep(path)).collect()
    })
}
