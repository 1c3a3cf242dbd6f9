//! Versions of containerd.

/// The first version whose NRI sets memory policies of new containers.
pub const WITH_MEMORY_POLICIES: (u32, u32) = (2, 4);

/// Major and minor number of a version such as `v2.1.9` or `1.6.20~ds1`; `None` if it is none.
pub fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers =
        text.trim_start_matches('v').split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_packages_and_of_containerd_itself_are_read() {
        for (text, expected) in [
            ("v2.1.9", Some((2, 1))),
            ("1.6.20~ds1", Some((1, 6))),
            ("2.4", Some((2, 4))),
            ("2.4~rc1", Some((2, 4))),
            ("2", None),
            ("nonsense", None),
            ("", None),
        ] {
            assert_eq!(version(text), expected, "{text}");
        }
    }
}
