//! Modules that need each other.
//!
//! Only neighbours are compared: a module and what lies in it may know each other. A need for a module below a
//! neighbour counts as a need of the neighbour.

use crate::{
    source::Crate,
    tree::Path,
    uses::{Names, named},
};
use std::collections::{BTreeMap, BTreeSet};

/// The uses of a neighbour by one module: the first file that uses it, and the path that it names.
type Needs = BTreeMap<Path, BTreeMap<Path, (String, String)>>;

/// A message for each circle, with a file and a path for each need in it.
pub fn circles(krate: &Crate) -> Vec<String> {
    let needs = needs(krate);
    let reached: BTreeMap<&Path, BTreeSet<&Path>> =
        needs.keys().map(|from| (from, reached(&needs, from))).collect();
    let (mut told, mut faults) = (BTreeSet::new(), Vec::new());
    for (from, to) in &reached {
        if !to.contains(from) || told.contains(from) {
            continue;
        }
        let both = |other: &&&Path| reached.get(**other).is_some_and(|back| back.contains(from));
        let circle: BTreeSet<&Path> = to.iter().filter(both).copied().collect();
        told.extend(circle.iter().copied());
        faults.push(message(&krate.name, &circle, &needs));
    }
    faults
}

fn message(krate: &str, circle: &BTreeSet<&Path>, needs: &Needs) -> String {
    let names: Vec<String> = circle.iter().map(|path| path.join("::")).collect();
    let mut text = format!(
        "{krate}: these modules need each other: {}. Move what several of them use to a module that needs none of them:",
        names.join(", ")
    );
    for from in circle {
        for (to, (file, path)) in needs.get(*from).into_iter().flatten() {
            if circle.contains(to) {
                text += &format!("\n    {file} uses {path}");
            }
        }
    }
    text
}

/// All neighbours that a module needs by itself or through others.
fn reached<'a>(needs: &'a Needs, from: &Path) -> BTreeSet<&'a Path> {
    let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(at) = next.pop() {
        for to in needs.get(at).into_iter().flat_map(|to| to.keys()) {
            if seen.insert(to) {
                next.push(to);
            }
        }
    }
    seen
}

fn needs(krate: &Crate) -> Needs {
    let names = Names::new(&krate.modules);
    let mut needs = Needs::new();
    for (from, module) in &krate.modules {
        for named in named(&module.tokens) {
            let Some(to) = names.target(from, &named.path) else { continue };
            let common = from.iter().zip(&to).take_while(|(one, other)| one == other).count();
            if common == from.len() || common == to.len() {
                continue;
            }
            let (one, other) = (from[..=common].to_vec(), to[..=common].to_vec());
            let said = || (module.file.clone(), named.path.join("::"));
            needs.entry(one).or_default().entry(other).or_insert_with(said);
        }
    }
    needs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{source::Module, tokens::tokens};

    fn faults(files: &[(&str, &str)]) -> Vec<String> {
        let module = |&(path, text): &(&str, &str)| {
            let file = format!("src/{}.rs", path.replace("::", "/"));
            let parts = path.split("::").filter(|part| !part.is_empty()).map(str::to_owned);
            let path: Path = parts.collect();
            (path, Module { file, tokens: tokens(text) })
        };
        let modules = files.iter().map(module).collect();
        circles(&Crate { name: "x".to_owned(), files: Vec::new(), modules })
    }

    #[test]
    fn neighbours_that_need_each_other_are_a_circle() {
        let found = faults(&[
            ("", "mod a; mod b; mod c;"),
            ("a", "use crate::b::B;"),
            ("b", "fn x() { crate::a::y() }"),
            ("c", "use crate::a::A;"),
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("each other: a, b."), "{found:?}");
        assert!(found[0].contains("src/a.rs uses crate::b::B"), "{found:?}");
        assert!(found[0].contains("src/b.rs uses crate::a::y"), "{found:?}");
        assert!(!found[0].contains("src/c.rs"), "{found:?}");
    }

    #[test]
    fn circles_go_through_others_and_through_what_is_passed_on() {
        let through = faults(&[
            ("a", "use crate::b::B;"),
            ("b", "use crate::c::C;"),
            ("c", "use crate::A;"),
            ("", "mod a; mod b; mod c; pub use a::A;"),
        ]);
        assert_eq!(through.len(), 1, "{through:?}");
        assert!(through[0].contains("each other: a, b, c."), "{through:?}");
    }

    #[test]
    fn a_module_and_what_lies_in_it_may_know_each_other() {
        let none = faults(&[
            ("", "mod a; use a::A;"),
            ("a", "mod b; use b::B;"),
            ("a::b", "use super::A; use crate::X;"),
        ]);
        assert_eq!(none, [] as [String; 0]);
    }

    #[test]
    fn what_lies_below_counts_for_its_neighbour() {
        let found = faults(&[
            ("a", "mod x;"),
            ("a::x", "use crate::b::y::Y;"),
            ("b", "mod y; mod z;"),
            ("b::y", ""),
            ("b::z", "use crate::a::A;"),
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("each other: a, b."), "{found:?}");
    }
}
