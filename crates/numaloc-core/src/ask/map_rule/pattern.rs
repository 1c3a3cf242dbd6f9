//! Patterns of mappings, by what /proc/PID/maps shows of each.

use crate::{amount, ask::glob::Glob, memory::extent::Kind};
use std::{fmt, str::FromStr};

/// The mappings that a rule applies to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// `heap`: memory of brk(2).
    Heap,
    /// `stack`: the stack of the first thread.
    Stack,
    /// `anon`, or `anon>SIZE`: private anonymous memory that is neither heap nor stack, whether it has a name or not. Only mappings
    /// that are longer than this many bytes.
    Anonymous(Option<u64>),
    /// `anon:NAME`: anonymous memory that the program has given a name (prctl(2), PR_SET_VMA_ANON_NAME).
    Named(Glob),
    /// `memfd:NAME`: a memfd by the name in memfd_create(2).
    Memfd(Glob),
    /// `sysv:KEY`: System V segments by the key in shmget(2).
    Segment(u32),
    /// A file by its path, if there is a `/` in the pattern, and else by its base name. Shared anonymous memory is the file `/dev/zero`
    /// and hugetlb memory without a file `/anon_hugepage`, as the kernel shows them.
    File(Glob),
}

/// Why a pattern is not valid, as text for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadPattern(String);

/// The suffix in /proc/PID/maps of the name of a removed file; all memfds and segments have it.
const DELETED: &str = " (deleted)";

impl Pattern {
    /// Most bytes of a pattern: those of a path (PATH_MAX).
    pub const MOST_BYTES: usize = 4096;

    /// Whether a mapping with this name in /proc/PID/maps, of this kind and length in bytes, is meant.
    pub fn matches(&self, name: &str, kind: Kind, bytes: u64) -> bool {
        let file = name.strip_suffix(DELETED).unwrap_or(name);
        match self {
            Self::Heap => kind == Kind::Heap,
            Self::Stack => kind == Kind::Stack,
            Self::Anonymous(more) => {
                kind == Kind::Anonymous && more.is_none_or(|more| bytes > more)
            }
            Self::Named(glob) => {
                let named = name.strip_suffix(']').and_then(|name| {
                    name.strip_prefix("[anon:").or(name.strip_prefix("[anon_shmem:"))
                });
                named.is_some_and(|name| glob.matches(name))
            }
            Self::Memfd(glob) => {
                file.strip_prefix("/memfd:").is_some_and(|name| glob.matches(name))
            }
            Self::Segment(key) => {
                let shown = file.strip_prefix("/SYSV").filter(|_| kind == Kind::Shmem);
                shown.is_some_and(|shown| u32::from_str_radix(shown, 16) == Ok(*key))
            }
            Self::File(glob) => match file.rsplit_once('/') {
                _ if !file.starts_with('/') => false,
                Some((_, base)) if !glob.as_str().contains('/') => glob.matches(base),
                _ => glob.matches(file),
            },
        }
    }
}

impl FromStr for Pattern {
    type Err = BadPattern;

