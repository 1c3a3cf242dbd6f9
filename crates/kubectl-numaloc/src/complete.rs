//! Completions for `kubectl numaloc` in a shell. kubectl calls `kubectl_complete-numaloc` with the words after the
//! plugin's name, the last of which is to be completed, and expects the output format of cobra's `__complete`: a line
//! for each offer, a tab before its meaning, and a number for the way they are used.

use crate::{
    args::{Args, Place},
    cluster::{Api, Failure, Kube},
    object,
};
use clap::{Arg, Command, CommandFactory};
use std::fmt::Write;

/// Names of files are not offered (cobra's ShellCompDirectiveNoFileComp).
const NO_FILES: &str = ":4";
/// File names are offered (ShellCompDirectiveDefault).
const FILES: &str = ":0";

/// The kind of word at a place of the command line.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    /// These words, with their meanings.
    Words(Vec<(String, String)>),
    Pods,
    Namespaces,
    File,
}

/// The offers for the last of these words. Where the API server does not answer there are none.
pub async fn run(words: &[String]) -> String {
    let wanted = wanted(words);
    let directive = if wanted == Wanted::File { FILES } else { NO_FILES };
    let offers = match wanted {
        Wanted::Words(words) => words,
        Wanted::File => Vec::new(),
        Wanted::Pods | Wanted::Namespaces => {
            names(&place(words), wanted == Wanted::Pods).await.unwrap_or_default()
        }
    };
    let last = words.last().map_or("", String::as_str);
    let mut answer = String::new();
    for (word, meaning) in offers.iter().filter(|(word, _)| word.starts_with(last)) {
        let tab = if meaning.is_empty() { "" } else { "\t" };
        // A text takes whatever is written.
        let _ = writeln!(answer, "{word}{tab}{meaning}");
    }
    answer + directive + "\n"
}

/// Names of the cluster's objects: pods of the namespace that the words name, or namespaces.
async fn names(place: &Place, pods: bool) -> Result<Vec<(String, String)>, Failure> {
    let cluster = Kube::connect(place).await?;
    let namespace = place.namespace.clone().unwrap_or_else(|| cluster.default_namespace());
    let path = if pods { object::pods(&namespace) } else { object::NAMESPACES.to_owned() };
    let objects = cluster.list(&path, true).await?;
    let name = |object| (object::name(object).to_owned(), String::new());
    Ok(objects.iter().map(name).collect())
}

/// The cluster that the words name so far.
fn place(words: &[String]) -> Place {
    let program = std::iter::once("kubectl-numaloc");
    let all = program.chain(words.iter().map(String::as_str));
    let matches = Args::command().ignore_errors(true).try_get_matches_from(all);
    let Ok(matches) = matches else { return Place::default() };
    Place {
        namespace: matches.get_one("namespace").cloned(),
        context: matches.get_one("context").cloned(),
        kubeconfig: matches.get_one("kubeconfig").cloned(),
    }
}

fn wanted(words: &[String]) -> Wanted {
    let Some((last, before)) = words.split_last() else { return Wanted::Words(Vec::new()) };
    let mut root = Args::command().disable_help_subcommand(true);
    root.build();
    let (mut command, mut value_of, mut positionals) = (&root, None, 0);
    for word in before {
        if value_of.take().is_some() {
            continue;
        }
        if word.starts_with('-') {
            value_of = option(command, word).filter(|arg| arg.get_action().takes_values());
        } else if let Some(sub) = command.find_subcommand(word) {
            command = sub;
        } else {
            positionals += 1;
        }
    }
    if let Some(arg) = value_of {
        return value(arg);
    }
    if last.starts_with('-') {
        return Wanted::Words(command.get_arguments().filter_map(long).collect());
    }
    if let Some(positional) = command.get_positionals().nth(positionals) {
        return value(positional);
    }
    let shown = command.get_subcommands().filter(|sub| !sub.is_hide_set());
    let described = |sub: &Command| (sub.get_name().to_owned(), first_line(sub.get_about()));
    Wanted::Words(shown.map(described).collect())
}

/// The option that a word is, without `=` and a value.
fn option<'c>(command: &'c Command, word: &str) -> Option<&'c Arg> {
    let is_it = |arg: &&Arg| match word.strip_prefix("--") {
        Some(long) => arg.get_long() == Some(long),
        None => arg.get_short().is_some_and(|short| word[1..] == short.to_string()),
    };
    command.get_arguments().find(is_it)
}

fn long(arg: &Arg) -> Option<(String, String)> {
    let long = arg.get_long().filter(|_| !arg.is_hide_set())?;
    Some((format!("--{long}"), first_line(arg.get_help())))
}

fn value(arg: &Arg) -> Wanted {
    match arg.get_id().as_str() {
        "pod" => Wanted::Pods,
        "namespace" => Wanted::Namespaces,
        "kubeconfig" => Wanted::File,
        _ => {
            let values = arg.get_possible_values();
            let described =
                values.iter().map(|one| (one.get_name().to_owned(), first_line(one.get_help())));
            Wanted::Words(described.collect())
        }
    }
}

fn first_line(text: Option<&clap::builder::StyledStr>) -> String {
    let text = text.map(ToString::to_string).unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(line: &str) -> Wanted {
        wanted(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    fn words(line: &str) -> Vec<String> {
        match offered(line) {
            Wanted::Words(words) => words.into_iter().map(|(word, _)| word).collect(),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn commands_options_and_values_are_offered() {
        assert_eq!(words(""), ["top", "explain", "run", "policies", "doctor"]);
        assert_eq!(words("top "), ["nodes", "containers"]);
        assert_eq!(words("top nodes -o "), ["table", "json"]);
        assert_eq!(words("-n shop policies -A "), [""; 0]);
        let options = words("run redis-0 --");
        assert!(
            options.contains(&"--id".to_owned()) && options.contains(&"--namespace".to_owned())
        );
        assert_eq!(words(""), words("-n shop "));
    }

    #[test]
    fn names_are_asked_of_the_cluster() {
        for (line, wanted) in [
            ("explain ", Wanted::Pods),
            ("run --id x re", Wanted::Pods),
            ("explain -n ", Wanted::Namespaces),
            ("--kubeconfig ", Wanted::File),
        ] {
            assert_eq!(offered(line), wanted, "{line}");
        }
        assert_eq!(words("explain redis-0 "), [""; 0]);
        let words = "explain --namespace=shop --context c re".split(' ').map(str::to_owned);
        let place = place(&words.collect::<Vec<_>>());
        assert_eq!(
            (place.namespace.as_deref(), place.context.as_deref()),
            (Some("shop"), Some("c"))
        );
    }

    #[test]
    fn offers_are_printed_as_cobra_does() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let printed = |line: &str| {
            runtime.block_on(run(&line.split(' ').map(str::to_owned).collect::<Vec<_>>()))
        };
        assert_eq!(printed("d"), "doctor\tCheck the agents, their daemons and the policies\n:4\n");
        assert_eq!(printed("top containers -o j"), "json\tJSON\n:4\n");
        assert_eq!(printed("--kubeconfig /"), ":0\n");
    }
}
