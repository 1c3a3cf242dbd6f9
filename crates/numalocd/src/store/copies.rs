//! Copies of a store: snapshots while the store is in use, and new files that replace it while it is not.
//!
//! A new file replaces the store by one rename, after all of it is on the disk. So a crash at any step leaves the old
//! store or the new one.

use super::{
    OpenError, StoreError,
    disk::Disk,
    opening::{self, Lock, Opened},
    tables::{self, Aside},
};
use redb::{ReadTransaction, ReadableDatabase};
use std::{
    fmt::{self, Write as _},
    fs::{self, File, OpenOptions},
    io::{self, Seek, Write as _},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The previous store, after another one has replaced it.
const OLD: &str = "numalocd.redb.old";
/// The file with records that could not be read.
const ASIDE: &str = "numalocd.redb.aside";

/// The contents of a store at one moment. While it exists, the room of records removed meanwhile cannot be used again:
/// copy it soon.
pub struct StoreSnapshot {
    read: ReadTransaction,
    id: u64,
    path: PathBuf,
}

impl fmt::Debug for StoreSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("path", &self.path).finish_non_exhaustive()
    }
}

impl StoreSnapshot {
    pub(super) fn new(read: ReadTransaction, id: u64, path: PathBuf) -> Self {
        Self { read, id, path }
    }

    /// Copies everything into a store of its own. Its file lies in the directory of the store, has no name, and is
    /// positioned at its beginning. Blocks.
    ///
    /// # Errors
    /// No room is left, or a record cannot be read.
    pub fn copy(self) -> Result<File, StoreError> {
        let failed = |error: io::Error| StoreError::of_io(self.path.clone(), error);
        let name = self.path.with_extension(format!("copy-{:016x}", fastrand::u64(..)));
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        let file = Arc::new(options.open(&name).map_err(failed)?);
        fs::remove_file(&name).map_err(failed)?;
        let copied = Opened::new(Disk::live(file.clone()))
            .and_then(|mut opened| opened.with(|db| tables::copy(&self.read, db, self.id)));
        copied.map_err(|failure| StoreError::of(self.path.clone(), failure))?;
        // The database on the file is closed by now.
        let mut file = file.try_clone().map_err(failed)?;
        file.rewind().map_err(failed)?;
        Ok(file)
    }
}

/// The result of replacing a store.
#[derive(Debug)]
pub struct ReplacedStore {
    /// Where the previous store is now; `None`: there was none, or it was not kept.
    pub old: Option<PathBuf>,
    /// Number of records in the store.
    pub records: usize,
    /// Sizes of the file before and after, in bytes.
    pub bytes: [u64; 2],
}

/// Replaces the store in `dir` by that in the file `from`. No process may have the store in `dir` open. The new store
/// gets an id of its own, because what clients remember of the previous store (such as numbers of events) does not fit
/// it. Blocks.
///
/// # Errors
/// `from` is not a store or damaged, the store in `dir` is in use, or the new one cannot be written. Nothing has been
/// changed then.
pub fn restore(dir: &Path, from: &Path) -> Result<ReplacedStore, OpenError> {
    let lock = opening::lock(dir)?;
    let file = Arc::new(File::open(from).map_err(|error| OpenError::of(from.into(), error))?);
    let (mut opened, contents) = opening::found(&file, from)?;
    let read = begin(&mut opened, from)?;
    let place = opening::path(dir);
    let before = size(&place);
    let old = dir.join(OLD);
    let new = opening::make(dir, &lock, |db, id| tables::copy(&read, db, id))?;
    let old = keep(&place, &old)?.then_some(old);
    new.put(&place, &lock)?;
    Ok(ReplacedStore { old, records: contents.records(), bytes: [before, size(&place)] })
}

/// Writes the store in `dir` again without unused room. No process may have it open. Blocks.
///
/// # Errors
/// Those of [`restore`], and a missing store.
pub fn compact(dir: &Path) -> Result<ReplacedStore, OpenError> {
    let place = opening::path(dir);
    let (file, lock) = locked(dir, &place)?;
    let before = size(&place);
    let (mut opened, contents) = opening::found(&Arc::new(file), &place)?;
    let (read, id) = (begin(&mut opened, &place)?, opened.id);
    let new = opening::make(dir, &lock, |db, _| tables::copy(&read, db, id))?;
    new.put(&place, &lock)?;
    Ok(ReplacedStore { old: None, records: contents.records(), bytes: [before, size(&place)] })
}

