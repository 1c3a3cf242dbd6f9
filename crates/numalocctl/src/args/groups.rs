//! The help of the program itself: its commands in groups, its environment variables and its files.

use clap::Command;
use std::fmt::Write;

/// Commands by purpose. Commands without a group come last.
const GROUPS: [(&str, &[&str]); 4] = [
    (
        "Look",
        &[
            "top", "web", "topology", "locality", "plan", "advise", "explain", "doctor", "bench",
            "dsa",
        ],
    ),
    ("Move", &["migrate", "drain-node", "relieve", "jobs", "schedules", "workloads", "events"]),
    ("Daemon", &["status", "drain", "undrain", "pause-all", "resume-all", "backup", "metrics"]),
    ("Other", &[]),
];

pub const ENVIRONMENT: [(&str, &str); 5] = [
    ("NUMALOC_ENDPOINT", "Address of the daemon, unless --endpoint is given."),
    ("XDG_CONFIG_HOME", "Where the user's configuration is, instead of ~/.config."),
    ("XDG_STATE_HOME", "Where results of bench are kept for the user, instead of ~/.local/state."),
    ("NO_COLOR", "Nothing is coloured, unless --color always is given."),
    ("COLUMNS", "Width of a picture in the terminal."),
];

pub const FILES: [(&str, &str); 6] = [
    (
        "/etc/numaloc/numalocctl.toml",
        "Configuration: endpoint = \"URI\", and a section [tls] with the files ca, certificate and key.",
    ),
    ("~/.config/numaloc/numalocctl.toml", "The same for a user; its values win."),
    (
        "/run/numaloc/numalocd.sock",
        "The daemon's socket, used if nothing names another. If it does not exist, top, web, topology, locality, plan, advise, migrate, drain-node, relieve, doctor, bench and dsa work without the daemon.",
    ),
    ("/run/numalocctl/advice", "Changes of advise --apply, for advise --undo."),
    (
        "/run/numalocctl/balancing",
        "The value of kernel.numa_balancing before bench placement switched it.",
    ),
    (
        "/var/lib/numalocctl/bench.json",
        "The last result of bench; a user's own is in ~/.local/state/numaloc.",
    ),
];

/// `examples`, followed by the environment variables and files.
pub fn reference(examples: &str) -> String {
    let mut text = examples.to_owned();
    for (title, rows) in [("Environment", &ENVIRONMENT[..]), ("Files", &FILES)] {
        let _ = write!(text, "\n\n{title}:");
        for (name, meaning) in rows {
            let _ = write!(text, "\n  {name}\n          {meaning}");
        }
    }
    text
}

/// Has the help list the subcommands in groups.
pub fn grouped(command: Command) -> Command {
    let is_shown = |sub: &&Command| !sub.is_hide_set();
    let line = |sub: &Command| {
        let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
        format!("  {:<12} {about}\n", sub.get_name())
    };
    let mut text = String::new();
    for (title, names) in GROUPS {
        let is_other =
            |sub: &&Command| GROUPS.iter().all(|(_, names)| !names.contains(&sub.get_name()));
        let listed: String = match names.is_empty() {
            true => command.get_subcommands().filter(is_shown).filter(is_other).map(line).collect(),
            false => {
                names.iter().filter_map(|name| command.find_subcommand(name)).map(line).collect()
            }
        };
        let _ = write!(text, "{title}:\n{listed}\n");
    }
    // Braces in it would be tags of the template.
    let text = text.replace(['{', '}'], "");
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{text}Options of all commands:\n{{options}}{{after-help}}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;

    #[test]
    fn each_command_stands_once_in_the_help() {
        let help = Cli::definition().render_help().to_string();
        for command in Cli::definition().get_subcommands() {
            let lines =
                help.lines().filter(|line| line.starts_with(&format!("  {} ", command.get_name())));
            assert_eq!(
                lines.count(),
                usize::from(!command.is_hide_set()),
                "{}: {help}",
                command.get_name()
            );
        }
        for (title, _) in GROUPS {
            assert!(help.contains(&format!("\n{title}:\n")), "{help}");
        }
        let long = Cli::definition().render_long_help().to_string();
        assert!(long.contains("NUMALOC_ENDPOINT") && long.contains("/etc/numaloc/numalocctl.toml"));
    }

    /// Like the texts of kubectl and systemctl, they are for reading one below the other.
    #[test]
    fn what_a_command_is_for_fits_in_a_line() {
        for command in Cli::definition().get_subcommands().filter(|sub| !sub.is_hide_set()) {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            assert!((1..=60).contains(&about.len()), "{}: {about}", command.get_name());
        }
    }
}
