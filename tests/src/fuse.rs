//! A file system of a test's own, for programs that read and write files of the kernel: the test takes and refuses what is written,
//! and what files say may follow from that.
//!
//! It speaks to the kernel's FUSE by /dev/fuse. include/uapi/linux/fuse.h has the messages; the numbers here are offsets and lengths
//! of theirs. Names and attributes are looked up again each time.

use nix::{
    libc::{EACCES, EIO, ENODEV, ENOENT, ENOSYS, EPERM},
    mount::{MsFlags, mount},
};
use std::{
    fs::File,
    io::{self, Read, Write},
    os::fd::AsRawFd,
    path::Path,
    thread,
};

/// The content of the file system. Paths have no slash at their ends; that of the root is empty.
pub trait Files {
    /// The kind of file at a path; `None`: nothing.
    fn kind(&self, path: &str) -> Option<Kind>;
    /// The names in a directory.
    fn names(&self, directory: &str) -> Vec<String>;
    /// The text of a file.
    fn read(&self, file: &str) -> io::Result<String>;
    /// Takes what `by` has written to a file in one call.
    fn write(&self, file: &str, text: &str, by: Caller) -> io::Result<()>;
    /// Makes a directory.
    ///
    /// # Errors
    /// It may not be made. That is so for all of them unless this is implemented.
    fn make(&self, _directory: &str) -> io::Result<()> {
        Err(io::Error::from_raw_os_error(EPERM))
    }
    /// Removes a directory.
    ///
    /// # Errors
    /// It may not be removed. That is so for all of them unless this is implemented.
    fn remove(&self, _directory: &str) -> io::Result<()> {
        Err(io::Error::from_raw_os_error(EPERM))
    }
    /// Where a link leads to.
    fn target(&self, link: &str) -> io::Result<String>;
    /// Whether what is read may be kept in the page cache, so that files can be mapped shared.
    fn is_cached(&self) -> bool {
        false
    }
}

/// The thread that makes a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Its thread id.
    pub tid: i32,
    /// Its effective user.
    pub uid: u32,
}

/// One file, `file`, which can be mapped and not written to. Its text is asked for at each read.
pub struct OneFile<R>(pub R);

impl<R: Fn() -> io::Result<String>> Files for OneFile<R> {
    fn kind(&self, path: &str) -> Option<Kind> {
        match path {
            "" => Some(Kind::Directory),
            "file" => Some(Kind::File),
            _ => None,
        }
    }
    fn names(&self, _: &str) -> Vec<String> {
        vec!["file".to_owned()]
    }
    fn read(&self, _: &str) -> io::Result<String> {
        (self.0)()
    }
    fn write(&self, _: &str, _: &str, _: Caller) -> io::Result<()> {
        Err(io::Error::from_raw_os_error(EACCES))
    }
    fn target(&self, _: &str) -> io::Result<String> {
        Err(io::Error::from_raw_os_error(EACCES))
    }
    fn is_cached(&self) -> bool {
        true
    }
}

/// The kind of file at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Directory,
    File,
    Link,
}

impl Kind {
    /// As in `st_mode` (inode(7)).
    fn mode(self) -> u32 {
        match self {
            Self::Directory => 0o040_755,
            Self::File => 0o100_644,
            Self::Link => 0o120_777,
        }
    }
}

/// Mounts them on a directory. A thread serves it until it is unmounted, or no process has the mount namespace any
/// more.
///
/// # Panics
/// There is no /dev/fuse, or nothing can be mounted.
pub fn serve(files: impl Files + Send + 'static, at: &Path) {
    try_serve(files, at).expect("/dev/fuse, which the module fuse makes, and the right to mount");
}

