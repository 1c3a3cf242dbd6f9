//! Reads a TOML document key by key. Each problem is noted with its line and reading continues, so that all problems are reported
//! at once.

use super::{Fault, Problem};
use std::{cell::RefCell, ops::Range};
use toml::de::{DeTable, DeValue};

/// The problems of a document.
pub(super) struct Report<'t> {
    text: &'t str,
    problems: RefCell<Vec<Problem>>,
}

impl<'t> Report<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, problems: RefCell::default() }
    }

    /// `value`, or the problems in the order of their lines.
    pub(super) fn conclude<T>(self, value: T) -> Result<T, Vec<Problem>> {
        let mut problems = self.problems.into_inner();
        problems.sort_by_key(|problem| problem.line);
        if problems.is_empty() { Ok(value) } else { Err(problems) }
    }

    pub(super) fn line(&self, at: Range<usize>) -> usize {
        let before = self.text.as_bytes().iter().take(at.start);
        1 + before.filter(|byte| **byte == b'\n').count()
    }

    pub(super) fn note(&self, line: usize, key: String, fault: Fault) {
        self.problems.borrow_mut().push(Problem { line, key, fault });
    }
}

/// A table of the document; an empty one if the document has none at this place.
pub(super) struct Section<'t> {
    report: &'t Report<'t>,
    name: String,
    line: usize,
    fields: DeTable<'t>,
    known: Vec<&'static str>,
}

impl<'t> Section<'t> {
    /// Reads the whole document with `read`.
    pub(super) fn document<T>(
        report: &'t Report<'t>,
        fields: DeTable<'t>,
        read: impl FnOnce(&mut Self) -> T,
    ) -> T {
        Self::read_all(report, String::new(), 1, fields, read)
    }

    fn read_all<T>(
        report: &'t Report<'t>,
        name: String,
        line: usize,
        fields: DeTable<'t>,
        read: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let mut section = Self { report, name, line, fields, known: Vec::new() };
        let value = read(&mut section);
        section.refuse_the_rest();
        value
    }

    /// Reads a value; `None` if it is left out or wrong.
    pub(super) fn read<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&DeValue<'_>) -> Result<T, Fault>,
    ) -> Option<T> {
        let (line, value) = self.take(key)?;
        read(&value).map_err(|fault| self.report.note(line, self.path(key), fault)).ok()
    }

    /// Reads a value that has to be there.
    pub(super) fn require<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&DeValue<'_>) -> Result<T, Fault>,
    ) -> Option<T> {
        if !self.has(key) {
            self.complain(key, Fault::Missing);
        }
        self.read(key, read)
    }

    /// Reads the table at `key`, an empty one where it is left out.
    pub(super) fn within<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&mut Section<'t>) -> T,
    ) -> T {
        let (line, fields) = self.table(key).unwrap_or_else(|| (self.line, DeTable::new()));
        Self::read_all(self.report, self.path(key), line, fields, read)
    }

    /// Reads the table at `key` if it is there.
    pub(super) fn optional<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&mut Section<'t>) -> T,
    ) -> Option<T> {
        let (line, fields) = self.table(key)?;
        Some(Self::read_all(self.report, self.path(key), line, fields, read))
    }

    /// Reads each table of the list at `key`.
    pub(super) fn each<T>(
        &mut self,
        key: &'static str,
        mut read: impl FnMut(&mut Section<'t>) -> T,
    ) -> Vec<T> {
        let wrong = |found| Fault::Type { wanted: "list of tables", found };
        let entries = match self.take(key) {
            Some((_, DeValue::Array(entries))) => entries,
            Some((line, other)) => {
                self.report.note(line, self.path(key), wrong(other.type_str()));
                return Vec::new();
            }
            None => return Vec::new(),
        };
        let mut values = Vec::new();
        for (index, entry) in entries.into_iter().enumerate() {
            let line = self.report.line(entry.span());
            let name = format!("{}[{index}]", self.path(key));
            match entry.into_inner() {
                DeValue::Table(fields) => {
                    values.push(Self::read_all(self.report, name, line, fields, &mut read));
                }
                other => self.report.note(line, name, wrong(other.type_str())),
            }
        }
        values
    }

    /// Whether `key` is there and has not been read yet.
    pub(super) fn has(&self, key: &str) -> bool {
        self.fields.contains_key(key)
    }

    /// The line of `key`; if it is not there, the line where the section begins.
    pub(super) fn line_of(&self, key: &str) -> usize {
        let entry = self.fields.get_key_value(key);
        entry.map_or(self.line, |(key, _)| self.report.line(key.span()))
    }

    /// Notes what is wrong with `key`, at the line of `key` as long as it has not been read, otherwise at that of the section.
    pub(super) fn complain(&self, key: &str, fault: Fault) {
        self.complain_at(self.line_of(key), key, fault);
    }

    /// Notes what is wrong with `key`; an empty one stands for the section.
    pub(super) fn complain_at(&self, line: usize, key: &str, fault: Fault) {
        self.report.note(line, self.path(key), fault);
    }

    fn table(&mut self, key: &'static str) -> Option<(usize, DeTable<'t>)> {
        match self.take(key)? {
            (line, DeValue::Table(fields)) => Some((line, fields)),
            (line, other) => {
                let fault = Fault::Type { wanted: "table", found: other.type_str() };
                self.report.note(line, self.path(key), fault);
                None
            }
        }
    }

    fn take(&mut self, key: &'static str) -> Option<(usize, DeValue<'t>)> {
        self.known.push(key);
        let line = self.line_of(key);
        Some((line, self.fields.remove(key)?.into_inner()))
    }

    fn refuse_the_rest(self) {
        let known = if self.known.is_empty() { "none".to_owned() } else { self.known.join(", ") };
        for key in self.fields.keys() {
            let line = self.report.line(key.span());
            let fault = Fault::Unknown { known: known.clone() };
            self.report.note(line, self.path(key.get_ref()), fault);
        }
    }

    fn path(&self, key: &str) -> String {
        match (self.name.as_str(), key) {
            ("", key) => key.to_owned(),
            (name, "") => name.to_owned(),
            (name, key) => format!("{name}.{key}"),
        }
    }
}
