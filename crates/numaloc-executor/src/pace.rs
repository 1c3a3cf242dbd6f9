//! The pace of a run, by what it costs others.

pub(crate) mod brake;
pub(crate) mod duty;
pub(crate) mod guard;
pub(crate) mod interval;
pub(crate) mod others;
pub(crate) mod pacer;
pub(crate) mod scaling;
#[cfg(test)]
pub(crate) mod simulation;
pub(crate) mod splits;
pub(crate) mod stall;
pub(crate) mod watch;
