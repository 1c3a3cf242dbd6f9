//! A run: its workers, the runs beside it, and a migration as a whole.

pub(crate) mod attached;
pub(crate) mod exchange;
pub(crate) mod execute;
pub(crate) mod file_run;
pub(crate) mod migration;
pub(crate) mod partners;
pub(crate) mod pool;
pub(crate) mod tier_ways;
pub(crate) mod worker;
