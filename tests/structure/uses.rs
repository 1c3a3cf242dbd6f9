//! The paths that a file names, and the modules that they lead to.

use crate::{source::Module, tree::Path};
use std::collections::BTreeMap;

/// A path that a file names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// As it is written, group by group.
    pub path: Path,
    /// The name that the file has for it from there on, if it is imported.
    pub imported: Option<String>,
}

/// All paths of more than one part that the tokens name, and all imports.
pub fn named(tokens: &[String]) -> Vec<Named> {
    let (mut all, mut at) = (Vec::new(), 0);
    while at < tokens.len() {
        let before = at.checked_sub(1).map(|before| tokens[before].as_str());
        // `use<'a>` says which lifetimes a type captures.
        let captures = tokens.get(at + 1).is_some_and(|next| next == "<");
        if tokens[at] == "use" && !captures {
            at = import(tokens, at + 1, &[], &mut all);
        } else if is_word(&tokens[at]) && before != Some("::") && before != Some("'") {
            let (path, next) = path(tokens, at);
            if path.len() > 1 {
                all.push(Named { path, imported: None });
            }
            at = next;
        } else {
            at += 1;
        }
    }
    all
}

fn is_word(token: &str) -> bool {
    token.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

/// Words with `::` between them, and where they end.
fn path(tokens: &[String], mut at: usize) -> (Path, usize) {
    let mut path = vec![tokens[at].clone()];
    while let [separator, word, ..] = &tokens[at + 1..]
        && separator == "::"
        && is_word(word)
    {
        path.push(word.clone());
        at += 2;
    }
    (path, at + 1)
}

/// Reads what follows `use`, or one entry of a group whose path is `begin`. Returns where it ends.
fn import(tokens: &[String], mut at: usize, begin: &[String], all: &mut Vec<Named>) -> usize {
    let mut path = begin.to_vec();
    while let Some(token) = tokens.get(at) {
        match token.as_str() {
            "::" => at += 1,
            "{" => {
                at += 1;
                while tokens.get(at).is_some_and(|token| token != "}") {
                    at = import(tokens, at, &path, all);
                    at += usize::from(tokens.get(at).is_some_and(|token| token == ","));
                }
                return at + 1;
            }
            "*" => {
                all.push(Named { path, imported: None });
                return at + 1;
            }
            word if is_word(word) => {
                // In a group `self` is the group's own path.
                if word != "self" || path.is_empty() {
                    path.push(word.to_owned());
                }
                at += 1;
                let name = match tokens.get(at).map(String::as_str) {
                    Some("::") => continue,
                    Some("as") => {
                        at += 2;
                        tokens.get(at - 1).cloned()
                    }
                    _ => path.last().cloned(),
                };
                all.push(Named { path, imported: name });
                return at;
            }
            _ => return at + 1,
        }
    }
    at
}

/// The imports of each module of a crate, by module and name, and the modules themselves.
#[derive(Debug)]
pub struct Names<'a> {
    modules: &'a BTreeMap<Path, Module>,
    imports: BTreeMap<(Path, String), Path>,
}

/// More imports than this lead to a name only in a circle.
const HOPS: usize = 16;

impl<'a> Names<'a> {
    /// Reads the imports of all modules.
    pub fn new(modules: &'a BTreeMap<Path, Module>) -> Self {
        let mut imports = BTreeMap::new();
        for (path, module) in modules {
            for Named { path: to, imported } in named(&module.tokens) {
                imports.extend(imported.map(|name| ((path.clone(), name), to)));
            }
        }
        Self { modules, imports }
    }

    /// The module in which a path ends that is named in `from`, through all re-exports. `None` if it leads out of
    /// the crate.
    pub fn target(&self, from: &[String], path: &[String]) -> Option<Path> {
        self.follow(from, path, HOPS)
    }

