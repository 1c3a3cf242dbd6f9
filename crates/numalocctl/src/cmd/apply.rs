//! `schedules apply` and `workloads apply`: make the daemon's records match a file.

use crate::{
    args::ApplyArgs,
    doc::{AppliedDoc, AppliedRecord, Change},
    exit::Failure,
    remote::Daemon,
};
use std::{collections::BTreeMap, fmt::Display};

/// The change to make to one record.
#[derive(Clone, Debug, PartialEq)]
pub enum Step<S> {
    Create(S),
    /// Gives it these settings, if it still has this etag.
    Configure(S, String),
    Keep,
    /// Removes it, if it still has this etag.
    Prune(String),
}

/// A kind of records that files declare.
pub trait Declared {
    type Id: Clone + Ord + Display;
    /// The declaration of a record in a file.
    type Spec;
    /// A record of the daemon.
    type Record;

    fn id(record: &Self::Record) -> Option<Self::Id>;
    fn etag(record: &Self::Record) -> &str;
    fn labels(record: &Self::Record) -> &BTreeMap<String, String>;
    /// The file of the daemon's configuration that declares a record; empty: none.
    fn declared_in(_: &Self::Record) -> &str {
        ""
    }
    /// The spec that a record should have; `None`: the one that the file declares.
    fn changed(spec: Self::Spec, record: &Self::Record) -> Option<Self::Spec>;
    /// Carries a step out, or only has the daemon check it.
    ///
    /// # Errors
    /// The daemon refuses it.
    fn carry_out(
        daemon: &Daemon,
        id: &Self::Id,
        step: &Step<Self::Spec>,
        validate_only: bool,
    ) -> Result<(), Failure>;
}

/// Has the daemon check all changes, and carries them out unless only the check was asked for. If another client
/// changes a record meanwhile, it ends; changes made by then stay, and the next run makes the rest.
pub fn apply<D: Declared>(
    daemon: &Daemon,
    args: &ApplyArgs,
    declared: Vec<(D::Id, D::Spec)>,
    existing: &[D::Record],
) -> Result<AppliedDoc, Failure> {
    let labels = args.prune.then(|| args.label.iter().cloned().collect());
    let steps = steps::<D>(declared, existing, labels.as_ref()).map_err(Failure::Usage)?;
    for (id, step) in &steps {
        D::carry_out(daemon, id, step, true)?;
    }
    if !args.dry_run {
        for (id, step) in &steps {
            D::carry_out(daemon, id, step, false)?;
        }
    }
    let change = |(id, step): (D::Id, Step<D::Spec>)| {
        let change = match step {
            Step::Create(_) => Change::Created,
            Step::Configure(..) => Change::Configured,
            Step::Keep => Change::Unchanged,
            Step::Prune(_) => Change::Pruned,
        };
        AppliedRecord { name: id.to_string(), change }
    };
    Ok(AppliedDoc { applied: steps.into_iter().map(change).collect(), dry_run: args.dry_run })
}

/// The changes to make. With `pruned`, existing records that have all of these labels and are not declared are removed.
pub fn steps<D: Declared>(
    declared: Vec<(D::Id, D::Spec)>,
    existing: &[D::Record],
    pruned: Option<&BTreeMap<String, String>>,
) -> Result<BTreeMap<D::Id, Step<D::Spec>>, String> {
    let existing: BTreeMap<D::Id, &D::Record> =
        existing.iter().filter_map(|record| Some((D::id(record)?, record))).collect();
    let mut steps = BTreeMap::new();
    for (id, spec) in declared {
        if steps.contains_key(&id) {
            return Err(format!("{id} is declared twice: leave one out"));
        }
        let step = match existing.get(&id) {
            None => Step::Create(spec),
            Some(record) if !D::declared_in(record).is_empty() => {
                let file = D::declared_in(record);
                return Err(format!(
                    "{id} is declared in {file}: change it there, or give this one another name"
                ));
            }
            Some(record) => match D::changed(spec, record) {
                None => Step::Keep,
                Some(spec) => Step::Configure(spec, D::etag(record).to_owned()),
            },
        };
        steps.insert(id, step);
    }
    let has_labels = |record: &D::Record| {
        pruned.is_some_and(|labels| {
            labels.iter().all(|(key, value)| D::labels(record).get(key) == Some(value))
        })
    };
    for (id, record) in existing {
        if D::declared_in(record).is_empty() && has_labels(record) {
            steps.entry(id).or_insert_with(|| Step::Prune(D::etag(record).to_owned()));
        }
    }
    Ok(steps)
}
