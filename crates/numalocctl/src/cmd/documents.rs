//! Reads a file's declarations: records in YAML or JSON, one document or several.

mod lines;

use crate::exit::Failure;
use lines::Lines;
use numaloc_config::{
    FileError, Mistake,
    written::{Problems, Tree},
};
use serde_json::Deserializer;
use std::{fs, io, path::Path};

/// The records of a file, each read by `read`. `-` is standard input. `list` is the field of a document that holds the
/// records, as `-o json` prints them; a document may also be a list, or a single record.
///
/// # Errors
/// The file cannot be read or is neither YAML nor JSON; or `read` refuses records: all mistakes of all of them, by their lines.
pub fn read<T>(
    path: &Path,
    list: &str,
    read: impl Fn(&Tree) -> Result<T, Problems>,
) -> Result<Vec<T>, Failure> {
    let (text, name) = match path.as_os_str() == "-" {
        true => (io::read_to_string(io::stdin()), Path::new("standard input")),
        false => (fs::read_to_string(path), path),
    };
    let text = text.map_err(|source| FileError::Unreadable { path: name.into(), source })?;
    let invalid = |problems| FileError::Invalid { paths: vec![name.into()], problems };
    Ok(parse(&text, list, read).map_err(invalid)?)
}

/// As [`read`], from a text.
pub fn parse<T>(
    text: &str,
    list: &str,
    read: impl Fn(&Tree) -> Result<T, Problems>,
) -> Result<Vec<T>, Vec<Mistake>> {
    let (documents, lines): (_, fn(&str) -> Lines) = match is_json(text) {
        true => (json(text), Lines::of_json),
        false => (yaml(text), Lines::of_yaml),
    };
    let documents = documents.map_err(|(line, message)| {
        vec![Mistake { file: 0, line: line.max(1), key: String::new(), message }]
    })?;
    let (mut all, mut refused, mut number) = (Vec::new(), Vec::new(), 0);
    for (document, tree) in documents.into_iter().enumerate() {
        for (path, record) in records(tree, list) {
            number += 1;
            match read(&record) {
                Ok(read) => all.push(read),
                Err(problems) => refused.push((document, path, number, problems)),
            }
        }
    }
    if refused.is_empty() {
        return Ok(all);
    }
    let lines = lines(text);
    let of_record = |(document, path, number, problems): (_, String, i32, Problems)| {
        let dot = if path.is_empty() { "" } else { "." };
        let one = |problem: &numaloc_config::written::Problem| Mistake {
            file: 0,
            line: lines.of(document, &format!("{path}{dot}{}", problem.path)),
            key: format!("record {number}"),
            message: problem.to_string(),
        };
        problems.iter().map(one).collect::<Vec<_>>()
    };
    Err(refused.into_iter().flat_map(of_record).collect())
}

/// JSON has no separator of documents, and YAML has none that JSON may have. A text that begins as JSON does is read as
/// JSON.
fn is_json(text: &str) -> bool {
    text.trim_start().starts_with(['{', '['])
}

/// The documents of a text, or the line and the reason of the error.
fn json(text: &str) -> Result<Vec<Tree>, (usize, String)> {
    let documents = Deserializer::from_str(text).into_iter::<Tree>();
    let failed = |error: serde_json::Error| (error.line(), format!("not JSON: {error}"));
    documents.collect::<Result<_, _>>().map_err(failed)
}

fn yaml(text: &str) -> Result<Vec<Tree>, (usize, String)> {
    serde_saphyr::from_multiple(text).map_err(|error| {
        let line = error.location().and_then(|at| usize::try_from(at.line()).ok());
        (line.unwrap_or(1), format!("not YAML: {}", error.without_snippet()))
    })
}

