//! Writes the man pages of the programs that have no subcommand for it: `numaloc-man DIRECTORY`. numalocctl writes its own.
#![forbid(unsafe_code)]

use anyhow::Context;
use clap::{Command, CommandFactory};
use clap_mangen::{
    Man,
    roff::{Roff, bold, roman},
};
use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

/// A line of the section FILES: path and meaning.
type File = (&'static str, &'static str);

const DAEMON_FILES: [File; 5] = [
    ("/etc/numaloc/numalocd.toml", "Configuration. Its comments describe each key."),
    (
        "/etc/numaloc/conf.d/*.toml",
        "More of it, read after that file in the order of their names: grants and schedules of packages and administrators.",
    ),
    ("/run/numaloc/numalocd.sock", "Where clients connect."),
    ("/var/lib/numaloc", "Jobs, schedules, workloads and events."),
    (
        "/usr/share/numaloc",
        "Drop-ins for numalocd.service, with more rights for hosts that need them; a dashboard and alerts.",
    ),
];

const PLUGIN_FILES: [File; 3] = [
    ("/etc/numaloc/nri.toml", "Configuration. Its comments describe each key."),
    ("/var/run/nri/nri.sock", "The socket of the container runtime."),
    ("/etc/numaloc/conf.d/10-numaloc-nri.toml", "The grant that numalocd gives the plugin."),
];

const AGENT_FILES: [File; 5] = [
    ("/etc/numaloc/agent.toml", "Configuration. Its comments describe each key."),
    (
        "/etc/numaloc/agent.kubeconfig",
        "Credentials for the API server, where the agent is a service of the host. Root's alone: systemd hands them over.",
    ),
    (
        "/var/lib/numaloc-agent/token",
        "The renewed token, where the agent is a service of the host. The newer of both counts.",
    ),
    ("/etc/numaloc/conf.d/10-numaloc-agent.toml", "The grant that numalocd gives the agent."),
    ("/run/numaloc/numalocd.sock", "The socket of numalocd."),
];

const KUBECTL_FILES: [File; 2] = [
    ("~/.kube/config", "Which cluster, and who asks: kubectl's own. KUBECONFIG names another one."),
    ("/usr/bin/kubectl_complete-numaloc", "What kubectl calls when the user presses the tab key."),
];

fn main() -> anyhow::Result<()> {
    let directory: PathBuf = env::args_os().nth(1).context("usage: numaloc-man DIRECTORY")?.into();
    let daemon = "numalocctl(1), numaloc-nri(8), systemd(1), move_pages(2)";
    for (command, files, others) in [
        (numalocd::cli::Args::command(), &DAEMON_FILES[..], daemon),
        (numaloc_nri::command(), &PLUGIN_FILES[..], "numalocd(8), numalocctl(1)"),
        (
            numaloc_agent::command(),
            &AGENT_FILES[..],
            "numalocd(8), numaloc-nri(8), kubectl-numaloc(1)",
        ),
    ] {
        write(&directory, &command, Kind { section: "8", files, others })?;
    }
    let mut plugin = kubectl_numaloc::command().disable_help_subcommand(true);
    plugin.build();
    with_parts(&directory, &plugin, "kubectl-numaloc")
}

/// What a page has besides its command.
#[derive(Clone, Copy)]
struct Kind<'k> {
    section: &'k str,
    files: &'k [File],
    others: &'k str,
}

/// The page of the plugin of kubectl, or of a part of it, and those of its own parts.
fn with_parts(directory: &Path, command: &Command, name: &str) -> anyhow::Result<()> {
    let kind = Kind { section: "1", files: &KUBECTL_FILES, others: "kubectl(1), numaloc-agent(8)" };
    write(directory, &command.clone().name(name.to_owned()).display_name(name.to_owned()), kind)?;
    for part in command.get_subcommands().filter(|part| !part.is_hide_set()) {
        with_parts(directory, part, &format!("{name}-{}", part.get_name()))?;
    }
    Ok(())
}

fn write(directory: &Path, command: &Command, kind: Kind<'_>) -> anyhow::Result<()> {
    let path = directory.join(format!("{}.{}", command.get_name(), kind.section));
    let page = page(command, kind).context("memory can be written to")?;
    fs::write(&path, page).with_context(|| format!("cannot write {}", path.display()))
}

/// The page of a command, with the sections that its help has after the options.
fn page(command: &Command, Kind { section, files, others }: Kind<'_>) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    let man = Man::new(command.clone())
        .section(section)
        .manual("numaloc")
        .source(format!("numaloc {}", env!("CARGO_PKG_VERSION")))
        .title(command.get_name().to_uppercase());
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    let mut roff = Roff::new();
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    help.split("\n\n").for_each(|part| part_of_help(&mut roff, part));
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
fn part_of_help(roff: &mut Roff, part: &str) {
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
