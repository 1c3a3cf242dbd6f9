//! Measures by Referenced bits: they are cleared, and after a while read again for each mapping (proc_pid_smaps(5),
//! proc_pid_clear_refs(5)).

use super::{intervals::Intervals, watched::WatchedMemory};
use crate::{
    Error, Roots,
    files::{
        maps,
        read::{self, is_gone},
        wait::wait,
    },
};
use numaloc_core::{Sights, number};
use std::{fs, path::PathBuf};

/// Score of a mapping all of whose pages have been used.
const ALL: u32 = 1000;

/// Adds the score of each mapping to `seen`. Ends the wait early if `stop` returns true. Processes that end meanwhile
/// are left out.
pub fn sample(
    roots: &Roots,
    watched: &[WatchedMemory],
    intervals: Intervals,
    stop: &dyn Fn() -> bool,
    seen: &mut Sights,
) -> Result<(), Error> {
    let file = |watched: &WatchedMemory, name: &str| -> PathBuf {
        roots.proc.join(watched.pid.to_string()).join(name)
    };
    for watched in watched {
        let path = file(watched, "clear_refs");
        match fs::write(&path, "1") {
            Err(error) if is_gone(&error) => {}
            written => written.map_err(|source| Error::Write { path, source })?,
        }
    }
    wait(intervals.watch, stop);
    seen.begin(ALL);
    for watched in watched {
        match read::text(&file(watched, "smaps")) {
            Ok(text) => add(watched.process, &text, seen),
            Err(Error::Read { source, .. }) if is_gone(&source) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn add(process: usize, smaps: &str, seen: &mut Sights) {
    let (mut vma, mut resident) = (None, 0);
    for line in smaps.lines() {
        let field = |name| {
            let kib = line.strip_prefix(name)?.trim().strip_suffix(" kB")?;
            kib.parse::<u64>().ok()
        };
        if let Some(kib) = field("Rss:") {
            resident = kib;
        } else if let Some(kib) = field("Referenced:") {
            // `Rss` comes before `Referenced`. Both count a page that several processes map in full.
            let score = (kib * u64::from(ALL)).checked_div(resident).unwrap_or(0);
            if let Some(maps::Vma { start, end, .. }) = vma.take() {
                seen.add(process, start..end, number::small(score));
            }
        } else if let Some(next) = maps::parse_line(line) {
            (vma, resident) = (Some(next), 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
00400000-00401000 r-xp 00000000 08:02 173521 /usr/bin/a
Size:                  4 kB
Rss:                   4 kB
Referenced:            0 kB
VmFlags: rd ex mr mw me
7f0000000000-7f0000100000 rw-p 00000000 00:00 0
Rss:                 512 kB
Anonymous:           512 kB
Referenced:          128 kB
7f0000100000-7f0000200000 rw-p 00000000 00:00 0
Rss:                   0 kB
Referenced:            0 kB
";

    #[test]
    fn a_mapping_counts_by_the_share_of_it_that_is_used() {
        let mut seen = Sights::new(2);
        add(1, SMAPS, &mut seen);
        let heat = seen.into_heat();
        assert_eq!(heat.mean(1, 0x40_0000..0x40_1000), 0.0);
        assert_eq!(heat.mean(1, 0x7f00_0000_0000..0x7f00_0010_0000), 250.0);
        assert_eq!(heat.mean(1, 0x7f00_0010_0000..0x7f00_0020_0000), 0.0);
    }
}
