//! The size of base pages: everything here counts in pages of 4 KiB.

use crate::{Error, Roots};
use numaloc_core::PAGE;
use std::fs;

/// Key of the page size in the auxiliary vector (include/uapi/linux/auxvec.h).
const AT_PAGESZ: u64 = 6;

/// Checks that the kernel's base pages are those that this program knows. Base pages of arm64 and ppc64 may be of 16
/// or 64 KiB.
///
/// # Errors
/// [`Error::PageSize`] if they are not; [`Error::Read`] and [`Error::Parse`] if it cannot be found out.
pub fn check_page_size(roots: &Roots) -> Result<(), Error> {
    let path = roots.proc.join("self/auxv");
    let vector = fs::read(&path).map_err(|source| Error::Read { path: path.clone(), source })?;
    match page_bytes(&vector) {
        Some(PAGE) => Ok(()),
        Some(bytes) => Err(Error::PageSize { bytes }),
        None => Err(Error::Parse { path, reason: "no page size (AT_PAGESZ)".into() }),
    }
}

/// The vector is pairs of words, key and value (proc_pid_auxv(5)).
fn page_bytes(vector: &[u8]) -> Option<u64> {
    let word = |bytes: &[u8]| Some(u64::from_ne_bytes(bytes.try_into().ok()?));
    let mut pairs = vector.chunks_exact(16).map(|pair| pair.split_at(8));
    pairs.find_map(|(key, value)| if word(key)? == AT_PAGESZ { word(value) } else { None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    #[test]
    fn other_pages_are_refused_with_what_to_do() {
        let fake = Fake::new();
        let check = |vector: &[u64]| {
            let bytes: Vec<u8> = vector.iter().flat_map(|word| word.to_ne_bytes()).collect();
            fs::create_dir_all(fake.path("proc/self")).unwrap();
            fs::write(fake.path("proc/self/auxv"), bytes).unwrap();
            check_page_size(&fake.roots()).map_err(|error| error.to_string())
        };
        assert_eq!(check(&[33, 6, 6, 4096, 0, 0]), Ok(()));
        let large = check(&[16, 1, 6, 65536, 0, 0]).unwrap_err();
        assert!(large.contains("pages of 65536 bytes") && large.contains("kernel with"), "{large}");
        assert!(check(&[0, 6, 16, 6, 0, 0]).unwrap_err().contains("self/auxv"));
        assert!(check_page_size(&Fake::new().roots()).is_err());
    }

    #[test]
    fn this_host_is_taken() {
        check_page_size(&Roots::default()).unwrap();
    }
}
