//! All mistakes of a value. A reader ends with the first one. So the part that it refuses is left out and the rest is read again, until
//! no mistake is left.

use super::{below, fields::Problem, tree::Tree};
use std::{collections::BTreeSet, fmt};

/// Most mistakes that are listed, as of a request of the API.
const LISTED: usize = 16;
/// Most bytes that the mistakes after the first take in one line, which goes into logs and events: usual ones have room. Names that
/// are escaped make others ten times as long.
const OTHERS_MAX: usize = 2048;
/// Longest hint of these, in bytes: not the list of all fields.
const HINT_MAX: usize = 80;

/// The mistakes of a value, in the order in which they were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// The mistakes one by one.
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.0.iter()
    }

    /// All of them as one, for a line of text: the hint of the first is followed by the others.
    pub fn in_one(self) -> Problem {
        let others = self.others();
        let mut first = self.0.into_iter().next().unwrap_or_default();
        match first.hint.is_empty() {
            true => others.trim_start_matches("; ").clone_into(&mut first.hint),
            false => first.hint += &others,
        }
        first
    }

    /// The mistakes after the first. Short hints are given once.
    fn others(&self) -> String {
        let (mut others, mut hints) = (String::new(), BTreeSet::new());
        for (index, problem) in self.0.iter().enumerate() {
            let is_new = hints.insert(&problem.hint);
            if index == 0 {
                continue;
            }
            let hint = problem.hint.clone();
            let hint = if is_new && hint.len() <= HINT_MAX { hint } else { String::new() };
            let text = format!("; also {}", Problem { hint, ..problem.clone() });
            if others.len() + text.len() > OTHERS_MAX {
                others += &format!("; and {} more", self.0.len() - index);
                break;
            }
            others += &text;
        }
        others
    }
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Self(vec![problem])
    }
}

impl FromIterator<Problem> for Problems {
    fn from_iter<I: IntoIterator<Item = Problem>>(problems: I) -> Self {
        Self(problems.into_iter().collect())
    }
}

impl IntoIterator for Problems {
    type Item = Problem;
    type IntoIter = std::vec::IntoIter<Problem>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// In one line.
impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.clone().in_one().fmt(f)
    }
}

/// Reads `tree`, which is at `path`, with all of its mistakes.
///
/// # Errors
/// The first 16 mistakes. What follows from a mistake alone is not among them.
pub fn all<T, E: Into<Problems>>(
    path: &str,
    tree: &Tree,
    read: impl Fn(&Tree) -> Result<T, E>,
) -> Result<T, Problems> {
    let mut next = match read(tree) {
        Ok(value) => return Ok(value),
        Err(problems) => problems.into(),
    };
    let mut places = BTreeSet::new();
    kept(tree, path, &mut |place| {
        places.insert(place);
        true
    });
    let (mut found, mut gone) = (Vec::new(), BTreeSet::new());
    for round in 0..2 * LISTED {
        let before = gone.len();
        let mut left_out = gone.clone();
        for problem in next {
            let problem = Problem { path: original(&problem.path, &gone), ..problem };
            left_out.extend(place_of(&problem.path, &places, &gone));
            if round == 0 || !found.iter().any(|cause| follows(&problem, cause)) {
                found.push(problem);
            }
        }
        gone = left_out;
        if gone.len() == before || found.len() >= LISTED {
            break;
        }
        match read(&kept(tree, path, &mut |place| !gone.contains(&place))) {
            Ok(_) => break,
            Err(problems) => next = problems.into(),
        }
    }
    found.truncate(LISTED);
    Err(Problems(found))
}

/// The values of `tree` whose places are kept. A place is a path in lower case, because the case of names does not count everywhere.
fn kept(tree: &Tree, path: &str, keep: &mut dyn FnMut(String) -> bool) -> Tree {
    let mut inner =
        |at: String, tree: &Tree| keep(at.to_ascii_lowercase()).then(|| kept(tree, &at, keep));
    match tree {
        Tree::List(list) => {
            let elements = list.iter().enumerate();
            let one = |(index, tree)| inner(format!("{path}[{index}]"), tree);
            Tree::List(elements.filter_map(one).collect())
        }
        Tree::Map(map) => {
            let one = |(name, tree): (&String, &Tree)| {
                Some((name.clone(), inner(below(path, name), tree)?))
            };
            Tree::Map(map.iter().filter_map(one).collect())
        }
        other => other.clone(),
    }
}

/// The place of the value at `path`, or of the nearest one around it that is left. `None`: that is the whole.
fn place_of(path: &str, places: &BTreeSet<String>, gone: &BTreeSet<String>) -> Option<String> {
    let path = path.to_ascii_lowercase();
    let mut place = path.as_str();
    while !places.contains(place) || gone.contains(place) {
        place = &place[..place.rfind(['.', '['])?];
    }
    Some(place.to_owned())
}

