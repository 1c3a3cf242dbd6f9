mod files;
mod keys;
mod mistakes;
mod reload;
mod schedules;

use super::*;
use numaloc_dma::kernel::Settings;
use proptest::prelude::*;
use std::fs;

/// The problems of a text, one string each.
fn problems(text: &str) -> Vec<String> {
    match text.parse::<Config>() {
        Ok(_) => Vec::new(),
        Err(problems) => problems.iter().map(ToString::to_string).collect(),
    }
}

fn config(text: &str) -> Config {
    text.parse().unwrap_or_else(|problems| panic!("{problems:?}"))
}

/// Checks that `text` has one problem, which begins with `expect`.
#[track_caller]
fn check(text: &str, expect: &str) {
    let found = problems(text);
    assert!(found.len() == 1 && found[0].starts_with(expect), "{text}\n{found:#?}\nnot {expect}");
}

/// A main file and drop-ins in a directory of their own.
fn read_files(files: &[(&str, &str)]) -> Result<Loaded, String> {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join(DropIns::NAME)).unwrap();
    for (name, text) in files {
        fs::write(directory.path().join(name), text).unwrap();
    }
    let root = format!("{}/", directory.path().display());
    let loaded = Loaded::read(&directory.path().join("numalocd.toml"), false, DropIns::Beside);
    let mut loaded = loaded.map_err(|error| error.to_string().replace(&root, ""))?;
    loaded.notes.iter_mut().for_each(|note| *note = note.replace(&root, ""));
    Ok(loaded)
}
