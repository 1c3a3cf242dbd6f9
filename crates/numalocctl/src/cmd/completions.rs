//! Carries out `numalocctl completions`, for which no daemon is needed. clap's scripts complete commands and options;
//! values that only this program knows come from `numalocctl __complete`.

use crate::{
    args::{Cli, Shell, ValueKind},
    exit::{Code, Failure},
    output::CommandResult,
};
use clap::Command;
use clap_complete::{generate, shells};
use std::{collections::BTreeMap, fmt::Write};

const NAME: &str = "numalocctl";

pub fn run(shell: Shell) -> Result<CommandResult, Failure> {
    let (mut command, mut script) = (Cli::whole(), Vec::new());
    match shell {
        Shell::Bash => generate(shells::Bash, &mut command, NAME, &mut script),
        Shell::Zsh => generate(shells::Zsh, &mut command, NAME, &mut script),
        Shell::Fish => generate(shells::Fish, &mut command, NAME, &mut script),
    }
    let script = without_hidden(&String::from_utf8_lossy(&script), &command);
    let known = Known::of(&command);
    let text = match shell {
        Shell::Bash => script + &known.bash(),
        Shell::Zsh => known.zsh(&script),
        Shell::Fish => known.fish(&script),
    };
    Ok(CommandResult { text, code: Code::Done })
}

/// The generated script without the commands that are for programs: clap offers hidden ones, too.
fn without_hidden(script: &str, command: &Command) -> String {
    let hidden = command.get_subcommands().filter(|sub| sub.is_hide_set());
    let hidden: Vec<&str> = hidden.map(Command::get_name).collect();
    let is_offer = |line: &&str| {
        hidden.iter().any(|name| {
            line.starts_with(&format!("'{name}:")) || line.contains(&format!("-a \"{name}\""))
        })
    };
    let line = |line: &str| match line.trim_start().starts_with("opts=") {
        true => hidden
            .iter()
            .fold(line.to_owned(), |line, name| line.replace(&format!(" {name} "), " ")),
        false => line.to_owned(),
    };
    script.lines().filter(|each| !is_offer(each)).map(|each| line(each) + "\n").collect()
}

/// The arguments whose values are known.
#[derive(Debug, Default)]
struct Known {
    /// Options by their names, without the dashes.
    options: BTreeMap<String, ValueKind>,
    /// Arguments without an option by the command's path, in their order: their id.
    positional: BTreeMap<Vec<String>, Vec<(String, ValueKind)>>,
}

impl Known {
    fn of(command: &Command) -> Self {
        let mut known = Self::default();
        known.collect(command, &[]);
        known
    }

    fn collect(&mut self, command: &Command, path: &[String]) {
        for arg in command.get_arguments() {
            match (ValueKind::of(arg), arg.get_long()) {
                (None, _) => {}
                (Some(kind), Some(long)) => {
                    self.options.insert(long.to_owned(), kind);
                }
                (Some(kind), None) => {
                    let of_command = self.positional.entry(path.to_vec()).or_default();
                    of_command.push((arg.get_id().to_string(), kind));
                }
            }
        }
        let shown = command.get_subcommands().filter(|sub| !sub.is_hide_set());
        for sub in shown.filter(|sub| sub.get_name() != "help") {
            self.collect(sub, &[path, &[sub.get_name().to_owned()]].concat());
        }
    }

