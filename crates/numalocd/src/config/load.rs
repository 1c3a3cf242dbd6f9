//! From a text to a configuration.

use super::{Config, Problem, check::check, file::File};
use numaloc_config::{Document, FileError, load};
use std::{path::Path, str::FromStr};

impl Config {
    /// Reads the file at `path`. If there is none, the defaults hold, unless the file was asked for (`explicit`).
    ///
    /// # Errors
    /// The file cannot be read, or its contents are wrong; then the error lists all problems.
    pub fn load(path: &Path, explicit: bool) -> Result<Self, FileError> {
        load(path, explicit, str::parse)
    }
}

impl FromStr for Config {
    type Err = Vec<Problem>;

    /// Reads the text of a configuration file. It also looks up the accounts of this host and the TLS files that the text names.
    fn from_str(text: &str) -> Result<Self, Vec<Problem>> {
        let (file, mut document) = Document::read::<File>(text);
        check(&file, &mut document);
        document.conclude(file.into())
    }
}