/// `path` with the elements of lists counted as if none was left out.
fn original(path: &str, gone: &BTreeSet<String>) -> String {
    let (mut counted, mut rest) = (String::new(), path);
    while let Some((before, after)) = rest.split_once('[') {
        let Some((index, after)) = after.split_once(']') else { break };
        let Ok(mut index) = index.parse::<usize>() else { break };
        counted += before;
        let mut at = 0;
        while at <= index {
            let place = format!("{counted}[{at}]").to_ascii_lowercase();
            index += usize::from(gone.contains(&place));
            at += 1;
        }
        counted += &format!("[{index}]");
        rest = after;
    }
    counted + rest
}

/// Whether a problem is there because the value of another one was left out: it is about the same value, one around it or in it, or ends
/// with its name, as in "must not be longer than interval".
fn follows(problem: &Problem, cause: &Problem) -> bool {
    let is_in = |inner: &str, outer: &str| {
        let rest = inner.strip_prefix(outer);
        rest.is_some_and(|rest| outer.is_empty() || rest.is_empty() || rest.starts_with(['.', '[']))
    };
    let name = cause.path.rsplit(['.', '[']).next().unwrap_or_default();
    is_in(&problem.path, &cause.path)
        || is_in(&cause.path, &problem.path)
        || problem.problem.rsplit(' ').next() == Some(name)
}

#[cfg(test)]
mod tests {
    use super::super::{Object, list, text, whole};
    use super::*;
    use proptest::prelude::*;

    fn tree(text: &str) -> Tree {
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    /// A size, names, and rows that have a key.
    fn read(tree: &Tree) -> Result<(), Problem> {
        let mut object = Object::in_any_case("o", tree)?;
        let size: Option<u8> = object.take("size", whole(1..=9))?;
        object.take("names", |path, tree| list(path, tree, text))?;
        object.take("rows", |path, tree| {
            list(path, tree, |path, tree| {
                let mut row = Object::of(path, tree)?;
                row.required("key", text)?;
                row.end()
            })
        })?;
        let least = object.take("least", whole(0..=99))?.unwrap_or(0_u8);
        match size.unwrap_or(0) < least {
            true => Err(Problem::new("o.least", "is more than size", "")),
            false => object.end(),
        }
    }

    fn mistakes(text: &str) -> Vec<String> {
        let problems = all("o", &tree(text), read).expect_err(text);
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn all_mistakes_are_found_each_at_its_place() {
        let found = mistakes(
            r#"{"Size": 10, "names": ["a", 1, "b", 2, null], "rows": [{"key": 1}, {"kye": "a"}, {"key": "b", "x": 1}, 5], "other": 1}"#,
        );
        let expected = [
            "o.size must be a whole number from 1 to 9, and is 10",
            "o.names[1] must be text, and is a number",
            "o.names[3] must be text, and is a number",
            "o.names[4] must be text, and is null",
            "o.rows[0].key must be text, and is a number",
            "o.rows[1].key is missing",
            "o.rows[2].x is not known; known here: key",
            "o.rows[3] must be an object, and is a number",
            "o.other is not known; known here: least, names, rows, size",
        ];
        assert_eq!(found, expected);
        assert!(all("o", &tree(r#"{"size": 3}"#), read).is_ok());
        assert_eq!(mistakes("[]"), ["o must be an object, and is a list"]);
    }

    #[test]
    fn what_follows_from_a_mistake_is_none() {
        assert_eq!(mistakes(r#"{"size": 1, "least": 2}"#), ["o.least is more than size"]);
        let found = mistakes(r#"{"size": "x", "least": 2}"#);
        assert_eq!(found, ["o.size must be a whole number from 1 to 9, and is text"]);
    }

    #[test]
    fn no_more_than_some_are_listed_and_fewer_in_one_line() {
        let many = format!("{{\"names\": [{}1]}}", "1, ".repeat(1000));
        assert_eq!(mistakes(&many).len(), LISTED);
        let line = all("o", &tree(&many), read).expect_err("refused").to_string();
        let begin = "o.names[0] must be text, and is a number; also o.names[1] must be text";
        assert!(
            line.starts_with(begin) && line.ends_with("names[15] must be text, and is a number"),
            "{line}"
        );
        let long = (0..20).map(|at| format!("\"{}{at}\": 1", "\u{202e}".repeat(60)));
        let long = format!("{{{}}}", long.collect::<Vec<_>>().join(", "));
        let line = all("o", &tree(&long), read).expect_err("refused").to_string();
        assert!(
            line.ends_with("; and 11 more") && line.len() < 4096,
            "{} bytes: {line}",
            line.len()
        );
        let two = all("o", &tree(r#"{"a": 1, "b": 2}"#), read).expect_err("refused").to_string();
        let expected =
            "o.a is not known; known here: least, names, rows, size; also o.b is not known";
        assert_eq!(two, expected);
    }

    proptest! {
        #[test]
        fn any_value_is_read_or_refused(text in r#"[\[\]{}",:0-9.\-a-c ]{0,40}|\{("(size|names|rows|least|a)":([0-9]|\[[0-9",]{0,6}\]|null),?){0,5}\}"#) {
            let Ok(tree) = serde_json::from_str::<Tree>(&text) else { return Ok(()) };
            let (first, all) = (read(&tree), all("o", &tree, read));
            prop_assert_eq!(first.err(), all.err().and_then(|all| all.into_iter().next()));
        }
    }
}
