//! Writes the man pages of the programs that have no subcommand for it: `numaloc-man DIRECTORY`. numalocctl writes its own.
#![forbid(unsafe_code)]

use anyhow::Context;
use clap::{Command, CommandFactory};
use clap_mangen::{
    Man,
    roff::{Roff, bold, roman},
};
use std::{env, fs, io, path::PathBuf};

/// A line of the section FILES: path and meaning.
type File = (&'static str, &'static str);

const DAEMON_FILES: [File; 5] = [
    ("/etc/numaloc/numalocd.toml", "Configuration. Its comments say what each key is for."),
    (
        "/etc/numaloc/conf.d/*.toml",
        "More of it, read after that file in the order of their names: grants and schedules of packages and administrators.",
    ),
    ("/run/numaloc/numalocd.sock", "Where clients connect."),
    ("/var/lib/numaloc", "Jobs, schedules, workloads and events."),
    (
        "/usr/share/numaloc",
        "Drop-ins for numalocd.service, with more rights for those who need them; a dashboard and alerts.",
    ),
];

const PLUGIN_FILES: [File; 3] = [
    ("/etc/numaloc/nri.toml", "Configuration. Its comments say what each key is for."),
    ("/var/run/nri/nri.sock", "The socket of the container runtime."),
    ("/etc/numaloc/conf.d/10-numaloc-nri.toml", "The grant that numalocd gives the plugin."),
];

const AGENT_FILES: [File; 2] = [
    ("/etc/numaloc/agent.toml", "Configuration. Its comments say what each key is for."),
    ("/run/numaloc/numalocd.sock", "The socket of numalocd."),
];

fn main() -> anyhow::Result<()> {
    let directory: PathBuf = env::args_os().nth(1).context("usage: numaloc-man DIRECTORY")?.into();
    let daemon = "numalocctl(1), numaloc-nri(8), systemd(1), move_pages(2)";
    for (command, files, others) in [
        (numalocd::cli::Args::command(), &DAEMON_FILES[..], daemon),
        (numaloc_nri::command(), &PLUGIN_FILES[..], "numalocd(8), numalocctl(1)"),
        (numaloc_agent::command(), &AGENT_FILES[..], "numalocd(8), numaloc-nri(8), numalocctl(1)"),
    ] {
        let path = directory.join(format!("{}.8", command.get_name()));
        let page = page(&command, files, others).context("memory can be written to")?;
        fs::write(&path, page).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// The page of a command, with the sections that its help has after the options.
fn page(command: &Command, files: &[File], others: &str) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    let man = Man::new(command.clone())
        .section("8")
        .manual("numaloc")
        .source(format!("numaloc {}", env!("CARGO_PKG_VERSION")))
        .title(command.get_name().to_uppercase());
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    let mut roff = Roff::new();
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    help.split("\n\n").for_each(|part| section(&mut roff, part));
    roff.control("SH", ["FILES"]);
    for &(path, meaning) in files {
        roff.control("TP", []);
        roff.text([bold(path)]);
        roff.text([roman(meaning)]);
    }
    roff.control("SH", ["SEE ALSO"]);
    roff.text([roman(others)]);
    roff.to_writer(&mut page)?;
    Ok(page)
}

/// A part of the help: a title that ends with a colon, and lines; or a paragraph.
fn section(roff: &mut Roff, part: &str) {
    match part.split_once(":\n") {
        Some((title, lines)) => {
            roff.control("SH", [title.to_uppercase().as_str()]);
            roff.control("nf", []);
            lines.lines().for_each(|line| {
                roff.text([roman(line)]);
            });
            roff.control("fi", []);
        }
        None if part.is_empty() => {}
        None => {
            let (title, text) = part.split_once(": ").unwrap_or(("Notes", part));
            // A title is short: a sentence with a colon in it is text.
            let (title, text) = if title.len() < 20 { (title, text) } else { ("Notes", part) };
            roff.control("SH", [title.to_uppercase().as_str()]);
            roff.text([roman(text.replace('\n', " "))]);
        }
    }
}
