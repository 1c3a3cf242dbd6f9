//! The rule that decides where an extent belongs.

/// The source that decides where the pages of an extent belong, other than the processes that map it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// A rule of the request, by its number in [`Options::maps`](crate::Options::maps).
    Request(usize),
    /// The cell of a guest whose memory it is, by its number among the cells of all processes of the target, in their order.
    Cell(usize),
}

impl Rule {
    /// The number of the rule of the request.
    pub fn request(self) -> Option<usize> {
        match self {
            Self::Request(number) => Some(number),
            Self::Cell(_) => None,
        }
    }

    /// The number of the cell.
    pub fn cell(self) -> Option<usize> {
        match self {
            Self::Cell(number) => Some(number),
            Self::Request(_) => None,
        }
    }
}
