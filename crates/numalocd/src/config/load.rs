//! Reads the file.

use super::{Config, Problem, read::read};
use std::{
    fmt, fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    str::FromStr,
};

/// Why there is no configuration.
#[derive(Debug)]
pub enum ConfigError {
    /// The file cannot be read.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The contents of the file are wrong.
    Invalid {
        /// The file.
        path: PathBuf,
        /// All that is wrong, in the order of the lines; at least one.
        problems: Vec<Problem>,
    },
}

impl std::error::Error for ConfigError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreadable { source, .. } => Some(source),
            Self::Invalid { .. } => None,
        }
    }
}

/// One line for each problem, such as `/etc/numaloc/numalocd.toml:12: queue.moves: 0 is out of range: 1 to 256`.
impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { path, source } => {
                write!(f, "{}: cannot be read: {source}", path.display())
            }
            Self::Invalid { path, problems } => {
                for (index, problem) in problems.iter().enumerate() {
                    let end_of_last = if index == 0 { "" } else { "\n" };
                    write!(f, "{end_of_last}{}:{problem}", path.display())?;
                }
                Ok(())
            }
        }
    }
}

impl Config {
    /// Reads the file at `path`. If there is none, the defaults hold, unless the file was asked for (`explicit`).
    ///
    /// # Errors
    /// The file cannot be read, or its contents are wrong; then the error lists all problems.
    pub fn load(path: &Path, explicit: bool) -> Result<Self, ConfigError> {
        match fs::read_to_string(path) {
            Ok(text) => text
                .parse()
                .map_err(|Problems(problems)| ConfigError::Invalid { path: path.into(), problems }),
            Err(error) if error.kind() == ErrorKind::NotFound && !explicit => Ok(Self::default()),
            Err(source) => Err(ConfigError::Unreadable { path: path.into(), source }),
        }
    }
}

/// All that is wrong with the text of a configuration.
#[derive(Debug)]
pub struct Problems(pub Vec<Problem>);

impl FromStr for Config {
    type Err = Problems;

    /// Reads the text of a configuration file. It also looks up the accounts of this host and the TLS files that the text names.
    fn from_str(text: &str) -> Result<Self, Problems> {
        read(text).map_err(Problems)
    }
}
