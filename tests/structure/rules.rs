//! Contents that only some crates and modules may have.

use crate::{
    source::{Crate, File},
    tree,
    uses::named,
};
use std::collections::BTreeSet;

/// The crate that may have `unsafe`.
const UNSAFE: &str = "numaloc-sys";

/// The crate that does no IO and reads no clock, what it must not name, and what it may name of the crate of system calls.
const PURE: &str = "numaloc-core";
const IO: [&[&str]; 13] = [
    &["std", "env"],
    &["std", "fs"],
    &["std", "io"],
    &["std", "net"],
    &["std", "os"],
    &["std", "process"],
    &["std", "thread"],
    &["std", "time", "Instant"],
    &["std", "time", "SystemTime"],
    &["nix"],
    &["libc"],
    &["tokio"],
    &["procfs"],
];
const SIZES: [&str; 2] = ["page_shift", "pmd_shift"];

/// The crate that has the generated types, the crates that may know them everywhere, and the modules of others that
/// may.
const API: &str = "numaloc-api";
/// numalocctl answers with the API's messages, with and without the daemon.
const WHOLE: [&str; 4] = [API, "numalocctl", "tests", "benches"];
const SPEAKERS: [(&str, &str); 16] = [
    ("numaloc-engine", "answers"),
    ("numalocd", "service"),
    ("numalocd", "refusal::status"),
    ("numaloc-policy", "own"),
    ("numaloc-policy", "settings"),
    ("numaloc-policy", "ceilings"),
    ("numaloc-nri", "wanted"),
    ("numaloc-nri", "agent"),
    ("numaloc-agent", "wanted"),
    ("numaloc-agent", "results"),
    ("numaloc-agent", "keeper"),
    ("numaloc-node", "container"),
    ("numaloc-node", "records"),
    ("numaloc-node", "daemon"),
    ("numaloc-node", "mark"),
    ("numaloc-node", "fake"),
];

/// Where Cargo puts what it builds.
const BUILT: &str = "target";

pub fn forbidden(krate: &Crate) -> Vec<String> {
    let modules = krate.modules.values().filter(|_| krate.name == PURE);
    let faults = modules.flat_map(|module| {
        let named = named(&module.tokens).into_iter().map(|named| named.path);
        let bad = named.filter(|path| {
            let is_call = matches!(path.as_slice(), [krate, rest @ ..] if krate == "numaloc_sys"
                && !rest.first().is_some_and(|name| SIZES.contains(&&**name)));
            is_call
                || IO
                    .iter()
                    .any(|io| path.iter().map(String::as_str).take(io.len()).eq(io.iter().copied()))
        });
        bad.map(move |path| {
            let path = path.join("::");
            format!(
                "{}: {path} in {PURE}, which does no IO and reads no clock: pass in what it gives",
                module.file
            )
        })
    });
    faults.collect()
}

/// Modules on the list of speakers that a crate does not have.
pub fn absent(krate: &Crate) -> Vec<String> {
    let has = |module: &str| krate.modules.keys().any(|path| path.join("::") == module);
    let absent = SPEAKERS.iter().filter(|(name, module)| krate.name == *name && !has(module));
    let fault = |(name, module)| {
        format!(
            "{name} has no module {module}: take it off the list of modules that may know generated types"
        )
    };
    absent.copied().map(fault).collect()
}

/// Generated types outside of where messages are spoken. Tests, benchmarks and examples may have them.
pub fn generated(krate: &Crate) -> Vec<String> {
    if WHOLE.contains(&krate.name.as_str()) {
        return Vec::new();
    }
    let modules = krate.modules.iter().filter(|(path, _)| !may_know(krate, path));
    let faults = modules.filter_map(|(_, module)| {
        let mut named = named(&module.tokens).into_iter().map(|named| named.path);
        let bad = named.find(is_generated)?;
        Some(format!(
            "{}: {} is a generated type: only {}, {} may know it; take the value of numaloc_api::value",
            module.file,
            bad.join("::"),
            WHOLE.join(", "),
            SPEAKERS.map(|(name, module)| format!("{name}'s {module}")).join(" and ")
        ))
    });
    faults.collect()
}

/// Whether a module, or one that it lies in, is among the speakers.
fn may_know(krate: &Crate, path: &[String]) -> bool {
    let path = format!("{}::", path.join("::"));
    let is_in = |module: &str| path.starts_with(&format!("{module}::"));
    SPEAKERS.iter().any(|&(name, module)| krate.name == name && is_in(module))
}