/// The result of a repair.
#[derive(Debug)]
pub enum Repaired {
    /// Nothing is wrong with the store.
    Whole,
    /// The records that could be read are the store now.
    Set {
        /// Where the damaged store is now, unchanged.
        old: PathBuf,
        /// The records that are not in the store any more, and why.
        aside: Vec<String>,
        /// The file that has their bytes.
        file: PathBuf,
        /// Number of records in the store now.
        records: usize,
    },
}

/// Sets aside records that cannot be read, so that the rest is a valid store. No process may have it open. Blocks.
///
/// # Errors
/// The store does not exist, or is in use, of another version, or so damaged that nothing can be read, or the new one
/// cannot be written. The store has not been changed then.
pub fn repair(dir: &Path) -> Result<Repaired, OpenError> {
    let place = opening::path(dir);
    let (file, lock) = locked(dir, &place)?;
    let file = Arc::new(file);
    match opening::found(&file, &place) {
        Ok(_) => return Ok(Repaired::Whole),
        Err(OpenError::Damaged { .. }) => {}
        Err(other) => return Err(other),
    }
    let mut opened = opening::readable(&file, &place)?;
    let (read, id) = (begin(&mut opened, &place)?, opened.id);
    let mut set_aside = Vec::new();
    let mut new = opening::make(dir, &lock, |db, _| {
        set_aside = tables::salvage(&read, db, id)?;
        Ok(())
    })?;
    let contents = new.contents()?;
    let side = dir.join(ASIDE);
    let failed = |error| OpenError::of(side.clone(), error);
    write_aside(&side, &set_aside).map_err(failed)?;
    let old = dir.join(OLD);
    keep(&place, &old)?;
    new.put(&place, &lock)?;
    let aside = set_aside.iter().map(|aside| format!("{}: {}", aside.name, aside.why)).collect();
    Ok(Repaired::Set { old, aside, file: side, records: contents.records() })
}

fn begin(opened: &mut Opened, path: &Path) -> Result<ReadTransaction, OpenError> {
    let begun = opened.with(|db| Ok(db.begin_read()?));
    begun.map_err(|failure| failure.into_open_error(path))
}

/// The store's file, opened with its lock held: before that, another program may put a new file in its place.
fn locked(dir: &Path, place: &Path) -> Result<(File, Lock), OpenError> {
    // Without a store, no directory is made for the lock.
    let open = || opening::existing(place)?.ok_or_else(|| none(place));
    open()?;
    let lock = opening::lock(dir)?;
    Ok((open()?, lock))
}

fn none(path: &Path) -> OpenError {
    OpenError::of(path.to_owned(), io::ErrorKind::NotFound.into())
}

fn size(path: &Path) -> u64 {
    path.metadata().map_or(0, |metadata| metadata.len())
}

/// Gives the file at `place` the second name `old`, which replaces an earlier file of the same name. Returns whether
/// there is a file at `place`.
fn keep(place: &Path, old: &Path) -> Result<bool, OpenError> {
    let failed = |error| OpenError::of(old.to_owned(), error);
    match fs::remove_file(old) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    match fs::hard_link(place, old) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        linked => linked.map(|()| true).map_err(failed),
    }
}

/// Appends records to the file of records set aside: a line each, with the name, the problem and the bytes in
/// hexadecimal.
fn write_aside(path: &Path, records: &[Aside]) -> io::Result<()> {
    let mut text = String::new();
    for Aside { name, why, bytes } in records {
        // Writing to a String does not fail.
        let _ = write!(text, "{name}\t{why}\t");
        for byte in bytes {
            let _ = write!(text, "{byte:02x}");
        }
        text.push('\n');
    }
    let mut options = OpenOptions::new();
    let mut file = options.append(true).create(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    opening::give_to_owner(&file, path)?;
    file.sync_all()
}
