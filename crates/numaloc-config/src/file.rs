//! Reads a file, and reports why it cannot be used.

use crate::Problem;
use std::{
    fmt, fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

/// Why a configuration file cannot be used.
#[derive(Debug)]
pub enum FileError {
    /// The file cannot be read.
    Unreadable {
        /// The file that was named, or the default one.
        path: PathBuf,
        /// The error of open(2) or read(2), or that the file is not UTF-8.
        source: io::Error,
    },
    /// The contents of the file are invalid.
    Invalid {
        /// The file that has the mistakes.
        path: PathBuf,
        /// All mistakes in the order of their lines; at least one.
        problems: Vec<Problem>,
    },
}

impl std::error::Error for FileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreadable { source, .. } => Some(source),
            Self::Invalid { .. } => None,
        }
    }
}

/// One line for each problem, such as `/etc/numaloc/numalocd.toml:12: queue.moves: 0 is out of range: 1 to 256`.
impl fmt::Display for FileError {
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

/// Reads the file at `path` with `parse`. If the file does not exist, the default holds, unless the file `must_exist`.
///
/// # Errors
/// [`FileError`].
pub fn load<T: Default>(
    path: &Path,
    must_exist: bool,
    parse: impl FnOnce(&str) -> Result<T, Vec<Problem>>,
) -> Result<T, FileError> {
    match fs::read_to_string(path) {
        Ok(text) => {
            parse(&text).map_err(|problems| FileError::Invalid { path: path.into(), problems })
        }
        Err(error) if error.kind() == ErrorKind::NotFound && !must_exist => Ok(T::default()),
        Err(source) => Err(FileError::Unreadable { path: path.into(), source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Document;

    #[test]
    fn a_missing_file_is_the_default_unless_it_must_exist() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.toml");
        let parse = |text: &str| {
            let (table, document) =
                Document::read::<std::collections::BTreeMap<String, bool>>(text);
            document.conclude(table)
        };
        assert_eq!(load(&path, false, parse).unwrap(), Default::default());
        let error = load(&path, true, parse).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{}: cannot be read: ", path.display())), "{error}");
        assert!(load(directory.path(), false, parse).is_err(), "a directory was taken for a file");

        fs::write(&path, "a = true\nb = 1\nc = 2\n").unwrap();
        let error = load(&path, false, parse).unwrap_err().to_string();
        let lines: Vec<_> = error.lines().collect();
        let path = path.display();
        assert_eq!(lines.len(), 2, "{error}");
        assert!(
            lines[0].starts_with(&format!("{path}:2: b: invalid type: integer `1`")),
            "{error}"
        );
        assert!(lines[1].starts_with(&format!("{path}:3: c: ")), "{error}");
    }
}
