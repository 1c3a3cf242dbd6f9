//! Processes as people name them: by pids and by names.

use crate::exit::Failure;
use numaloc_host::{Error, Roots, names_like, processes_named};

/// Pids in one argument, with white space or commas between them, as pidof(1) and pgrep(1) print them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pids(pub Vec<i32>);

/// Processes in one argument without an option: pids and names with commas between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processes(Vec<Process>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Process {
    Pids(Vec<i32>),
    Name(String),
}

/// Reads an argument that names processes by pid alone.
pub fn parse_pids(text: &str) -> Result<Pids, String> {
    let separate = |c: char| c == ',' || c.is_whitespace();
    let words: Vec<&str> = text.split(separate).filter(|word| !word.is_empty()).collect();
    if words.is_empty() {
        return Err("it names no process: does the process run? expected for example 4711".into());
    }
    words.into_iter().map(pid).collect::<Result<_, _>>().map(Pids)
}

/// Reads an argument that names processes.
pub fn parse_processes(text: &str) -> Result<Processes, String> {
    let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
    let part = |part: &str| match part.split_whitespace().all(is_number) {
        true => parse_pids(part).map(|Pids(pids)| Process::Pids(pids)),
        // A name may have spaces in it: "tmux: server".
        false => Ok(Process::Name(part.trim().to_owned())),
    };
    let parts = text.split(',').filter(|part| !part.trim().is_empty()).map(part);
    match parts.collect::<Result<Vec<_>, _>>()? {
        none if none.is_empty() => {
            Err("it names no process: does the process run? expected a pid or a name".into())
        }
        parts => Ok(Processes(parts)),
    }
}

fn pid(word: &str) -> Result<i32, String> {
    let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
    match word.parse() {
        Ok(pid) if pid > 0 && is_number => Ok(pid),
        _ if is_number
            || word.strip_prefix('-').is_some_and(|rest| rest.parse::<u64>().is_ok()) =>
        {
            Err(format!("{word} is not a valid pid: expected a number from 1 to {}", i32::MAX))
        }
        _ => Err(format!(
            "{word} is not a pid: expected a number, for example 4711; a name goes without --pid"
        )),
    }
}

impl Processes {
    /// Whether it takes a look at this host to know the pids.
    pub fn has_names(&self) -> bool {
        self.0.iter().any(|process| matches!(process, Process::Name(_)))
    }

    /// The pids. `report` gets what was found for a name.
    ///
    /// # Errors
    /// No process has a name.
    pub fn pids(&self, roots: &Roots, report: &dyn Fn(&str)) -> Result<Pids, Failure> {
        let mut all = Vec::new();
        for process in &self.0 {
            match process {
                Process::Pids(pids) => all.extend(pids),
                Process::Name(name) => {
                    let found = processes_named(roots, name);
                    if found.is_empty() {
                        let similar = names_like(roots, name);
                        return Err(Error::NoProcessNamed { name: name.clone(), similar }.into());
                    }
                    report(&format!("{name}: {}", listed(&found)));
                    all.extend(found);
                }
            }
        }
        Ok(Pids(all))
    }
}

/// The first of these pids, for people.
fn listed(pids: &[i32]) -> String {
    const SHOWN: usize = 10;
    let first: Vec<String> = pids.iter().take(SHOWN).map(i32::to_string).collect();
    let kind = if pids.len() == 1 { "pid" } else { "pids" };
    let more = match pids.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{kind} {}{more}", first.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pids_come_as_pidof_and_pgrep_print_them() {
        for text in ["1 22", "1,22", " 1\n22\n", "1, 22"] {
            assert_eq!(parse_pids(text), Ok(Pids(vec![1, 22])), "{text:?}");
        }
        for (text, words) in [
            ("abc", "abc is not a pid"),
            ("1 x", "x is not a pid"),
            ("0", "0 is not a valid pid"),
            ("-1", "-1 is not a valid pid"),
            ("+1", "+1 is not a pid"),
            ("99999999999", "is not a valid pid"),
            ("", "names no process"),
            (" , ", "names no process"),
        ] {
            let error = parse_pids(text).expect_err(text);
            assert!(error.contains(words) && !error.contains("digit"), "{text:?}: {error}");
        }
    }

    #[test]
    fn an_argument_names_pids_or_names() {
        let read = |text| parse_processes(text).map(|Processes(processes)| processes);
        let (pids, name) =
            (|pids: &[i32]| Process::Pids(pids.into()), |name: &str| Process::Name(name.into()));
        assert_eq!(read("4711"), Ok(vec![pids(&[4711])]));
        assert_eq!(read("1 2,3"), Ok(vec![pids(&[1, 2]), pids(&[3])]));
        assert_eq!(read("redis-server"), Ok(vec![name("redis-server")]));
        assert_eq!(read("redis-server, 7"), Ok(vec![name("redis-server"), pids(&[7])]));
        assert_eq!(read("tmux: server"), Ok(vec![name("tmux: server")]));
        assert_eq!(read("7zip"), Ok(vec![name("7zip")]));
        assert!(read("").is_err() && read(" , ").is_err() && read("0").is_err());
    }

    #[test]
    fn long_lists_are_cut() {
        assert_eq!(listed(&[7]), "pid 7");
        let many: Vec<i32> = (1..=12).collect();
        assert_eq!(listed(&many), "pids 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 2 more");
    }
}
