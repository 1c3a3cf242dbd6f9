//! The bounds that can refuse a client.

use super::Holder;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    Client,
    /// The bound of the members of a group's grant together, or of all clients without a role.
    Cohort,
    /// The bound of all clients together.
    All,
}

impl Bound {
    /// All of them, in the order of their discriminants.
    pub const ALL: [Self; 3] = [Self::Client, Self::Cohort, Self::All];

    /// The bound for this holder.
    pub(super) fn of(holder: &Holder) -> Self {
        match holder {
            Holder::Client(_) => Self::Client,
            Holder::Cohort(_) => Self::Cohort,
            Holder::All => Self::All,
        }
    }

    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Cohort => "cohort",
            Self::All => "all",
        }
    }
}
