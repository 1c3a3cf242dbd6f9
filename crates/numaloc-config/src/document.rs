//! The text of a file, or the texts of several that are read as one. serde reports the first mistake and stops. So the part that it
//! refuses is removed and the rest is read again, until no mistake is left.

use crate::merge::{Replaced, merge, placed};
use serde::de::DeserializeOwned;
use std::{fmt, mem, ops::Range};
use toml::{
    Spanned,
    de::{DeTable, DeValue, Deserializer},
};

/// A mistake in a configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Index of the text that it is in, from 0.
    pub file: usize,
    /// Line in the file, from 1.
    pub line: usize,
    /// The full key, such as `listen.tls.key`; empty if the text is not TOML. Elements of lists are counted in each file.
    pub key: String,
    /// The mistake, and what to do about it.
    pub message: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.line)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.message)
    }
}

/// A document and the mistakes found in it so far.
#[derive(Debug)]
pub struct Document<'t> {
    texts: Vec<&'t str>,
    root: DeTable<'t>,
    replaced: Vec<Replaced>,
    problems: Vec<Mistake>,
}

/// A line of one of the texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileLine {
    /// Index of the text, from 0.
    pub file: usize,
    /// The line in it, from 1.
    pub line: usize,
}

impl<'t> Document<'t> {
    /// Reads `text`. A field that could not be read has its default; [`Self::conclude`] returns the value only if
    /// it has no mistakes. All fields of `T` therefore need a default, except in tables of a list.
    pub fn read<T: DeserializeOwned + Default>(text: &'t str) -> (T, Self) {
        Self::read_all([text])
    }

    /// Reads several texts as one: tables are joined key by key, and lists of tables one after the other. Of any
    /// other value that several texts give, the last holds ([`Self::replaced`]).
    pub fn read_all<T: DeserializeOwned + Default>(
        given: impl IntoIterator<Item = &'t str>,
    ) -> (T, Self) {
        let (texts, root) = (Vec::new(), DeTable::new());
        let mut document = Self { texts, root, replaced: Vec::new(), problems: Vec::new() };
        let mut is_toml = true;
        for text in given {
            let base = document.end();
            document.texts.push(text);
            let (table, errors) = DeTable::parse_recoverable(text);
            for error in &errors {
                let at = base + error.span().unwrap_or_default().start;
                document.push(at, String::new(), format!("not TOML: {}", error.message()));
            }
            is_toml &= errors.is_empty();
            let table = placed(table.into_inner(), base);
            merge(&mut document.root, table, "", &mut document.replaced);
        }
        if !is_toml {
            return (T::default(), document);
        }
        let span = 0..document.end();
        let mut valid = document.root.clone();
        loop {
            let table = Spanned::new(span.clone(), valid.clone());
            let error = match T::deserialize(Deserializer::from(table)) {
                Ok(value) => return (value, document),
                Err(error) => error,
            };
            let at = error.span().unwrap_or_default();
            let (key, start) = path_of(&document.root, &at).unwrap_or((String::new(), at.start));
            // A field that was removed because its value is invalid is not missing.
            let missing = error.message().strip_prefix("missing field `");
            let missing = missing.and_then(|rest| rest.strip_suffix('`'));
            if !missing.is_some_and(|field| document.is_wrong(&format!("{key}.{field}"))) {
                document.push(start, key, plain(error.message()));
            }
            if !remove(&mut valid, &at) {
                return (T::default(), document);
            }
        }
    }

    /// Whether the document has `key`, valid or not. Keys are written as in [`Mistake::key`].
    pub fn has(&self, key: &str) -> bool {
        self.offset_of(key).is_some()
    }

