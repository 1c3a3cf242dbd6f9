//! Holds the structure of the code to what ARCHITECTURE.md says of it. Reads the sources, and runs on any machine.
#![forbid(unsafe_code)]

mod circles;
mod names;
mod pages;
mod rules;
mod source;
mod tokens;
mod tree;
mod uses;

use circles::circles;
use names::ambiguous;
use pages::sizes_of_pages;
use rules::{absent, forbidden, generated, taken_for_built, unsafe_code};
use source::{Crate, crates};

/// Fails with all `faults` of the given crates, one a line.
fn check(faults_of: impl Fn(&Crate) -> Vec<String>) {
    let faults: Vec<String> = crates().iter().flat_map(faults_of).collect();
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn no_modules_need_each_other() {
    check(circles);
}

#[test]
fn the_core_does_no_io() {
    check(forbidden);
}

#[test]
fn generated_types_stay_where_messages_are_spoken() {
    check(generated);
    check(absent);
}

#[test]
fn only_numaloc_sys_is_unsafe() {
    check(unsafe_code);
}

#[test]
fn a_type_name_means_one_thing_within_a_crate() {
    check(ambiguous);
}

#[test]
fn sizes_of_pages_are_values() {
    check(sizes_of_pages);
}

#[test]
fn no_source_folder_is_named_target() {
    check(taken_for_built);
}

/// A reader that finds nothing would let everything pass.
#[test]
fn the_sources_are_found() {
    let crates = crates();
    for (name, module) in [
        ("numaloc-core", "plan::planner"),
        ("numaloc-host", "survey::scan::table"),
        ("numaloc-sys", "move_pages"),
        ("numaloc-executor", "call::batch"),
        ("numaloc-dma", "offload::session"),
        ("numaloc-api", "convert::spec"),
        ("numalocd", "dispatch::task"),
        ("numalocctl", "text::plan"),
    ] {
        let found = crates.iter().find(|found| found.name == name);
        let found = found.unwrap_or_else(|| panic!("no crate {name}"));
        let path: tree::Path = module.split("::").map(str::to_owned).collect();
        assert!(found.modules.contains_key(&path), "{name} has no module {module}");
        assert!(!found.modules.keys().any(|path| path.iter().any(|part| part == "tests")));
    }
    let sys = crates.iter().find(|found| found.name == "numaloc-sys").expect("numaloc-sys");
    assert!(sys.files.iter().any(|file| file.tokens.iter().any(|token| token == "unsafe")));
}
