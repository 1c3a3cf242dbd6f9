//! The crates of the workspace, as they lie on the disk.

use crate::{
    tokens::tokens,
    tree::{Path, without_tests},
};
use std::{collections::BTreeMap, fs, path};

#[derive(Debug)]
pub struct Crate {
    /// The name of its directory.
    pub name: String,
    /// All its sources, with tests.
    pub files: Vec<File>,
    /// Its modules without tests, by their paths. A program and a library in the same crate share their root.
    pub modules: BTreeMap<Path, Module>,
}

#[derive(Debug)]
pub struct File {
    /// From the top of the tree.
    pub name: String,
    pub tokens: Vec<String>,
}

/// A module in files of its own.
#[derive(Debug, Default)]
pub struct Module {
    /// Its file, from the top of the tree.
    pub file: String,
    /// Its tokens without tests.
    pub tokens: Vec<String>,
}

/// All crates. `tests` and `benches` are among them.
pub fn crates() -> Vec<Crate> {
    let top = path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the top of the tree");
    let mut directories: Vec<_> = read(&top.join("crates"));
    directories.extend(["benches", "tests"].map(|name| top.join(name)));
    let relative = |path: &path::Path| {
        path.strip_prefix(top).expect("below the top").to_str().expect("UTF-8").to_owned()
    };
    let crates = directories.iter().filter(|path| path.is_dir()).map(|directory| {
        let sources = sources(directory).into_iter().map(|path| {
            let text = fs::read_to_string(&path);
            let text = text.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            File { name: relative(&path), tokens: tokens(&text) }
        });
        Crate::new(relative(directory).rsplit('/').next().unwrap_or_default(), sources.collect())
    });
    crates.collect()
}

impl Crate {
    fn new(name: &str, files: Vec<File>) -> Self {
        let (mut modules, mut of_tests) = (BTreeMap::<Path, Module>::new(), Vec::new());
        for file in &files {
            let Some(path) = module(&file.name) else { continue };
            let (tokens, tests) = without_tests(&file.tokens);
            of_tests.extend(tests.into_iter().map(|name| [path.clone(), vec![name]].concat()));
            let module = modules.entry(path).or_default();
            module.file = file.name.clone();
            module.tokens.extend(tokens);
        }
        modules.retain(|path, _| !of_tests.iter().any(|tests| path.starts_with(tests)));
        Self { name: name.to_owned(), files, modules }
    }
}

/// The path of the module in a file: `a::b` for `.../src/a/b.rs`; `None` for what is outside of `src`, or a program of its own.
fn module(file: &str) -> Option<Path> {
    let (_, inside) = file.split_once("/src/")?;
    let mut path: Path = inside.strip_suffix(".rs")?.split('/').map(str::to_owned).collect();
    if path.first().is_some_and(|first| first == "bin") {
        return None;
    }
    if path.last().is_some_and(|last| matches!(last.as_str(), "lib" | "main" | "mod")) {
        path.pop();
    }
    Some(path)
}

/// All Rust files below a directory. Cargo builds in the folder of the workspace, so none of them is built.
fn sources(directory: &path::Path) -> Vec<path::PathBuf> {
    let mut found = Vec::new();
    for path in read(directory) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        match path.is_dir() && !path.is_symlink() {
            true if name.starts_with('.') => {}
            true => found.extend(sources(&path)),
            false if name.ends_with(".rs") => found.push(path),
            false => {}
        }
    }
    found
}

/// The entries of a directory, in order.
fn read(directory: &path::Path) -> Vec<path::PathBuf> {
    let entries = fs::read_dir(directory);
    let entries = entries.unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut paths: Vec<_> = entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_modules() {
        let of = |file: &str| module(file).map(|path| path.join("::"));
        assert_eq!(of("crates/x/src/lib.rs").as_deref(), Some(""));
        assert_eq!(of("crates/x/src/main.rs").as_deref(), Some(""));
        assert_eq!(of("crates/x/src/a/b.rs").as_deref(), Some("a::b"));
        assert_eq!(of("crates/x/src/a/mod.rs").as_deref(), Some("a"));
        assert_eq!(of("tests/src/bin/application/main.rs"), None);
        assert_eq!(of("crates/x/tests/a.rs"), None);
    }

    #[test]
    fn modules_for_tests_alone_are_left_out() {
        let file = |name: &str, text: &str| File { name: name.into(), tokens: tokens(text) };
        let files = vec![
            file("crates/x/src/lib.rs", "mod a; #[cfg(test)] mod fixture;"),
            file("crates/x/src/fixture.rs", "use crate::a::A;"),
            file("crates/x/src/a.rs", "struct A; #[cfg(test)] mod tests;"),
            file("crates/x/src/a/tests.rs", ""),
            file("crates/x/src/a/tests/more.rs", ""),
        ];
        let made = Crate::new("x", files);
        let paths: Vec<String> = made.modules.keys().map(|path| path.join("::")).collect();
        assert_eq!(paths, ["", "a"]);
        assert_eq!(made.files.len(), 5);
    }
}
