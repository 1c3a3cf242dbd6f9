mod answers;
mod arbitrary;
mod random;
mod records;
mod refused;
mod round_trips;
mod samples;
mod schedules;
mod shapes;
mod versions;

use crate::v1;

/// A target of one process.
fn one() -> v1::Target {
    v1::Target { pids: vec![1], ..v1::Target::default() }
}

/// A spec with a target.
fn spec(target: v1::Target) -> v1::MigrationSpec {
    v1::MigrationSpec { target: Some(target), ..v1::MigrationSpec::default() }
}
