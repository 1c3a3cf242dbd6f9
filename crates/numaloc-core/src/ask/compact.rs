//! Whether a target's memory is compacted, so that huge pages find room there in one piece.

use crate::ask::pace::Profile;

/// When the memory of a target node is compacted before huge pages go there.
///
/// A huge page that finds no free block of its size is split by the kernel, and its base pages move. Compaction makes such blocks,
/// but moves pages of all processes on the node for it, and each of them is unmapped for a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Compact {
    /// Where blocks are short, unless the profile is gentle.
    #[default]
    Auto,
    /// The run compacts nothing; a huge page without a free block is split.
    Never,
    /// Where blocks are short, whatever the profile.
    Always,
}

impl Compact {
    /// All of them, the default first.
    pub const ALL: [Compact; 3] = [Self::Auto, Self::Never, Self::Always];

    /// Stable name for people and machines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Never => "never",
            Self::Always => "always",
        }
    }

    /// Whether a run with this profile compacts where blocks are short.
    pub fn applies(self, profile: Profile) -> bool {
        match self {
            Self::Auto => profile != Profile::Gentle,
            Self::Never => false,
            Self::Always => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gentle_run_compacts_only_if_that_is_asked_for() {
        let of = |compact: Compact| Profile::ALL.map(|profile| compact.applies(profile));
        assert_eq!(of(Compact::Auto), [false, true, true]);
        assert_eq!(of(Compact::Never), [false; 3]);
        assert_eq!(of(Compact::Always), [true; 3]);
    }
}
