//! The disk that a path is on.

use crate::{
    Roots,
    files::file_system::{
        FileSystemOf, block_device, device_numbers, file_system, is_served, open_path,
    },
};
use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

/// The block device in sysfs that has the file system of a path.
///
/// # Errors
/// Why there is none.
pub(super) fn of_path(roots: &Roots, path: &Path) -> Result<PathBuf, String> {
    let file = open_path(path).map_err(|error| error.to_string())?;
    let FileSystemOf { kind, source, .. } = file_system(roots, &file);
    // Before anything is asked of the file: its server may not answer.
    if is_served(&kind) {
        return Err(format!("its files are those of a server or program ({kind})"));
    }
    let metadata = file.metadata().map_err(|error| error.to_string())?;
    let number = match device_numbers(metadata.dev()) {
        // A file system such as btrfs has a number without a device.
        (0, _) if source.starts_with("/dev/") => {
            let disk = fs::metadata(&source).map_err(|error| format!("{source}: {error}"))?;
            device_numbers(disk.rdev())
        }
        (0, _) => {
            return Err(format!("it is on no disk ({kind}): name one, such as block:nvme0n1"));
        }
        number => number,
    };
    let directory = block_device(roots, number);
    match directory.exists() {
        true => Ok(directory),
        false => Err("sysfs does not have its disk".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    #[test]
    fn the_disk_of_a_path_is_that_of_its_file_system() {
        let fake = Fake::new();
        let path = fake.path("data");
        fs::create_dir_all(&path).expect("a folder");
        let (major, minor) = device_numbers(fs::metadata(&path).expect("a folder").dev());
        let found = of_path(&fake.roots(), &path);
        if major == 0 {
            return assert!(found.is_err_and(|why| why.contains("on no disk")));
        }
        assert!(found.is_err_and(|why| why.contains("sysfs does not have")));
        let disk = format!("sys/dev/block/{major}:{minor}");
        fake.write(&format!("{disk}/dev"), "");
        assert_eq!(of_path(&fake.roots(), &path), Ok(fake.path(&disk)));
    }

    #[test]
    fn files_in_memory_and_paths_that_are_not_there_have_none() {
        let roots = Roots::default();
        let memory = of_path(&roots, Path::new("/proc/self/status")).expect_err("no disk");
        assert!(memory.contains("on no disk (proc)"), "{memory}");
        assert!(of_path(&roots, Path::new("/no/such")).is_err_and(|why| why.contains("No such")));
    }
}