    /// A function before the generated one. Values are compared as they are: `compgen -W` would expand them.
    fn bash(&self) -> String {
        let mut text =
            "\n_numalocctl_known() {\n    local kind=\"\" path=\"\" word i\n    case \"$3\" in\n"
                .to_owned();
        for (long, kind) in &self.options {
            let _ = writeln!(text, "        --{long}) kind={} ;;", kind.name());
        }
        text += "    esac\n    if [[ -z $kind && $2 != -* && $3 != -* ]]; then\n";
        text +=
            "        for ((i = 1; i < COMP_CWORD; i++)); do\n            word=${COMP_WORDS[i]}\n";
        text += "            [[ $word == -* ]] || path+=\" $word\"\n        done\n        case \"$path \" in\n";
        for (path, arguments) in &self.positional {
            let path = path.join(" ");
            // The first is named before there is another word, the last by all that follow.
            if let [(_, first), .., _] = &arguments[..] {
                let _ = writeln!(text, "            \" {path} \") kind={} ;;", first.name());
            }
            if let Some((_, last)) = arguments.last() {
                let _ = writeln!(text, "            \" {path} \"*) kind={} ;;", last.name());
            }
        }
        text += "        esac\n    fi\n    if [[ -z $kind ]]; then\n        _numalocctl \"$@\"\n";
        // Options are offered with commands only if nothing else is.
        text += "        local words=()\n        for word in \"${COMPREPLY[@]}\"; do\n            [[ $word == -* ]] || words+=(\"$word\")\n        done\n";
        text += "        [[ $2 == -* || ${#words[@]} == 0 ]] || COMPREPLY=(\"${words[@]}\")\n        return\n    fi\n";
        text += "    COMPREPLY=()\n    while IFS= read -r word; do\n        [[ $word == \"$2\"* ]] && COMPREPLY+=(\"$word\")\n";
        text += "    done < <(\"$1\" __complete \"$kind\" 2>/dev/null)\n";
        text += "    compopt +o default +o bashdefault 2>/dev/null\n    return 0\n}\n";
        text + "complete -F _numalocctl_known -o bashdefault -o default numalocctl\n"
    }

    /// The generated script, in which arguments with known values have an action of their own.
    fn zsh(&self, script: &str) -> String {
        const DEFAULT: &str = ":_default' \\";
        let action = |line: &str| {
            let rest = line.strip_suffix(DEFAULT)?;
            let options = self.options.iter().map(|(long, kind)| (format!("--{long}=["), *kind));
            let others = self.positional.values().flatten();
            let others = others.map(|(id, kind)| (format!(":{id} -- "), *kind));
            let (_, kind) = options.chain(others).find(|(name, _)| rest.contains(name.as_str()))?;
            Some(format!("{rest}:_numalocctl_known {}' \\", kind.name()))
        };
        let lines =
            script.lines().map(|line| action(line).unwrap_or_else(|| line.to_owned()) + "\n");
        // _arguments puts the options of compadd before the words of an action (zshcompsys(1)), so the kind comes last.
        let function = "\n_numalocctl_known() {\n    local -a values\n    values=(${(f)\"$(numalocctl __complete $@[-1] 2>/dev/null)\"})\n    compadd \"${(@)@[1,-2]}\" -a values\n}\n\n";
        let text: String = lines.collect();
        // The text after it calls the completion.
        match text.rfind("\nif [ \"$funcstack[1]\"") {
            Some(end) => format!("{}{function}{}", &text[..end], &text[end + 1..]),
            None => text + function,
        }
    }

    /// The generated script, with values for options, and lines for values without an option.
    fn fish(&self, script: &str) -> String {
        let values = |kind: &ValueKind| {
            format!("-a \"(numalocctl __complete {} 2>/dev/null)\"", kind.name())
        };
        let line = |line: &str| {
            let known =
                self.options.iter().find(|(long, _)| line.contains(&format!(" -l {long} ")));
            let with = known.and_then(|(_, kind)| Some((line.strip_suffix(" -r")?, kind)));
            with.map_or(line.to_owned(), |(rest, kind)| format!("{rest} -x {}", values(kind)))
                + "\n"
        };
        let mut text: String = script.lines().map(line).collect();
        let arguments = self
            .positional
            .iter()
            .flat_map(|(path, all)| all.iter().map(move |(_, kind)| (path, kind)));
        for (path, kind) in arguments {
            let below = path
                .get(1)
                .map_or(String::new(), |name| format!("; and __fish_seen_subcommand_from {name}"));
            let Some(first) = path.first() else { continue };
            let when = format!("__fish_numalocctl_using_subcommand {first}{below}");
            let _ = writeln!(text, "complete -c {NAME} -n \"{when}\" -f {}", values(kind));
        }
        text
    }
}
