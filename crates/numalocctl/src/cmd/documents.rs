//! Reads a file's declarations: records in YAML or JSON, one document or several.

use crate::exit::Failure;
use numaloc_api::written::Tree;
use serde_json::Deserializer;
use std::{fs, io, path::Path};

/// The records of a file, each read by `read`. `-` is standard input. `list` is the field of a document that holds the
/// records, as `-o json` prints them; a document may also be a list, or a single record.
///
/// # Errors
/// The file cannot be read or is neither YAML nor JSON; `read` refuses a record.
pub fn read<T>(
    path: &Path,
    list: &str,
    read: impl Fn(&Tree) -> Result<T, String>,
) -> Result<Vec<T>, Failure> {
    let (text, name) = match path.as_os_str() == "-" {
        true => (io::read_to_string(io::stdin()), Path::new("standard input")),
        false => (fs::read_to_string(path), path),
    };
    let failed = |reason: String| Failure::Config { path: name.into(), reason };
    let text = text.map_err(|error| failed(format!("cannot be read: {error}")))?;
    parse(&text, list, read).map_err(failed)
}

/// As [`read`], from a text.
pub fn parse<T>(
    text: &str,
    list: &str,
    read: impl Fn(&Tree) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    let documents = documents(text)?;
    let records = documents.into_iter().flat_map(|document| records(document, list)).zip(1..);
    let one = |(record, number)| read(&record).map_err(|why| format!("record {number}: {why}"));
    records.map(one).collect()
}

/// JSON has no separator of documents, and YAML has none that JSON may have. A text that begins as JSON does is read as
/// JSON.
fn documents(text: &str) -> Result<Vec<Tree>, String> {
    if text.trim_start().starts_with(['{', '[']) {
        let documents = Deserializer::from_str(text).into_iter::<Tree>();
        return documents.collect::<Result<_, _>>().map_err(|error| format!("not JSON: {error}"));
    }
    serde_saphyr::from_multiple(text)
        .map_err(|error| format!("not YAML: {}", error.without_snippet()))
}

fn records(document: Tree, list: &str) -> Vec<Tree> {
    match document {
        Tree::List(records) => records,
        Tree::Map(mut fields) => match fields.remove(list) {
            Some(Tree::List(records)) => records,
            Some(other) => vec![Tree::Map([(list.to_owned(), other)].into())],
            None => vec![Tree::Map(fields)],
        },
        other => vec![other],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn all(text: &str) -> Result<Vec<Tree>, String> {
        parse(text, "schedules", |tree| Ok(tree.clone()))
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
        let read = |tree: &Tree| match tree {
            Tree::Map(map) if map.contains_key("name") => Ok(()),
            _ => Err("it has no name".to_owned()),
        };
        let error = parse("name: a\n---\nlabel: b\n", "schedules", read);
        assert_eq!(error, Err("record 2: it has no name".to_owned()));
    }
}
