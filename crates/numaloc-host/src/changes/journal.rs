//! A temporary change of the host is noted in a file of the runtime directory before it is changed, and
//! forgotten after it has been put back: a process that is killed in between leaves the note, by which a later process puts it
//! back. All changes of settings that have to be put back go this way: kernel.numa_balancing, the kernel's settings of offload, DSA
//! work queues, DAMON and a group of resctrl.
//!
//! A process holds a lock on the file while its changes last. The kernel releases the lock if the process is killed, so a later
//! one knows what was left behind. A boot sets all of these settings again; a note of an earlier boot counts for nothing.
//!
//! A note is a line of JSON, and the last whole line counts. Lines are only added, until all of them are removed at once: a process
//! that is killed while it writes one leaves the note before as it was.

use crate::{Error, Roots, files::read::boot_id};
use nix::libc::{O_NOFOLLOW, O_NONBLOCK};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, ErrorKind, Read, Seek, Write},
    marker::PhantomData,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// Most bytes of a note that are read. More than is ever written: the file may belong to another user than the reader.
const LENGTH_MAX: u64 = 16 << 20;

/// The right to make changes of one kind, which notes describe as a `T`. Dropping this value gives the right up; the note stays.
#[derive(Debug)]
pub struct Journal<T> {
    file: File,
    path: PathBuf,
    boot: String,
    note: PhantomData<fn() -> T>,
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
struct Line<T> {
    boot: String,
    changed: T,
}

/// The file of the changes of a kind.
pub fn path(roots: &Roots, name: &str) -> PathBuf {
    roots.run.join("numaloc").join(name)
}

/// Whether a process has the right to changes of this kind now.
pub fn is_taken(roots: &Roots, name: &str) -> bool {
    let locked = |file: File| matches!(file.try_lock(), Err(TryLockError::WouldBlock));
    open(&path(roots, name)).is_ok_and(locked)
}

/// Whether something is noted, of whatever boot, or something else is in the place of the file.
pub fn is_noted(roots: &Roots, name: &str) -> bool {
    fs::symlink_metadata(path(roots, name)).is_ok_and(|metadata| metadata.len() > 0)
}

/// The file, to be read only.
fn open(path: &Path) -> io::Result<File> {
    // The directory belongs to the daemon's user. Root must neither follow a link that this user has made nor wait for a pipe.
    OpenOptions::new().read(true).custom_flags(O_NOFOLLOW | O_NONBLOCK).open(path)
}

impl<T> Drop for Journal<T> {
    fn drop(&mut self) {
        // A child of this process has the file, too, from its fork to its exec, and with it the lock (flock(2)).
        drop(self.file.unlock());
    }
}

impl<T: Serialize + DeserializeOwned> Journal<T> {
    /// Takes the right to changes of the kind `name`; `None` while another process or thread has it. Removes notes that count for
    /// nothing: of an earlier boot, or cut off before anything was changed.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn take(roots: &Roots, name: &str) -> Result<Option<Self>, Error> {
        Self::take_at(roots, path(roots, name))
    }

