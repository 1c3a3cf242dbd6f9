//! Objects of Kubernetes read field by field, in which each field has to be known.

use numaloc_api::written::{Problem, Tree, below, text, unknown_name};
use std::collections::{BTreeMap, BTreeSet};

/// Most elements of a list, and most fields of an object.
const ELEMENTS_MAX: usize = 1024;

/// An object whose fields are taken one after the other. `null` counts as missing.
pub struct Object<'t> {
    path: String,
    left: BTreeMap<&'t str, &'t Tree>,
    known: BTreeSet<&'static str>,
}

impl<'t> Object<'t> {
    /// The fields of `tree`, which is at `path`.
    ///
    /// # Errors
    /// It is not an object.
    pub fn of(path: &str, tree: &'t Tree) -> Result<Self, Problem> {
        let Tree::Map(map) = tree else { return Err(Problem::sort(path, "an object", tree)) };
        let left = map.iter().map(|(name, value)| (name.as_str(), value)).collect();
        Ok(Self { path: path.to_owned(), left, known: BTreeSet::new() })
    }

    /// Reads a field; `None` if it is missing.
    ///
    /// # Errors
    /// `read` refuses it.
    pub fn take<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&str, &'t Tree) -> Result<T, Problem>,
    ) -> Result<Option<T>, Problem> {
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
        let missing = || Problem::new(&below(&self.path, name), "is missing", "");
        let missing = missing();
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
