//! The lines of a file that its values are in. JSON is read as YAML here, which has positions.

use numaloc_config::written::below;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;
use std::{collections::BTreeMap, fmt};

/// The line of each value, by the index of its document and by its path.
#[derive(Debug, Default)]
pub struct Lines(BTreeMap<(usize, String), usize>);

impl Lines {
    /// The lines of a text of YAML documents.
    pub fn of_yaml(text: &str) -> Self {
        let mut lines = Self::default();
        let documents: Vec<Spanned<Value>> = serde_saphyr::from_multiple(text).unwrap_or_default();
        for (index, document) in documents.iter().enumerate() {
            lines.add(index, 0, String::new(), document.referenced.line(), &document.value);
        }
        lines
    }

    /// The lines of a text of JSON documents.
    pub fn of_json(text: &str) -> Self {
        let mut lines = Self::default();
        let mut documents = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
        let mut start = 0;
        for index in 0.. {
            let Some(Ok(_)) = documents.next() else { break };
            let end = documents.byte_offset();
            let above = text[..start].matches('\n').count();
            let document = serde_saphyr::from_str::<Spanned<Value>>(&text[start..end]);
            if let Ok(Spanned { value, referenced, .. }) = document {
                lines.add(index, above, String::new(), referenced.line(), &value);
            }
            start = end;
        }
        lines
    }

    /// The line of the value at `path`, or of the nearest one around it.
    pub fn of(&self, document: usize, path: &str) -> usize {
        let mut path = path;
        loop {
            if let Some(line) = self.0.get(&(document, path.to_owned())) {
                return *line;
            }
            path = match path.rfind(['.', '[']) {
                Some(end) => &path[..end],
                None if path.is_empty() => return 1,
                None => "",
            };
        }
    }

    /// Adds a value that begins in this line of its document, which has `above` lines above it.
    fn add(&mut self, document: usize, above: usize, path: String, line: u64, value: &Value) {
        let line = usize::try_from(line).unwrap_or_default().max(1);
        match value {
            Value::Single => {}
            Value::List(list) => {
                for (index, one) in list.iter().enumerate() {
                    let path = format!("{path}[{index}]");
                    self.add(document, above, path, one.referenced.line(), &one.value);
                }
            }
            Value::Map(map) => {
                for (name, one) in map {
                    let path = below(&path, &name.value);
                    self.add(document, above, path, name.referenced.line(), &one.value);
                }
            }
        }
        self.0.insert((document, path), above + line);
    }
}

enum Value {
    Single,
    List(Vec<Spanned<Value>>),
    Map(Vec<(Spanned<String>, Spanned<Value>)>),
}

struct Reader;

macro_rules! single {
    ($($visit:ident $of:ty),*) => {$(
        fn $visit<E>(self, _: $of) -> Result<Value, E> {
            Ok(Value::Single)
        }
    )*};
}

impl<'de> Visitor<'de> for Reader {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Single)
    }
    single!(visit_bool bool, visit_i64 i64, visit_u64 u64, visit_i128 i128, visit_u128 u128, visit_f64 f64, visit_str &str);
    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = from.next_element()? {
            list.push(value);
        }
        Ok(Value::List(list))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = from.next_entry()? {
            map.push(entry);
        }
        Ok(Value::Map(map))
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Reader)
    }
}
