//! The progress of a migration, on standard error.

use crate::{args::ProgressArgs, clean::clean, units::size};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::{
    fmt,
    io::{IsTerminal, Write, stderr},
    time::{Duration, Instant},
};

/// Time between two plain lines.
const LINE_EVERY: Duration = Duration::from_secs(1);

const TEMPLATE: &str = "[{bar:30}] {moved} of {total}, {rate}/s, {eta} left{msg}";

/// The request of the options --progress and --no-progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Only if standard error is a terminal.
    Auto,
    /// Always; as plain lines if standard error is not a terminal.
    Always,
    Never,
}

impl From<ProgressArgs> for Wish {
    fn from(args: ProgressArgs) -> Self {
        match (args.progress, args.no_progress) {
            (true, _) => Self::Always,
            (_, true) => Self::Never,
            _ => Self::Auto,
        }
    }
}

impl Wish {
    /// Whether progress is to be shown.
    pub fn is_granted(self) -> bool {
        self == Self::Always || (self == Self::Auto && stderr().is_terminal())
    }
}

/// Shows bytes, rate and time left, and what holds the run back. It uses no colour, so NO_COLOR needs no handling.
#[derive(Debug)]
pub enum ProgressDisplay {
    Off,
    /// A bar on a terminal.
    Bar(ProgressBar),
    /// A plain line each second.
    Lines {
        /// The bytes at which the job is done.
        total_bytes: u64,
        start: Instant,
        /// When the last line was written.
        last: Instant,
    },
}

impl ProgressDisplay {
    pub fn new(wish: Wish, total_bytes: u64) -> Self {
        if !wish.is_granted() || total_bytes == 0 {
            return Self::Off;
        }
        let bar =
            ProgressBar::with_draw_target(Some(total_bytes), ProgressDrawTarget::stderr_with_hz(5));
        if bar.is_hidden() {
            let now = Instant::now();
            return Self::Lines { total_bytes, start: now, last: now };
        }
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(with_sizes(style).progress_chars("=> "));
        }
        Self::Bar(bar)
    }

    /// Shows that `settled_bytes` are settled, and what holds the run back. `held_back` is empty if nothing does.
    pub fn update(&mut self, settled_bytes: u64, held_back: &str) {
        match self {
            Self::Off => {}
            Self::Bar(bar) => {
                bar.set_position(settled_bytes);
                bar.set_message(because(held_back));
            }
            Self::Lines { total_bytes, start, last } => {
                if last.elapsed() >= LINE_EVERY {
                    *last = Instant::now();
                    let line = line(settled_bytes, *total_bytes, start.elapsed());
                    let _ = writeln!(stderr().lock(), "{line}{}", because(held_back));
                }
            }
        }
    }

    /// Removes the bar from the terminal.
    pub fn finish(&self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

/// The sizes of [`TEMPLATE`], with as many digits as all other output has.
fn with_sizes(style: ProgressStyle) -> ProgressStyle {
    let key = |style: ProgressStyle, name: &'static str, bytes: fn(&ProgressState) -> u64| {
        style.with_key(name, move |state: &ProgressState, to: &mut dyn fmt::Write| {
            // It is written into a String.
            let _ = to.write_str(&size(bytes(state)));
        })
    };
    let style = key(style, "moved", ProgressState::pos);
    let style = key(style, "total", |state| state.len().unwrap_or_default());
    key(style, "rate", |state| state.per_sec() as u64)
}

/// The text `; throttled: node 0 is busy`.
fn because(held_back: &str) -> String {
    match held_back {
        "" => String::new(),
        // This text comes from the daemon.
        why => format!("; throttled: {}", clean(why)),
    }
}

fn line(settled_bytes: u64, total_bytes: u64, elapsed: Duration) -> String {
    let rate = settled_bytes as f64 / elapsed.as_secs_f64().max(1e-3);
    let left = total_bytes.saturating_sub(settled_bytes) as f64 / rate.max(1.0);
    let (done, total) = (size(settled_bytes), size(total_bytes));
    format!("{done} of {total}, {}/s, {left:.0} s left", size(rate as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use indicatif::TermLike;
    use parking_lot::Mutex;
    use std::{io, sync::Arc};

    /// Keeps what is written.
    #[derive(Clone, Debug, Default)]
    struct Written(Arc<Mutex<String>>);

    impl TermLike for Written {
        fn width(&self) -> u16 {
            120
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(text)
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            self.0.lock().push_str(text);
            Ok(())
        }
        fn clear_line(&self) -> io::Result<()> {
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_bar_has_sizes_as_all_other_output() {
        let written = Written::default();
        let target = ProgressDrawTarget::term_like(Box::new(written.clone()));
        let bar = ProgressBar::with_draw_target(Some(256 << 20), target);
        bar.set_style(with_sizes(ProgressStyle::with_template(TEMPLATE).expect("it parses")));
        bar.set_position((64 << 20) + 1);
        bar.tick();
        let shown = written.0.lock().clone();
        assert!(shown.contains("] 64.0 MiB of 256.0 MiB, "), "{shown}");
    }

    #[test]
    fn what_holds_back_is_said() {
        assert_eq!(because(""), "");
        assert_eq!(because("node 0 is\x1b busy"), "; throttled: node 0 is? busy");
    }

    #[test]
    fn a_line_has_bytes_rate_and_time_left() {
        let text = line(256 << 20, 1 << 30, Duration::from_secs(2));
        assert_eq!(text, "256.0 MiB of 1.0 GiB, 128.0 MiB/s, 6 s left");
    }
}
