//! JSON, YAML and TOML as trees of values without duplicate keys.

use super::text::{SHOWN_MAX, shown};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::{collections::BTreeMap, fmt};

/// A value of JSON, YAML or TOML, as it was written.
#[derive(Clone, Debug, PartialEq)]
pub enum Tree {
    /// `null`, which counts as if the key were not there.
    Null,
    /// A boolean, `true` or `false`.
    Flag(bool),
    /// A number without fraction and exponent.
    Whole(i128),
    /// Any other number, as a float.
    Number(f64),
    /// Text, without its quotes.
    Text(String),
    /// A list, in its order.
    List(Vec<Tree>),
    /// An object, by key.
    Map(BTreeMap<String, Tree>),
}

impl Tree {
    /// The kind of value, for messages.
    pub fn sort(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Flag(_) => "true or false",
            Self::Whole(_) => "a number",
            Self::Number(_) => "a number with a fraction",
            Self::Text(_) => "text",
            Self::List(_) => "a list",
            Self::Map(_) => "an object",
        }
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }
    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }
    fn visit_none<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }
    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Tree, D::Error> {
        Tree::deserialize(from)
    }
    fn visit_bool<E>(self, flag: bool) -> Result<Tree, E> {
        Ok(Tree::Flag(flag))
    }
    fn visit_i64<E>(self, number: i64) -> Result<Tree, E> {
        Ok(Tree::Whole(number.into()))
    }
    fn visit_u64<E>(self, number: u64) -> Result<Tree, E> {
        Ok(Tree::Whole(number.into()))
    }
    fn visit_i128<E>(self, number: i128) -> Result<Tree, E> {
        Ok(Tree::Whole(number))
    }
    fn visit_f64<E>(self, number: f64) -> Result<Tree, E> {
        Ok(Tree::Number(number))
    }
    fn visit_str<E>(self, text: &str) -> Result<Tree, E> {
        Ok(Tree::Text(text.to_owned()))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Tree, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = from.next_element()? {
            list.push(value);
        }
        Ok(Tree::List(list))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Tree, A::Error> {
        let mut map = BTreeMap::new();
        while let Some(key) = from.next_key::<String>()? {
            if map.contains_key(&key) {
                let key = shown(&key, SHOWN_MAX);
                return Err(A::Error::custom(format!("the key {key} is there twice")));
            }
            map.insert(key, from.next_value()?);
        }
        Ok(Tree::Map(map))
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Reader)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<Tree, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn values_are_what_they_are_in_json() {
        let tree = read(r#"{"a":[null,true,-1,18446744073709551615,1.5,"x"],"b":{}}"#);
        let numbers = [Tree::Whole(-1), Tree::Whole(u64::MAX.into()), Tree::Number(1.5)];
        let mut list = vec![Tree::Null, Tree::Flag(true)];
        list.extend(numbers);
        list.push(Tree::Text("x".to_owned()));
        let map = [("a", Tree::List(list)), ("b", Tree::Map(BTreeMap::new()))];
        let map = map.into_iter().map(|(key, value)| (key.to_owned(), value));
        assert_eq!(tree, Ok(Tree::Map(map.collect())));
    }

    #[test]
    fn a_key_that_is_there_twice_is_named() {
        let error = read("{\"a\":{\"x\\n\":1,\n\"x\\n\":2}}").expect_err("it is there twice");
        assert_eq!(error, "the key x\\u{a} is there twice at line 2 column 5");
    }

    #[test]
    fn depth_has_a_bound() {
        let error = read(&"[".repeat(100_000)).expect_err("it is too deep");
        assert!(error.starts_with("recursion limit exceeded"), "{error}");
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in any::<String>()) {
            let _ = read(&text);
        }

        /// Text that looks like JSON gets further than any text does.
        #[test]
        fn anything_like_json_is_read_or_refused(text in r#"[\[\]{}",:0-9eE.+\-a-c\\ \n]{0,64}"#) {
            let _ = read(&text);
        }
    }
}
