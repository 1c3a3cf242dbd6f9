//! From texts to a configuration.

use super::{Config, Mistake, check::check, declared::declared, file::File};
use numaloc_config::{Document, FileError, FileLine, Source};
use std::{collections::BTreeSet, mem, path::Path, str::FromStr};

/// A configuration as it was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loaded {
    pub config: Config,
    /// The files that were read, in the order in which they hold.
    pub files: Vec<Box<Path>>,
    /// Notes for the administrator about valid contents: keys and grants that another file overrides.
    pub notes: Vec<String>,
}

impl Loaded {
    /// Reads the file at `path` and those in `drop_ins` as one. Without a file at `path`, the defaults hold, unless the
    /// file was asked for (`explicit`).
    ///
    /// # Errors
    /// A file cannot be read, or the contents are wrong; then the error lists all problems of all files.
    pub fn read(path: &Path, explicit: bool, drop_ins: DropIns<'_>) -> Result<Self, FileError> {
        let main = Source::read(path, explicit)?;
        let (directory, must_exist) = match drop_ins {
            DropIns::Beside => (&*path.with_file_name(DropIns::NAME), false),
            DropIns::In(directory) => (directory, true),
        };
        let drop_ins = Source::read_drop_ins(directory, must_exist)?;
        let sources: Vec<_> = main.into_iter().chain(drop_ins).collect();
        Self::of(&sources).map_err(|problems| Source::invalid(&sources, problems))
    }

    fn of(sources: &[Source]) -> Result<Self, Vec<Mistake>> {
        let texts = sources.iter().map(|source| source.text.as_str());
        let (mut file, mut document) = Document::read_all::<File>(texts);
        let overruled = check(&file, &mut document);
        let at = |FileLine { file, line }: FileLine| {
            let path = sources.get(file).map(|source| source.path.display().to_string());
            format!("{}:{line}", path.unwrap_or_default())
        };
        let replaced = document.replaced().map(|(key, [earlier, later])| {
            format!("{}: {key}: replaces the value at {}", at(later), at(earlier))
        });
        let passed_over = overruled
            .iter()
            .map(|of| format!("{}: {}, which comes first: {}", at(of.grant), of.why, at(of.by)));
        let of_nobody = file.grants.iter().enumerate().filter_map(|(index, grant)| {
            let place = document.place_of(&format!("grants[{index}]"))?;
            Some(format!(
                "{}: {}: the grant has no effect until the account exists; it is looked up every 5 minutes",
                at(place),
                grant.missing()?
            ))
        });
        let notes = replaced.chain(passed_over).chain(of_nobody).collect();
        let dropped: BTreeSet<usize> =
            overruled.iter().filter(|of| of.is_dropped).map(|of| of.index).collect();
        let grants = mem::take(&mut file.grants).into_iter().enumerate();
        file.grants = grants.filter(|(index, _)| !dropped.contains(index)).map(|it| it.1).collect();
        let places: Vec<_> = (0..file.schedule.len())
            .map(|index| document.place_of(&format!("schedule[{index}]")))
            .collect();
        let path = |index: usize| {
            let source = places.get(index).copied().flatten().and_then(|of| sources.get(of.file));
            let path = source.map(|source| std::path::absolute(&source.path));
            path.and_then(Result::ok).map(|path| path.display().to_string()).unwrap_or_default()
        };
        let schedules = declared(mem::take(&mut file.schedule), &mut document, path);
        let files = sources.iter().map(|source| source.path.as_path().into()).collect();
        let config = Config { schedules, ..file.into() };
        Ok(Self { config: document.conclude(config)?, files, notes })
    }
}

/// Where the files are that are read after the main one.
#[derive(Clone, Copy, Debug)]
pub enum DropIns<'a> {
    /// In the directory `conf.d` beside the main file, if there is one.
    Beside,
    /// In this directory, which has to exist.
    In(&'a Path),
}

impl DropIns<'_> {
    /// The name of the directory beside the main file.
    pub const NAME: &'static str = "conf.d";
}

impl FromStr for Config {
    type Err = Vec<Mistake>;

    /// Reads the text of a configuration file. It also looks up the accounts of this host and the TLS files that the
    /// text names.
    fn from_str(text: &str) -> Result<Self, Vec<Mistake>> {
        let source = Source { path: "".into(), text: text.to_owned() };
        Loaded::of(&[source]).map(|loaded| loaded.config)
    }
}
