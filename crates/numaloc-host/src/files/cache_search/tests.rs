use super::*;
use numaloc_core::{file_cache::span_bytes, page_size};
use std::os::unix::fs::FileExt as _;

fn longest() -> u64 {
    i64::MAX as u64 / page_size() * page_size()
}

/// The pieces that a search stops at.
fn stops(mut search: CacheSearch, file: &File, end: u64) -> Vec<u64> {
    let (mut pieces, mut from) = (Vec::new(), 0);
    while let Some(next) = search.next(file, from, end) {
        pieces.push(next / piece_bytes());
        from = next + piece_bytes();
        assert!(pieces.len() < 10_000, "work by length");
    }
    pieces
}

/// A file in memory that is as long as a file can be, with pages in three places.
fn sparse() -> File {
    let file = tempfile::tempfile_in("/dev/shm").expect("a file");
    file.set_len(longest()).expect("tmpfs has such files");
    for piece in [0, 3, 1 << 29, (longest() - 1) / piece_bytes()] {
        file.write_all_at(&vec![7; page_size() as usize], piece * piece_bytes()).expect("a page");
    }
    file
}

#[test]
fn the_longest_file_with_few_pages_takes_few_looks() {
    let file = sparse();
    let is_in = |pieces: &[u64]| {
        for piece in [0, 3, 1 << 29, (longest() - 1) / piece_bytes()] {
            assert!(pieces.contains(&piece), "{piece} of {pieces:?}");
        }
    };
    let by_best = stops(CacheSearch::new(true), &file, longest());
    is_in(&by_best);
    assert!(by_best.len() <= 4 * (span_bytes() / piece_bytes()) as usize, "{by_best:?}");
    let by_data = stops(CacheSearch::by(Means::Data, true), &file, longest());
    assert_eq!(by_data, [0, 3, 1 << 29, (longest() - 1) / piece_bytes()]);
    // A file on a disk, as before Linux 6.5: the first holes are looked at, and the neighbours of data.
    let on_disk = stops(CacheSearch::by(Means::Data, false), &file, longest());
    is_in(&on_disk);
    assert!(on_disk.contains(&((1 << 29) - 1)) && on_disk.contains(&((1 << 29) + 1)));
    assert!(on_disk.len() as u64 <= HOLES / piece_bytes() + 16, "{}", on_disk.len());
    assert!(
        (0..HOLES / piece_bytes() / 2).all(|piece| on_disk.contains(&piece)),
        "the first holes"
    );
}

#[test]
fn without_means_each_piece_is_looked_at() {
    let file = sparse();
    let all = stops(CacheSearch::by(Means::None, false), &file, 5 * piece_bytes() + 1);
    assert_eq!(all, [0, 1, 2, 3, 4, 5]);
    assert!(stops(CacheSearch::new(false), &file, 0).is_empty());
}
