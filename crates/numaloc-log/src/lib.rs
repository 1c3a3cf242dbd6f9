//! Where the programs of numaloc that run as services log to: [`Sink`].
//!
//! | modules | what they do |
//! |---|---|
//! | `sink` | the journal, if the service manager has connected stderr to it, else lines |
//! | `journal` | a layer of tracing that writes entries of the journal |
#![forbid(unsafe_code)]

mod journal;
mod sink;

pub use journal::Journal;
pub use sink::Sink;
