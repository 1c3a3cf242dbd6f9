//! Standard output and standard error.
//!
//! Nothing here uses `println!`, because it panics when the reader has closed the pipe (`numalocctl plan ... | head`).

use crate::{args::Format, clean::clean, exit::Code, exit::Failure};
use clap::error::ErrorKind;
use serde::Serialize;
use std::io::{Write, stderr, stdout};

/// The result of a command.
#[derive(Clone, Debug)]
pub struct CommandResult {
    pub text: String,
    pub code: Code,
}

/// How tables are printed: the options `-o wide` and `--no-headers`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Whether tables have all columns and rows.
    pub wide: bool,
    /// Whether tables have a header row.
    pub headers: bool,
}

/// A document or a message of the API as one line of JSON.
///
/// # Errors
/// The document cannot be written as JSON.
pub fn json_line<D: Serialize>(document: &D) -> Result<String, Failure> {
    Ok(serde_json::to_string(document)? + "\n")
}

/// A document or a message of the API as JSON, or as text for people.
pub fn render<D: Serialize>(
    document: &D,
    format: Format,
    headers: bool,
    text: impl Fn(&D, View) -> String,
) -> Result<String, Failure> {
    match format {
        Format::Json => Ok(serde_json::to_string_pretty(document)? + "\n"),
        // Only `top` has CSV, and prints it itself.
        Format::Table | Format::Wide | Format::Csv => {
            Ok(text(document, View { wide: format == Format::Wide, headers }))
        }
    }
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

/// Handles a command line that cannot be parsed, or that asks for help.
pub fn refuse(error: &clap::Error) -> Code {
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
            complain(&one_line(&error.to_string()));
            Code::Usage
        }
    }
}

/// clap's paragraphs as one line, without the usage, which `--help` shows.
fn one_line(text: &str) -> String {
    let is_advice = |part: &&str| !part.starts_with("Usage:") && !part.starts_with("For more");
    let paragraphs = text.trim_end().split("\n\n").take_while(is_advice);
    let lines = paragraphs.map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "));
    let line = lines.collect::<Vec<_>>().join("; ");
    format!("{} (see --help)", line.strip_prefix("error: ").unwrap_or(&line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_errors_take_one_line() {
        let text = "error: the following arguments were not provided:\n  <--pid <PID>>\n\n  tip: x\n\nUsage: a b\n\nFor more";
        let line = "the following arguments were not provided: <--pid <PID>>; tip: x (see --help)";
        assert_eq!(one_line(text), line);
    }
}
