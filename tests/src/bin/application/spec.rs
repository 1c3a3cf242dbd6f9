//! Parses the description of a region: `[NAME=]KIND[:PATH|:ID]:SIZE[:OPTION]...`, such as `anon:64M`, `sparse:100G:touch=100M`,
//! `sysv:new:64M`, `sysv:0:64M:touch`, `seg=file:/dev/shm/seg:256M:stripe=0/8`, `heap=anon:64M:at=c000000000`, `thp:1G:every=64`.

use anyhow::{Context, Result, bail, ensure};
use std::{num::NonZeroUsize, path::PathBuf, str::FromStr};

/// The memory that a region is made of, and its special properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Private anonymous memory in 4 KiB pages.
    Anon,
    /// Private anonymous memory in transparent huge pages.
    Thp,
    /// 2 MiB pages of the hugetlb pools.
    Hugetlb,
    /// 1 GiB pages of the hugetlb pools.
    Gigantic,
    /// Shared anonymous memory (MAP_SHARED | MAP_ANONYMOUS).
    Shm,
    Memfd,
    /// A memfd in 2 MiB pages of the hugetlb pools.
    HugeMemfd,
    /// A System V segment: a `new` one, which is removed when the last process ends that has it attached, or the one with this ID.
    SysV,
    /// A file, mapped shared. It is created or extended if it is too short. With `touch=SIZE` only its first bytes are touched, and
    /// no hugetlb pages are reserved for it. A character device is mapped as it is.
    File,
    /// Anonymous memory that KSM may merge. Its pages are as the pages of all others of this kind at the same number.
    Merge,
    /// Anonymous memory, locked by mlock(2).
    Mlock,
    /// Anonymous memory with a policy that binds it to the node `bind=N`.
    Bound,
    /// Anonymous memory. Once it is filled, all access rights are taken away.
    ProtNone,
    /// A large reservation of which only `touch=SIZE` is touched, spread over all of it.
    Sparse,
    /// The same, but it is the beginning that is touched, as a heap's is.
    Heap,
    /// Anonymous memory whose first half stays shared with a forked child.
    Cow,
    /// Anonymous memory, registered as an io_uring buffer.
    IoUring,
    /// The ring of an AF_PACKET socket; touched without writing, as all rings.
    PacketRing,
    /// The ring of a perf event: a page, and a power of two of pages.
    PerfRing,
    /// Secret memory (memfd_secret(2)).
    Secret,
    /// Anonymous memory that a thread writes to the device at PATH with O_DIRECT, over and over.
    Direct,
}

/// The access of the process to the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Fills and rewrites all of them.
    Write,
    /// Fills them, then only reads them.
    ReadOnly,
    /// Fills and rewrites every `of`-th page, beginning with page `first`, and maps the rest.
    Stripe { first: usize, of: usize },
    /// Fills them and does not touch them again.
    Cold,
    /// Maps them without writing.
    Touch,
    /// The same, of a file that exists and is opened and mapped for reading only.
    Read,
    /// The same, mapped private.
    Private,
}

impl Access {
    /// Whether the file is opened for reading only.
    pub fn is_reading(self) -> bool {
        matches!(self, Self::Read | Self::Private)
    }

    /// Whether pages are mapped and never written to.
    pub fn is_touching(self) -> bool {
        self == Self::Touch || self.is_reading()
    }
}

#[derive(Clone, Debug)]
pub struct Spec {
    pub name: String,
    pub kind: Kind,
    /// For `sysv`: `new`, or an id.
    pub path: Option<PathBuf>,
    pub bytes: usize,
    pub touched_bytes: usize,
    pub bind: Option<u32>,
    /// Address to map it at, a multiple of its page size and of 2 MiB.
    pub at: Option<usize>,
    pub access: Access,
    /// Whether a file is mapped with MAP_SYNC.
    pub is_sync: bool,
    /// Distance of the checked words: the first of each `every` words holds the expected value. Fewer words are faster
    /// to write and check.
    pub every: NonZeroUsize,
}

impl FromStr for Spec {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut words = text.split(':');
        let head = words.next().unwrap_or_default();
        let (name, kind_word) = head.split_once('=').unwrap_or((head, head));
        let kind = kind(kind_word)?;
        let path = if matches!(kind, Kind::File | Kind::Direct | Kind::SysV) {
            Some(PathBuf::from(words.next().context("a path is missing")?))
        } else {
            None
        };
        let bytes = size(words.next().context("a size is missing")?)?;
        let mut spec = Self {
            name: name.to_owned(),
            kind,
            path,
            bytes,
            touched_bytes: bytes,
            bind: None,
            at: None,
            is_sync: false,
            access: match kind {
                Kind::File => Access::ReadOnly,
                Kind::PacketRing | Kind::PerfRing => Access::Touch,
                _ => Access::Write,
            },
            every: NonZeroUsize::MIN,
        };
        for word in words {
            match word.split_once('=').unwrap_or((word, "")) {
                ("dirty", "") => spec.access = Access::Write,
                ("sync", "") => spec.is_sync = true,
                ("cold", "") => spec.access = Access::Cold,
                ("touch", "") => spec.access = Access::Touch,
                ("read", "") => spec.access = Access::Read,
                ("private", "") => spec.access = Access::Private,
                ("touch", bytes) => spec.touched_bytes = size(bytes)?,
                ("at", address) => spec.at = Some(usize::from_str_radix(address, 16)?),
                ("every", words) => spec.every = words.parse()?,
                ("bind", node) => spec.bind = Some(node.parse()?),
                ("stripe", share) => {
                    let (first, of) = share.split_once('/').context("stripe=FIRST/OF")?;
                    spec.access = Access::Stripe { first: first.parse()?, of: of.parse()? };
                }
                _ => bail!("unknown option {word}"),
            }
        }
        ensure!((spec.kind == Kind::Bound) == spec.bind.is_some(), "bind=N belongs to bound");
        Ok(spec)
    }
}

fn kind(word: &str) -> Result<Kind> {
    Ok(match word {
        "anon" => Kind::Anon,
        "thp" => Kind::Thp,
        "hugetlb" => Kind::Hugetlb,
        "gigantic" => Kind::Gigantic,
        "shm" => Kind::Shm,
        "memfd" => Kind::Memfd,
        "huge-memfd" => Kind::HugeMemfd,
        "sysv" => Kind::SysV,
        "file" => Kind::File,
        "merge" => Kind::Merge,
        "mlock" => Kind::Mlock,
        "bound" => Kind::Bound,
        "prot-none" => Kind::ProtNone,
        "sparse" => Kind::Sparse,
        "heap" => Kind::Heap,
        "cow" => Kind::Cow,
        "io-uring" => Kind::IoUring,
        "direct" => Kind::Direct,
        "packet-ring" => Kind::PacketRing,
        "perf-ring" => Kind::PerfRing,
        "secret" => Kind::Secret,
        _ => bail!("unknown kind {word}"),
    })
}

fn size(text: &str) -> Result<usize> {
    let (number, unit) = match text.as_bytes().last() {
        Some(b'K') => (&text[..text.len() - 1], 1 << 10),
        Some(b'M') => (&text[..text.len() - 1], 1 << 20),
        Some(b'G') => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    Ok(number.parse::<usize>().with_context(|| format!("size {text}"))? * unit)
}
