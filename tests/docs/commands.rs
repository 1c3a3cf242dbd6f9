//! The command lines that the documentation shows, for the tests of the programs: each has to parse. Every program includes this file
//! by its path, because it is too little for a crate.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::{
    fs, iter,
    path::{Path, PathBuf},
};

/// The word in place of anything that a shell would put in (`$pid`, `$(pidof x)`).
const PUT_IN: &str = "4711";

/// A command line on a page.
struct Shown {
    place: String,
    words: Vec<String>,
    /// Whether it is within text. There a command may be named without its arguments.
    in_text: bool,
}

/// Has `parse` take each command line of `program` on all pages. Fewer than `at_least` mean that none are found any
/// more.
pub fn all_parse(
    program: &str,
    at_least: usize,
    parse: impl Fn(&[String]) -> Result<(), clap::Error>,
) {
    let shown = shown(program);
    assert!(shown.len() >= at_least, "only {} command lines of {program}", shown.len());
    let fault = |shown: &Shown| {
        let error = parse(&shown.words).err()?;
        let is_fine = match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => true,
            ErrorKind::MissingRequiredArgument
            | ErrorKind::MissingSubcommand
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => shown.in_text,
            // An option that is named in a sentence, without its value.
            ErrorKind::InvalidValue => {
                let value = error.get(ContextKind::InvalidValue);
                shown.in_text
                    && matches!(value, Some(ContextValue::String(value)) if value.is_empty())
            }
            _ => false,
        };
        (!is_fine).then(|| format!("{}: {}\n{error}", shown.place, shown.words.join(" ")))
    };
    let faults: Vec<String> = shown.iter().filter_map(fault).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

fn shown(program: &str) -> Vec<Shown> {
    let top = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let mut pages = Vec::new();
    find_pages(top, &mut pages);
    let mut shown = Vec::new();
    for page in pages {
        let text =
            fs::read_to_string(&page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
        let name = page.strip_prefix(top).unwrap_or(&page).display().to_string();
        for (line, in_text, code) in code(&text) {
            let texts = if in_text { alternatives(&code) } else { vec![code] };
            let commands = texts.iter().flat_map(|text| commands(text));
            shown.extend(
                commands.filter_map(|words| of_program(words, program)).map(|words| Shown {
                    place: format!("{name}:{line}"),
                    words,
                    in_text,
                }),
            );
        }
    }
    shown
}

/// All pages below a directory, but for what is built or fetched there.
fn find_pages(directory: &Path, pages: &mut Vec<PathBuf>) {
    let entries =
        fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    for path in entries.filter_map(Result::ok).map(|entry| entry.path()) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        match path.is_dir() && !path.is_symlink() {
            true if name.starts_with('.') || ["target", "node_modules", "env"].contains(&name) => {}
            true => find_pages(&path, pages),
            false if name.ends_with(".md") => pages.push(path),
            false => {}
        }
    }
}

/// The code of a page, with its line and whether it is within text: whole lines of blocks, and what stands between backticks.
fn code(page: &str) -> Vec<(usize, bool, String)> {
    let (mut found, mut is_fenced, mut continues) =
        (Vec::<(usize, bool, String)>::new(), false, false);
    let (mut text, mut begin) = (String::new(), 1);
    // An empty line at the end closes the last paragraph.
    for (line, content) in (1..).zip(page.lines().chain(iter::once(""))) {
        let bare = content.trim();
        let is_mark = bare.starts_with("```");
        let is_block = is_fenced || content.starts_with("    ");
        if is_mark || is_block || bare.is_empty() {
            let spans = text.split('`').skip(1).step_by(2);
            found.extend(spans.map(|span| (begin, true, span.replace("\\|", "|"))));
            (text, begin) = (String::new(), line + 1);
        }
        match (is_mark, is_block) {
            (true, _) => is_fenced = !is_fenced,
            (false, true) => {
                let (part, more) = match bare.strip_suffix('\\') {
                    Some(part) => (part, true),
                    None => (bare, false),
                };
                match found.last_mut().filter(|_| continues) {
                    Some((_, _, command)) => command.push_str(part),
                    None => found.push((line, false, part.to_owned())),
                }
                continues = more;
            }
            (false, false) => {
                text.push_str(bare);
                text.push(' ');
            }
        }
    }
    found
}

/// `jobs ls|get` stands for `jobs ls` and `jobs get`.
fn alternatives(text: &str) -> Vec<String> {
    text.split_whitespace().fold(vec![String::new()], |texts, word| {
        let choices: Vec<&str> = if word == "|" { vec![word] } else { word.split('|').collect() };
        let longer = |text: &String| -> Vec<String> {
            choices.iter().map(|choice| format!("{text} {choice}")).collect()
        };
        texts.iter().flat_map(longer).collect()
    })
}

