//! One argument of QEMU: a list of keys with values, in either of its two forms.

/// Keys with their values, in order. A key may be there several times.
pub(super) struct Arguments(Vec<(String, String)>);

impl Arguments {
    /// Reads JSON (`{"qom-type":"memory-backend-ram","id":"ram-node0","size":1073741824}`, what libvirt writes from QEMU 6.0 on) or a list
    /// (`memory-backend-ram,id=ram-node0,size=1024M`, in which `,,` is a comma, and whose first value may have no key: it is that of
    /// `first`; util/keyval.c, util/qemu-option.c). Only texts, numbers and truth values of JSON are kept. `None` if
    /// it is neither.
    pub(super) fn parse(argument: &str, first: &str) -> Option<Self> {
        if argument.starts_with('{') {
            Self::json(argument)
        } else {
            Some(Self::list(argument, first))
        }
    }

    fn json(argument: &str) -> Option<Self> {
        let keys: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(argument).ok()?;
        let text = |value| match value {
            serde_json::Value::String(text) => Some(text),
            serde_json::Value::Number(number) => Some(number.to_string()),
            serde_json::Value::Bool(truth) => Some(truth.to_string()),
            _ => None,
        };
        Some(Self(keys.into_iter().filter_map(|(key, value)| Some((key, text(value)?))).collect()))
    }

    fn list(argument: &str, first: &str) -> Self {
        let mut items = vec![String::new()];
        let mut characters = argument.chars().peekable();
        while let Some(character) = characters.next() {
            let is_escaped = character == ',' && characters.next_if_eq(&',').is_some();
            match items.last_mut() {
                Some(item) if character != ',' || is_escaped => item.push(character),
                _ => items.push(String::new()),
            }
        }
        let pair = |(index, item): (usize, String)| match item.split_once('=') {
            Some((key, value)) => (key.to_owned(), value.to_owned()),
            None if index == 0 => (first.to_owned(), item),
            None => (item, "on".to_owned()),
        };
        Self(items.into_iter().enumerate().map(pair).collect())
    }

    /// The values of a key.
    pub(super) fn all<'a>(&'a self, key: &'a str) -> impl DoubleEndedIterator<Item = &'a str> {
        self.0.iter().filter(move |(known, _)| known == key).map(|(_, value)| &**value)
    }

    /// The value of a key: the last one, as QEMU takes it.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().rfind(|(known, _)| known == key).map(|(_, value)| &**value)
    }
}
