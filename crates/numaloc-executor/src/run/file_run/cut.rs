//! Division of the pages of pieces of files among calls. Pure.
//!
//! A folio of the page cache may be as large as a piece, and moves whole. Where a call ends within a piece, a folio could move twice, to
//! two nodes: calls end with pieces, and the rest of a piece that does not fit as a whole is looked at again.

use std::collections::VecDeque;

/// Number of pages for a call that may hold `most`: the pages of whole pieces, or of a part of the first one if it is
/// larger. `pieces` has the number of pages of each.
pub fn cut_length(pieces: impl IntoIterator<Item = usize>, most: usize) -> usize {
    let mut whole = 0;
    for piece in pieces {
        match whole + piece {
            next if next <= most => whole = next,
            _ if whole == 0 => return most.max(1),
            _ => break,
        }
    }
    whole
}

/// The pages of a call.
#[derive(Debug, PartialEq, Eq)]
pub struct FileCut {
    pub addresses: Vec<u64>,
    /// Whether the last piece has more pages, which are the first that are left.
    pub is_within_piece: bool,
}

/// Takes the first `count` pages.
pub fn cut(pieces: &mut VecDeque<Vec<u64>>, count: usize) -> FileCut {
    let mut addresses = Vec::with_capacity(count);
    while let Some(mut piece) = pieces.pop_front() {
        let missing = count - addresses.len();
        if piece.len() > missing {
            let rest = piece.split_off(missing);
            pieces.push_front(rest);
            addresses.append(&mut piece);
            return FileCut { addresses, is_within_piece: missing > 0 };
        }
        addresses.append(&mut piece);
    }
    FileCut { addresses, is_within_piece: false }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    #[test]
    fn calls_end_with_pieces() {
        assert_eq!(cut_length([512, 512, 100], 1024), 1024);
        assert_eq!(cut_length([512, 512, 100], 1100), 1024);
        assert_eq!(cut_length([512, 512, 100], 9999), 1124);
        assert_eq!(cut_length([512, 512], 64), 64, "a part of the first");
        assert_eq!(cut_length([512], 0), 1);
        assert_eq!(cut_length([], 64), 0);
    }

    proptest! {
        #[test]
        fn every_page_is_passed_once_and_in_order(lengths in vec(1usize..600, 0..8), most in 0usize..2000) {
            let mut next = 0;
            let mut piece = |length: &usize| {
                let pages = (next..next + *length as u64).collect::<Vec<_>>();
                next += *length as u64;
                pages
            };
            let mut pieces: VecDeque<Vec<u64>> = lengths.iter().map(&mut piece).collect();
            let all: Vec<u64> = pieces.iter().flatten().copied().collect();
            let mut passed = Vec::new();
            while !pieces.is_empty() {
                let length = cut_length(pieces.iter().map(Vec::len), most);
                let before = pieces.len();
                let FileCut { addresses, is_within_piece } = cut(&mut pieces, length);
                prop_assert!(!addresses.is_empty() && addresses.len() <= most.max(1));
                prop_assert_eq!(is_within_piece, pieces.len() == before);
                passed.extend(addresses);
            }
            prop_assert_eq!(passed, all);
        }
    }
}
