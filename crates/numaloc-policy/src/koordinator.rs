//! The annotation `koordinator.sh/memoryLocality`, as koordlet reads it: keys in any case, unknown ones ignored,
//! numbers that are whole numbers and nothing else.

use crate::{
    Settings,
    own::{WANTED, Wanted},
};
use numaloc_config::written::{Object, Problem, Tree, one_of, whole};
use std::time::Duration;

/// The longest interval in minutes: that of the daemon's schedules, 366 days.
const MINUTES_MAX: u64 = 366 * 24 * 60;

/// The request in the annotation, if any.
#[derive(Clone, Debug, PartialEq)]
pub enum Says {
    /// It has no policy, so another source decides.
    Nothing,
    /// Nothing is to be done.
    Off,
    /// This is to be done.
    Do(Box<Settings>),
}

/// Reads the annotation's value.
///
/// # Errors
/// What is wrong first.
pub fn read(tree: &Tree) -> Result<Says, Problem> {
    // For encoding/json null is an object without keys.
    if *tree == Tree::Null {
        return Ok(Says::Nothing);
    }
    let mut fields = Object::in_any_case("", tree)?;
    let wanted = named(fields.take("policy", one_of(WANTED)), "policy")?;
    let minutes = named(fields.take("migrateintervalminutes", minutes), "migrateIntervalMinutes")?;
    let ratio = fields.take("targetlocalityratio", whole(0..=100));
    let ratio = named(ratio, "targetLocalityRatio")?;
    Ok(match (wanted, minutes) {
        (Some(Wanted::None), _) | (_, Some(None)) => Says::Off,
        (None, _) => Says::Nothing,
        (Some(Wanted::BestEffort), minutes) => {
            let interval = Duration::from_secs(60 * minutes.flatten().unwrap_or(0));
            Says::Do(Box::new(Settings::of_ratio(ratio.unwrap_or(100), interval)))
        }
    })
}

/// Names a field in a problem as the contract writes it.
fn named<T>(result: Result<T, Problem>, name: &str) -> Result<T, Problem> {
    result.map_err(|problem| Problem { path: name.to_owned(), ..problem })
}

/// An interval in minutes; `None` if it is `none`, which switches the policy off.
fn minutes(path: &str, tree: &Tree) -> Result<Option<u64>, Problem> {
    let hint = "write 0 for once, the minutes between two runs, or \"none\"";
    let with_hint = |problem| Problem { hint: hint.to_owned(), ..problem };
    match tree {
        Tree::Text(text) if text.eq_ignore_ascii_case("none") => Ok(None),
        other => whole(0..=MINUTES_MAX)(path, other).map(Some).map_err(with_hint),
    }
}
