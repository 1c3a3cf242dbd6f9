//! `top --file`: where the page cache of files is, again and again. A look takes CPU time for each page, so the next
//! one waits until both the delay and the budget of CPU time allow it.

use super::screen::Screen;
use crate::{
    args::{Cli, Format, TopArgs},
    exit::Failure,
    output::{View, emit, json_line, render},
    signals, text,
};
use numaloc_api::v1;
use ratatui::{
    buffer::Buffer,
    crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers},
    style::Style,
};
use std::{
    sync::{
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

/// The longest wait for a key or a signal.
const TURN: Duration = Duration::from_millis(100);

type Looked = Result<v1::GetLocalityResponse, Failure>;
/// Returns whether a scan ends early.
type Stop<'a> = &'a (dyn Fn() -> bool + Sync);

/// Shows the findings of `look` until it is left, or for the requested number of times. `look` ends early if its
/// argument returns true.
///
/// # Errors
/// Errors of `look`; there is no terminal; standard output is closed or full.
pub fn run(
    cli: &Cli,
    args: &TopArgs,
    look: &(dyn Fn(Stop<'_>) -> Looked + Sync),
) -> Result<(), Failure> {
    let (stop, (to, documents)) = (&AtomicBool::new(false), sync_channel(1));
    let interrupted = signals::interrupted()?;
    thread::scope(|scope| {
        scope.spawn(move || look_again_and_again(args, look, stop, &to));
        let result = match args.batch {
            true => print(cli, args, &documents, &interrupted),
            false => show(cli, &documents, &interrupted),
        };
        stop.store(true, Relaxed);
        // One that is waiting to be taken.
        drop(documents);
        result
    })
}

fn look_again_and_again(
    args: &TopArgs,
    look: &dyn Fn(Stop<'_>) -> Looked,
    stop: &AtomicBool,
    to: &SyncSender<Looked>,
) {
    let is_stopped = || stop.load(Relaxed);
    while !is_stopped() {
        let begin = Instant::now();
        let looked = look(&is_stopped);
        let end = begin + pause(begin.elapsed(), args.delay, args.cpu_budget);
        if to.send(looked).is_err() {
            return;
        }
        signals::sleep(stop, end);
    }
}

/// Time from the begin of a look that took `spent` to that of the next one, with this delay and budget in percent of a
/// CPU.
fn pause(spent: Duration, delay: Duration, cpu_budget: f64) -> Duration {
    delay.max(spent.mul_f64(100.0 / cpu_budget.max(0.1)))
}

fn print(
    cli: &Cli,
    args: &TopArgs,
    documents: &Receiver<Looked>,
    interrupted: &AtomicBool,
) -> Result<(), Failure> {
    let mut printed = 0;
    while args.count.is_none_or(|count| printed < count) && !interrupted.load(Relaxed) {
        let document = match documents.recv_timeout(TURN) {
            Ok(looked) => looked?,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => break,
        };
        emit(&match cli.output {
            Format::Json => json_line(&document)?,
            format => render(&document, format, View::of(cli), files)?,
        })?;
        printed += 1;
    }
    Ok(())
}

fn show(cli: &Cli, documents: &Receiver<Looked>, interrupted: &AtomicBool) -> Result<(), Failure> {
    // Each line is drawn as it is.
    let view = View { colours: false, ..View::of(cli) };
    let (mut lines, mut first): (Vec<String>, usize) = (Vec::new(), 0);
    let mut screen = Screen::open()?;
    while !interrupted.load(Relaxed) {
        match documents.try_recv() {
            Ok(looked) => lines = files(&looked?, view).lines().map(str::to_owned).collect(),
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => break,
        }
        if screen.draw(|buffer| draw(buffer, &lines, first)).is_err() {
            break;
        }
        // A terminal that has gone gives errors, or nothing forever (`Screen::open`).
        match event::poll(TURN).and_then(|any| if any { event::read().map(Some) } else { Ok(None) })
        {
            Ok(None) => {}
            Ok(Some(Event::Key(key))) => match moved(key, first) {
                Some(to) => first = to.min(lines.len().saturating_sub(1)),
                None => break,
            },
            Ok(Some(_)) => {}
            Err(_) => break,
        }
    }
    Ok(())
}

fn files(answer: &v1::GetLocalityResponse, view: View) -> String {
    let cached = answer.locality.as_ref().and_then(|locality| locality.files.as_ref());
    cached.map(|cached| text::files_of(cached, &answer.missing, view)).unwrap_or_default()
}

/// The first line after a key; `None` leaves the view.
fn moved(key: KeyEvent, first: usize) -> Option<usize> {
    const PAGE: usize = 10;
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => None,
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => None,
        KeyCode::Down => Some(first + 1),
        KeyCode::Up => Some(first.saturating_sub(1)),
        KeyCode::PageDown => Some(first + PAGE),
        KeyCode::PageUp => Some(first.saturating_sub(PAGE)),
        KeyCode::Home => Some(0),
        _ => Some(first),
    }
}

/// The lines from `first` on, and what the keys do.
fn draw(buffer: &mut Buffer, lines: &[String], first: usize) {
    let area = buffer.area;
    let width = usize::from(area.width);
    let Some(last) = area.height.checked_sub(1) else { return };
    for (row, line) in (0..last).zip(lines.iter().skip(first)) {
        buffer.set_stringn(0, row, line, width, Style::default());
    }
    let keys = match lines.is_empty() {
        true => "looking at the files; q quits",
        false => "arrows and pages scroll, q quits",
    };
    buffer.set_stringn(0, last, keys, width, Style::default());
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::layout::Rect;

    #[test]
    fn a_look_keeps_to_delay_and_budget() {
        let seconds = Duration::from_secs;
        assert_eq!(pause(Duration::from_millis(10), seconds(2), 2.0), seconds(2));
        assert_eq!(pause(seconds(1), seconds(2), 2.0), seconds(50));
    }

    #[test]
    fn what_does_not_fit_can_be_scrolled_to() {
        let drawn = |lines: &[String], first| {
            let mut buffer = Buffer::empty(Rect::new(0, 0, 12, 3));
            draw(&mut buffer, lines, first);
            let row = |y: u16| (0..12).map(|x| buffer[(x, y)].symbol()).collect::<String>();
            [0, 1, 2].map(|y| row(y).trim_end().to_owned())
        };
        let lines = ["FILE NODE0 and more", "a", "b"].map(str::to_owned);
        assert_eq!(drawn(&lines, 0), ["FILE NODE0 a", "a", "arrows and p"]);
        assert_eq!(drawn(&lines, 2), ["b", "", "arrows and p"]);
        assert_eq!(drawn(&[], 0)[2], "looking at t");
        let key = |code| moved(KeyEvent::new(code, KeyModifiers::NONE), 1);
        assert_eq!(
            [KeyCode::Down, KeyCode::Up, KeyCode::Home].map(key),
            [Some(2), Some(0), Some(0)]
        );
        assert_eq!(key(KeyCode::Char('q')), None);
    }
}
