//! The policy in our own form: a schedule without its target (docs/annotations.md).

use crate::Settings;
use numaloc_api::{
    v1,
    written::{Rules, message, problems},
};
use numaloc_config::written::{Problem, Problems, Tree, all, below, one_of};
use prost_reflect::{FieldDescriptor, MessageDescriptor};

/// Whether anything is to be done: the values of the key `policy` here and in the contract's annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Nothing is done for the container.
    None,
    /// Memory is brought home as far as that works.
    BestEffort,
}

/// The word in annotations for each [`Wanted`].
pub const WANTED: [(&str, Wanted); 2] =
    [("bestEffort", Wanted::BestEffort), ("none", Wanted::None)];

/// Reads a policy, which is at `path`; `None`: it is switched off. Text instead of an object is the value of its key
/// `policy`.
///
/// # Errors
/// All mistakes.
pub fn read(path: &str, tree: &Tree) -> Result<Option<Settings>, Problems> {
    all(path, tree, |tree| read_one(path, tree))
}

/// As [`read`].
///
/// # Errors
/// The first mistake, or all of a policy whose values are valid one by one.
pub fn read_one(path: &str, tree: &Tree) -> Result<Option<Settings>, Problems> {
    if matches!(tree, Tree::Text(_)) {
        let wanted = one_of(WANTED)(path, tree)?;
        return Ok((wanted == Wanted::BestEffort).then(Settings::default));
    }
    let Tree::Map(map) = tree else { return Err(Problem::sort(path, "an object", tree).into()) };
    let mut map = map.clone();
    let wanted = match map.remove(SWITCH) {
        None | Some(Tree::Null) => Wanted::BestEffort,
        Some(switch) => one_of(WANTED)(&below(path, SWITCH), &switch)?,
    };
    let schedule = message(path, &map, RULES, &[SWITCH])?;
    let settings = Settings::new(schedule).map_err(|bad| problems(path, &bad))?;
    Ok((wanted == Wanted::BestEffort).then_some(settings))
}

/// The description of a policy's fields: those of a schedule for which [`is_of_policies`] holds.
///
/// # Errors
/// The API's definitions do not have it.
pub fn descriptor() -> Result<MessageDescriptor, String> {
    numaloc_api::descriptor::<v1::Schedule>()
}

/// The key that switches a policy off.
pub const SWITCH: &str = "policy";

/// An empty list is a mistake of who meant to name something.
const RULES: Rules = Rules { allowed: is_of_policies, empty_lists: false };

/// Whether a policy may set a field. The target is the container, and the tenant the pod. Memory of pods is only
/// brought home.
pub fn is_of_policies(field: &FieldDescriptor) -> bool {
    match field.parent_message().name() {
        "Schedule" => matches!(field.name(), "spec" | "interval" | "jitter" | "paused"),
        "MigrationSpec" => field.name() != "target",
        "Policy" => !matches!(
            field.name(),
            "tenant"
                | "interleave"
                | "weighted"
                | "bandwidth"
                | "balance"
                | "block"
                | "tiers"
                | "relief"
                | "maps"
        ),
        _ => true,
    }
}
