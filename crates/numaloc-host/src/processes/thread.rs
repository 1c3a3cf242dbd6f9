//! Threads and the memory that they have, by their stat files (proc_pid_stat(5); fs/proc/array.c, `do_task_stat`).

use crate::{Error, Roots, files::read};
use numaloc_core::Identity;
use std::{fs, path::Path};

/// Where the parts of a program lie in memory: code, stack, data and heap. These addresses stay the same for as long as
/// this memory exists, also for processes that share it (vfork) or get a copy of it (fork). An exec makes new memory
/// with other addresses, because the kernel chooses them at random ([`is_random`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Layout([u64; 6]);

impl Layout {
    /// Whether the kernel hides it from this process: it shows 1 and zeros then (fs/proc/array.c, `do_task_stat`, `permitted`).
    pub(crate) fn is_hidden(self) -> bool {
        self.0[0] == 1 && self.0[2] == 0
    }
}

/// Startcode, endcode, startstack, start_data, end_data and start_brk, by the numbers of their fields in the file.
const LAYOUT: [usize; 6] = [26, 27, 28, 45, 46, 47];

/// A thread that has memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryThread {
    pub tid: i32,
    /// Pid of the parent of its process.
    pub parent: i32,
    /// The layout of its memory.
    pub layout: Layout,
}

/// A thread through which the kernel reaches the memory of a process: the first thread, or another one if the first has
/// ended before the others. If `layout` is given, the memory has to have it. `None` if the process has ended, or has
/// replaced its memory, or another process has its pid by now.
///
/// The kernel gives out pids in a circle (kernel/pid.c, `alloc_pid`). So two processes never have both the same pid and
/// the same start time, although that is counted in ticks of 10 ms.
pub(crate) fn with_memory(
    roots: &Roots,
    of: Identity,
    layout: Option<Layout>,
) -> Option<MemoryThread> {
    let fits = |thread: ThreadStat, tid: i32| {
        let found = thread.layout.filter(|found| layout.is_none_or(|layout| layout == *found))?;
        Some(MemoryThread { tid, parent: thread.parent, layout: found })
    };
    let threads = roots.proc.join(of.pid.to_string()).join("task");
    let stat = |tid: i32| {
        let path = threads.join(tid.to_string()).join("stat");
        parse(&roots.open_files.patiently(Error::read, || read::text(&path)).ok()?)
    };
    let first = stat(of.pid).filter(|first| first.start_time == of.start_time)?;
    if first.layout.is_some() {
        return fits(first, of.pid);
    }
    let tids = roots.open_files.patiently(|error| Some(error), || fs::read_dir(&threads));
    let tids = tids.ok()?.flatten();
    let mut tids = tids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    tids.find_map(|tid| fits(stat(tid)?, tid))
}

/// The layout of a process's memory, through any of its threads; `None`: it has none, as threads of the kernel, or it has ended.
pub(crate) fn layout(roots: &Roots, pid: i32) -> Option<Layout> {
    let start_time = start_time(roots, pid)?;
    Some(with_memory(roots, Identity { pid, start_time }, None)?.layout)
}

/// Whether a process has ended or is ending, all of it (PF_EXITING, kernel/exit.c, `do_exit`): it releases its memory next, or has done so.
pub(crate) fn is_exiting(roots: &Roots, pid: i32) -> bool {
    const PF_EXITING: u64 = 4;
    let path = roots.proc.join(pid.to_string()).join("stat");
    let Ok(text) = read::text(&path) else { return !path.exists() };
    // The fields flags and num_threads.
    let field = |number: usize| {
        let (_, rest) = text.rsplit_once(')')?;
        rest.split_ascii_whitespace().nth(number - 3)?.parse::<u64>().ok()
    };
    let is_first_exiting = field(9).is_some_and(|flags| flags & PF_EXITING != 0);
    // Other threads may live on, and have the memory.
    is_first_exiting
        && (field(20).is_some_and(|threads| threads <= 1) || layout(roots, pid).is_none())
}

