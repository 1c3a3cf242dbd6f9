//! Runs the built program as a script would: alone, and with a fake daemon.

mod answers;
mod events;
mod fake;
mod generated;
mod jobs;
mod migrate;
mod operators;
mod reach;
mod records;
mod run;
mod standalone;