    fn follow(&self, from: &[String], path: &[String], hops: usize) -> Option<Path> {
        let (mut at, mut rest) = (from.to_vec(), path);
        while let [first, after @ ..] = rest {
            match first.as_str() {
                "crate" => at = Path::new(),
                "self" => {}
                "super" => drop(at.pop()),
                _ => break,
            }
            rest = after;
        }
        let is_inside = rest.len() < path.len();
        for (index, part) in rest.iter().enumerate() {
            let below = [at.clone(), vec![part.clone()]].concat();
            if self.modules.contains_key(&below) {
                at = below;
                continue;
            }
            let import = self.imports.get(&(at.clone(), part.clone()));
            return match import.filter(|import| hops > 0 && import.as_slice() != path) {
                Some(import) => {
                    let whole = [import.as_slice(), &rest[index + 1..]].concat();
                    // An import from outside leads to no module of this crate, but its name counts.
                    let to = self.follow(&at, &whole, hops - 1);
                    to.or((is_inside || index > 0).then_some(at))
                }
                None => (is_inside || index > 0).then_some(at),
            };
        }
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::tokens;

    fn all(text: &str) -> Vec<String> {
        let show = |named: Named| match named.imported {
            Some(name) if Some(&name) != named.path.last() => {
                format!("{} as {name}", named.path.join("::"))
            }
            _ => named.path.join("::"),
        };
        named(&tokens(text)).into_iter().map(show).collect()
    }

    #[test]
    fn imports_are_taken_apart() {
        assert_eq!(all("use a::b;"), ["a::b"]);
        assert_eq!(
            all("pub(crate) use a::{b::{self, c}, d as e, f::*};"),
            ["a::b", "a::b::c", "a::d as e", "a::f"]
        );
        assert_eq!(
            all("use crate::{a, b,}; use std::io::{self as disk};"),
            ["crate::a", "crate::b", "std::io as disk"]
        );
    }

    #[test]
    fn paths_in_code_are_found() {
        assert_eq!(
            all("let a: crate::b::C = super::d::e(f::g::<h::I>());"),
            ["crate::b::C", "super::d::e", "f::g", "h::I"]
        );
        assert_eq!(all("fn a() -> impl B + use<'a> { c }"), [] as [&str; 0]);
        assert_eq!(all("a.b.c(d)"), [] as [&str; 0]);
    }

    #[test]
    fn paths_lead_to_modules_through_what_is_passed_on() {
        let files = [
            ("", "mod a; mod b; pub use a::inner::Thing; use std::io::Error;"),
            ("a", "mod inner; pub use inner::*;"),
            ("a::inner", "pub struct Thing;"),
            ("b", "use crate::{Thing as Other, a};"),
        ];
        let module = |(path, text): (&str, &str)| {
            let parts = path.split("::").filter(|part| !part.is_empty()).map(str::to_owned);
            let path: Path = parts.collect();
            (path, Module { file: String::new(), tokens: tokens(text) })
        };
        let modules: BTreeMap<Path, Module> = files.into_iter().map(module).collect();
        let names = Names::new(&modules);
        let target = |from: &str, path: &str| {
            let parts = |text: &str| -> Path {
                text.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect()
            };
            names.target(&parts(from), &parts(path)).map(|path| path.join("::"))
        };
        assert_eq!(target("b", "crate::Thing").as_deref(), Some("a::inner"));
        assert_eq!(target("b", "Other::new").as_deref(), Some("a::inner"));
        assert_eq!(target("b", "a::inner::Thing").as_deref(), Some("a::inner"));
        assert_eq!(target("a::inner", "super::super::b").as_deref(), Some("b"));
        assert_eq!(target("a", "inner::Thing").as_deref(), Some("a::inner"));
        assert_eq!(target("b", "crate::Error").as_deref(), Some(""));
        assert_eq!(target("b", "std::io::Error"), None);
        assert_eq!(target("b", "Error::new"), None);
    }
}
