//! The built program, as a script sees it: alone, and with a daemon that gives canned answers.

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
