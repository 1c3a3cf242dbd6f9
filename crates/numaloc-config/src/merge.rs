//! Joins the tables of several files. Positions in the joined table count through all texts, one after the other, so that each has
//! its file.

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// A key that two files give. The later one holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Replaced {
    /// The full key.
    pub(crate) key: String,
    /// Positions of the earlier and of the later one.
    pub(crate) starts: [usize; 2],
}

/// `table` with all positions moved by `by`.
pub(crate) fn placed<'t>(table: DeTable<'t>, by: usize) -> DeTable<'t> {
    let entries = table.into_iter();
    entries.map(|(name, value)| (at(by, name, |name| name), value_at(by, value))).collect()
}

fn value_at(by: usize, value: Spanned<DeValue<'_>>) -> Spanned<DeValue<'_>> {
    at(by, value, |value| match value {
        DeValue::Table(table) => DeValue::Table(placed(table, by)),
        DeValue::Array(elements) => {
            DeValue::Array(elements.into_iter().map(|element| value_at(by, element)).collect())
        }
        other => other,
    })
}

fn at<T>(by: usize, value: Spanned<T>, inner: impl FnOnce(T) -> T) -> Spanned<T> {
    let span = value.span();
    Spanned::new(span.start + by..span.end + by, inner(value.into_inner()))
}

/// Adds `from` to `into`. Tables are joined key by key, and lists of tables one after the other. Any other value replaces the one
/// that was there, and is noted in `replaced`. `path` is the key of the table, with a dot at its end.
pub(crate) fn merge<'t>(
    into: &mut DeTable<'t>,
    from: DeTable<'t>,
    path: &str,
    replaced: &mut Vec<Replaced>,
) {
    for (name, value) in from {
        let Some((known, _)) = into.get_key_value(name.get_ref().as_ref()) else {
            into.insert(name, value);
            continue;
        };
        let key = format!("{path}{}", name.get_ref());
        let starts = [known.span().start, name.span().start];
        let Some(old) = into.get_mut(name.get_ref().as_ref()) else { continue };
        match (old.get_mut(), value.get_ref()) {
            (DeValue::Table(old), DeValue::Table(_)) => {
                if let DeValue::Table(new) = value.into_inner() {
                    merge(old, new, &format!("{key}."), replaced);
                }
            }
            (DeValue::Array(old), DeValue::Array(new)) if has_tables(old) && has_tables(new) => {
                *old = old.iter().chain(new.iter()).cloned().collect();
            }
            _ => {
                replaced.push(Replaced { key, starts });
                into.remove(name.get_ref().as_ref());
                into.insert(name, value);
            }
        }
    }
}

fn has_tables(elements: &[Spanned<DeValue<'_>>]) -> bool {
    elements.iter().all(|element| element.get_ref().is_table())
}