/// Whether the layout of this thread's program was chosen at random, so that no other has the same. It was not if the
/// kernel gives all programs the same addresses, on the whole host (randomize_va_space) or for this program
/// (personality(2), ADDR_NO_RANDOMIZE). On some hosts only root can read the latter. If it cannot be read, the layout
/// counts as random, as nearly all are.
pub(crate) fn is_random(roots: &Roots, tid: i32) -> bool {
    const ADDR_NO_RANDOMIZE: u32 = 0x4_0000;
    let read = |path: &Path| roots.open_files.patiently(Error::read, || read::text(path)).ok();
    let host = read(&roots.proc.join("sys/kernel/randomize_va_space"));
    let its = read(&roots.proc.join(tid.to_string()).join("personality"));
    let its = its.and_then(|bits| u32::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0);
    host.is_none_or(|host| host.trim() != "0") && its & ADDR_NO_RANDOMIZE == 0
}

/// The start time of a thread in ticks since boot; `None` if there is none.
pub(crate) fn start_time(roots: &Roots, tid: i32) -> Option<u64> {
    let path = roots.proc.join(tid.to_string()).join("stat");
    Some(parse(&read::text(&path).ok()?)?.start_time)
}

/// The fields that are read of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ThreadStat {
    parent: i32,
    start_time: u64,
    /// `None` for a thread that has released its memory.
    layout: Option<Layout>,
}

/// The name in brackets, the second field, may hold anything.
fn parse(text: &str) -> Option<ThreadStat> {
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let (parent, start_time, vsize) = (field(4)?, field(22)?, field(23)?);
    let layout = match vsize {
        0 => None,
        _ => Some(Layout(LAYOUT.map(|number| field(number).unwrap_or_default()))),
    };
    Some(ThreadStat { parent: parent.try_into().ok()?, start_time, layout })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    fn with_memory(fake: &Fake, pid: i32) -> Option<MemoryThread> {
        let of = Identity { pid, start_time: 1000 + pid as u64 };
        super::with_memory(&fake.roots(), of, None)
    }

    #[test]
    fn fields_are_counted_after_the_name() {
        let rest: String = (6..=52).map(|number| format!(" {number}")).collect();
        let stat = parse(&format!("7 (a) b) S 4 5{rest}\n")).unwrap();
        let layout = Some(Layout([26, 27, 28, 45, 46, 47]));
        assert_eq!(stat, ThreadStat { parent: 4, start_time: 22, layout });
        for nonsense in ["", "7 (a", "7 (a) S", "7 (a) S x 5"] {
            assert_eq!(parse(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn the_first_thread_that_has_memory_is_taken() {
        let fake = Fake::new();
        fake.process(100, "x", &["0", "0", "0"]);
        let tid = |fake: &Fake| with_memory(fake, 100).map(|found| found.tid);
        assert_eq!(tid(&fake), Some(100));
        fake.end(100, 100);
        fake.end(100, 101);
        assert_eq!(tid(&fake), Some(102));
        fake.end(100, 102);
        assert_eq!(tid(&fake), None);
    }

    #[test]
    fn another_process_or_program_is_recognized_by_start_time_and_layout() {
        let fake = Fake::new();
        fake.process(100, "x", &["0"]);
        let roots = &fake.roots();
        let of = Identity { pid: 100, start_time: 1100 };
        let found = with_memory(&fake, 100).unwrap();
        assert_eq!(super::with_memory(roots, of, Some(found.layout)), Some(found));
        assert_eq!(super::with_memory(roots, Identity { start_time: 1101, ..of }, None), None);
        fake.exec(100);
        assert_eq!(super::with_memory(roots, of, Some(found.layout)), None);
        assert!(super::with_memory(roots, of, None).is_some());
    }

    #[test]
    fn where_programs_are_put_at_random() {
        let fake = Fake::new();
        let random = |path: &str, text: &str| {
            fake.write(path, text);
            is_random(&fake.roots(), 100)
        };
        assert!(is_random(&fake.roots(), 100));
        assert!(random("proc/sys/kernel/randomize_va_space", "2\n"));
        assert!(random("proc/100/personality", "00000000\n"));
        assert!(!random("proc/100/personality", "00040000\n"));
        assert!(random("proc/100/personality", "00800000\n"));
        assert!(!random("proc/sys/kernel/randomize_va_space", "0\n"));
    }
}
