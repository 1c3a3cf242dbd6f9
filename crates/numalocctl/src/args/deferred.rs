//! Arguments of a subcommand that are built once it is chosen. All 25 subcommands have some 400 together, and building
//! all of them was a fifth of the instructions of a short command.

use super::output::shaped;
use clap::{
    Arg, ArgMatches, Args, Command, CommandFactory, Error, FromArgMatches, Subcommand,
    builder::{Resettable, StyledStr},
};
use std::{
    cell::Cell,
    ops::{Deref, DerefMut},
};

thread_local! {
    static AT_ONCE: Cell<bool> = const { Cell::new(false) };
}

/// The whole definition of a command line, as manual pages and completions take it.
pub fn at_once<T: CommandFactory>() -> Command {
    AT_ONCE.set(true);
    let command = T::command();
    AT_ONCE.set(false);
    command
}

/// The arguments or subcommands of a subcommand.
#[derive(Clone, Copy, Debug)]
pub struct Deferred<T>(T);

impl<T> Deref for Deferred<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Deferred<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

fn defer(command: Command, now: fn(Command) -> Command, later: fn(Command) -> Command) -> Command {
    if AT_ONCE.get() { now(command) } else { command.defer(later) }
}

/// Builds a deferred command. The command keeps its own descriptions where the types of its arguments have others, and
/// the options of all commands, which it has already, come after its own.
fn built(command: Command, build: fn(Command) -> Command) -> Command {
    let (about, long) = (command.get_about().cloned(), command.get_long_about().cloned());
    let global = command.get_arguments().count();
    let command = build(command).long_about(long.map_or(Resettable::Reset, Resettable::Value));
    let command = command.about(about.map_or(Resettable::Reset, Resettable::Value));
    let mut args = Vec::new();
    let command = command.mut_args(|arg| {
        args.push(arg);
        Arg::default()
    });
    args.rotate_left(global);
    let mut args = args.into_iter();
    command.mut_args(|placeholder| args.next().unwrap_or(placeholder))
}

/// Adds the subcommands, each with the formats that it prints. An option that `update` does not get leaves its field unchanged.
fn below<T: Subcommand>(command: Command) -> Command {
    let name = command.get_name().to_owned();
    let command = shaped(T::augment_subcommands(command), &[&name]);
    match command.find_subcommand("update").is_some() {
        true => command.mut_subcommand("update", |update| update.mut_args(without_default)),
        false => command,
    }
}

/// An argument whose help names no default.
fn without_default(arg: Arg) -> Arg {
    let cut = |text: &StyledStr| {
        let text = text.to_string();
        text.split_once(" [default: ").map(|(before, _)| before.to_owned())
    };
    let (short, long) = (arg.get_help().and_then(cut), arg.get_long_help().and_then(cut));
    let arg = match short {
        Some(text) => arg.help(text),
        None => arg,
    };
    match long {
        Some(text) => arg.long_help(text),
        None => arg,
    }
}

impl<T: FromArgMatches> FromArgMatches for Deferred<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches(matches).map(Self)
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches_mut(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl<T: Args> Args for Deferred<T> {
    fn augment_args(command: Command) -> Command {
        defer(command, T::augment_args, |command| built(command, T::augment_args))
    }

    fn augment_args_for_update(command: Command) -> Command {
        T::augment_args_for_update(command)
    }
}

impl<T: Subcommand> Subcommand for Deferred<T> {
    fn augment_subcommands(command: Command) -> Command {
        defer(command, below::<T>, |command| built(command, below::<T>))
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        T::augment_subcommands_for_update(command)
    }

    fn has_subcommand(name: &str) -> bool {
        T::has_subcommand(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;

    /// The help of a command and of all below it.
    fn help(command: &mut Command, of: &[String], whole: &mut Command, compared: &mut usize) {
        let text = |command: &mut Command| {
            let words = ["numalocctl".to_owned()].into_iter().chain(of.iter().cloned());
            let error = command.try_get_matches_from_mut(words.chain(["--help".to_owned()]));
            error.expect_err("help").to_string()
        };
        let built = text(whole);
        assert_eq!(text(command), built, "{of:?}");
        *compared += 1;
        let at = of.iter().try_fold(&*whole, |at, name| at.find_subcommand(name)).expect("built");
        let below: Vec<String> =
            at.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
        for name in below.into_iter().filter(|name| name != "help") {
            help(command, &[of, &[name]].concat(), whole, compared);
        }
    }

    #[test]
    fn a_deferred_command_shows_the_same_help() {
        let mut compared = 0;
        help(&mut Cli::definition(), &[], &mut Cli::whole(), &mut compared);
        assert!(compared > 40, "{compared} commands");
    }
}
