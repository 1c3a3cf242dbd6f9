use super::*;
use parking_lot::Mutex;
use std::sync::Arc;
use tracing::{debug, debug_span, error, info, subscriber::with_default, trace, warn};

/// The text that was logged.
#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Vec<u8>>>);

impl io::Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Paper {
    fn lines(&self) -> Vec<String> {
        let text = String::from_utf8(std::mem::take(&mut *self.0.lock())).unwrap();
        text.lines().map(str::to_owned).collect()
    }
}

/// Runs `log` with these levels, and returns the lines that it has logged.
fn logged(levels: &str, colour: bool, log: impl FnOnce(&Logs)) -> Vec<String> {
    let paper = Paper::default();
    let writer = paper.clone();
    let (subscriber, logs) = lines(move || writer.clone(), colour, levels.parse().unwrap());
    with_default(subscriber, || log(&logs));
    paper.lines()
}

#[test]
fn every_line_of_a_job_carries_its_id_at_any_level() {
    let id = JobId::numbered(42);
    for levels in ["info", "warn", "error"] {
        let lines = logged(levels, false, |_| {
            let job = job(&id);
            let _in_job = job.enter();
            error!(pid = 7, "failed");
            debug_span!("inner").in_scope(|| error!("failed inside"));
        });
        assert_eq!(lines.len(), 2, "{lines:?}");
        for line in &lines {
            assert!(line.contains("jobs/42") && line.contains("failed"), "{levels}: {line}");
        }
        assert!(lines[0].contains("pid=7"));
    }
}

#[test]
fn levels_hold_for_all_or_for_a_part() {
    let all = || {
        error!("1");
        warn!("2");
        info!("3");
        debug!("4");
        trace!("5");
        debug!(target: "numalocd::dispatch::queue", "part");
    };
    for (levels, count) in [
        ("off", 0),
        ("error", 1),
        ("warn", 2),
        ("info", 3),
        ("debug", 5),
        ("TRACE", 6),
        ("info,numalocd::dispatch=debug", 4),
        ("numalocd::dispatch=debug", 4),
        ("off, numalocd::dispatch=debug", 1),
    ] {
        let lines = logged(levels, false, |_| all());
        assert_eq!(lines.len(), count, "{levels}: {lines:#?}");
    }
}

#[test]
fn levels_change_while_it_runs() {
    let lines = logged("warn", false, |logs| {
        for levels in ["debug", "error", "info"] {
            info!("before {levels}");
            logs.set(levels.parse().unwrap());
            info!("after {levels}");
        }
    });
    let ends: Vec<_> = lines.iter().filter_map(|line| line.split_once(": ")).collect();
    let said: Vec<_> = ends.iter().map(|(_, text)| *text).collect();
    assert_eq!(said, ["after debug", "before error", "after info"]);
}

#[test]
fn only_a_terminal_gets_colours() {
    assert!(!logged("info", false, |_| info!("plain"))[0].contains('\x1b'));
    assert!(logged("info", true, |_| info!("colour"))[0].contains('\x1b'));
}

#[test]
fn what_is_no_level_is_refused() {
    for text in
        ["", "inof", "5", "info,", "=info", "a=", "a=b", "numalocd", "[job]=info", "a b=info"]
    {
        assert_eq!(text.parse::<Levels>(), Err(LevelsError(text.to_owned())));
    }
    assert_eq!("info".parse::<Levels>(), Ok(Levels::default()));
    let shown = "warn,numalocd=debug".parse::<Levels>().unwrap().to_string();
    assert_eq!(shown.parse(), "numalocd=debug,warn".parse::<Levels>());
}
