//! Conversions of numbers that do not wrap around: what does not fit becomes the largest number that does.

/// A length or an index in memory.
pub const fn index(number: u64) -> usize {
    #[expect(clippy::cast_possible_truncation, reason = "it is compared before")]
    if number > usize::MAX as u64 { usize::MAX } else { number as usize }
}

/// A number that fits unless something is wrong: a part of an amount, or one of few things.
pub fn small<N: TryInto<u32>>(number: N) -> u32 {
    number.try_into().unwrap_or(u32::MAX)
}

/// The quotient of a product of two amounts.
pub fn amount(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// A number without its fraction. 0 if it is negative, or no number.
pub fn whole(number: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "`as` saturates (The Rust Reference, Numeric cast)"
    )]
    {
        number as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_do_not_wrap_around() {
        assert_eq!((index(7), index(u64::MAX)), (7, usize::MAX));
        assert_eq!((small(7_u64), small(1_u64 << 32), small(-1_i64)), (7, u32::MAX, u32::MAX));
        assert_eq!((amount(7), amount(1 << 64)), (7, u64::MAX));
        assert_eq!((whole(7.9), whole(-7.9), whole(f64::NAN)), (7, 0, 0));
        assert_eq!((whole(1e30), whole(f64::INFINITY)), (u64::MAX, u64::MAX));
    }
}
