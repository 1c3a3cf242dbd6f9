//! Common parts of the kernels' interfaces: a directory of small files, one of which is the switch.

use numaloc_host::{Error, journal, read};
use std::{fmt, io, path::Path};

/// The settings of copies, as far as an interface has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Whether the kernel polls for the end of a copy rather than waiting for an interrupt: sooner done, and a CPU busy meanwhile.
    pub polling: bool,
    /// Most channels that copy at the same time; `None`: as the kernel has it.
    pub channels_max: Option<u32>,
}

/// One file of an interface and the value that it is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Knob {
    /// The file's name, one of [`Interface::knobs`].
    pub name: &'static str,
    /// The text to write.
    pub value: String,
}

/// The kernel's counts since its interface exists or the counters were reset. They are the host's, not a job's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Folios that an engine has copied.
    pub offloaded: u64,
    /// Folios whose copy was given to an engine, failed, and was done by a CPU.
    pub failed: u64,
}

/// A kernel's way to let a DMA engine copy the pages that it migrates.
pub trait Interface: fmt::Debug + Send + Sync {
    /// Its name in reports and in the journal.
    fn name(&self) -> &'static str;
    /// The directory that all of its files are in.
    fn directory(&self) -> &Path;
    /// The file that switches it on and off.
    fn switch(&self) -> &'static str;
    /// All files that may be changed. Nothing else is ever written.
    fn knobs(&self) -> &'static [&'static str];
    /// The writes that bring it into use, in this order; it is taken back in the opposite one. Files that this kernel
    /// does not have are left out.
    fn wanted(&self, settings: &Settings) -> Vec<Knob>;
    /// The reason why it cannot be used with its present settings; `None` if it can.
    fn refusal(&self) -> Option<String> {
        None
    }
    /// The kernel's counts; `None` if this interface does not count.
    ///
    /// # Errors
    /// [`Error::Read`], [`Error::Parse`]; the module may be gone.
    fn counters(&self) -> Result<Option<Counters>, Error>;

    /// Whether it is switched on.
    ///
    /// # Errors
    /// [`Error::Read`].
    fn is_on(&self) -> Result<bool, Error> {
        Ok(self.read(self.switch())? == "1")
    }

    /// The value of one of its files, in the form in which [`Self::write`] takes it. Kernels show a switch as 1, Y or true, and
    /// each takes 1 for all of these.
    ///
    /// # Errors
    /// [`Error::Read`].
    fn read(&self, name: &str) -> Result<String, Error> {
        let text = read::text(&self.directory().join(name))?;
        Ok(match text.trim() {
            "Y" | "y" | "true" => "1".into(),
            "N" | "n" | "false" => "0".into(),
            text => text.into(),
        })
    }

    /// Writes one of [`Self::knobs`], in one call.
    ///
    /// # Errors
    /// [`Error::Setting`]: the kernel refuses the value, the file is gone, or it may not be written.
    fn write(&self, name: &str, value: &str) -> Result<(), Error> {
        let path = self.directory().join(name);
        if !self.knobs().contains(&name) {
            let source = io::Error::new(io::ErrorKind::InvalidInput, "not a setting of offload");
            return Err(Error::Setting { path, source });
        }
        journal::write(&path, value).map_err(|source| Error::Setting { path, source })
    }
}

pub(super) fn count(directory: &Path, name: &str) -> Result<Option<u64>, Error> {
    let path = directory.join(name);
    match read::text(&path) {
        Ok(text) => match text.trim().parse() {
            Ok(count) => Ok(Some(count)),
            Err(_) => {
                Err(Error::Parse { path, reason: format!("'{}' is not a count", text.trim()) })
            }
        },
        // Not counted, as long as the rest is there; a module that is gone takes all with it.
        Err(Error::Read { source, .. })
            if source.kind() == io::ErrorKind::NotFound && directory.is_dir() =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
