//! The resctrl group of the threads that move, as an operator asks for it.

use std::{collections::BTreeMap, fmt};

/// Longest name of a group, in bytes.
const NAME_MAX: usize = 64;
/// Directories below the mount point of resctrl that are not control groups.
pub const RESERVED: [&str; 3] = ["info", "mon_data", "mon_groups"];

/// A control group of resctrl, and what its threads may use. What is `None` stays as the kernel sets it in a new group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoverGroup {
    /// Its name, which is that of its directory.
    pub name: GroupName,
    /// Memory bandwidth, in the unit that this host's resource MB has.
    pub memory_bandwidth: Option<DomainValues>,
    /// Ways of the L3 cache, as a mask.
    pub l3: Option<DomainValues>,
}

impl MoverGroup {
    /// Whether its threads are slower than they would be without it.
    pub fn is_limited(&self) -> bool {
        self.memory_bandwidth.is_some() || self.l3.is_some()
    }
}

/// The name of a control group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupName(String);

impl GroupName {
    /// Parses a name: letters, digits, `_`, `-` and `.`, which does not begin it.
    ///
    /// # Errors
    /// Why it is not a name, for people.
    pub fn parse(text: &str) -> Result<Self, String> {
        let is_valid =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        if RESERVED.contains(&text) {
            return Err(format!("'{text}' is a directory of the kernel: choose another name"));
        }
        let is_name = (1..=NAME_MAX).contains(&text.len())
            && text.bytes().all(is_valid)
            && !text.starts_with('.');
        if !is_name {
            return Err(format!(
                "'{text}' is not a valid name of a resctrl group: expected at most {NAME_MAX} letters, digits, '_', '-' and '.', for example numaloc"
            ));
        }
        Ok(Self(text.to_owned()))
    }

    /// The name as a text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The notation of values of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notation {
    /// Decimal numbers, as of MB.
    Number,
    /// Hexadecimal masks, as of L3.
    Mask,
}

impl Notation {
    /// Parses a value of a line of schemata. Some kernels pad them with spaces.
    pub fn parse(self, text: &str) -> Option<u64> {
        let radix = match self {
            Self::Number => 10,
            Self::Mask => 16,
        };
        let text = text.trim();
        // A sign would be accepted otherwise.
        let is_plain = text.starts_with(|first: char| first.is_ascii_hexdigit());
        is_plain.then(|| u64::from_str_radix(text, radix).ok())?
    }

    /// The value as a line of schemata has it.
    pub fn format(self, value: u64) -> String {
        match self {
            Self::Number => value.to_string(),
            Self::Mask => format!("{value:x}"),
        }
    }
}

/// One value for all domains of a resource, which are the L3 caches, or values of single ones: `20`, `0=20;17=50`.
#[derive(Clone, PartialEq, Eq)]
pub struct DomainValues {
    text: String,
    all: Option<u64>,
    single: BTreeMap<u32, u64>,
}

impl DomainValues {
    /// Parses values.
    ///
    /// # Errors
    /// Why they are not valid, for people.
    pub fn parse(text: &str, notation: Notation) -> Result<Self, String> {
        let example = match notation {
            Notation::Number => "a number such as \"20\", or one for each domain: \"0=20;1=50\"",
            Notation::Mask => "a mask such as \"f\", or one for each domain: \"0=f;1=ff\"",
        };
        let invalid = || format!("'{text}' is not valid: expected {example}");
        let mut values = Self { text: text.to_owned(), all: None, single: BTreeMap::new() };
        if !text.contains('=') {
            values.all = Some(notation.parse(text).ok_or_else(invalid)?);
            return Ok(values);
        }
        for part in text.split(';') {
            let (domain, value) = part.split_once('=').ok_or_else(invalid)?;
            let domain: u32 = domain.trim().parse().map_err(|_| invalid())?;
            let value = notation.parse(value).ok_or_else(invalid)?;
            if values.single.insert(domain, value).is_some() {
                return Err(format!("'{text}' has domain {domain} twice: give it one value"));
            }
        }
        Ok(values)
    }

    /// The value of a domain; `None`: it keeps what it has.
    pub fn of(&self, domain: u32) -> Option<u64> {
        self.all.or_else(|| self.single.get(&domain).copied())
    }

    /// The domains that are named.
    pub fn named(&self) -> impl Iterator<Item = u32> {
        self.single.keys().copied()
    }
}

impl fmt::Display for DomainValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for DomainValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DomainValues({:?})", self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_one_directory() {
        for name in ["numaloc", "a", "batch-1.low_2"] {
            assert_eq!(GroupName::parse(name).expect(name).as_str(), name);
        }
        let long = "x".repeat(NAME_MAX + 1);
        for name in ["", ".", "..", ".x", "a/b", "a\n", "a b", "ä", "info", "mon_groups", &long] {
            assert!(GroupName::parse(name).is_err(), "{name}");
        }
    }

    #[test]
    fn values_are_for_all_domains_or_for_single_ones() {
        let all = DomainValues::parse("20", Notation::Number).expect("a number");
        assert_eq!((all.of(0), all.of(17), all.named().count()), (Some(20), Some(20), 0));
        let single = DomainValues::parse("0=7f; 17=f", Notation::Mask).expect("masks");
        assert_eq!((single.of(0), single.of(17), single.of(1)), (Some(0x7f), Some(0xf), None));
        assert_eq!(single.to_string(), "0=7f; 17=f");
        for text in
            ["", "x", "-1", "+1", "20%", "1=2=3", "0=20;", "0=", "=20", "0=1;0=2", "5000000000=1"]
        {
            assert!(DomainValues::parse(text, Notation::Number).is_err(), "{text}");
        }
        assert!(DomainValues::parse("f", Notation::Number).is_err());
        assert!(DomainValues::parse("0xf", Notation::Mask).is_err(), "the kernel has no prefix");
        let huge = "99999999999999999999";
        assert!(DomainValues::parse(huge, Notation::Number).is_err());
    }
}
