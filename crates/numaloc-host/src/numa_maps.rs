//! Memory policies and hugetlb page sizes from /proc/PID/numa_maps (fs/proc/task_mmu.c, `show_numa_map`).
//!
//! The kernel walks every page of a VMA to print its line, under mmap_lock. It is read only for processes that
//! have remote memory, because nothing else tells another process's policies.

use numaloc_core::Mempolicy;

/// What a line says of a VMA, beside the page counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// First address of the VMA.
    pub start: u64,
    /// The policy in force there: the VMA's own, else the process's.
    pub policy: Mempolicy,
    /// Page size in bytes if it is hugetlb memory.
    pub hugetlb_bytes: Option<u64>,
}

/// Reads all lines; those that are not understood are left out.
pub fn parse(text: &str) -> Vec<Placement> {
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<Placement> {
    let (start, rest) = line.split_once(' ')?;
    // "prefer (many):0-1" and "weighted interleave:0" hold a blank.
    let blank =
        ["prefer (many)", "weighted interleave"].iter().find(|mode| rest.starts_with(**mode));
    let mode_bytes = blank.map_or(0, |mode| mode.len());
    let policy_bytes = rest[mode_bytes..].find(' ').map_or(rest.len(), |end| mode_bytes + end);
    let (policy, rest) = rest.split_at(policy_bytes);
    let mut hugetlb = false;
    let mut kernel_kb = None;
    for word in rest.split(' ') {
        hugetlb |= word == "huge";
        if let Some(kb) = word.strip_prefix("kernelpagesize_kB=") {
            kernel_kb = kb.trim().parse::<u64>().ok();
        }
    }
    Some(Placement {
        start: u64::from_str_radix(start, 16).ok()?,
        policy: policy.parse().unwrap_or_default(),
        hugetlb_bytes: kernel_kb.filter(|_| hugetlb).map(|kb| kb << 10),
    })
}

/// The placement of the VMA that holds `address`: the last that starts at or below it, because `maps` and `numa_maps`
/// read apart can disagree on where VMAs begin.
pub fn at(placements: &[Placement], address: u64) -> Option<&Placement> {
    let after = placements.partition_point(|placement| placement.start <= address);
    after.checked_sub(1).map(|index| &placements[index])
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
55d1c000 default file=/usr/bin/a\\040b mapped=3 mapmax=2 N0=3 kernelpagesize_kB=4
7f0000000000 bind:1 anon=512 dirty=512 N1=512 kernelpagesize_kB=4
7f0000400000 prefer (many):0-1 huge anon=2 dirty=2 N1=2 kernelpagesize_kB=2048
7f0000900000 weighted interleave:0 anon=1 N0=1 kernelpagesize_kB=4
7f0000a00000 default huge
nonsense
";

    #[test]
    fn lines_are_read() {
        let placements = parse(TEXT);
        assert_eq!(placements.len(), 5);
        assert_eq!(placements[0].policy, Mempolicy::Default);
        assert_eq!(placements[1].policy, Mempolicy::Bind("1".parse().unwrap()));
        assert_eq!(placements[2].policy, Mempolicy::Preferred("0-1".parse().unwrap()));
        assert_eq!(placements[2].hugetlb_bytes, Some(2 << 20));
        assert_eq!(placements[3].policy, Mempolicy::Interleave("0".parse().unwrap()));
        assert_eq!(placements[4].hugetlb_bytes, None);
    }

    #[test]
    fn addresses_are_found_in_the_vma_below() {
        let placements = parse(TEXT);
        assert_eq!(at(&placements, 0x1000), None);
        assert_eq!(at(&placements, 0x7f00_0000_0000).unwrap().start, 0x7f00_0000_0000);
        assert_eq!(at(&placements, 0x7f00_0010_0000).unwrap().start, 0x7f00_0000_0000);
    }
}
