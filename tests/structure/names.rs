//! Names of types: within a crate each means one thing.

use crate::source::Crate;
use std::collections::{BTreeMap, BTreeSet};

/// How many names several modules of a crate still define. Of other crates: none.
const CEILINGS: [(&str, usize); 4] =
    [("numaloc-agent", 2), ("numaloc-api", 1), ("numaloc-policy", 1), ("numalocctl", 4)];
/// Each of their files is a program, or a scene of its own.
const APART: [&str; 2] = ["tests", "benches"];

/// The names of types that several modules of a crate define, if there are more than its ceiling.
pub fn ambiguous(krate: &Crate) -> Vec<String> {
    let mut places: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let modules = krate.modules.values().filter(|_| !APART.contains(&krate.name.as_str()));
    for module in modules {
        for name in defined(&module.tokens) {
            places.entry(name).or_default().insert(&module.file);
        }
    }
    places.retain(|_, files| files.len() > 1);
    let ceiling = CEILINGS.iter().find(|(name, _)| krate.name == *name).map_or(0, |known| known.1);
    if places.len() <= ceiling {
        return Vec::new();
    }
    let fault = |(name, files): (&str, BTreeSet<&str>)| {
        let files: Vec<&str> = files.into_iter().collect();
        format!(
            "{name} is a type in each of {}: a name means one thing within a crate, so rename one ({} has at most {ceiling} such names)",
            files.join(" and "),
            krate.name
        )
    };
    places.into_iter().map(fault).collect()
}

/// The types that a module defines, except for those within functions and of traits.
fn defined(tokens: &[String]) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    tokens.windows(2).filter_map(move |pair| {
        match pair[0].as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            "struct" | "enum" | "union" | "trait" | "type" if depth == 0 => return Some(&*pair[1]),
            _ => {}
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{source::Module, tokens::tokens};

    fn krate(name: &str, texts: &[&str]) -> Crate {
        let module = |(index, text): (usize, &&str)| {
            let file = format!("crates/{name}/src/{index}.rs");
            (vec![index.to_string()], Module { file, tokens: tokens(text) })
        };
        let modules = texts.iter().enumerate().map(module).collect();
        Crate { name: name.to_owned(), files: Vec::new(), modules }
    }

    #[test]
    fn a_name_with_two_meanings_is_found() {
        let faults = ambiguous(&krate("x", &["pub struct A;", "enum A { B } type C = u8;"]));
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(
            faults[0].starts_with("A is a type in each of crates/x/src/0.rs and "),
            "{faults:?}"
        );
        let twice = ["struct A; trait B {}", "struct A; type B = u8;"];
        assert_eq!(ambiguous(&krate("numaloc-agent", &twice)), [] as [String; 0]);
        assert_eq!(ambiguous(&krate("numaloc-api", &twice)).len(), 2);
        assert_eq!(ambiguous(&krate("benches", &twice)), [] as [String; 0]);
    }

    #[test]
    fn associated_and_local_types_are_no_names_of_the_crate() {
        let texts = [
            "impl A for B { type Answer = u8; } fn f() { struct Local; }",
            "trait C { type Answer; } fn g() { struct Local; } struct B;",
        ];
        assert_eq!(ambiguous(&krate("x", &texts)), [] as [String; 0]);
    }
}
