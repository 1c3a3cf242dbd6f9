//! Standard output and standard error.
//!
//! Nothing here uses `println!`, because it panics when the reader has closed the pipe (`numalocctl plan ... | head`).

mod yaml;

use crate::{
    args::{Cli, Format},
    clean::clean,
    exit::{Code, Failure},
    units::span,
};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use numaloc_core::Placement;
use ratatui::crossterm::terminal;
use serde::Serialize;
use serde_json::Value;
use std::{
    error::Error,
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

/// Handles a command line that cannot be parsed, or that asks for help. `is_hidden` is true for commands that are never
/// suggested.
pub fn refuse(error: &clap::Error, is_hidden: impl Fn(&str) -> bool) -> Code {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let _ = error.print();
            Code::Done
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            Code::Usage
        }
        _ => {
            let words = value_refused(error).or_else(|| no_such_command(error, is_hidden));
            let words = words.unwrap_or_else(|| one_line(&error.to_string()));
            complain(&format!("{words} (see --help)"));
            Code::Usage
        }
    }
}

/// The text that an error has for `kind`.
fn context(error: &clap::Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        ContextValue::Strings(texts) => Some(texts.join(", ")),
        _ => None,
    }
}

/// The error in the value of an option, and the expected form: `--timeout: invalid duration '5x': expected ...`.
fn value_refused(error: &clap::Error) -> Option<String> {
    let given = context(error, ContextKind::InvalidValue)?;
    let expected = match error.kind() {
        ErrorKind::ValueValidation => error.source()?.to_string(),
        ErrorKind::InvalidValue => match context(error, ContextKind::ValidValue) {
            Some(values) if !values.is_empty() => format!("expected one of {values}"),
            _ => return None,
        },
        _ => return None,
    };
    let argument = context(error, ContextKind::InvalidArg)?;
    let kind =
        [("DURATION", "duration"), ("SIZE", "size"), ("RATE", "rate"), ("PERCENT", "percentage")];
    let kind = kind.iter().find(|(name, _)| argument.contains(&format!("<{name}>")));
    let kind = kind.map_or("value", |(_, kind)| kind);
    let option = argument.split([' ', '[', '=']).next().filter(|name| name.starts_with('-'));
    let option = option.map_or(String::new(), |name| format!("{name}: "));
    Some(match expected.starts_with("expected ") {
        true => format!("{option}invalid {kind} '{given}': {expected}"),
        false => format!("{option}{expected}"),
    })
}

/// A command that does not exist, and those of similar names.
fn no_such_command(error: &clap::Error, is_hidden: impl Fn(&str) -> bool) -> Option<String> {
    let given = context(error, ContextKind::InvalidSubcommand)?;
    let similar = match error.get(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::Strings(names)) => names.clone(),
        Some(ContextValue::String(name)) => vec![name.clone()],
        _ => Vec::new(),
    };
    let similar = similar.into_iter().filter(|name| !is_hidden(name));
    let similar: Vec<String> = similar.map(|name| format!("'{name}'")).collect();
    let hint = match similar.is_empty() {
        true => String::new(),
        false => format!(": did you mean {}?", similar.join(" or ")),
    };
    Some(format!("there is no command '{given}'{hint}"))
}

/// clap's paragraphs as one line, without the usage, which `--help` shows.
fn one_line(text: &str) -> String {
    let is_advice = |part: &&str| !part.starts_with("Usage:") && !part.starts_with("For more");
    let paragraphs = text.trim_end().split("\n\n").take_while(is_advice);
    let lines = paragraphs.map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "));
    let line = lines.collect::<Vec<_>>().join("; ");
    line.strip_prefix("error: ").unwrap_or(&line).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_errors_take_one_line() {
        let text = "error: the following arguments were not provided:\n  <--pid <PID>>\n\n  tip: x\n\nUsage: a b\n\nFor more";
        let line = "the following arguments were not provided: <--pid <PID>>; tip: x";
        assert_eq!(one_line(text), line);
    }
}
