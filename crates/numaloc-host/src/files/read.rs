//! Reading small files of the kernel, and writing one of many in a directory.

use crate::{Error, Roots, files::procfs_mount};
use nix::{
    fcntl::{OFlag, openat},
    sys::stat::Mode,
};
use numaloc_core::{CpuSet, IdSet, NodeId, NodeSet, ids::Index, number, page_size};
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read as _, Seek as _, Write as _},
    os::fd::AsFd,
    path::{Path, PathBuf},
};

/// A file's text; bytes that are not UTF-8 (a command name may hold any) are replaced.
pub fn text(path: &Path) -> Result<String, Error> {
    let bytes = File::open(path).and_then(whole);
    let bytes = bytes.map_err(|source| unread(path, source))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The value that a file has alone, such as a number or a list. `None` if it cannot be read or parsed.
pub(crate) fn number<N: std::str::FromStr>(path: &Path) -> Option<N> {
    text(path).ok()?.trim().parse().ok()
}

/// The number in a small file below an open directory, without a walk from the root to it.
pub(crate) fn number_below(directory: impl AsFd, name: &str) -> io::Result<u64> {
    let file = openat(directory, name, OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty())?;
    let mut digits = [0; 24];
    let read = nix::unistd::read(file, &mut digits)?;
    let text = std::str::from_utf8(&digits[..read]).map_err(io::Error::other)?;
    text.trim().parse().map_err(io::Error::other)
}

/// Writes a small file that exists below an open directory, without a walk from the root to it.
pub(crate) fn write_below(directory: impl AsFd, name: &str, text: &str) -> io::Result<()> {
    let file = openat(directory, name, OFlag::O_WRONLY | OFlag::O_CLOEXEC, Mode::empty())?;
    File::from(file).write_all(text.as_bytes())
}

/// A number such as `0x180000000`, or without the prefix.
pub(crate) fn hexadecimal(path: &Path) -> Option<u64> {
    u64::from_str_radix(text(path).ok()?.trim().trim_start_matches("0x"), 16).ok()
}

/// The error of a file that could not be read. It names the option of /proc that hides the file, if there is one.
pub(crate) fn unread(path: &Path, source: io::Error) -> Error {
    Error::Read { path: path.into(), source: procfs_mount::explained(path, source) }
}

/// All bytes of an open file. The kernel says that its files are empty. So [`std::fs::read`] asks for the length in vain and then
/// reads a few bytes at a time. This function reads as much as the kernel gives at once, which is a page.
pub(crate) fn whole(file: impl io::Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(2 * number::index(page_size()));
    file.take(u64::MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// As [`whole`], of a file that the kernel prints all at once (fs/seq_file.c, `single_open`): what does not fill the buffer has its end.
pub(crate) fn printed_at_once(mut file: impl io::Read) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 2 * number::index(page_size())];
    let read = loop {
        match file.read(&mut bytes) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => break read?,
        }
    };
    let is_all = read < bytes.len();
    bytes.truncate(read);
    if !is_all {
        file.read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// The text of a file that is kept open, from its beginning, as far as it can be read. It is read in order: a read at
/// another offset makes the kernel generate the text again, and its parts would be from two times (fs/seq_file.c,
/// `traverse`). So no other thread may read the file at the same time.
pub(crate) fn kept(mut file: &File) -> String {
    let bytes = file.rewind().and_then(|()| whole(file)).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

pub(crate) fn node_ids(roots: &Roots) -> Result<Vec<NodeId>, Error> {
    let path = roots.sys.join("devices/system/node/online");
    let nodes: NodeSet =
        text(&path)?.parse().map_err(|error| Error::Parse { path, reason: format!("{error}") })?;
    Ok(nodes.iter().collect())
}

/// Nodes on which the calling process may allocate.
pub(crate) fn mems_allowed(roots: &Roots) -> Result<NodeSet, Error> {
    own_list(roots, "Mems_allowed_list")
}

/// CPUs on which the calling process may run.
pub(crate) fn cpus_allowed(roots: &Roots) -> Result<CpuSet, Error> {
    own_list(roots, "Cpus_allowed_list")
}

/// The list in the line `name` of /proc/self/status.
fn own_list<I: Index>(roots: &Roots, name: &str) -> Result<IdSet<I>, Error> {
    let path = roots.proc.join("self/status");
    let status = text(&path)?;
    let list = field(&status, name);
    let list =
        list.ok_or_else(|| Error::Parse { path: path.clone(), reason: format!("no {name}") })?;
    list.parse().map_err(|error| Error::Parse { path, reason: format!("{error}") })
}

/// The value of a line in a status file. procfs's `Status` is not used: it refuses a command name that is not UTF-8,
/// and it needs lists that some kernels leave out.
pub(crate) fn field<'text>(status: &'text str, name: &str) -> Option<&'text str> {
    let mut lines = status.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(field, _)| *field == name).map(|(_, value)| value.trim())
}

