//! Man pages, made from the same definitions as the command line.

use crate::args::{ENVIRONMENT, FILES};
use clap::Command;
use clap_mangen::{
    Man,
    roff::{Roff, bold, roman},
};
use std::io::{self, Write};

const EXIT_STATUS: [(&str, &str); 9] = [
    ("0", "Done, also when there was nothing to do."),
    ("1", "Failure, or a member of the target is left out while the rest is done."),
    ("2", "The command line, a configuration file or the request is not valid."),
    ("3", "The target, job, schedule or workload does not exist."),
    ("4", "Permission is missing."),
    ("5", "The daemon is needed or named, and cannot be reached."),
    (
        "6",
        "Some memory did not move, the migration was cancelled, or some processes of the target are left out.",
    ),
    ("124", "The time given ran out."),
    ("130", "Ctrl-C ended the waiting, and the job continues."),
];

/// File names and contents: a page for `command` and for each of its subcommands.
pub fn pages(command: Command) -> Vec<(String, Vec<u8>)> {
    let mut command = without_help(command);
    command.build();
    let mut pages = Vec::new();
    collect(&command, "numalocctl", &mut pages);
    pages
}

/// Without the commands `help`, which have no page.
fn without_help(command: Command) -> Command {
    command.disable_help_subcommand(true).mut_subcommands(without_help)
}

fn collect(command: &Command, name: &str, pages: &mut Vec<(String, Vec<u8>)>) {
    let mut page = Vec::new();
    let renamed = command.clone().name(name.to_owned()).display_name(name.to_owned());
    // Options that all commands have are in the page of the program.
    let is_part = name != "numalocctl";
    let renamed = renamed.mut_args(|arg| {
        let hide = arg.is_hide_set() || (is_part && arg.is_global_set());
        arg.hide(hide)
    });
    // Writing to memory does not fail.
    if write(&renamed, &mut page).is_ok() {
        pages.push((format!("{name}.1"), page));
    }
    let shown = |sub: &&Command| !sub.is_hide_set() && sub.get_name() != "help";
    for sub in command.get_subcommands().filter(shown) {
        collect(sub, &format!("{name}-{}", sub.get_name()), pages);
    }
}

fn write(command: &Command, out: &mut Vec<u8>) -> io::Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    let man = Man::new(command.clone())
        .section("1")
        .manual("numaloc")
        .source(format!("numaloc {version}"))
        .title(command.get_name().to_uppercase());
    man.render_title(out)?;
    man.render_name_section(out)?;
    synopsis(command, out)?;
    // Else it would repeat the name.
    if command.get_long_about().is_some() {
        man.render_description_section(out)?;
    }
    man.render_options_section(out)?;
    if command.has_subcommands() {
        man.render_subcommands_section(out)?;
    }
    table("EXIT STATUS", &EXIT_STATUS, out)?;
    table("ENVIRONMENT", &ENVIRONMENT, out)?;
    table("FILES", &FILES, out)?;
    examples(command, out)?;
    see_also(command, out)
}

/// The usage, as --help has it: a list of all options would be useless.
fn synopsis(command: &Command, out: &mut Vec<u8>) -> io::Result<()> {
    let usage = command.clone().render_usage().to_string();
    let arguments = usage.split_whitespace().skip_while(|word| !word.starts_with(['[', '<', '-']));
    let arguments: Vec<&str> = arguments.collect();
    let name = command.get_bin_name().unwrap_or(command.get_name());
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]);
    roff.text([bold(name), roman(format!(" {}", arguments.join(" ")))]);
    roff.to_writer(out)
}

fn table(title: &str, rows: &[(&str, &str)], out: &mut Vec<u8>) -> io::Result<()> {
    let mut roff = Roff::new();
    roff.control("SH", [title]);
    for &(name, meaning) in rows {
        roff.control("TP", []);
        roff.text([bold(name)]);
        roff.text([roman(meaning)]);
    }
    roff.to_writer(out)
}

/// The examples that --help shows, and the other text below its options.
fn examples(command: &Command, out: &mut Vec<u8>) -> io::Result<()> {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let mut roff = Roff::new();
    for part in help.split("\n\n") {
        match part.strip_prefix("Examples:\n") {
            Some(lines) => {
                roff.control("SH", ["EXAMPLES"]);
                roff.control("nf", []);
                lines.lines().for_each(|line| {
                    roff.text([roman(line)]);
                });
                roff.control("fi", []);
            }
            // The section EXIT STATUS says this.
            None if part.starts_with("Exit codes:") || part.is_empty() => {}
            None => {
                roff.control("SH", ["NOTES"]);
                roff.text([roman(part.replace('\n', " "))]);
            }
        }
    }
    roff.to_writer(out)
}

fn see_also(command: &Command, out: &mut Vec<u8>) -> io::Result<()> {
    if command.get_name() != "numalocctl" {
        writeln!(
            out,
            ".SH \"OPTIONS OF ALL COMMANDS\"\nOptions of output and connection are in numalocctl(1)."
        )?;
    }
    let others = match command.get_name() {
        "numalocctl" => "numalocd(8), numactl(8), numastat(8), migratepages(8), move_pages(2)",
        _ => "numalocctl(1), numalocd(8)",
    };
    writeln!(out, ".SH \"SEE ALSO\"\n{others}")
}