    fn from_str(text: &str) -> Result<Self, BadPattern> {
        let bad = |why: String| Err(BadPattern(why));
        if text.is_empty() {
            let examples =
                "a file, memfd:NAME, sysv:KEY, anon:NAME, anon, anon>SIZE, heap or stack";
            return bad(format!("the pattern is empty: expected {examples}"));
        }
        if text.len() > Self::MOST_BYTES {
            return bad(format!("the pattern has more than {} bytes", Self::MOST_BYTES));
        }
        if text.chars().any(char::is_control) {
            return bad("the pattern has control characters: write ? for each of them".to_owned());
        }
        let glob = |name: &str| {
            if name.is_empty() {
                Err(BadPattern(format!("'{text}' has no name: expected one after the colon, or *")))
            } else {
                Ok(Glob::new(name))
            }
        };
        match text {
            "heap" => return Ok(Self::Heap),
            "stack" => return Ok(Self::Stack),
            "anon" => return Ok(Self::Anonymous(None)),
            _ => {}
        }
        if let Some(size) = text.strip_prefix("anon>") {
            return match amount::size(size) {
                Ok(bytes) => Ok(Self::Anonymous(Some(bytes))),
                Err(error) => bad(format!("'{text}' has no size: {error}")),
            };
        }
        if let Some(name) = text.strip_prefix("anon:") {
            return glob(name).map(Self::Named);
        }
        if let Some(name) = text.strip_prefix("memfd:") {
            return glob(name).map(Self::Memfd);
        }
        if let Some(key) = text.strip_prefix("sysv:") {
            let hex = key.strip_prefix("0x").or(key.strip_prefix("0X"));
            let (digits, radix) = hex.map_or((key, 10), |hex| (hex, 16));
            let is_number = !digits.is_empty() && digits.chars().all(|each| each.is_digit(radix));
            return match u32::from_str_radix(digits, radix) {
                Ok(key) if is_number => Ok(Self::Segment(key)),
                _ => bad(format!(
                    "'{text}' has no key: expected a number as ipcs shows it, for example sysv:0x0052e2c1"
                )),
            };
        }
        Ok(Self::File(Glob::new(text)))
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Heap => f.write_str("heap"),
            Self::Stack => f.write_str("stack"),
            Self::Anonymous(None) => f.write_str("anon"),
            Self::Anonymous(Some(bytes)) => {
                let units = [(40, "T"), (30, "G"), (20, "M"), (10, "K")];
                let whole = |&(shift, _): &(u32, &str)| bytes % (1 << shift) == 0 && *bytes > 0;
                let (shift, unit) = units.into_iter().find(whole).unwrap_or((0, ""));
                write!(f, "anon>{}{unit}", bytes >> shift)
            }
            Self::Named(glob) => write!(f, "anon:{}", glob.as_str()),
            Self::Memfd(glob) => write!(f, "memfd:{}", glob.as_str()),
            Self::Segment(key) => write!(f, "sysv:{key:#010x}"),
            Self::File(glob) => f.write_str(glob.as_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, name: &str, kind: Kind) -> bool {
        pattern.parse::<Pattern>().expect(pattern).matches(name, kind, 1 << 30)
    }

    #[test]
    fn mappings_are_known_by_what_maps_shows() {
        for (pattern, name, kind) in [
            ("heap", "[heap]", Kind::Heap),
            ("stack", "[stack]", Kind::Stack),
            ("anon", "", Kind::Anonymous),
            ("anon", "[anon:pool]", Kind::Anonymous),
            ("anon>1023M", "", Kind::Anonymous),
            ("anon:pool*", "[anon:pool 7]", Kind::Anonymous),
            ("anon:pool", "[anon_shmem:pool]", Kind::Shmem),
            ("memfd:vm-?", "/memfd:vm-3 (deleted)", Kind::Shmem),
            ("sysv:0x52e2c1", "/SYSV0052e2c1 (deleted)", Kind::Shmem),
            ("sysv:5432001", "/SYSV0052e2c1 (deleted)", Kind::Shmem),
            ("/data/model.gguf", "/data/model.gguf", Kind::File),
            ("model.gguf", "/data/model.gguf (deleted)", Kind::File),
            ("*.gguf", "/data/model.gguf", Kind::File),
            ("/data/*", "/data/a/model.gguf", Kind::File),
            ("/dev/zero", "/dev/zero (deleted)", Kind::Shmem),
            ("/dev/shm/seg?", "/dev/shm/seg1", Kind::Shmem),
            ("anon_hugepage", "/anon_hugepage (deleted)", Kind::Shmem),
        ] {
            assert!(matches(pattern, name, kind), "{pattern} {name}");
        }
        for (pattern, name, kind) in [
            ("heap", "/opt/heap", Kind::File),
            ("stack", "", Kind::Anonymous),
            ("anon", "[heap]", Kind::Heap),
            ("anon", "/dev/zero (deleted)", Kind::Shmem),
            ("anon>1G", "", Kind::Anonymous),
            ("anon:pool", "[anon:pools]", Kind::Anonymous),
            ("anon:*", "", Kind::Anonymous),
            ("memfd:vm", "/memfd:vm-3 (deleted)", Kind::Shmem),
            ("sysv:1", "/SYSV00000010 (deleted)", Kind::Shmem),
            ("sysv:1", "/SYSV00000001", Kind::File),
            ("model.gguf", "/data/model.gguf.bak", Kind::File),
            ("/model.gguf", "/data/model.gguf", Kind::File),
            ("*", "[heap]", Kind::Heap),
            ("*", "", Kind::Anonymous),
        ] {
            assert!(!matches(pattern, name, kind), "{pattern} {name}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_pattern_is_named() {
        let bad = |text: &str| text.parse::<Pattern>().expect_err(text).to_string();
        assert!(bad("").contains("memfd:NAME"));
        for text in
            ["anon>", "anon>x", "anon>-1", "anon>1.5", "anon>99999999T", "anon>=1G", "anon>é"]
        {
            assert!(bad(text).contains("has no size: expected a size"), "{text}");
        }
        for text in ["sysv:", "sysv:x", "sysv:0x", "sysv:+1", "sysv:0x1ffffffff", "sysv:-1"] {
            assert!(bad(text).contains("as ipcs shows it"), "{text}");
        }
        assert!(
            bad("memfd:").contains("after the colon") && bad("anon:").contains("after the colon")
        );
        assert!(bad("a\nb").contains("control characters"));
        assert!(bad(&"a".repeat(5000)).contains("4096"));
    }

    #[test]
    fn sizes_are_written_as_they_are_read() {
        for text in ["anon>0", "anon>1G", "anon>1500M", "anon>4097", "anon>2T", "sysv:0x00000000"] {
            assert_eq!(text.parse::<Pattern>().expect(text).to_string(), text);
        }
        let pattern: Pattern = "anon>1.5 GiB".parse().expect("a size");
        assert_eq!(pattern.to_string(), "anon>1536M");
    }
}
