//! Opening a store: the whole file is read and checked before anything in it is changed.

use super::{
    Contents, OpenError,
    disk::{Disk, Slot},
    quiet::quietly,
    tables::{self, SCHEMA, TableFault},
};
use redb::Database;
use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, fchown},
    path::{Path, PathBuf},
    sync::Arc,
};

/// The name of the store in the state directory.
const NAME: &str = "numalocd.redb";
/// The name of a store that is being made.
const UNFINISHED: &str = "numalocd.redb.new";
/// Size of the database's cache, in bytes.
const CACHE: usize = 4 << 20;

/// An open database, and the disk below it.
#[derive(Debug)]
pub struct Opened {
    /// Always `Some`, except while it is being closed.
    db: Option<Database>,
    pub disk: Disk,
    /// The number of commits so far.
    pub commits: u64,
    /// The id of the store. A store made before stores had ids gets one with its next commit.
    pub id: u64,
}

impl Opened {
    /// Opens a database without reading its tables.
    pub fn new(disk: Disk) -> Result<Self, StoreFailure> {
        let mut builder = Database::builder();
        let builder = builder.set_cache_size(CACHE);
        let opened = quietly(|| builder.create_with_backend(disk.clone()));
        match opened.map_err(corrupted).and_then(|opened| Ok(opened?)) {
            Ok(db) => Ok(Self { db: Some(db), disk, commits: 0, id: fastrand::u64(..) }),
            Err(fault) => Err(StoreFailure { fault, error: disk.error() }),
        }
    }

    /// Runs `work` with the database. A panic in it becomes an error, after which the database must not be used.
    pub fn with<T>(
        &mut self,
        work: impl FnOnce(&mut Database) -> Result<T, TableFault>,
    ) -> Result<T, StoreFailure> {
        let Self { db: Some(db), disk, .. } = self else {
            return Err(StoreFailure { fault: corrupted("it is closed".to_owned()), error: None });
        };
        let result = quietly(|| work(db)).unwrap_or_else(|panic| Err(corrupted(panic)));
        result.map_err(|fault| StoreFailure { fault, error: disk.error() })
    }
}

impl Drop for Opened {
    /// Closes the database, which may panic after it has panicked before.
    fn drop(&mut self) {
        if let Some(db) = self.db.take() {
            let _ = quietly(|| drop(db));
        }
    }
}

/// The reason why an operation on a database failed.
#[derive(Debug)]
pub struct StoreFailure {
    pub fault: TableFault,
    /// The error of the file system, if that was the cause.
    pub error: Option<io::Error>,
}

/// The parts of an opened store.
pub struct StoreParts {
    pub path: PathBuf,
    pub lock: Lock,
    pub file: Arc<File>,
    pub opened: Opened,
    pub contents: Contents,
}

/// The lock on the state directory. It covers the file too, also while the file is being made.
#[derive(Debug)]
pub struct Lock(File);

impl Drop for Lock {
    /// Unlocks explicitly: a child process may still have the directory open, and closing alone would leave it locked.
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

/// Opens or creates the store in `dir`.
pub fn open(dir: &Path) -> Result<StoreParts, OpenError> {
    let path = path(dir);
    let lock = lock(dir)?;
    let (file, (opened, contents)) = match existing(&path)? {
        Some(file) => {
            let file = Arc::new(file);
            let read = read(&file, &path)?;
            (file, read)
        }
        None => {
            let new = make(dir, &lock, |db, id| tables::create(db, id))?;
            new.put(&path, &lock)?;
            (new.file, (new.opened, Contents::default()))
        }
    };
    Ok(StoreParts { path, lock, file, opened, contents })
}

/// The path of the store in `dir`.
pub fn path(dir: &Path) -> PathBuf {
    dir.join(NAME)
}

/// Makes the directory if it is missing, and locks it, without waiting.
///
/// # Errors
/// [`OpenError::InUse`]; or the directory cannot be made, opened or locked.
pub fn lock(dir: &Path) -> Result<Lock, OpenError> {
    let failed = |source| OpenError::of(dir.to_owned(), source);
    if !dir.exists() {
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed)?;
        if let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            File::open(parent).and_then(|parent| parent.sync_all()).map_err(failed)?;
        }
    }
    let directory = OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_DIRECTORY)
        .open(dir)
        .map_err(failed)?;
    match directory.try_lock() {
        Ok(()) => Ok(Lock(directory)),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse { path: dir.join(NAME) }),
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