/// The bytes of a line in a status file that ends in kB.
pub(crate) fn kib(status: &str, name: &str) -> Option<u64> {
    let kib = field(status, name)?.split_whitespace().next()?.parse::<u64>().ok()?;
    Some(kib.saturating_mul(1024))
}

/// The entries of a directory whose names `key` understands, by what it makes of them. None if it cannot be read.
pub fn entries<K: Ord>(directory: &Path, key: impl Fn(&str) -> Option<K>) -> BTreeMap<K, PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
    let named = |entry: fs::DirEntry| Some((key(entry.file_name().to_str()?)?, entry.path()));
    entries.filter_map(named).collect()
}

/// Entries whose names are numbers.
pub(crate) fn numbered<N: Ord + std::str::FromStr>(directory: &Path) -> BTreeMap<N, PathBuf> {
    entries(directory, |name| name.parse().ok())
}

/// The inode of a namespace (namespaces(7)), from a link such as `ipc:[4026531839]` in /proc/PID/ns.
pub(crate) fn namespace(path: &Path) -> Result<u64, Error> {
    let link = fs::read_link(path).map_err(|source| Error::Read { path: path.into(), source })?;
    let number = link.to_str().and_then(|link| link.split_once('[')?.1.strip_suffix(']'));
    let inode = number.and_then(|number| number.parse().ok());
    inode.ok_or_else(|| Error::Parse {
        path: path.into(),
        reason: format!("{} names no namespace", link.display()),
    })
}

/// Whether an error means that the process has ended meanwhile.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(nix::libc::ESRCH)
}

/// The name of this host in its UTS namespace, as hostname(1) prints it.
///
/// # Errors
/// [`Error::Read`].
pub fn host_name(roots: &Roots) -> Result<String, Error> {
    Ok(text(&roots.proc.join("sys/kernel/hostname"))?.trim().to_owned())
}

/// Identifies this boot: each boot sets all settings again.
///
/// # Errors
/// [`Error::Read`].
pub fn boot_id(roots: &Roots) -> Result<String, Error> {
    Ok(text(&roots.proc.join("sys/kernel/random/boot_id"))?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives what one read asks for, once; a second read fails.
    struct Once(Vec<u8>);

    impl io::Read for Once {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() {
                return Err(io::ErrorKind::Other.into());
            }
            let rest = self.0.split_off(buffer.len().min(self.0.len()));
            let given = std::mem::replace(&mut self.0, rest);
            buffer[..given.len()].copy_from_slice(&given);
            Ok(given.len())
        }
    }

    #[test]
    fn a_number_below_a_directory_is_read_and_written() {
        let fake = crate::fake::Fake::new();
        fake.write("sys/regions/7/start", "4096\n");
        let directory = File::open(fake.path("sys/regions")).expect("a directory");
        let start = || number_below(&directory, "7/start");
        assert_eq!(start().expect("a number"), 4096);
        write_below(&directory, "7/start", "8192").expect("written");
        assert_eq!(start().expect("a number"), 8192);
        let missing = write_below(&directory, "8/start", "1").expect_err("no file is made");
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_file_that_is_printed_at_once_takes_one_read() {
        assert_eq!(printed_at_once(Once(b"Name:\tx\n".to_vec())).expect("one read"), b"Name:\tx\n");
        let long = vec![7; 100_000];
        assert_eq!(printed_at_once(&long[..]).expect("it can be read"), long);
        assert!(printed_at_once(Once(long)).is_err(), "the rest of a long one is read");
        assert_eq!(printed_at_once(&[][..]).expect("it can be read"), b"");
    }
}
