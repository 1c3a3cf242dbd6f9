//! The forms of output, and the commands that have each of them.

use clap::{
    Arg, ArgAction, Command, ValueEnum,
    builder::{PossibleValuesParser, TypedValueParser},
};
use std::env;

/// The formats that answers are printed in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A table of the main columns.
    #[default]
    Table,
    /// A table with all columns and rows.
    Wide,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// The names of the records, a line each.
    Name,
    /// Comma-separated values, with all columns.
    Csv,
}

impl Format {
    /// The name on the command line.
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// When output is coloured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Colour {
    /// In a terminal that has colours, unless NO_COLOR is set.
    #[default]
    Auto,
    Always,
    Never,
}

impl Colour {
    /// Whether output that goes to a terminal, or elsewhere, is coloured.
    pub fn is_on(self, is_terminal: bool) -> bool {
        let plain = || {
            env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
                || env::var_os("TERM").is_some_and(|value| value == "dumb")
        };
        match self {
            Self::Auto => is_terminal && !plain(),
            Self::Always => true,
            Self::Never => false,
        }
    }
}

/// What a command prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outputs {
    /// The formats of its answer; empty: its output has one form.
    pub formats: &'static [Format],
    /// Whether there are tables, whose header can be left out.
    pub has_headers: bool,
}

/// The output formats of the command at this path, such as `jobs ls`.
pub fn outputs(path: &[&str]) -> Outputs {
    use Format::{Csv, Json, Name, Table, Wide, Yaml};
    let (formats, has_headers): (&[Format], _) = match path {
        ["jobs" | "schedules" | "workloads", "ls"] => (&[Table, Wide, Json, Yaml, Name, Csv], true),
        ["topology" | "locality" | "events" | "bench" | "dsa"] => {
            (&[Table, Wide, Json, Yaml, Csv], true)
        }
        ["top"] => (&[Table, Wide, Json, Csv], true),
        ["plan"] => (&[Table, Wide, Json, Yaml], true),
        ["doctor"] => (&[Table, Json, Yaml, Csv], true),
        ["jobs", "watch"] => (&[Table, Wide, Json], false),
        ["migrate" | "drain-node" | "relieve" | "advise" | "explain"] => {
            (&[Table, Wide, Json, Yaml], false)
        }
        ["jobs", "get"] => (&[Table, Wide, Json, Yaml, Name], false),
        ["jobs", "delete"] | ["schedules", "delete" | "apply"] => (&[Table, Json, Yaml], false),
        ["workloads", "unregister" | "replace" | "renew" | "apply"] => {
            (&[Table, Json, Yaml], false)
        }
        ["jobs" | "schedules" | "workloads", _] => (&[Table, Json, Yaml, Name], false),
        ["status" | "drain" | "undrain" | "pause-all" | "resume-all" | "backup" | "version"] => {
            (&[Table, Json, Yaml], false)
        }
        _ => (&[], false),
    };
    Outputs { formats, has_headers }
}

/// Gives each subcommand of `command`, which is at `path`, an option --output with its own formats, in place of the one
/// that all commands have. Formats that it cannot print are not in its help.
pub fn shaped(command: Command, path: &[&str]) -> Command {
    command.mut_subcommands(|sub| {
        let below = [path, &[sub.get_name()]].concat();
        let Outputs { formats, has_headers } = outputs(&below);
        // Its subcommands have their own. zsh completes a value by the outermost command that has the option, so this
        // one has all.
        match &below[..] {
            ["jobs" | "schedules" | "workloads" | "generate"] => {
                sub.arg(output(Format::value_variants()).hide(true)).arg(headers().hide(true))
            }
            _ => {
                sub.arg(output(formats).hide(formats.is_empty())).arg(headers().hide(!has_headers))
            }
        }
    })
}

/// Checks the options that were given before the name of a command.
///
/// # Errors
/// The command at this path does not print that.
pub fn check(path: &[&str], format: Format, no_headers: bool) -> Result<(), String> {
    let Outputs { formats, has_headers } = outputs(path);
    let command = path.join(" ");
    if format != Format::default() && !formats.contains(&format) {
        let format = format.name();
        return Err(match formats {
            [] => format!("{command} has one form of output: leave out -o {format}"),
            formats => {
                let names: Vec<String> = formats.iter().map(|format| format.name()).collect();
                format!("{command} has no output '{format}': expected one of {}", names.join(", "))
            }
        });
    }
    match no_headers && !has_headers {
        true => Err(format!("{command} prints no table: leave out --no-headers")),
        false => Ok(()),
    }
}

/// The heading of these options in a command's help.
pub const HEADING: &str = "Output";
/// Position of these options: behind a command's own, however late these are built.
pub const ORDER: usize = 900;

fn output(formats: &[Format]) -> Arg {
    let arg = Arg::new("output").short('o').long("output").value_name("FORMAT");
    let arg = arg.help("Output format [default: table]").help_heading(HEADING).display_order(ORDER);
    if formats.is_empty() {
        return arg.value_parser(|_: &str| Err::<Format, _>("this command has one form of output"));
    }
    let names = formats.iter().filter_map(|format| format.to_possible_value());
    let parser = PossibleValuesParser::new(names.collect::<Vec<_>>());
    arg.value_parser(parser.try_map(|name: String| Format::from_str(&name, false)))
}

fn headers() -> Arg {
    Arg::new("no_headers")
        .long("no-headers")
        .help("Print rows alone: no header, and no text around them")
        .help_heading(HEADING)
        .display_order(ORDER + 1)
        .action(ArgAction::SetTrue)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_command_does_not_print_is_refused_by_name() {
        assert_eq!(check(&["topology"], Format::Csv, true), Ok(()));
        assert_eq!(check(&["jobs", "ls"], Format::Name, true), Ok(()));
        assert_eq!(check(&["completions"], Format::Table, false), Ok(()));
        let refused = |path: &[&str], format, no_headers| {
            check(path, format, no_headers).expect_err("refused")
        };
        assert_eq!(
            refused(&["topology"], Format::Name, false),
            "topology has no output 'name': expected one of table, wide, json, yaml, csv"
        );
        assert_eq!(
            refused(&["completions"], Format::Json, false),
            "completions has one form of output: leave out -o json"
        );
        assert_eq!(
            refused(&["drain"], Format::Table, true),
            "drain prints no table: leave out --no-headers"
        );
    }

    #[test]
    fn colours_are_for_terminals_unless_they_are_asked_for() {
        assert!(
            Colour::Always.is_on(false) && !Colour::Never.is_on(true) && !Colour::Auto.is_on(false)
        );
    }
}
