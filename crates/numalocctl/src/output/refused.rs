//! Why a command line is refused, in one line, with what may have been meant.

use super::complain;
use crate::exit::Code;
use clap::{
    Arg, Command,
    error::{ContextKind, ContextValue, ErrorKind},
};
use std::{error::Error, ffi::OsString};

/// What people type by habit, and the command line that does it.
const HABITS: [(&str, &str); 3] = [("undo", "advise --undo"), ("ps", "top"), ("daemon", "status")];

/// Handles a command line that cannot be parsed, or that asks for help.
pub fn refuse(error: &clap::Error, definition: &Command, words: &[OsString]) -> Code {
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
            complain(&format!("{} (see --help)", why(error, definition, words)));
            Code::Usage
        }
    }
}

fn why(error: &clap::Error, definition: &Command, words: &[OsString]) -> String {
    let command = chosen(definition, words);
    let why = value_refused(error).or_else(|| no_such_command(error, command));
    let why = why.or_else(|| no_such_option(error, command)).or_else(|| missing(error, command));
    why.unwrap_or_else(|| one_line(&error.to_string()))
}

/// The command that these words name.
fn chosen<'a>(definition: &'a Command, words: &[OsString]) -> &'a Command {
    words.iter().skip(1).fold(definition, |at, word| at.find_subcommand(word).unwrap_or(at))
}

/// Texts that an error has for `kind`.
fn texts(error: &clap::Error, kind: ContextKind) -> Vec<String> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => vec![text.clone()],
        Some(ContextValue::Strings(texts)) => texts.clone(),
        _ => Vec::new(),
    }
}

/// The text that an error has for `kind`.
fn context(error: &clap::Error, kind: ContextKind) -> Option<String> {
    let texts = texts(error, kind);
    (!texts.is_empty()).then(|| texts.join(", "))
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
fn no_such_command(error: &clap::Error, command: &Command) -> Option<String> {
    let given = context(error, ContextKind::InvalidSubcommand)?;
    let names = command.get_subcommands().filter(|command| !command.is_hide_set());
    let similar = match HABITS.iter().find(|(habit, _)| *habit == given) {
        Some((_, meant)) => vec![(*meant).to_owned()],
        None => similar(&given, names.map(Command::get_name)),
    };
    Some(format!("there is no command '{given}'{}", hint(&similar)))
}

/// An option that does not exist, and those of similar names.
fn no_such_option(error: &clap::Error, command: &Command) -> Option<String> {
    let given = context(error, ContextKind::InvalidArg)
        .filter(|given| error.kind() == ErrorKind::UnknownArgument && given.starts_with('-'))?;
    let options = command.get_arguments().filter(|option| !option.is_hide_set());
    let names = options.filter_map(Arg::get_long);
    let similar = similar(given.trim_start_matches('-'), names);
    let similar: Vec<String> = similar.into_iter().map(|name| format!("--{name}")).collect();
    Some(format!("there is no option '{given}'{}", hint(&similar)))
}

/// What is missing, with its possible values.
fn missing(error: &clap::Error, command: &Command) -> Option<String> {
    if error.kind() != ErrorKind::MissingRequiredArgument {
        return None;
    }
    let missing = texts(error, ContextKind::InvalidArg);
    if missing.iter().all(|missing| missing.starts_with("--place ")) && !missing.is_empty() {
        return Some(
            "--nodes is for --place and --weights; the nodes that memory is to go to are --to"
                .into(),
        );
    }
    let [only] = &missing[..] else { return None };
    let argument = command.get_arguments().find(|argument| argument.to_string() == *only)?;
    let values = argument.get_possible_values();
    let values: Vec<&str> = values.iter().map(clap::builder::PossibleValue::get_name).collect();
    (!values.is_empty()).then(|| format!("{only} is missing: one of {}", values.join(", ")))
}

/// Those names that begin as the given one, or else differ from it by a mistake or two.
fn similar<'a>(given: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    const LEAST: usize = 2;
    let names: Vec<&str> = names.collect();
    let of = |is: &dyn Fn(&str) -> bool| -> Vec<String> {
        names.iter().filter(|name| is(name)).map(|name| (*name).to_owned()).collect()
    };
    let begin = of(&|name| given.len() >= LEAST && name.starts_with(given));
    if !begin.is_empty() {
        return begin;
    }
    let most = (given.len() / 3).max(1);
    of(&|name| given.len() > LEAST && strsim::osa_distance(given, name) <= most)
}

fn hint(similar: &[String]) -> String {
    let quoted: Vec<String> = similar.iter().map(|name| format!("'{name}'")).collect();
    match quoted.is_empty() {
        true => String::new(),
        false => format!(": did you mean {}?", quoted.join(" or ")),
    }
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
    use crate::args::Cli;

    #[test]
    fn usage_errors_take_one_line() {
        let text = "error: the following arguments were not provided:\n  <--pid <PID>>\n\n  tip: x\n\nUsage: a b\n\nFor more";
        let line = "the following arguments were not provided: <--pid <PID>>; tip: x";
        assert_eq!(one_line(text), line);
    }

    #[test]
    fn what_may_have_been_meant_is_close() {
        for (line, expected) in [
            ("stat", "there is no command 'stat': did you mean 'status'?"),
            ("migrat", "there is no command 'migrat': did you mean 'migrate'?"),
            ("undo", "there is no command 'undo': did you mean 'advise --undo'?"),
            ("nonsense", "there is no command 'nonsense'"),
            ("jobs lst", "there is no command 'lst': did you mean 'ls'?"),
            ("migrate --wait --pid 1", "there is no option '--wait'"),
            ("locality --node 1", "there is no option '--node'"),
            ("plan --pdi 3", "there is no option '--pdi': did you mean '--pid'?"),
            ("plan --sched 3", "there is no option '--sched'"),
            (
                "plan --includeshared 3",
                "there is no option '--includeshared': did you mean '--include-shared'?",
            ),
            ("plan -n 3", "there is no option '-n'"),
            (
                "migrate --nodes 0 --pid 1",
                "--nodes is for --place and --weights; the nodes that memory is to go to are --to",
            ),
        ] {
            let words = ["numalocctl"].into_iter().chain(line.split(' '));
            let words: Vec<OsString> = words.map(Into::into).collect();
            let mut definition = Cli::definition();
            let error = definition.try_get_matches_from_mut(&words).expect_err(line);
            assert_eq!(why(&error, &definition, &words), expected, "{line}");
        }
        let words = ["numalocctl", "completions"].map(OsString::from);
        let mut definition = Cli::definition();
        let error = definition.try_get_matches_from_mut(&words).expect_err("a shell");
        let why = why(&error, &definition, &words);
        assert!(why.starts_with("<SHELL> is missing: one of bash, "), "{why}");
    }
}