    /// As [`Journal::take`], with a file outside of the daemon's directory. The directory is made if only that is missing.
    pub(crate) fn take_at(roots: &Roots, path: PathBuf) -> Result<Option<Self>, Error> {
        let opened = path.parent().map_or(Ok(()), make).and_then(|()| {
            let mut options = OpenOptions::new();
            options.read(true).append(true).create(true).mode(0o600);
            options.custom_flags(O_NOFOLLOW | O_NONBLOCK).open(&path)
        });
        let boot = boot_id(roots).unwrap_or_default();
        match opened.and_then(|file| file.try_lock().map(|()| file).map_err(io::Error::from)) {
            Ok(file) => {
                let is_noted = file.metadata().is_ok_and(|metadata| metadata.len() > 0);
                let mut journal = Self { file, path, boot, note: PhantomData };
                if is_noted && matches!(journal.noted(), Ok(None)) {
                    journal.forget()?;
                }
                Ok(Some(journal))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(source) => Err(Error::Write { path, source }),
        }
    }

    /// All notes, the oldest first, for changes that each have a note of their own.
    ///
    /// # Errors
    /// As [`Journal::noted`].
    pub fn all(&self) -> Result<Vec<T>, Error> {
        all(&self.file, &self.path, &self.boot)
    }

    /// As [`Journal::all`], without the right to change it. None: the file does not exist.
    ///
    /// # Errors
    /// [`Error::Read`], [`Error::Parse`].
    pub(crate) fn peek_all(roots: &Roots, path: &Path) -> Result<Vec<T>, Error> {
        match open(path) {
            Ok(file) => all(&file, path, &boot_id(roots).unwrap_or_default()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            Err(source) => Err(Error::Read { path: path.to_owned(), source }),
        }
    }

    /// The note, without the right to change it. `None`: there is none, or it cannot be read.
    pub fn peek(roots: &Roots, name: &str) -> Option<T> {
        let path = path(roots, name);
        let boot = boot_id(roots).unwrap_or_default();
        last(&open(&path).ok()?, &path, &boot).ok()?
    }

    /// The note; `None`: there is none.
    ///
    /// # Errors
    /// [`Error::Read`]; [`Error::Parse`]: it is not what this program writes.
    pub fn noted(&self) -> Result<Option<T>, Error> {
        last(&self.file, &self.path, &self.boot)
    }

    /// Notes the change that is about to be made, instead of the note before, or besides it (see [`Journal::all`]).
    ///
    /// # Errors
    /// [`Error::Write`]. The note before stays.
    pub fn note(&mut self, changed: &T) -> Result<(), Error> {
        let written = self.add(changed);
        written.map_err(|source| Error::Write { path: self.path.clone(), source })
    }

    fn add(&mut self, changed: &T) -> io::Result<()> {
        let line = serde_json::to_string(&Line { boot: self.boot.clone(), changed })? + "\n";
        #[cfg(any(test, feature = "fake"))]
        if let Err(killed) = crate::killed::write() {
            self.file.write_all(&line.as_bytes()[..line.len() / 2])?;
            return Err(killed);
        }
        // The line before may have been cut off.
        let whole = whole_lines(&self.file)?.len() as u64;
        if whole + line.len() as u64 > LENGTH_MAX {
            return Err(io::Error::new(ErrorKind::FileTooLarge, "too much is noted already"));
        }
        self.file.set_len(whole)?;
        self.file.write_all(line.as_bytes())?;
        self.file.sync_data()
    }

    /// Forgets what was noted: it has been put back.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn forget(&mut self) -> Result<(), Error> {
        let forgotten = may_write().and_then(|()| self.file.set_len(0));
        forgotten.map_err(|source| Error::Write { path: self.path.clone(), source })
    }
}

fn last<T: DeserializeOwned>(file: &File, path: &Path, boot: &str) -> Result<Option<T>, Error> {
    let whole = whole(file, path)?;
    let last = whole.trim_ascii_end().rsplit(|&byte| byte == b'\n').next();
    let Some(last) = last.filter(|line| !line.is_empty()) else { return Ok(None) };
    parse(last, path, boot)
}

fn all<T: DeserializeOwned>(file: &File, path: &Path, boot: &str) -> Result<Vec<T>, Error> {
    let whole = whole(file, path)?;
    let lines = whole.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    let noted = lines.filter_map(|line| parse(line, path, boot).transpose());
    noted.collect()
}

/// The note in a line; `None`: it is of another boot.
fn parse<T: DeserializeOwned>(line: &[u8], path: &Path, boot: &str) -> Result<Option<T>, Error> {
    let line: Line<T> = serde_json::from_slice(line).map_err(|error| {
        let reason =
            format!("{error}; if it is damaged, put the setting back by hand and remove it");
        Error::Parse { path: path.to_owned(), reason }
    })?;
    Ok((line.boot == boot).then_some(line.changed))
}

fn whole(file: &File, path: &Path) -> Result<Vec<u8>, Error> {
    whole_lines(file).map_err(|source| Error::Read { path: path.to_owned(), source })
}

/// All lines that have an end. One without was cut off, and nothing has been changed on its behalf.
fn whole_lines(mut file: &File) -> io::Result<Vec<u8>> {
    let mut lines = Vec::new();
    file.rewind()?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidData, "not a file"));
    }
    file.take(LENGTH_MAX).read_to_end(&mut lines)?;
    lines.truncate(lines.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1));
    Ok(lines)
}

/// Writes a setting of the host, in one call.
pub fn write(path: &Path, value: &str) -> io::Result<()> {
    may_write()?;
    let mut file = OpenOptions::new().write(true).truncate(true).open(path)?;
    if file.write(value.as_bytes())? == value.len() {
        Ok(())
    } else {
        Err(ErrorKind::WriteZero.into())
    }
}

/// To be asked before each write: in tests, a process that is killed writes no more.
pub fn may_write() -> io::Result<()> {
    #[cfg(any(test, feature = "fake"))]
    crate::killed::write()?;
    Ok(())
}