    /// Whether a mistake was found in `key`, or below it.
    fn is_wrong(&self, key: &str) -> bool {
        let rests = self.problems.iter().filter_map(|problem| problem.key.strip_prefix(key));
        rests.into_iter().any(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    }

    /// Adds a mistake in `key`, at its line, or at the line of the table that lacks it.
    pub fn refuse(&mut self, key: &str, message: impl fmt::Display) {
        let mut nearest = key;
        let start = loop {
            match (self.offset_of(nearest), nearest.rfind(['.', '['])) {
                (Some(offset), _) => break offset,
                (None, Some(end)) => nearest = &nearest[..end],
                (None, None) => break 0,
            }
        };
        self.push(start, key.to_owned(), message.to_string());
    }

    /// The keys that several texts give, each with the place that it has first and the one that holds.
    pub fn replaced(&self) -> impl Iterator<Item = (&str, [FileLine; 2])> {
        self.replaced.iter().map(|of| (of.key.as_str(), of.starts.map(|start| self.place(start))))
    }

    /// Where `key` is; `None` if the document does not have it.
    pub fn place_of(&self, key: &str) -> Option<FileLine> {
        Some(self.place(self.offset_of(key)?))
    }

    /// Returns `value`.
    ///
    /// # Errors
    /// The mistakes in the order of the texts and their lines.
    pub fn conclude<T>(mut self, value: T) -> Result<T, Vec<Mistake>> {
        if self.problems.is_empty() {
            return Ok(value);
        }
        let mut problems = mem::take(&mut self.problems);
        problems.iter_mut().for_each(|problem| problem.key = self.counted_in_file(&problem.key));
        problems.sort_by_key(|problem| (problem.file, problem.line));
        Err(problems)
    }

    fn push(&mut self, start: usize, key: String, message: String) {
        let FileLine { file, line } = self.place(start);
        self.problems.push(Mistake { file, line, key, message });
    }

    /// Where the next text begins. There is a byte between two, so that the end of a text is not the begin of the next.
    fn end(&self) -> usize {
        self.texts.iter().map(|text| text.len() + 1).sum()
    }

    fn place(&self, start: usize) -> FileLine {
        let (mut file, mut start) = (0, start);
        while let Some(text) = self.texts.get(file)
            && start > text.len()
            && file + 1 < self.texts.len()
        {
            start -= text.len() + 1;
            file += 1;
        }
        let text = self.texts.get(file).copied().unwrap_or_default();
        let before = text.as_bytes().iter().take(start);
        FileLine { file, line: 1 + before.filter(|byte| **byte == b'\n').count() }
    }

    /// `key` with the elements of its lists counted from the first one in the file that they are in.
    fn counted_in_file(&self, key: &str) -> String {
        let mut counted = String::new();
        let mut rest = key;
        while let Some((before, after)) = rest.split_once('[') {
            let Some((index, after)) = after.split_once(']') else { break };
            let list = &key[..key.len() - rest.len() + before.len()];
            let file = |index: usize| Some(self.place_of(&format!("{list}[{index}]"))?.file);
            let index = index.parse().unwrap_or_default();
            let own = file(index);
            let earlier = (0..index).filter(|&other| own.is_some() && file(other) != own).count();
            counted += &format!("{before}[{}]", index - earlier);
            rest = after;
        }
        counted + rest
    }

    /// Where `key` begins in the text.
    fn offset_of(&self, key: &str) -> Option<usize> {
        let mut table = &self.root;
        let mut names = key.split('.').peekable();
        while let Some(name) = names.next() {
            let (name, index) = match name.strip_suffix(']').and_then(|name| name.split_once('[')) {
                Some((name, index)) => (name, Some(index.parse::<usize>().ok()?)),
                None => (name, None),
            };
            let (key, value) = table.get_key_value(name)?;
            let (start, value) = match index {
                Some(index) => {
                    let element = value.get_ref().as_array()?.get(index)?;
                    (element.span().start, element.get_ref())
                }
                None => (key.span().start, value.get_ref()),
            };
            if names.peek().is_none() {
                return Some(start);
            }
            table = value.as_table()?;
        }
        None
    }
}

/// serde's message in words of TOML: `expected a list, not 3` for a value of the wrong type.
fn plain(message: &str) -> String {
    let Some((found, expected)) =
        message.strip_prefix("invalid type: ").and_then(|rest| rest.split_once(", expected "))
    else {
        return message.to_owned();
    };
    let expected = match expected {
        "a sequence" => "a list",
        "a bool" | "a boolean" => "true or false",
        "a map" => "a table",
        "a string" => "text in quotes",
        other => other,
    };
    let found = match found {
        "sequence" => "a list",
        "map" => "a table",
        other => {
            let kinds = ["integer ", "floating point ", "boolean ", "string "];
            let value = kinds.into_iter().find_map(|kind| other.strip_prefix(kind));
            value.unwrap_or(other).trim_matches('`')
        }
    };
    format!("expected {expected}, not {found}")
}

/// The key of the entry whose name or value is at `span`, and where it begins. A table that is only named by the header of a table
/// in it has the span of the header, so inner tables are searched first.
fn path_of(table: &DeTable<'_>, span: &Range<usize>) -> Option<(String, usize)> {
    table.iter().find_map(|(name, value)| {
        let inner = match value.get_ref() {
            DeValue::Table(inner) => {
                path_of(inner, span).map(|(path, start)| (format!(".{path}"), start))
            }
            DeValue::Array(elements) => elements.iter().enumerate().find_map(|(index, element)| {
                let within = element.get_ref().as_table().and_then(|table| path_of(table, span));
                let within = within.map(|(path, start)| (format!("[{index}].{path}"), start));
                let here =
                    (element.span() == *span).then(|| (format!("[{index}]"), element.span().start));
                within.or(here)
            }),
            _ => None,
        };
        let here = || {
            let is_here = name.span() == *span || value.span() == *span;
            is_here.then(|| (String::new(), name.span().start))
        };
        let (rest, start) = inner.or_else(here)?;
        Some((format!("{}{rest}", name.get_ref()), start))
    })
}

/// Removes what [`path_of`] finds. Returns whether there was something to remove.
fn remove(table: &mut DeTable<'_>, span: &Range<usize>) -> bool {
    let is_inside = table.iter_mut().any(|(_, value)| match value.get_mut() {
        DeValue::Table(inner) => remove(inner, span),
        DeValue::Array(elements) => {
            let in_table = elements.iter_mut().any(|element| match element.get_mut() {
                DeValue::Table(inner) => remove(inner, span),
                _ => false,
            });
            let at = elements.iter().position(|element| element.span() == *span);
            if let (false, Some(at)) = (in_table, at) {
                let rest = elements[..at].iter().chain(&elements[at + 1..]);
                *elements = rest.cloned().collect();
            }
            in_table || at.is_some()
        }
        _ => false,
    });
    let is_here =
        |(name, value): (&Spanned<_>, &Spanned<_>)| name.span() == *span || value.span() == *span;
    let here = || table.iter().find(|entry| is_here(*entry)).map(|(name, _)| name.clone());
    is_inside || here().is_some_and(|name| table.remove(&name).is_some())
}

#[cfg(test)]
mod tests;
