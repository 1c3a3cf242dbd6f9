//! /proc/PID/stat (proc_pid_stat(5); fs/proc/array.c, `do_task_stat`), as far as a live view needs it.

use numaloc_core::page_size;
use std::time::Duration;

/// The fields that are taken from the `stat` file of a process or thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) comm: String,
    pub(super) is_kernel_thread: bool,
    /// User and system time, in clock ticks.
    pub(super) cpu_ticks: u64,
    pub(super) threads: u64,
    pub(super) start_time: u64,
    pub(super) resident_bytes: u64,
    /// The CPU that it ran on last.
    pub(super) cpu: Option<u32>,
}

const PF_KTHREAD: u64 = 0x20_0000;

/// Reads the file's text. The name in brackets may hold anything, brackets too.
pub(super) fn parse(text: &str) -> Option<Stat> {
    let (head, rest) = text.rsplit_once(')')?;
    let comm = head.split_once('(')?.1.to_owned();
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    Some(Stat {
        comm,
        is_kernel_thread: field(9)? & PF_KTHREAD != 0,
        cpu_ticks: field(14)?.saturating_add(field(15)?),
        threads: field(20)?,
        start_time: field(22)?,
        resident_bytes: field(24)?.saturating_mul(page_size()),
        cpu: field(39).and_then(|cpu| cpu.try_into().ok()),
    })
}

/// CPU time as it was at a moment, which tells how much is used until the next one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Use {
    ticks: u64,
    at: Duration,
    /// In percent of one CPU, up to this moment.
    pub(super) percent: Option<f64>,
}

impl Use {
    /// The use between two moments. Ticks are of 10 ms, so less than a quarter of a second tells nothing new.
    pub(super) fn next(before: Option<Self>, ticks: u64, at: Duration) -> Self {
        let Some(before) = before else { return Self { ticks, at, percent: None } };
        let seconds = at.saturating_sub(before.at).as_secs_f64();
        if seconds < 0.25 {
            return before;
        }
        let used = ticks.saturating_sub(before.ticks) as f64 / procfs::ticks_per_second() as f64;
        Self { ticks, at, percent: Some(used * 100.0 / seconds) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_counted_after_the_name() {
        let rest: String = (10..=52).map(|number| format!(" {number}")).collect();
        let stat = parse(&format!("7 (a) (b) S 4 5 6 7 8 2097152{rest}\n")).unwrap();
        let expected = Stat {
            comm: "a) (b".into(),
            is_kernel_thread: true,
            cpu_ticks: 14 + 15,
            threads: 20,
            start_time: 22,
            resident_bytes: 24 * 4096,
            cpu: Some(39),
        };
        assert_eq!(stat, expected);
        for nonsense in ["", "7 (a", "7 (a) S", "7 (a) S x 5", "7 a) S 4 5 6 7 8 9"] {
            assert_eq!(parse(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn use_is_the_difference_over_the_time() {
        let second = Duration::from_secs(1);
        let first = Use::next(None, 100, second);
        assert_eq!(first.percent, None);
        let next = Use::next(Some(first), 100 + procfs::ticks_per_second(), 3 * second);
        assert_eq!(next.percent, Some(50.0));
        let soon = Use::next(Some(next), 10_000, 3 * second + second / 10);
        assert_eq!(soon.percent, Some(50.0), "too soon to tell");
        assert_eq!(Use::next(Some(next), 0, 5 * second).percent, Some(0.0), "never below 0");
    }
}