fn make(directory: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o755).create(directory) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fake::Fake, killed};
    use std::os::unix::fs::symlink;

    const NAME: &str = "setting";
    const BOOT: &str = "proc/sys/kernel/random/boot_id";

    fn host() -> Fake {
        let host = Fake::new();
        host.write("run/numaloc/other", "");
        host.write("sys/setting", "before");
        host.write(BOOT, "boot-1\n");
        host
    }

    fn journal(host: &Fake) -> Journal<Vec<String>> {
        Journal::take(&host.roots(), NAME).expect("it can be written").expect("it is free")
    }

    fn peek(host: &Fake) -> Option<Vec<String>> {
        Journal::peek(&host.roots(), NAME)
    }

    #[test]
    fn the_right_is_given_up_although_a_child_has_the_file() {
        let host = host();
        let journal = journal(&host);
        // As between fork and exec.
        let _child = journal.file.try_clone().expect("another descriptor");
        assert!(is_taken(&host.roots(), NAME));
        drop(journal);
        assert!(Journal::<Vec<String>>::take(&host.roots(), NAME).unwrap().is_some());
    }

    #[test]
    fn the_last_note_counts_until_it_is_forgotten() {
        let host = host();
        let mut journal = journal(&host);
        assert_eq!(journal.noted().unwrap(), None);
        for text in ["one", "a\nb", "\u{1f600}"] {
            journal.note(&vec![text.to_owned()]).unwrap();
            assert_eq!(journal.noted().unwrap(), Some(vec![text.to_owned()]));
            assert_eq!(peek(&host), Some(vec![text.to_owned()]));
        }
        assert!(is_taken(&host.roots(), NAME) && is_noted(&host.roots(), NAME));
        assert!(Journal::<Vec<String>>::take(&host.roots(), NAME).unwrap().is_none());
        journal.forget().unwrap();
        assert_eq!((journal.noted().unwrap(), peek(&host)), (None, None));
        drop(journal);
        assert!(!is_taken(&host.roots(), NAME) && !is_noted(&host.roots(), NAME));
    }

    #[test]
    fn a_note_that_was_cut_off_leaves_the_one_before() {
        let host = host();
        let file = path(&host.roots(), NAME);
        let (one, two) = (vec!["one".to_owned()], vec!["two".to_owned()]);
        journal(&host).note(&one).unwrap();
        let before = fs::read(&file).unwrap();
        journal(&host).note(&two).unwrap();
        let both = fs::read(&file).unwrap();
        for length in before.len()..both.len() {
            fs::write(&file, &both[..length]).unwrap();
            assert_eq!(journal(&host).noted().unwrap(), Some(one.clone()), "{length}");
            // Another one is cut off after it.
            assert!(killed::after(0, || drop(journal(&host).note(&two))));
            assert_eq!(journal(&host).noted().unwrap(), Some(one.clone()), "{length}");
            journal(&host).note(&two).unwrap();
            assert_eq!(journal(&host).noted().unwrap(), Some(two.clone()), "{length}");
        }
    }

    #[test]
    fn a_note_of_another_boot_counts_for_nothing() {
        let host = host();
        journal(&host).note(&vec!["one".to_owned()]).unwrap();
        host.write(BOOT, "boot-2\n");
        assert_eq!((peek(&host), is_noted(&host.roots(), NAME)), (None, true));
        assert_eq!(journal(&host).noted().unwrap(), None);
        assert!(!is_noted(&host.roots(), NAME), "it is removed");
    }

    #[test]
    fn what_others_have_put_in_its_place_is_not_taken() {
        let host = host();
        let file = path(&host.roots(), NAME);
        for text in ["x\n", "[]\n", "{\"boot\":\"boot-1\",\"changed\":7}\n", "\u{0}\n"] {
            fs::write(&file, text).unwrap();
            let error = journal(&host).noted().expect_err("it is not a note");
            assert!(error.to_string().contains("run/numaloc/setting"), "{error}");
            assert_eq!(peek(&host), None);
        }
        fs::remove_file(&file).unwrap();
        host.write("elsewhere", "root's");
        symlink(host.path("elsewhere"), &file).unwrap();
        assert!(Journal::<Vec<String>>::take(&host.roots(), NAME).is_err());
        assert!(peek(&host).is_none() && !is_taken(&host.roots(), NAME));
    }

    /// The frame of all journals, with a setting of one file.
    #[test]
    fn a_process_that_is_killed_at_any_point_leaves_nothing() {
        let change = |host: &Fake| -> Result<(), Error> {
            let mut journal = journal(host);
            journal.note(&vec!["before".to_owned()])?;
            let failed = |source| Error::Setting { path: host.path("sys/setting"), source };
            write(&host.path("sys/setting"), "after").map_err(failed)?;
            // The value that the kernel has made of it.
            journal.note(&vec!["before".to_owned(), "after".to_owned()])?;
            write(&host.path("sys/setting"), "before").map_err(failed)?;
            journal.forget()
        };
        let recover = |host: &Fake| -> Result<(), Error> {
            let taken = Journal::<Vec<String>>::take(&host.roots(), NAME)?;
            let mut journal = taken.expect("it is free");
            let Some(noted) = journal.noted()? else { return Ok(()) };
            let failed = |source| Error::Setting { path: host.path("sys/setting"), source };
            write(&host.path("sys/setting"), &noted[0]).map_err(failed)?;
            journal.forget()
        };
        let state = |host: &Fake| {
            let setting = fs::read_to_string(host.path("sys/setting")).unwrap();
            (setting, is_noted(&host.roots(), NAME))
        };
        let points = killed::leaves_nothing(
            host,
            state,
            |host| drop(change(host)),
            |host| drop(recover(host)),
        );
        assert_eq!(points, 5);
    }
}