/// The records of a document, each with its path there.
fn records(document: Tree, list: &str) -> Vec<(String, Tree)> {
    let of_list = |path: &str, records: Vec<Tree>| {
        let one = |(index, record)| (format!("{path}[{index}]"), record);
        records.into_iter().enumerate().map(one).collect()
    };
    match document {
        Tree::List(records) => of_list("", records),
        Tree::Map(mut fields) => match fields.remove(list) {
            Some(Tree::List(records)) => of_list(list, records),
            Some(other) => {
                vec![(String::new(), Tree::Map([(list.to_owned(), other)].into()))]
            }
            None => vec![(String::new(), Tree::Map(fields))],
        },
        other => vec![(String::new(), other)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_config::written::{self, Object};
    use serde_json::json;

    fn lines(problems: Vec<Mistake>) -> String {
        problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    fn all(text: &str) -> Result<Vec<Tree>, String> {
        parse(text, "schedules", |tree| Ok::<_, Problems>(tree.clone())).map_err(lines)
    }

    /// A record with a name and a size, and nothing else.
    fn record(tree: &Tree) -> Result<(), Problems> {
        written::all("", tree, |tree| {
            let mut object = Object::of("", tree)?;
            object.required("name", written::text)?;
            object.take("size", written::whole::<u8>(1..=9))?;
            object.take("places", |path, tree| written::list(path, tree, written::text))?;
            object.end()
        })
    }

    #[test]
    fn all_mistakes_of_a_file_are_named_each_with_its_line() {
        let all = |text: &str| parse(text, "schedules", record).map_err(lines).expect_err(text);
        let yaml = "\
# Two of them.
schedules:
  - name: a
    size: 10
    places:
      - x
      - 5
  - size: 3
    sizes: 4
---
name: c
size: many
";
        let expected = "\
4: record 1: size must be a whole number from 1 to 9, and is 10
7: record 1: places[1] must be text, and is a number
8: record 2: name is missing
12: record 3: size must be a whole number from 1 to 9, and is text";
        assert_eq!(all(yaml), expected);
        let json = "{\n\"name\": \"a\",\n\"size\": 0}\n\n[{\"name\": \"b\"},\n{\"name\":\n \"c\\ud83d\\ude00\",\n\t\"at\": 1}]\n5";
        let expected = "\
3: record 1: size must be a whole number from 1 to 9, and is 0
8: record 3: at is not known; known here: name, places, size
9: record 4: it must be an object, and is a number";
        assert_eq!(all(json), expected);
    }

    #[test]
    fn json_and_yaml_are_read_as_documents_lists_and_records() {
        let (a, b) = (json!({"name": "a", "interval": "5s"}), json!({"name": "b"}));
        for text in [
            format!(r#"{{"schedules": [{a}, {b}]}}"#),
            format!("[{a}, {b}]"),
            format!("{a}\n{b}\n"),
            format!("[{a}]\n{b}"),
            "schedules:\n- {name: a, interval: 5s}\n- name: b\n".to_owned(),
            "- name: a\n  interval: 5s\n- name: b\n".to_owned(),
            "# the first\nname: a\ninterval: 5s\n---\nname: b\n".to_owned(),
            "---\nname: a\ninterval: 5s\n---\n# nothing\n---\nname: b\n...\n".to_owned(),
        ] {
            let both = [&a, &b].map(|value| serde_json::from_value::<Tree>(value.clone()).unwrap());
            assert_eq!(all(&text).as_deref(), Ok(&both[..]), "{text}");
        }
        for empty in ["", "\n", "---\n", "[]", "# only this\n", r#"{"schedules": []}"#] {
            assert_eq!(all(empty), Ok(Vec::new()), "{empty:?}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_named_with_its_place() {
        for (text, words) in [
            ("{", "not JSON: EOF"),
            ("name: [a\n", "not YAML: "),
            ("name: a\n---\nname: \"b\n", "line 3"),
            ("a: 1\na: 2\n", "not YAML: "),
        ] {
            let error = all(text).expect_err(text);
            assert!(error.contains(words), "{error}");
        }
        let error = parse("name: a\n---\nsize: 1\n", "schedules", record).map_err(lines);
        assert_eq!(error, Err("3: record 2: name is missing".to_owned()));
    }
}
