use super::*;
use crate::value::{count, duration};
use proptest::prelude::*;
use serde::Deserialize;
use std::time::Duration;

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
struct File {
    #[serde(deserialize_with = "count::<1, 9, _, _>")]
    count: u8,
    inner: Inner,
    rows: Vec<Row>,
    words: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
struct Inner {
    #[serde(deserialize_with = "duration::<1000, 60_000, _, _>")]
    time: Duration,
    innermost: Option<Row>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
struct Row {
    flag: bool,
}

fn read(text: &str) -> Result<File, Vec<String>> {
    let (file, document) = Document::read::<File>(text);
    let lines = |problems: Vec<Mistake>| problems.iter().map(ToString::to_string).collect();
    document.conclude(file).map_err(lines)
}

#[test]
fn a_valid_document_has_no_problems() {
    let file = read("count = 3\n[inner]\ntime = \"5s\"\n[[rows]]\nflag = true\n").unwrap();
    let inner = Inner { time: Duration::from_secs(5), innermost: None };
    let rows = vec![Row { flag: true }];
    assert_eq!(file, File { count: 3, inner, rows, words: Vec::new() });
    assert_eq!(read(""), Ok(File::default()));
}

#[test]
fn all_mistakes_are_found_each_with_its_line_and_key() {
    let text = "\
count = 0
words = [\"a\", 5]
unknown = 1
[inner]
time = \"5w\"
[inner.innermost]
flags = true
[[rows]]
[[rows]]
flag = 1
[[rows]]
flag = true
other = 1
";
    let problems = read(text).unwrap_err();
    let expected = [
        "1: count: 0 is out of range: 1 to 9",
        "2: words[1]: expected text in quotes, not 5",
        "3: unknown: unknown field `unknown`, expected one of `count`, ",
        "5: inner.time: invalid duration '5w': expected a duration such as",
        "7: inner.innermost.flags: unknown field `flags`, expected `flag`",
        "6: inner.innermost: missing field `flag`",
        "8: rows[0]: missing field `flag`",
        "10: rows[1].flag: expected true or false, not 1",
        "13: rows[2].other: unknown field `other`, expected `flag`",
    ];
    for line in expected {
        let found = problems.iter().any(|problem| problem.starts_with(line));
        assert!(found, "{line}: {problems:#?}");
    }
    assert_eq!(problems.len(), expected.len(), "{problems:#?}");
}

#[test]
fn several_texts_are_read_as_one() {
    let texts = [
        "count = 1\nwords = [\"a\"]\n[[rows]]\nflag = true\n",
        "",
        "count = 3\nwords = []\n[inner]\ntime = \"5s\"\n[[rows]]\nflag = false",
        "inner.innermost.flag = true\ninner.time = \"6s\"",
    ];
    let (file, document) = Document::read_all::<File>(texts);
    let place = |file, line| FileLine { file, line };
    let replaced: Vec<_> = document.replaced().collect();
    let expected = [
        ("count", [place(0, 1), place(2, 1)]),
        ("words", [place(0, 2), place(2, 2)]),
        ("inner.time", [place(2, 4), place(3, 2)]),
    ];
    assert!(replaced.len() == 3 && expected.iter().all(|of| replaced.contains(of)), "{replaced:?}");
    assert_eq!(document.place_of("rows[1].flag"), Some(place(2, 6)));
    assert_eq!(document.place_of("rows[2]"), None);
    let file = document.conclude(file).unwrap();
    assert_eq!((file.count, file.words.len()), (3, 0));
    assert_eq!(file.rows, [Row { flag: true }, Row { flag: false }]);
    let innermost = Some(Row { flag: true });
    assert_eq!(file.inner, Inner { time: Duration::from_secs(6), innermost });
}

#[test]
fn mistakes_in_several_texts_have_their_file_and_its_count_of_elements() {
    let rows = "[[rows]]\nflag = true\n";
    let texts = [
        format!("count = 0\n{rows}"),
        format!("count = 2\n{rows}[[rows]]\nflag = 1\n"),
        "[inner]\nother = 1".to_owned(),
        "rows = 5".to_owned(),
    ];
    let of = |count: usize| {
        let (file, document) =
            Document::read_all::<File>(texts[..count].iter().map(String::as_str));
        let problems = document.conclude(file).unwrap_err();
        problems.iter().map(|of| format!("{}:{of}", of.file)).collect::<Vec<_>>()
    };
    let problems = of(3);
    assert_eq!(problems.len(), 2, "the first count is replaced: {problems:#?}");
    assert!(problems[0].starts_with("1:5: rows[1].flag: expected "), "{problems:#?}");
    assert!(problems[1].starts_with("2:2: inner.other: unknown field"), "{problems:#?}");
    let problems = of(4);
    assert!(problems[1].starts_with("3:1: rows: expected "), "{problems:#?}");

    let (file, mut document) = Document::read_all::<File>([rows, rows, "a = \n"]);
    document.refuse("rows[1].other", "missing");
    let problems = document.conclude(file).unwrap_err();
    let shown: Vec<_> = problems.iter().map(|of| (of.file, of.to_string())).collect();
    assert_eq!(shown[0], (1, "1: rows[0].other: missing".to_owned()));
    assert!(shown[1].0 == 2 && shown[1].1.starts_with("1: not TOML"), "{shown:?}");
}

#[test]
fn text_that_is_not_toml_is_refused_with_all_its_errors() {
    let problems = read("count 3\n[inner\n").unwrap_err();
    assert!(problems.len() >= 2 && problems[0].starts_with("1: not TOML: "), "{problems:?}");
}

#[test]
fn a_key_that_is_missing_is_refused_at_its_table() {
    let (_, mut document) = Document::read::<File>("count = 3\n\n[[rows]]\nflag = true\n");
    assert!(document.has("rows[0].flag") && document.has("count"));
    assert!(!document.has("rows[1]") && !document.has("inner") && !document.has("count.x"));
    document.refuse("rows[0].other", "missing");
    document.refuse("inner.time", "missing");
    document.refuse("count", "too small");
    assert!(document.is_wrong("rows") && document.is_wrong("inner"));
    assert!(!document.is_wrong("row") && !document.is_wrong("rows[0].flag"));
    let problems = document.conclude(()).unwrap_err();
    let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        ["1: inner.time: missing", "1: count: too small", "3: rows[0].other: missing"]
    );
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "(\\[{0,2}(inner|rows|inner\\.innermost)\\]{0,2}\n|(count|flag|time|words|[a-z]{1,4}) ?= ?[\"0-9a-z\\[\\]{}.]{0,8}\n|\\PC{0,6}\n){0,12}") {
        let lines = 1 + text.matches('\n').count();
        if let Err(problems) = { let (file, document) = Document::read::<File>(&text); document.conclude(file) } {
            prop_assert!(!problems.is_empty());
            prop_assert!(problems.iter().all(|problem| (1..=lines).contains(&problem.line)));
        }
    }
}
