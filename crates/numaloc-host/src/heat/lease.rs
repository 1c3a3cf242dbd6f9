//! Only one run at a time may set up DAMON. The note of its lease lists the pids of the processes that it watches.

use crate::{Error, Roots, lease};

/// The name of the note.
const NAME: &str = "damon";

/// The right to set up DAMON. Dropping this value gives the right up.
#[derive(Debug)]
pub struct Lease(lease::Lease);

impl Lease {
    /// Takes it; `None` while another run has it.
    pub fn take(roots: &Roots) -> Result<Option<Self>, Error> {
        Ok(lease::Lease::take(roots, NAME)?.map(Self))
    }

    /// Notes the pids of the processes that will be watched. To be called before anything is changed.
    pub fn mark(&mut self, pids: &[i32]) -> Result<(), Error> {
        let words: Vec<String> = pids.iter().map(i32::to_string).collect();
        self.0.replace(&words.join(" "))
    }

    /// Notes that nothing is set up any more.
    pub fn clear(&mut self) -> Result<(), Error> {
        self.0.replace("")
    }
}

/// The pids of the processes that a run watches, or watched when it was killed; empty if there is no such run.
pub fn marked(roots: &Roots) -> Vec<i32> {
    let text = lease::noted(roots, NAME);
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// Whether a run holds the right now.
pub fn is_taken(roots: &Roots) -> bool {
    lease::is_taken(roots, NAME)
}
