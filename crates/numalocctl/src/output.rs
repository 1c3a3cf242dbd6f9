//! Standard output and standard error.
//!
//! Nothing here uses `println!`, because it panics when the reader has closed the pipe (`numalocctl plan ... | head`).

mod refused;
mod yaml;

use crate::{
    args::{Cli, Format},
    clean::clean,
    exit::{Code, Failure},
    units::span,
};
use numaloc_core::Placement;
use ratatui::crossterm::terminal;
pub use refused::refuse;
use serde::Serialize;
use serde_json::Value;
use std::{
    io::{IsTerminal, Write, stderr, stdout},
    time::{Duration, SystemTime},
};
use yaml::yaml;

/// The result of a command.
#[derive(Clone, Debug)]
pub struct CommandResult {
    pub text: String,
    pub code: Code,
}

/// The form of tables: the options `-o wide`, `-o csv`, `--no-headers` and `--color`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Whether tables have all columns and rows.
    pub wide: bool,
    /// Whether tables have a header row, and text around them.
    pub headers: bool,
    /// Whether rows are comma-separated values, with no text around them.
    pub csv: bool,
    /// Whether important parts are coloured.
    pub colours: bool,
    /// Width of the terminal in characters; `None`: unlimited.
    pub width: Option<u16>,
    /// The time from which ages are counted.
    pub now: SystemTime,
}

impl View {
    /// For people, without colours and ages.
    pub const TABLE: Self = Self {
        wide: false,
        headers: true,
        csv: false,
        colours: false,
        width: None,
        now: SystemTime::UNIX_EPOCH,
    };

    /// The view that a command line asks for.
    pub fn of(cli: &Cli) -> Self {
        let (wide, csv) =
            (matches!(cli.output, Format::Wide | Format::Csv), cli.output == Format::Csv);
        let is_terminal = stdout().is_terminal();
        let columns = || Some(terminal::size().ok()?.0).filter(|&columns| columns >= 40);
        let width = if is_terminal { columns() } else { None };
        let colours = !csv && cli.color.is_on(is_terminal);
        Self { wide, headers: !cli.no_headers, csv, colours, width, now: SystemTime::now() }
    }

    /// Whether there are to be rows, and nothing else.
    pub fn rows_alone(self) -> bool {
        self.csv || !self.headers
    }
}

/// A document or a message of the API as one line of JSON.
///
/// # Errors
/// The document cannot be written as JSON.
pub fn json_line<D: Serialize>(document: &D) -> Result<String, Failure> {
    Ok(serde_json::to_string(document)? + "\n")
}

/// A document or a message of the API in the format that a command line asks for; as text for people by `text`.
///
/// # Errors
/// The document cannot be written in that format.
pub fn render<D: Serialize>(
    document: &D,
    format: Format,
    view: View,
    text: impl Fn(&D, View) -> String,
) -> Result<String, Failure> {
    match format {
        Format::Json => Ok(serde_json::to_string_pretty(document)? + "\n"),
        Format::Yaml => yaml(document),
        Format::Name => Ok(names(&serde_json::to_value(document)?)),
        Format::Table | Format::Wide | Format::Csv => Ok(text(document, view)),
    }
}

/// The document of a watch, for a program that reads one after the other; `None`: the format is for people.
///
/// # Errors
/// The document cannot be written in that format.
pub fn stream<D: Serialize>(document: &D, format: Format) -> Result<Option<String>, Failure> {
    match format {
        Format::Json => json_line(document).map(Some),
        Format::Yaml => Ok(Some(format!("---\n{}", yaml(document)?))),
        Format::Table | Format::Wide | Format::Csv | Format::Name => Ok(None),
    }
}

/// The names of the records in a document: its own, or those in its fields, a line each.
fn names(document: &Value) -> String {
    let name = |record: &Value| Some(clean(record.get("name")?.as_str()?) + "\n");
    name(document).unwrap_or_else(|| {
        let fields = document.as_object().into_iter().flat_map(|fields| fields.values());
        let records = fields.flat_map(|field| match field {
            Value::Array(records) => records.iter().collect(),
            other => vec![other],
        });
        records.filter_map(name).collect()
    })
}

/// Writes a report to standard output, and returns the exit code.
pub fn print(report: &CommandResult) -> Code {
    match emit(&report.text) {
        Ok(()) => report.code,
        Err(failure) if failure.is_silent() => report.code,
        Err(failure) => {
            complain(&failure.to_string());
            Code::Failure
        }
    }
}

/// Writes a part of the output at once, for commands that watch.
///
/// # Errors
/// Standard output is closed or full.
pub fn emit(text: &str) -> Result<(), Failure> {
    let mut out = stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Failure::Output)
}

/// Writes one line to standard error. If standard error is closed, too, there is nothing left to do.
pub fn complain(message: &str) {
    let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    let _ = writeln!(stderr().lock(), "numalocctl: {}", clean(&message));
}

/// How long memory is watched before it can be placed, which people are to know if it takes a while.
pub fn announced(placement: &Placement) -> Duration {
    let watching = placement.watching();
    if !watching.is_zero() {
        let seconds = watching.as_secs();
        complain(&format!("watching how the memory is used for {}", span(seconds)));
    }
    watching
}
