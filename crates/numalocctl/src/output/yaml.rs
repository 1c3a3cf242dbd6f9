//! JSON's values as YAML 1.2, in blocks. serde-saphyr writes YAML as well, by crates that nothing else needs.

use serde_json::{Map, Value};

/// A document, with a newline at its end.
pub fn yaml(value: &Value) -> String {
    let mut text = String::new();
    match is_block(value) {
        true => block(&mut text, value, 0),
        false => text = scalar(value) + "\n",
    }
    text
}

/// Whether a value has lines of its own.
fn is_block(value: &Value) -> bool {
    match value {
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
        _ => false,
    }
}

fn block(text: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(map) => fields(text, map, depth, true),
        Value::Array(list) => {
            for element in list {
                indent(text, depth);
                text.push_str("- ");
                match element {
                    Value::Object(map) if !map.is_empty() => fields(text, map, depth + 1, false),
                    Value::Array(_) if is_block(element) => {
                        text.pop();
                        text.push('\n');
                        block(text, element, depth + 1);
                    }
                    other => *text += &(scalar(other) + "\n"),
                }
            }
        }
        other => *text += &(scalar(other) + "\n"),
    }
}

/// The fields of a map. The first one may stand behind the dash of a list.
fn fields(text: &mut String, map: &Map<String, Value>, depth: usize, is_indented: bool) {
    for (index, (key, value)) in map.iter().enumerate() {
        if is_indented || index > 0 {
            indent(text, depth);
        }
        *text += &quoted(key);
        text.push(':');
        match value {
            Value::Array(_) if is_block(value) => {
                text.push('\n');
                block(text, value, depth);
            }
            _ if is_block(value) => {
                text.push('\n');
                block(text, value, depth + 1);
            }
            other => *text += &format!(" {}\n", scalar(other)),
        }
    }
}

fn indent(text: &mut String, depth: usize) {
    text.extend(std::iter::repeat_n("  ", depth));
}

/// A value without lines of its own. Those of JSON are those of YAML.
fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        other => other.to_string(),
    }
}

/// A text, without quotes if it can be nothing else than a text.
fn quoted(text: &str) -> String {
    const WORDS: [&str; 8] = ["true", "false", "null", "yes", "no", "on", "off", "y"];
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '/' | '.');
    let begins = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
    let lower = text.to_ascii_lowercase();
    match begins && text.chars().all(is_plain) && !WORDS.contains(&lower.as_str()) && lower != "n" {
        true => text.to_owned(),
        // JSON's escapes are those of YAML's double quotes.
        false => Value::from(text).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(value: Value) {
        let text = yaml(&value);
        let read: Value =
            serde_saphyr::from_str(&text).unwrap_or_else(|why| panic!("{why}: {text}"));
        assert_eq!(read, value, "{text}");
    }

    #[test]
    fn what_is_written_is_read_again() {
        check(json!({}));
        check(json!([]));
        check(json!("x"));
        check(json!({
            "a": [1, -2, 1.5, true, null, "x: y", [], {}, [[1], [2, [3]]]],
            "b": {"c": {"d": [], "e": [{"f": 1, "g": [{"h": "i"}]}, {"j": null}]}},
            "no": "no", "5": "5", "": "", "- k": "# l", "m": "a\nb\t\"c\" \\u{1b}", "1.5s": "0.25s", "n": "~", "y": "Y",
        }));
    }

    #[test]
    fn it_is_plain_to_people() {
        let value = json!({"schedules": [{"name": "schedules/a", "spec": {"target": {"units": ["a.service"]}}, "interval": "60s"}]});
        assert_eq!(
            yaml(&value),
            "schedules:\n- interval: \"60s\"\n  name: schedules/a\n  spec:\n    target:\n      units:\n      - a.service\n"
        );
    }
}
