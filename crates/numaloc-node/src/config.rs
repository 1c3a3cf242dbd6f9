//! The configuration of a client: TOML, checked strictly.

use crate::{daemon::Grpc, mark::Mark};
use numaloc_config::{Document, FileError, Mistake, load};
use serde::de::DeserializeOwned;
use std::{path::Path, time::Duration};

/// Address of numalocd, unless the operator sets another one.
pub const ENDPOINT: &str = "unix:///run/numaloc/numalocd.sock";
/// Time that numalocd keeps containers that are not renewed, unless the operator sets another time.
pub const LEASE: Duration = Duration::from_secs(300);

/// A client's configuration file.
pub trait Configuration: DeserializeOwned + Default {
    /// Path of the file, unless the command line names another one.
    const PATH: &'static str;
    const MARK: Mark;

    /// The key `endpoint`: address of numalocd.
    fn endpoint(&mut self) -> &mut String;

    /// Refuses invalid values that have the right types.
    fn check(&self, _document: &mut Document<'_>) {}
}

/// Reads a file. If there is none, the defaults hold, unless the file was asked for (`explicit`).
///
/// # Errors
/// The file cannot be read, or its contents are invalid.
pub fn read<C: Configuration>(path: &Path, explicit: bool) -> Result<C, FileError> {
    load(path, explicit, parse)
}

/// Reads the text of a file.
///
/// # Errors
/// All mistakes in it.
pub fn parse<C: Configuration>(text: &str) -> Result<C, Vec<Mistake>> {
    let (mut config, mut document) = Document::read::<C>(text);
    config.check(&mut document);
    if let Err(error) = Grpc::new(config.endpoint(), C::MARK) {
        document.refuse("endpoint", error);
    }
    document.conclude(config)
}
