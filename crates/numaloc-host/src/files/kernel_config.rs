//! Version of the kernel, and its configuration, by the file that distributions install beside it.

use super::{read, roots::Roots};
use parking_lot::Mutex;
use std::{collections::BTreeMap, fs, path::PathBuf};

/// Whether /proc/kpagecount shows for each page of a large folio the average of them all, at least 1, as kernels do that keep no count
/// of a page (CONFIG_NO_PAGE_MAPCOUNT, Linux 6.15; fs/proc/internal.h, `folio_average_page_mapcount`). To find it out by trying takes a
/// folio that several processes map in part. Read once.
pub(crate) fn counts_whole_folios(roots: &Roots) -> bool {
    static KNOWN: Mutex<BTreeMap<PathBuf, bool>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock();
    // The file has some hundred kilobytes, which is much of what a small command reads.
    let may_have = || kernel(roots) >= Some((6, 15));
    *known
        .entry(roots.proc.clone())
        .or_insert_with(|| may_have() && has(roots, "CONFIG_NO_PAGE_MAPCOUNT=y"))
}

/// The version of this kernel: 6 and 12 of `6.12.48+deb13-amd64`. `None` if it cannot be read.
pub fn kernel(roots: &Roots) -> Option<(u32, u32)> {
    let release = read::text(&roots.proc.join("sys/kernel/osrelease")).ok()?;
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Whether a line is in the configuration of this kernel; false if that is not found.
fn has(roots: &Roots, wanted: &str) -> bool {
    let release = read::text(&roots.proc.join("sys/kernel/osrelease")).unwrap_or_default();
    let release = release.trim();
    let places = [format!("boot/config-{release}"), format!("lib/modules/{release}/config")];
    let texts = places.iter().map(|place| fs::read(roots.proc.join("1/root").join(place)));
    let is_wanted = |line: &[u8]| line == wanted.as_bytes();
    texts.flatten().any(|text| text.split(|&byte| byte == b'\n').any(is_wanted))
}

#[cfg(test)]
mod tests {
    use crate::{fake::Fake, files::kpage::FrameFile};

    #[test]
    fn where_whole_folios_are_counted_no_count_is_used() {
        let is_used = |release: &str, place: &str, line: &str| {
            let fake = Fake::new();
            fake.write("proc/sys/kernel/osrelease", &format!("{release}\n"));
            fake.write(&format!("proc/1/root/{place}"), &format!("CONFIG_MMU=y\n{line}\n"));
            fake.write("proc/kpagecount", "");
            FrameFile::counts(&fake.roots()).is_some()
        };
        let without = "CONFIG_NO_PAGE_MAPCOUNT=y";
        assert!(!is_used("7.2-amd64", "boot/config-7.2-amd64", without));
        assert!(!is_used("6.15.0", "lib/modules/6.15.0/config", without));
        assert!(is_used("7.2-amd64", "boot/config-6.1-amd64", without), "another kernel's");
        assert!(is_used("6.14.2", "boot/config-6.14.2", without), "it has no such option");
        assert!(is_used("7.2", "boot/config-7.2", "# CONFIG_NO_PAGE_MAPCOUNT is not set"));
    }
}