/// The file at `path`, if there is one.
pub fn existing(path: &Path) -> Result<Option<File>, OpenError> {
    let failed = |source| OpenError::of(path.to_owned(), source);
    let foreign =
        |reason: &str| OpenError::Foreign { path: path.to_owned(), reason: reason.into() };
    match path.metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
        Ok(metadata) if !metadata.is_file() => return Err(foreign("it is not a plain file")),
        Ok(metadata) if metadata.len() == 0 => return Err(foreign("it is empty")),
        Ok(_) => {}
    }
    OpenOptions::new().read(true).write(true).open(path).map(Some).map_err(failed)
}

/// A complete new store under a temporary name. It is on the disk, so a rename can put it in its place.
pub struct New {
    pub file: Arc<File>,
    pub opened: Opened,
    unfinished: PathBuf,
}

/// Makes a store with a new id, which `fill` is given to fill the database.
pub fn make(
    dir: &Path,
    lock: &Lock,
    fill: impl FnOnce(&mut Database, u64) -> Result<(), TableFault>,
) -> Result<New, OpenError> {
    let unfinished = dir.join(UNFINISHED);
    let failed = |source| OpenError::of(path(dir), source);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(true).mode(0o600);
    let file = Arc::new(options.open(&unfinished).map_err(failed)?);
    let made = Opened::new(Disk::live(file.clone())).and_then(|mut opened| {
        let id = opened.id;
        opened.with(|db| fill(db, id))?;
        Ok(opened)
    });
    let owned = give_to_owner(&file, &unfinished);
    // The lock is on the directory itself, so this syncs the directory.
    let source = match made.map(|opened| (opened, owned.and_then(|()| lock.0.sync_all()))) {
        Ok((opened, Ok(()))) => return Ok(New { file, opened, unfinished }),
        Ok((_, Err(error))) => error,
        Err(StoreFailure { fault, error }) => error.unwrap_or_else(|| io::Error::other(fault)),
    };
    // A file that is left would be overwritten the next time. It is removed to free its room.
    let _ = fs::remove_file(&unfinished);
    Err(failed(source))
}

impl New {
    pub fn contents(&mut self) -> Result<Contents, OpenError> {
        let contents = self.opened.with(|db| tables::contents(db));
        contents.map_err(|failure| failure.into_open_error(&self.unfinished))
    }

    /// Renames it to `path`, where it replaces an existing file.
    pub fn put(&self, path: &Path, lock: &Lock) -> Result<(), OpenError> {
        let renamed = fs::rename(&self.unfinished, path).and_then(|()| lock.0.sync_all());
        renamed.map_err(|source| OpenError::of(path.to_owned(), source))
    }
}

/// If root makes a file beside the store, it gives the file to the owner of the directory, so that the daemon can use
/// it.
pub fn give_to_owner(file: &File, path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let owner = directory.unwrap_or(Path::new(".")).metadata()?;
    if nix::unistd::geteuid().is_root() {
        fchown(file, Some(owner.uid()), Some(owner.gid()))
    } else {
        Ok(())
    }
}

/// Reads and checks all of an existing file, and only then lets the database change it.
fn read(file: &Arc<File>, path: &Path) -> Result<(Opened, Contents), OpenError> {
    let found = found(file, path)?;
    found.0.disk.release().map_err(|source| OpenError::of(path.to_owned(), source))?;
    Ok(found)
}