/// As [`serve`], for a machine that may not allow it.
///
/// # Errors
/// There is no /dev/fuse, or nothing can be mounted.
pub fn try_serve(files: impl Files + Send + 'static, at: &Path) -> io::Result<()> {
    let device = File::options().read(true).write(true).open("/dev/fuse")?;
    let fd = device.as_raw_fd();
    let options = format!("fd={fd},rootmode=40000,user_id=0,group_id=0,allow_other");
    mount(Some("fuse"), at, Some("fuse"), MsFlags::empty(), Some(&*options))?;
    let paths = vec![Some(String::new())];
    thread::spawn(move || Server { files, device, paths }.serve());
    Ok(())
}

/// More than the longest request, and than the kernel asks for.
const BUFFER: usize = 64 << 10;
/// Most bytes of a write, as for attributes of sysfs.
const WRITE_MAX: u32 = 4096;

struct Server<F> {
    files: F,
    device: File,
    /// Paths by node id; that of the root is 1. `None`: it was removed, so that another one of this name has another id.
    paths: Vec<Option<String>>,
}

/// An answer to a request; an error is the kernel's number.
type Answer = Result<Vec<u8>, i32>;

impl<F: Files> Server<F> {
    fn serve(mut self) {
        let mut buffer = vec![0; BUFFER];
        loop {
            let length = match self.device.read(&mut buffer) {
                Ok(length) => length,
                Err(error) if error.raw_os_error() == Some(ENODEV) => return,
                // A request whose caller was killed is gone again.
                Err(error) if error.raw_os_error() == Some(ENOENT) => continue,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => panic!("/dev/fuse: {error}"),
            };
            let request = &buffer[..length];
            let unique = number(request, 8);
            // Forgetting and interrupting are not answered.
            if matches!(half(request, 4), 2 | 36 | 42) {
                continue;
            }
            let (error, data) = match self.answer(request) {
                Ok(data) => (0, data),
                Err(error) => (-error, Vec::new()),
            };
            let length = u32::try_from(16 + data.len()).expect("it is short");
            let header = [&length.to_ne_bytes()[..], &error.to_ne_bytes(), &unique.to_ne_bytes()];
            let message = [header.concat(), data].concat();
            // It fails if the caller was killed meanwhile.
            let _ = self.device.write(&message);
        }
    }

    fn answer(&mut self, request: &[u8]) -> Answer {
        let (operation, node, body) = (half(request, 4), number(request, 16), &request[40..]);
        let path = self.path(node)?.to_owned();
        let by = Caller { tid: half(request, 32).cast_signed(), uid: half(request, 24) };
        match operation {
            // LOOKUP
            1 => {
                let path = child(&path, body)?;
                self.entry(path)
            }
            // MKDIR: the mode and the umask go before the name.
            9 => {
                let path = child(&path, &body[8..])?;
                self.files.make(&path).map_err(errno)?;
                self.entry(path)
            }
            // RMDIR
            11 => {
                let path = child(&path, body)?;
                self.files.remove(&path).map_err(errno)?;
                let below = format!("{path}/");
                let is_gone = |known: &str| known == path || known.starts_with(&below);
                for known in &mut self.paths {
                    known.take_if(|known| is_gone(known));
                }
                Ok(Vec::new())
            }
            // GETATTR, SETATTR: what opens a file may ask for it to be empty, which an attribute ignores.
            3 | 4 => {
                let kind = self.files.kind(&path).ok_or(ENOENT)?;
                Ok([&[0; 16][..], &attributes(node, kind)].concat())
            }
            // READLINK
            5 => self.files.target(&path).map(String::into_bytes).map_err(errno),
            // OPEN. Each read and each write comes here (FOPEN_DIRECT_IO) if nothing is cached, whatever the file's size is.
            14 => {
                let flags = u32::from(!self.files.is_cached());
                Ok([&[0; 8][..], &flags.to_ne_bytes(), &[0; 4]].concat())
            }
            // OPENDIR
            27 => Ok(vec![0; 16]),
            // READ
            15 => {
                let text = self.files.read(&path).map_err(errno)?;
                let (offset, size) = (number(body, 8) as usize, half(body, 16) as usize);
                Ok(text.bytes().skip(offset).take(size).collect())
            }
            // WRITE
            16 => {
                let size = half(body, 16);
                let text = String::from_utf8_lossy(&body[40..40 + size as usize]);
                self.files.write(&path, &text, by).map_err(errno)?;
                Ok([size.to_ne_bytes(), [0; 4]].concat())
            }
            // READDIR
            28 => {
                let (offset, size) = (number(body, 8) as usize, half(body, 16) as usize);
                Ok(self.entries(&path, offset, size))
            }
            // RELEASE, FLUSH, RELEASEDIR, DESTROY
            18 | 25 | 29 | 38 => Ok(Vec::new()),
            // INIT: the version, how far may be read ahead, no flags, the numbers of waiting requests, the longest write, and the
            // finest time in nanoseconds.
            26 => {
                let words = [7, 31, half(body, 8), 0, 0, WRITE_MAX, 1];
                let words: Vec<u8> = words.into_iter().flat_map(u32::to_ne_bytes).collect();
                Ok([&words[..], &[0; 36]].concat())
            }
            _ => Err(ENOSYS),
        }
    }