/// The commands of a line, as words, as a shell would see them.
fn commands(line: &str) -> Vec<Vec<String>> {
    let line = line.trim_start();
    let mut rest = line.strip_prefix("$ ").unwrap_or(line).chars();
    let (mut commands, mut word, mut quote) = (vec![Vec::new()], None::<String>, None);
    // The next word is a file that output goes to.
    let mut is_file = false;
    loop {
        let next = rest.next();
        let ends_word = match (quote, next) {
            (_, None) => true,
            (None, Some(c)) => c.is_whitespace() || ";&|<>".contains(c),
            (Some(_), Some(_)) => false,
        };
        if ends_word && let Some(word) = word.take() {
            let is_descriptor = next == Some('>') && word.chars().all(|c| c.is_ascii_digit());
            if is_file {
                is_file = false;
            } else if !is_descriptor && let Some(command) = commands.last_mut() {
                command.push(word);
            }
        }
        let Some(c) = next else { return commands };
        match (quote, c) {
            (Some(mark), _) if c == mark => quote = None,
            (None, '#') if word.is_none() => return commands,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None | Some('"'), '$') => {
                rest = after_what_is_put_in(rest.as_str()).chars();
                word.get_or_insert_default().push_str(PUT_IN);
            }
            (None, '<' | '>') => is_file = true,
            (None, ';' | '&' | '|') => commands.push(Vec::new()),
            (None, _) if c.is_whitespace() => {}
            _ => word.get_or_insert_default().push(c),
        }
    }
}

/// The text after `$`, without the name or the command that stands for a value.
fn after_what_is_put_in(text: &str) -> &str {
    if !text.starts_with('(') {
        return text.trim_start_matches(|c: char| c.is_alphanumeric() || "_{}".contains(c));
    }
    let mut depth = 0;
    let end = text.find(|c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        depth == 0
    });
    end.map_or("", |end| &text[end + 1..])
}

/// The words of a command, from the program on, if it is this one and says more than its name. A synopsis (`[--all]`, `...`) is none.
fn of_program(words: Vec<String>, program: &str) -> Option<Vec<String>> {
    let is_before = |word: &String| matches!(word.as_str(), "sudo" | "env") || is_variable(word);
    let words: Vec<String> = words.into_iter().skip_while(is_before).collect();
    let is_program = words.first()?.rsplit('/').next() == Some(program);
    let is_synopsis = words.iter().any(|word| word.starts_with('[') || word == "...");
    if !is_program || is_synopsis || words.len() < 2 {
        return None;
    }
    let given = |word: String| match word.as_str() {
        "TARGET" => vec!["--pid".to_owned(), PUT_IN.to_owned()],
        _ => vec![word],
    };
    Some(words.into_iter().flat_map(given).collect())
}

/// Whether a word before a command sets a variable for it.
fn is_variable(word: &str) -> bool {
    let is_name = |name: &str| name.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    word.split_once('=').is_some_and(|(name, _)| is_name(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(page: &str, expected: &[(&str, bool)]) {
        let mut found = Vec::new();
        for (_, in_text, code) in code(page) {
            let texts = if in_text { alternatives(&code) } else { vec![code] };
            let commands = texts.iter().flat_map(|text| commands(text));
            let ours = commands.filter_map(|words| of_program(words, "move"));
            found.extend(ours.map(|words| (words.join(" "), in_text)));
        }
        let found: Vec<(&str, bool)> =
            found.iter().map(|(words, in_text)| (words.as_str(), *in_text)).collect();
        assert_eq!(found, expected, "{page}");
    }

    #[test]
    fn blocks_have_commands() {
        check(
            "    move -a  # it\n    move 'b c'; stop && A=1 sudo move \"$d\"e",
            &[("move -a", false), ("move b c", false), ("move 4711e", false)],
        );
        check(
            "```sh\n$ move -a \\\n    -b $(of (c) d) 2>&1 >>e | more\n```\nmove",
            &[("move -a -b 4711", false)],
        );
        check(
            "    /usr/bin/move a\n    install move /usr/bin\n    move [--b]",
            &[("/usr/bin/move a", false)],
        );
    }

    #[test]
    fn text_has_commands() {
        check(
            "Say `move a\\|b c|d` or `move\nTARGET`, not `move`.",
            &[
                ("move a c", true),
                ("move a d", true),
                ("move b c", true),
                ("move b d", true),
                ("move --pid 4711", true),
            ],
        );
    }
}
