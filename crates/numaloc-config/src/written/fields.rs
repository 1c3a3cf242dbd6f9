//! Reads the fields of an object one by one. The first one that is wrong is the error, with its path and what to write.

use super::{
    text::{SHOWN_MAX, shown},
    tree::Tree,
};
use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    fmt,
    ops::RangeInclusive,
};

/// Most keys that a hint names.
pub const KNOWN_MAX: usize = 24;
/// Most elements of a list that is read by [`list`].
const ELEMENTS_MAX: usize = 1024;

/// The fault of a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problem {
    /// Where the value is, such as `options.to_nodes[1]`; empty: all of it.
    pub path: String,
    /// The fault as text; it follows the path in messages.
    pub problem: String,
    /// Text to write instead; may be empty.
    pub hint: String,
}

impl Problem {
    /// A problem with the value at `path`.
    pub fn new(path: &str, problem: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { path: path.to_owned(), problem: problem.into(), hint: hint.into() }
    }
    /// A value of the wrong sort.
    pub fn sort(path: &str, wanted: &str, found: &Tree) -> Self {
        Self::new(path, format!("must be {wanted}, and is {}", found.sort()), "")
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, problem, hint } = self;
        write!(f, "{path}{}{problem}", if path.is_empty() { "it " } else { " " })?;
        if hint.is_empty() { Ok(()) } else { write!(f, "; {hint}") }
    }
}

/// The path of a field of the object at `path`.
pub fn below(path: &str, name: &str) -> String {
    let name = shown(name, SHOWN_MAX);
    if path.is_empty() { name } else { format!("{path}.{name}") }
}

/// An object whose fields are taken one after the other. `null` counts as missing.
pub struct Object<'t> {
    path: String,
    left: BTreeMap<Cow<'t, str>, &'t Tree>,
    known: BTreeSet<&'static str>,
}

impl<'t> Object<'t> {
    /// The fields of `tree`, which is at `path`.
    ///
    /// # Errors
    /// It is not an object.
    pub fn of(path: &str, tree: &'t Tree) -> Result<Self, Problem> {
        let Tree::Map(map) = tree else { return Err(Problem::sort(path, "an object", tree)) };
        let left = map.iter().map(|(name, value)| (name.into(), value)).collect();
        Ok(Self { path: path.to_owned(), left, known: BTreeSet::new() })
    }

    /// The fields as Go's encoding/json reads them: the case of names does not count. They are taken by their names in lower case.
    ///
    /// # Errors
    /// It is not an object. Or two of its names are the same.
    pub fn in_any_case(path: &str, tree: &'t Tree) -> Result<Self, Problem> {
        let mut object = Self::of(path, tree)?;
        for (name, value) in std::mem::take(&mut object.left) {
            if object.left.insert(name.to_ascii_lowercase().into(), value).is_some() {
                return Err(Problem::new(&below(path, &name), "is there twice", ""));
            }
        }
        Ok(object)
    }

    /// Reads a field; `None` if it is missing.
    ///
    /// # Errors
    /// `read` refuses it.
    pub fn take<T, E>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&str, &'t Tree) -> Result<T, E>,
    ) -> Result<Option<T>, E> {
        self.known.insert(name);
        match self.left.remove(name) {
            None | Some(Tree::Null) => Ok(None),
            Some(value) => read(&below(&self.path, name), value).map(Some),
        }
    }

    /// Reads a field that has to be there.
    ///
    /// # Errors
    /// It is missing, or `read` refuses it.
    pub fn required<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&str, &'t Tree) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let missing = Problem::new(&below(&self.path, name), "is missing", "");
        self.take(name, read)?.ok_or(missing)
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// There is a field that was not read.
    pub fn end(self) -> Result<(), Problem> {
        match self.left.keys().next() {
            None => Ok(()),
            Some(name) => {
                let known: Vec<_> = self.known.into_iter().collect();
                Err(unknown_name(&below(&self.path, name), &known))
            }
        }
    }
}

/// Reads a list element by element.
///
/// # Errors
/// It is not a list, or is too long, or `read` refuses an element.
pub fn list<'t, T>(
    path: &str,
    tree: &'t Tree,
    read: impl Fn(&str, &'t Tree) -> Result<T, Problem>,
) -> Result<Vec<T>, Problem> {
    let Tree::List(list) = tree else { return Err(Problem::sort(path, "a list", tree)) };
    if list.len() > ELEMENTS_MAX {
        let problem = format!("has {} elements", list.len());
        return Err(Problem::new(path, problem, format!("at most {ELEMENTS_MAX} are read")));
    }
    let one = |(index, tree)| read(&format!("{path}[{index}]"), tree);
    list.iter().enumerate().map(one).collect()
}