fn is_generated(path: &tree::Path) -> bool {
    matches!(path.as_slice(), [api, v1, ..] if api == "numaloc_api" && v1 == "v1")
}

/// `unsafe` outside of its crate, tests included.
pub fn unsafe_code(krate: &Crate) -> Vec<String> {
    let files = krate.files.iter().filter(|_| krate.name != UNSAFE);
    let files = files.filter(|file| file.tokens.iter().any(|token| token == "unsafe"));
    files
        .map(|file| {
            format!("{}: unsafe is for {UNSAFE} alone: put a safe function there", file.name)
        })
        .collect()
}

/// Sources in a folder that ignore files, searches, backups and cleaners take for what Cargo has built.
pub fn taken_for_built(krate: &Crate) -> Vec<String> {
    let folder = |file: &File| {
        let (folders, _) = file.name.rsplit_once('/')?;
        let mut above = folders.split('/').scan(String::new(), |path, name| {
            *path = format!("{path}{name}/");
            Some((path.clone(), name))
        });
        above.find(|&(_, name)| name == BUILT).map(|(path, _)| path)
    };
    let folders: BTreeSet<String> = krate.files.iter().filter_map(folder).collect();
    folders
        .into_iter()
        .map(|folder| {
            format!("{folder}: many tools skip folders named {BUILT}: choose another name")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{source::Module, tokens::tokens};

    fn krate(name: &str, module: &str, text: &str) -> Crate {
        let (file, tokens) = (format!("crates/{name}/src/{module}.rs"), tokens(text));
        let files = vec![File { name: file.clone(), tokens: tokens.clone() }];
        let path: tree::Path = module.split("::").map(str::to_owned).collect();
        let modules = [(path, Module { file, tokens })].into();
        Crate { name: name.to_owned(), files, modules }
    }

    #[test]
    fn io_in_the_core_is_named() {
        for text in [
            "use std::{fs, fmt};",
            "fn x() { std::time::Instant::now() }",
            "use nix::libc;",
            "use numaloc_sys::query_pages;",
        ] {
            let found = forbidden(&krate("numaloc-core", "a", text));
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert!(found[0].starts_with("crates/numaloc-core/src/a.rs: "), "{found:?}");
            assert_eq!(forbidden(&krate("numaloc-host", "a", text)), [] as [String; 0]);
        }
        let pure =
            "use std::{fmt, time::Duration}; // std::fs\nfn a() { numaloc_sys::page_shift() }";
        assert_eq!(forbidden(&krate("numaloc-core", "a", pure)), [] as [String; 0]);
    }

    #[test]
    fn generated_types_are_for_speakers() {
        let text = "use numaloc_api::{value, v1};";
        assert_eq!(generated(&krate("numalocd", "dispatch", text)).len(), 1);
        assert_eq!(generated(&krate("numaloc-nri", "service", text)).len(), 1);
        assert_eq!(generated(&krate("numalocd", "services", text)).len(), 1);
        for (name, module) in [
            ("numalocd", "service::watch"),
            ("numalocd", "refusal::status"),
            ("numalocctl", "text::plan"),
            ("tests", "a"),
        ] {
            assert_eq!(generated(&krate(name, module, text)), [] as [String; 0]);
        }
        assert_eq!(
            generated(&krate("numalocd", "a", "use numaloc_api::value;")),
            [] as [String; 0]
        );
    }

    #[test]
    fn unsafe_is_found_wherever_it_is() {
        let text = "#![forbid(unsafe_code)] #[cfg(test)] mod tests { fn a() { unsafe {} } }";
        assert_eq!(unsafe_code(&krate("numalocd", "a", text)).len(), 1);
        assert_eq!(unsafe_code(&krate("numaloc-sys", "a", text)), [] as [String; 0]);
        let none = "#![forbid(unsafe_code)] // unsafe\nconst A: &str = \"unsafe\";";
        assert_eq!(unsafe_code(&krate("numalocd", "a", none)), [] as [String; 0]);
    }

    #[test]
    fn a_source_folder_named_target_is_found() {
        let mut bad = krate("numaloc-host", "target/unit", "");
        bad.files
            .push(File { name: "crates/numaloc-host/src/target/b/c.rs".into(), tokens: vec![] });
        let found = taken_for_built(&bad);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("crates/numaloc-host/src/target/: "), "{found:?}");
        for module in ["target", "targets/unit", "processes/target"] {
            assert_eq!(taken_for_built(&krate("numaloc-host", module, "")), [] as [String; 0]);
        }
    }
}
