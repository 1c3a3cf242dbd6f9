//! The ticks of a scale of addresses.

/// Distances of ticks from the first address, and what is written at each: round numbers of one unit, which the last
/// one names.
pub fn ticks(bytes: u64) -> Vec<(u64, String)> {
    const UNITS: [(&str, u64); 5] =
        [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)];
    let step = step(bytes);
    let last = bytes / step * step;
    let fitting = UNITS.iter().rev().find(|(_, unit)| last >= *unit);
    let &(name, unit) = fitting.unwrap_or(&UNITS[0]);
    let words = |at: u64| {
        // At most an eighth of the unit, which is exact in decimals.
        let number = format!("{}", at as f64 / unit as f64);
        if at == last { format!("{number} {name}") } else { number }
    };
    (0..=bytes / step).map(|index| (index * step, words(index * step))).collect()
}

/// The largest power of two that gives at least four steps.
fn step(bytes: u64) -> u64 {
    let quarter = (bytes / 4).max(1);
    1 << (63 - quarter.leading_zeros())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(bytes: u64) -> String {
        let words: Vec<String> = ticks(bytes).into_iter().map(|(_, words)| words).collect();
        words.join(" ")
    }

    #[test]
    fn ticks_are_round_and_have_one_unit() {
        assert_eq!(words(4 << 30), "0 1 2 3 4 GiB");
        assert_eq!(words((4 << 30) + (200 << 20)), "0 1 2 3 4 GiB");
        assert_eq!(words(3 << 30), "0 0.5 1 1.5 2 2.5 3 GiB");
        assert_eq!(words(5 << 28), "0 0.25 0.5 0.75 1 1.25 GiB");
        assert_eq!(words(800 << 10), "0 128 256 384 512 640 768 KiB");
        assert_eq!(words(33 * 4096), "0 32 64 96 128 KiB");
        assert_eq!(words(4096), "0 1 2 3 4 KiB");
        for shift in 0..36 {
            let bytes = 4097 << shift;
            let ticks = ticks(bytes);
            assert!((5..=9).contains(&ticks.len()), "{bytes}: {ticks:?}");
            assert!(ticks.iter().all(|(at, words)| *at <= bytes && words.len() <= 9), "{ticks:?}");
        }
        assert_eq!(words(0), "0 B");
    }
}
