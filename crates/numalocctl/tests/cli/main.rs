//! Runs the built program as a script would: alone, and with a fake daemon.

mod advise;
mod answers;
mod dsa;
mod events;
mod explain;
mod fake;
mod generated;
mod jobs;
mod left_out;
mod map;
mod migrate;
mod operators;
mod reach;
mod records;
mod run;
mod standalone;
mod targets;
mod terminal;
mod web;
