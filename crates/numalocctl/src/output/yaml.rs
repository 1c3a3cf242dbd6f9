//! Documents as YAML that readers of YAML 1.1, such as PyYAML, and of 1.2 read alike.

use crate::exit::Failure;
use serde::Serialize;

/// A document in blocks, with a newline at its end. Each text is on one line, so that a line of it can be searched for.
///
/// # Errors
/// The document cannot be written as YAML.
pub fn yaml(document: &impl Serialize) -> Result<String, Failure> {
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    // By way of JSON, which has the fields of a message in one order.
    Ok(serde_saphyr::to_string_with_options(&serde_json::to_value(document)?, options)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_sys::fixture::skipped;
    use proptest::prelude::*;
    use serde_json::{Value, json};
    use std::{
        io::Write,
        process::{Command, Stdio},
    };

    fn written(value: &Value) -> String {
        yaml(value).unwrap()
    }

    fn check(value: &Value) {
        let text = written(value);
        let read: Value =
            serde_saphyr::from_str(&text).unwrap_or_else(|why| panic!("{why}: {text}"));
        assert_eq!(read, *value, "{text}");
        assert!(text.ends_with('\n'), "{text:?}");
    }

    /// Texts that one reader of YAML or another takes for something else.
    fn awkward() -> Value {
        json!({
            "a": [1, -2, 1.5, true, null, "x: y", [], {}, [[1], [2, [3]]]],
            "b": {"c": {"d": [], "e": [{"f": 1, "g": [{"h": "i"}]}, {"j": null}]}},
            "no": "no", "5": "5", "": "", "- k": "# l", "m": "a\nb\t\"c\" \\u{1b}", "1.5s": "0.25s", "n": "~", "y": "Y",
            "words": ["true", "Yes", "off", "NULL", "0x1f", "0o17", "017", "1_000", "1:30", "1e3", ".5", ".inf", "2026-01-01"],
            "signs": ["-", "- a", "?", "a: b", "a #b", "a:", "*a", "&a", "!a", "%a", "@a", "`a", "[a", "{a", "|", ">", "'", "\"", "<<", "="],
            "spaces": [" a", "a ", "\ta", "a\n", "\n", "a\n\n b\n", "\r\n", "\u{feff}", "\u{85}", "\u{2028}", "\u{7f}", "\u{1f600}"],
            "long": "a word ".repeat(40),
            "largest": u64::MAX,
            "smallest": i64::MIN,
            "---": "---",
            "...": "... a",
        })
    }

    fn any_text() -> impl Strategy<Value = String> {
        let signs = "[-?:,\\[\\]{}#&*!|>'\"%@` \t\n\r0-9a-zA-Z._~=<\\\\]{0,12}";
        prop_oneof![signs, "[0-9._:+xoeE-]{1,8}", any::<String>()]
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any_text().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            let fields = prop::collection::btree_map(any_text(), inner.clone(), 0..4);
            prop_oneof![
                prop::collection::vec(inner, 0..4).prop_map(Value::from),
                fields.prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn all_that_is_written_is_read_again(value in any_value()) {
            check(&value);
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        check(&json!({}));
        check(&json!([]));
        check(&json!("x"));
        check(&awkward());
    }

    /// PyYAML, and with it Ansible, reads YAML 1.1, where `no` and `1:30` are not texts.
    #[test]
    fn pyyaml_reads_the_same() {
        const MISSING: i32 = 77;
        let program = "import sys, json\ntry: import yaml\nexcept ImportError: sys.exit(77)\n\
                       json.dump(yaml.safe_load(sys.stdin.buffer), sys.stdout)";
        let mut python = Command::new("python3");
        let python = python.args(["-c", program]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let Ok(mut child) = python.spawn() else { return skipped("there is no python3") };
        let written = written(&awkward());
        // A Python without PyYAML ends before it reads.
        let _ = child.stdin.take().unwrap().write_all(written.as_bytes());
        let output = child.wait_with_output().unwrap();
        if output.status.code() == Some(MISSING) {
            return skipped("python3 has no yaml");
        }
        assert!(output.status.success(), "{written}");
        let read: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(read, awkward(), "{written}");
    }

    #[test]
    fn it_is_plain_to_people() {
        let value = json!({"schedules": [{"name": "schedules/a", "spec": {"target": {"units": ["a.service"]}}, "interval": "60s"}]});
        assert_eq!(
            written(&value),
            "schedules:\n- interval: 60s\n  name: schedules/a\n  spec:\n    target:\n      units:\n      - a.service\n"
        );
    }
}