    /// The path of a node. INIT and others of no node have the id 0.
    fn path(&self, id: u64) -> Result<&str, i32> {
        let index = (id as usize).saturating_sub(1);
        self.paths.get(index).and_then(Option::as_deref).ok_or(ENOENT)
    }

    fn id(&mut self, path: String) -> u64 {
        let is_it = |known: &Option<String>| known.as_ref() == Some(&path);
        let index = self.paths.iter().position(is_it).unwrap_or_else(|| {
            self.paths.push(Some(path));
            self.paths.len() - 1
        });
        index as u64 + 1
    }

    /// The answer that names a file: its node, the generation, how long it may be cached, and its attributes.
    fn entry(&mut self, path: String) -> Answer {
        let kind = self.files.kind(&path).ok_or(ENOENT)?;
        let id = self.id(path);
        Ok([&id.to_ne_bytes()[..], &[0; 32], &attributes(id, kind)].concat())
    }

    /// Entries of a directory from a place in it, up to the room for them.
    fn entries(&self, directory: &str, from: usize, room: usize) -> Vec<u8> {
        let mut data = Vec::new();
        for (index, name) in self.files.names(directory).iter().enumerate().skip(from) {
            let length = (24 + name.len()).next_multiple_of(8);
            if data.len() + length > room {
                break;
            }
            let end = data.len() + length;
            // Any inode number but 0, the place of the next entry, the name's length, and an unknown type.
            let (next, bytes) = (index as u64 + 1, name.len() as u32);
            data.extend(1_u64.to_ne_bytes());
            data.extend(next.to_ne_bytes());
            data.extend(bytes.to_ne_bytes());
            data.extend([0; 4]);
            data.extend(name.as_bytes());
            data.resize(end, 0);
        }
        data
    }
}

/// The path of a name in a directory. The name ends with a zero.
fn child(directory: &str, name: &[u8]) -> Result<String, i32> {
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    let name = std::str::from_utf8(name).map_err(|_| ENOENT)?;
    Ok(if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") })
}

/// `struct fuse_attr`: number, size, three times, mode, one link, root's, blocks of 4 KiB.
fn attributes(id: u64, kind: Kind) -> Vec<u8> {
    let size: u64 = if kind == Kind::File { 4096 } else { 0 };
    let halves = [kind.mode(), 1, 0, 0, 0, 4096, 0];
    let halves: Vec<u8> = halves.into_iter().flat_map(u32::to_ne_bytes).collect();
    [&id.to_ne_bytes()[..], &size.to_ne_bytes(), &[0; 44], &halves].concat()
}

fn errno(error: io::Error) -> i32 {
    error.raw_os_error().unwrap_or(EIO)
}

fn half(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