/// Reads a list of texts, of which the order does not count.
///
/// # Errors
/// An element is not a text.
pub fn texts(path: &str, tree: &Tree) -> Result<BTreeSet<String>, Problem> {
    let texts = list(path, tree, text)?;
    Ok(texts.into_iter().map(str::to_owned).collect())
}

/// An unknown name, and the known ones.
pub fn unknown_name<S: AsRef<str>>(path: &str, known: &[S]) -> Problem {
    let known: Vec<&str> = known.iter().map(AsRef::as_ref).collect();
    Problem::new(path, "is not known", format!("known here: {}", known.join(", ")))
}

/// `true` or `false`.
///
/// # Errors
/// The value is not a boolean.
pub fn flag(path: &str, tree: &Tree) -> Result<bool, Problem> {
    match tree {
        Tree::Flag(flag) => Ok(*flag),
        other => Err(Problem::sort(path, "true or false", other)),
    }
}

/// A text.
///
/// # Errors
/// The value is not a text.
pub fn text<'t>(path: &str, tree: &'t Tree) -> Result<&'t str, Problem> {
    match tree {
        Tree::Text(text) => Ok(text),
        other => Err(Problem::sort(path, "text", other)),
    }
}

/// Reads a whole number within a range.
pub fn whole<T: TryFrom<i128>>(
    range: RangeInclusive<u64>,
) -> impl Fn(&str, &Tree) -> Result<T, Problem> {
    move |path, tree| {
        let (least, most) = (i128::from(*range.start()), i128::from(*range.end()));
        let wanted = || format!("must be a whole number from {least} to {most}");
        match tree {
            Tree::Whole(number) if (least..=most).contains(number) => {
                T::try_from(*number).map_err(|_| Problem::new(path, wanted(), ""))
            }
            Tree::Whole(number) => {
                Err(Problem::new(path, format!("{}, and is {number}", wanted()), ""))
            }
            other => Err(Problem::new(path, format!("{}, and is {}", wanted(), other.sort()), "")),
        }
    }
}

/// Reads one of several names, in any case.
pub fn one_of<T: Copy, const N: usize>(
    names: [(&'static str, T); N],
) -> impl Fn(&str, &Tree) -> Result<T, Problem> {
    move |path, tree| {
        let given = text(path, tree)?;
        let known = names.iter().find(|(name, _)| name.eq_ignore_ascii_case(given));
        known.map(|&(_, value)| value).ok_or_else(|| {
            let names = names.map(|(name, _)| format!("\"{name}\""));
            let problem = format!("is \"{}\", which is not known", shown(given, SHOWN_MAX));
            Problem::new(path, problem, format!("write {}", names.join(" or ")))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(text: &str) -> Tree {
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn each_reader_says_what_it_wants() {
        let (choose, most) = (one_of([("a", 1), ("B", 2)]), whole::<u8>(1..=100));
        let said = |result: Result<(), Problem>| {
            let Problem { path, problem, hint } = result.expect_err("it is wrong");
            format!("{path} {problem}; {hint}")
        };
        for (result, expected) in [
            (flag("f", &tree("1")).map(drop), "f must be true or false, and is a number; "),
            (most("n", &tree("0")).map(drop), "n must be a whole number from 1 to 100, and is 0; "),
            (
                most("n", &tree("1.5")).map(drop),
                "n must be a whole number from 1 to 100, and is a number with a fraction; ",
            ),
            (
                choose("c", &tree("\"x\\n\"")).map(drop),
                "c is \"x\\u{a}\", which is not known; write \"a\" or \"B\"",
            ),
        ] {
            assert_eq!(said(result), expected);
        }
        assert_eq!(choose("c", &tree("\"b\"")), Ok(2));
    }

    #[test]
    fn the_case_of_names_does_not_count() {
        let (given, null) = (tree(r#"{"A":true,"b":1}"#), tree(r#"{"a":null}"#));
        let mut fields = Object::in_any_case("o", &given).expect("an object");
        assert_eq!(fields.take("a", flag), Ok(Some(true)));
        let mut fields = Object::in_any_case("", &null).expect("an object");
        assert_eq!(fields.take("a", flag), Ok(None));
        assert!(Object::in_any_case("", &tree(r#"{"a":1,"A":1}"#)).is_err());
    }
}
