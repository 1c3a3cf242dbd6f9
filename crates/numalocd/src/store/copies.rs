//! Copies of a store: of one moment while it is in use, and new files that take the place of one while it is not.
//!
//! A file takes the place of another by one rename, after all of it is on the disk: a daemon that dies at any step leaves the
//! old store or the new one.

use super::{
    OpenError, StoreError,
    disk::Disk,
    opening::{self, Opened},
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

/// What a store was before another took its place.
const OLD: &str = "numalocd.redb.old";
/// Records that could not be read.
const ASIDE: &str = "numalocd.redb.aside";

/// What a store holds at one moment. It keeps the room of what is forgotten meanwhile, so it is to be copied soon.
pub struct Snapshot {
    read: ReadTransaction,
    id: u64,
    path: PathBuf,
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Snapshot {
    pub(super) fn new(read: ReadTransaction, id: u64, path: PathBuf) -> Self {
        Self { read, id, path }
    }

    /// A store of its own with all of it, in a file beside the store that has no name; it is at its beginning. Blocks.
    ///
    /// # Errors
    /// There is no room, or a record cannot be read.
    pub fn copy(self) -> Result<File, StoreError> {
        let failed = |error: io::Error| StoreError::of_io(self.path.clone(), error);
        let name = self.path.with_extension(format!("copy-{:016x}", fastrand::u64(..)));
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        let file = Arc::new(options.open(&name).map_err(failed)?);
        fs::remove_file(&name).map_err(failed)?;
        let copied = Opened::new(Disk::live(file.clone()))
            .and_then(|mut opened| opened.with(|db| tables::copy(&self.read, db, self.id)));
        copied.map_err(|refusal| StoreError::of(self.path.clone(), refusal))?;
        // It is closed by now.
        let mut file = file.try_clone().map_err(failed)?;
        file.rewind().map_err(failed)?;
        Ok(file)
    }
}

/// A store that has taken the place of what was there.
#[derive(Debug)]
pub struct Replaced {
    /// Where what was there is now; `None`: nothing was, or it has been done away with.
    pub old: Option<PathBuf>,
    /// Records.
    pub records: usize,
    /// Sizes of the file before and after, in bytes.
    pub bytes: [u64; 2],
}

/// Puts the store in `from` in the place of that in `dir`, which nobody may have open. It gets an id of its own: what clients
/// have noted of the one that was there is of no use with it. Blocks.
///
/// # Errors
/// `from` is no store, or damaged; the one in `dir` is in use; it cannot be written. Then nothing has changed.
pub fn restore(dir: &Path, from: &Path) -> Result<Replaced, OpenError> {
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
    Ok(Replaced { old, records: contents.records(), bytes: [before, size(&place)] })
}

/// Writes the store in `dir` anew without what it has no use for any more. Nobody may have it open. Blocks.
///
/// # Errors
/// As [`restore`].
pub fn compact(dir: &Path) -> Result<Replaced, OpenError> {
    let place = opening::path(dir);
    let file = opening::existing(&place)?.ok_or_else(|| none(&place))?;
    let lock = opening::lock(dir)?;
    let before = size(&place);
    let (mut opened, contents) = opening::found(&Arc::new(file), &place)?;
    let (read, id) = (begin(&mut opened, &place)?, opened.id);
    let new = opening::make(dir, &lock, |db, _| tables::copy(&read, db, id))?;
    new.put(&place, &lock)?;
    Ok(Replaced { old: None, records: contents.records(), bytes: [before, size(&place)] })
}

/// What a repair has found.
#[derive(Debug)]
pub enum Repaired {
    /// Nothing is wrong with the store.
    Whole,
    /// What could be read is the store now.
    Set {
        /// Where what was there is now, as it was.
        old: PathBuf,
        /// Which records are not in the store any more, and why.
        aside: Vec<String>,
        /// Where their bytes are.
        file: PathBuf,
        /// Records that are there.
        records: usize,
    },
}

/// Sets records aside that cannot be read, so that the rest is a store again. Nobody may have it open. Blocks.
///
/// # Errors
/// There is none, it is in use, of another version, so damaged that nothing can be read, or it cannot be written. Then nothing
/// has changed.
pub fn repair(dir: &Path) -> Result<Repaired, OpenError> {
    let place = opening::path(dir);
    let file = Arc::new(opening::existing(&place)?.ok_or_else(|| none(&place))?);
    let lock = opening::lock(dir)?;
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
    begun.map_err(|refusal| refusal.into_open_error(path))
}

fn none(path: &Path) -> OpenError {
    OpenError::of(path.to_owned(), io::ErrorKind::NotFound.into())
}

fn size(path: &Path) -> u64 {
    path.metadata().map_or(0, |metadata| metadata.len())
}

/// Keeps what is at `place` at `old`, too, instead of what was kept there before. Gives back whether there was anything.
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

/// Adds records to the file of those that have been set aside: a line each, with the name, what is wrong, and the bytes.
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
