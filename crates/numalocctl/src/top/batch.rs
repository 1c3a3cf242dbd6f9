//! `top --batch`: the same as tables, CSV or lines of JSON.

use super::rows::{List, rows};
use crate::{
    args::{Cli, Format, TopArgs},
    columns::Column,
    doc::TopDoc,
    engine::ViewFeed,
    exit::Failure,
    output::{View, complain, emit, json_line},
    signals, text,
};
use std::{
    sync::atomic::Ordering::Relaxed,
    thread,
    time::{Duration, Instant},
};

/// Time between two turns of looking.
const TURN: Duration = Duration::from_millis(50);

/// Prints after each delay, as often as was asked for, or until Ctrl-C.
///
/// # Errors
/// Standard output is closed or full.
pub fn run(cli: &Cli, args: &TopArgs, mut feed: Box<dyn ViewFeed>) -> Result<(), Failure> {
    let interrupted = signals::interrupted()?;
    feed.refresh();
    let (mut printed, mut told) = (0, None);
    while args.count.is_none_or(|count| printed < count) {
        let end = Instant::now() + args.delay;
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            if interrupted.load(Relaxed) {
                return Ok(());
            }
            feed.work();
            thread::sleep(left.min(TURN));
        }
        feed.refresh();
        feed.work();
        let trouble = feed.trouble();
        if let Some(why) = trouble.as_ref().filter(|_| trouble != told) {
            complain(why);
        }
        told = trouble;
        let document = TopDoc::new(&feed.view(), feed.source());
        emit(&shown(cli, args, &document, printed == 0)?)?;
        printed += 1;
    }
    Ok(())
}

/// A document in the form that was asked for.
fn shown(cli: &Cli, args: &TopArgs, document: &TopDoc, is_first: bool) -> Result<String, Failure> {
    let list = if args.processes { List::Processes } else { List::Workloads };
    let filter = args.filter.as_deref().unwrap_or_default();
    let chosen = args.columns.as_ref().map(|columns| columns.0.clone());
    let all = || {
        let has_pids = args.processes;
        Column::ALL.into_iter().filter(|&column| has_pids || column != Column::Pid).collect()
    };
    let columns: Vec<Column> = chosen.unwrap_or_else(all);
    let listed = rows(document, &list, filter, args.sort);
    Ok(match cli.output {
        Format::Csv => text::csv(document, &listed, &columns, is_first && !cli.no_headers),
        Format::Json => {
            // Both lists, filtered and sorted.
            let both =
                |list| rows(document, &list, filter, args.sort).into_iter().cloned().collect();
            let (workloads, processes) = (both(List::Workloads), both(List::Processes));
            json_line(&TopDoc { workloads, processes, ..document.clone() })?
        }
        Format::Table | Format::Wide | Format::Yaml | Format::Name => {
            let view = View::of(cli);
            text::top(document, &listed, &columns, view)
        }
    })
}