/// Reads and checks all of a file without changing it.
pub fn found(file: &Arc<File>, path: &Path) -> Result<(Opened, Contents), OpenError> {
    let failed = |source| OpenError::of(path.to_owned(), source);
    let refused = |failure: StoreFailure| failure.into_open_error(path);
    let found = hold(file, Slot::Current).and_then(verified).map_err(refused)?;
    if !Disk::other_is_later(file).map_err(failed)? {
        return Ok(found);
    }
    // A complete commit is kept, even if it was never acknowledged. An incomplete one is not.
    let other = hold(file, Slot::Other).and_then(verified);
    Ok(other.ok().filter(|other| other.0.commits > found.0.commits).unwrap_or(found))
}

/// Opens a file that can be read only in part, without changing it.
pub fn readable(file: &Arc<File>, path: &Path) -> Result<Opened, OpenError> {
    let current = hold(file, Slot::Current);
    let opened = current.or_else(|failure| hold(file, Slot::Other).map_err(|_| failure));
    opened.map_err(|failure| failure.into_open_error(path))
}

/// Opens the database again after a failure, with the contents after `commits` commits, whether or not the failed
/// commit has reached the file. Nothing is written until the disk is released.
pub fn reopen(file: &Arc<File>, commits: u64) -> Result<Opened, String> {
    let mut reason = String::new();
    for slot in [Slot::Current, Slot::Other] {
        match hold(file, slot) {
            Ok(opened) if opened.commits == commits => return Ok(opened),
            Ok(opened) => reason = format!("commit {} is there, not {commits}", opened.commits),
            Err(failure) if reason.is_empty() => reason = failure.fault.to_string(),
            Err(_) => {}
        }
    }
    Err(reason)
}

impl StoreFailure {
    pub fn into_open_error(self, path: &Path) -> OpenError {
        let path = path.to_owned();
        let ended = |error: &io::Error| error.kind() == io::ErrorKind::UnexpectedEof;
        match (self.fault, self.error) {
            (_, Some(error)) if !ended(&error) => OpenError::of(path, error),
            (TableFault::Version(found), _) => OpenError::Version { path, found, known: SCHEMA },
            (TableFault::Newer(reason, writer), _) => {
                let by =
                    writer.map_or("a later numalocd".to_owned(), |it| format!("numalocd {it}"));
                OpenError::Newer { path, reason, by }
            }
            (fault @ TableFault::Foreign, _) => {
                OpenError::Foreign { path, reason: fault.to_string() }
            }
            // The database's error for a file that does not begin with its magic number.
            (TableFault::Database(redb::Error::Io(error)), _)
                if error.kind() == io::ErrorKind::InvalidData =>
            {
                OpenError::Foreign { path, reason: error.to_string() }
            }
            (fault, _) => OpenError::Damaged { path, reason: fault.to_string() },
        }
    }
}

/// Opens a database without changing the file.
fn hold(file: &Arc<File>, slot: Slot) -> Result<Opened, StoreFailure> {
    let disk = Disk::held(file.clone(), slot)
        .map_err(|error| StoreFailure { fault: TableFault::Foreign, error: Some(error) })?;
    let mut opened = Opened::new(disk)?;
    opened.commits = opened.with(|db| tables::commits(db))?;
    opened.id = opened.with(|db| tables::id(db))?.unwrap_or(opened.id);
    Ok(opened)
}

/// Checks the whole database, and reads its contents.
fn verified(mut opened: Opened) -> Result<(Opened, Contents), StoreFailure> {
    let contents = opened.with(|db| {
        if !db.check_integrity()? {
            return Err(corrupted("its pages do not match their checksums".to_owned()));
        }
        tables::contents(db).map_err(|fault| match fault {
            TableFault::Newer(what, _) => TableFault::Newer(what, tables::writer(db)),
            fault => fault,
        })
    })?;
    Ok((opened, contents))
}

/// Treats a panic of the database as damage.
pub fn corrupted(reason: String) -> TableFault {
    TableFault::Database(redb::Error::Corrupted(reason))
}
