//! Reads a file, and reports why it cannot be used.

use crate::Mistake;
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
    /// The contents of a file are invalid.
    Invalid {
        /// The files that were read as one.
        paths: Vec<PathBuf>,
        /// All mistakes in the order of the files and their lines; at least one.
        problems: Vec<Mistake>,
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
            Self::Invalid { paths, problems } => {
                for (index, problem) in problems.iter().enumerate() {
                    let end_of_last = if index == 0 { "" } else { "\n" };
                    let path = paths.get(problem.file).map(|path| path.display());
                    let path = path.map(|path| format!("{path}:")).unwrap_or_default();
                    write!(f, "{end_of_last}{path}{problem}")?;
                }
                Ok(())
            }
        }
    }
}

/// A configuration file as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Where it was found.
    pub path: PathBuf,
    /// Its contents.
    pub text: String,
}

impl Source {
    /// Reads the file at `path`; `None` if it does not exist and need not (`must_exist`).
    ///
    /// # Errors
    /// [`FileError::Unreadable`].
    pub fn read(path: &Path, must_exist: bool) -> Result<Option<Self>, FileError> {
        match fs::read_to_string(path) {
            Ok(text) => Ok(Some(Self { path: path.into(), text })),
            Err(error) if error.kind() == ErrorKind::NotFound && !must_exist => Ok(None),
            Err(source) => Err(FileError::Unreadable { path: path.into(), source }),
        }
    }

    /// Reads the regular files in `directory` whose names end in `.toml` and do not begin with a dot, in the order of their names.
    /// A link counts as what it leads to: one to /dev/null hides a file. The directory need not exist unless it `must_exist`.
    ///
    /// # Errors
    /// [`FileError::Unreadable`].
    pub fn read_drop_ins(directory: &Path, must_exist: bool) -> Result<Vec<Self>, FileError> {
        let failed = |path: &Path, source| FileError::Unreadable { path: path.into(), source };
        let entries = match fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound && !must_exist => {
                return Ok(Vec::new());
            }
            Err(source) => return Err(failed(directory, source)),
        };
        let mut paths = Vec::new();
        for entry in entries {
            let path = entry.map_err(|source| failed(directory, source))?.path();
            let name = path.file_name().unwrap_or_default().as_encoded_bytes();
            if !name.ends_with(b".toml") || name.starts_with(b".") {
                continue;
            }
            if fs::metadata(&path).map_err(|source| failed(&path, source))?.is_file() {
                paths.push(path);
            }
        }
        paths.sort();
        let read = paths.iter().map(|path| Self::read(path, true));
        Ok(read.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }

    /// The error for mistakes in files that were read as one.
    pub fn invalid(sources: &[Self], problems: Vec<Mistake>) -> FileError {
        let paths = sources.iter().map(|source| source.path.clone()).collect();
        FileError::Invalid { paths, problems }
    }
}

/// Reads the file at `path` with `parse`. If the file does not exist, the default holds, unless the file `must_exist`.
///
/// # Errors
/// [`FileError`].
pub fn load<T: Default>(
    path: &Path,
    must_exist: bool,
    parse: impl FnOnce(&str) -> Result<T, Vec<Mistake>>,
) -> Result<T, FileError> {
    let Some(source) = Source::read(path, must_exist)? else { return Ok(T::default()) };
    parse(&source.text).map_err(|problems| Source::invalid(&[source], problems))
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
        assert!(lines[0].starts_with(&format!("{path}:2: b: expected ")), "{error}");
        assert!(lines[1].starts_with(&format!("{path}:3: c: ")), "{error}");
    }

    #[test]
    fn drop_ins_are_the_regular_files_in_the_order_of_their_names() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let names = |root: &Path| -> Vec<_> {
            let read = Source::read_drop_ins(root, false).unwrap();
            read.iter().map(|of| of.path.file_name().unwrap().to_owned()).collect()
        };
        assert!(names(&root.join("absent")).is_empty());
        assert!(Source::read_drop_ins(&root.join("absent"), true).is_err());
        for name in ["b.toml", "10-z.toml", "9-a.toml", ".hidden.toml", "c.toml.bak", "d.toml~"] {
            fs::write(root.join(name), name).unwrap();
        }
        fs::create_dir(root.join("directory.toml")).unwrap();
        std::os::unix::fs::symlink("/dev/null", root.join("0-masked.toml")).unwrap();
        std::os::unix::fs::symlink("b.toml", root.join("z.toml")).unwrap();
        assert_eq!(names(root), ["10-z.toml", "9-a.toml", "b.toml", "z.toml"]);
        assert!(Source::read_drop_ins(&root.join("b.toml"), false).is_err(), "a file");

        fs::write(root.join("9-a.toml"), [0xff]).unwrap();
        let error = Source::read_drop_ins(root, false).unwrap_err().to_string();
        assert!(error.contains("9-a.toml: cannot be read: "), "{error}");
        std::os::unix::fs::symlink("nowhere", root.join("dangling.toml")).unwrap();
        assert!(Source::read_drop_ins(root, false).is_err());
    }
}
