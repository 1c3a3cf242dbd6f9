//! Prints the answers of `numalocctl events` as text.

use super::{
    cells::{dash, short},
    csv,
    table::{Table, list},
    target::target,
};
use crate::{
    clean::clean,
    fields::word,
    output::View,
    units::{percent, size},
};
use numaloc_api::v1;

pub fn events(answer: &v1::ListEventsResponse, view: View) -> String {
    if view.csv {
        return csv::events(&answer.events, view);
    }
    let mut table = Table::new().words("TIME").words("TYPE").words("JOB");
    if view.wide {
        table = table.words("NAME").words("SCHEDULE").words("TARGET").words("FROM").words("TO");
        table = table.words("LOCAL %").words("REMOTE").words("FAILED");
    }
    table = table.words("MESSAGE");
    for event in &answer.events {
        let mut row = vec![short(event.create_time), kind(event), dash(&event.job)];
        if view.wide {
            row.extend(wide(event));
        }
        row.push(event.message.clone());
        table.row(row);
    }
    table.render(view)
}

fn wide(event: &v1::Event) -> [String; 8] {
    let percent = |share: Option<f64>| share.map_or("?".to_owned(), percent);
    let failed = event
        .failed_processes
        .iter()
        .map(|failed| format!("{} ({})", failed.process.unwrap_or_default().pid, failed.error));
    [
        event.name.clone(),
        dash(&event.schedule),
        targets(event),
        list(&event.from_node_ids),
        list(&event.to_node_ids),
        format!("{} -> {}", percent(event.before_percent), percent(event.after_percent)),
        event.remote_bytes.map_or("-".to_owned(), size),
        dash(&failed.collect::<Vec<_>>().join(", ")),
    ]
}

/// The target, and how many of its names are left out.
fn targets(event: &v1::Event) -> String {
    let target = dash(&target(event.target.as_ref()));
    match event.more_target_names {
        0 => target,
        more => format!("{target} and {more} more"),
    }
}

fn kind(event: &v1::Event) -> String {
    word(event.r#type().as_str_name(), "EVENT_TYPE_")
}

pub fn event_header(view: View) -> String {
    if view.csv {
        return csv::events([], view);
    }
    let wide = ["NAME", "SCHEDULE", "TARGET", "FROM", "TO", "LOCAL %", "REMOTE", "FAILED"];
    line(["TIME", "TYPE", "JOB"], view.wide.then_some(&wide), "MESSAGE")
}

/// A line for an event as it happens. Columns have fixed widths, because the events that follow are not known yet.
pub fn event_line(event: &v1::Event, view: View) -> String {
    if view.csv {
        return csv::events([event], View { headers: false, ..view });
    }
    let (time, kind, job) = (short(event.create_time), kind(event), clean(&dash(&event.job)));
    let wide = wide(event).map(|cell| clean(&cell));
    let wide = wide.each_ref().map(String::as_str);
    line([&time, &kind, &job], view.wide.then_some(&wide), &clean(&event.message))
}

fn line(first: [&str; 3], wide: Option<&[&str; 8]>, message: &str) -> String {
    let [time, kind, job] = first;
    let mut line = format!("{time:<20}  {kind:<16}  {job:<12}");
    for cell in wide.into_iter().flatten() {
        line += &format!("  {cell:<12}");
    }
    format!("{line}  {message}\n")
}
