//! What a target means on this host.

use numaloc_api::value::{self, Missing};
use numaloc_host::Target;

/// What a target means on this host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Aim {
    /// What to look at.
    pub members: Vec<Member>,
    /// What is known to be missing before anybody has looked.
    pub missing: Vec<Missing>,
}

/// One thing to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// It in the host's words.
    pub target: Target,
    /// What clients call it: a target with one member.
    pub name: value::Target,
}
