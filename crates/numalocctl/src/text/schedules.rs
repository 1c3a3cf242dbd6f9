//! Prints the answers of `numalocctl schedules` as text.

use super::{
    cells::{age, bounded, dash, labels, on_nodes, schedule_state, short, time, until},
    csv,
    fields::fields,
    policy::spec_fields,
    table::Table,
    target::target,
};
use crate::{
    clean::clean,
    doc::{AppliedDoc, AppliedRecord, Change},
    fields as values,
    output::View,
    units::{seconds, size},
};
use numaloc_api::v1;

pub fn schedules(answer: &v1::ListSchedulesResponse, view: View) -> String {
    match view.csv {
        true => csv::schedules(&answer.schedules, view),
        false => table(&answer.schedules, view).render(view),
    }
}

/// A schedule as its change is reported, or the header of these lines.
pub fn schedule_line(schedule: Option<&v1::Schedule>, view: View) -> String {
    match view.csv {
        true => csv::schedules(schedule, view),
        false => table(schedule, view).lines(view),
    }
}

fn table<'a>(schedules: impl IntoIterator<Item = &'a v1::Schedule>, view: View) -> Table {
    let mut table = Table::new().words("NAME").words("STATE").words("TARGET").words("INTERVAL");
    table = table.words("LAST JOB").numbers("LAST RUN").numbers("NEXT RUN").numbers("AGE");
    table = table.words("FROM");
    if view.wide {
        table = table.words("LAST TIME").words("NEXT TIME").words("JITTER").words("CREATOR");
        table = table.words("CREATED").words("UPDATED");
        table = table.words("ETAG").words("MESSAGE");
    }
    for schedule in schedules {
        let target = target(schedule.spec.as_ref().and_then(|spec| spec.target.as_ref()));
        let target = bounded(target, view);
        let mut row =
            vec![schedule.name.clone(), schedule_state(schedule), target, interval(schedule)];
        row.push(dash(&schedule.last_job));
        row.extend([age(schedule.last_run_time, view), until(schedule.next_run_time, view)]);
        row.extend([age(schedule.create_time, view), from(schedule)]);
        if view.wide {
            row.extend([schedule.last_run_time, schedule.next_run_time].map(short));
            row.extend([seconds(values::seconds(schedule.jitter)), schedule.creator.clone()]);
            row.extend([schedule.create_time, schedule.update_time].map(short));
            row.extend([schedule.etag.clone(), dash(&schedule.state_message)]);
        }
        table.row(row);
    }
    table
}

/// `schedules/7 waiting`, for each that was changed.
pub fn schedule_states(answer: &v1::ListSchedulesResponse, _: View) -> String {
    let line = |each: &v1::Schedule| format!("{} {}\n", clean(&each.name), schedule_state(each));
    answer.schedules.iter().map(line).collect()
}

/// The file that declares it, or `client`.
fn from(schedule: &v1::Schedule) -> String {
    match &schedule.declared_in[..] {
        "" => "client".to_owned(),
        file => format!("file:{file}"),
    }
}

fn interval(schedule: &v1::Schedule) -> String {
    match values::seconds(schedule.interval) {
        0.0 => "once".to_owned(),
        interval => seconds(interval),
    }
}

pub fn schedule(schedule: &v1::Schedule, _: View) -> String {
    let reason = match &schedule.state_message[..] {
        "" => String::new(),
        message => format!(": {}", clean(message)),
    };
    let head = format!("{} {}{reason}\n", clean(&schedule.name), schedule_state(schedule));
    let ttl = schedule.ttl_after_gone.map_or("never".to_owned(), |ttl| {
        format!("when its target has been gone for {}", seconds(values::seconds(Some(ttl))))
    });
    let rest = [
        ("interval", interval(schedule)),
        ("jitter", seconds(values::seconds(schedule.jitter))),
        ("removed", ttl),
        ("labels", labels(&schedule.labels)),
        ("from", from(schedule)),
        ("last job", schedule.last_job.clone()),
        ("last run", time(schedule.last_run_time)),
        ("next run", time(schedule.next_run_time)),
        ("target gone", time(schedule.gone_time)),
        ("relieved", relieved(schedule)),
        ("hour", hour(schedule)),
        ("created", format!("{} by {}", time(schedule.create_time), schedule.creator)),
        ("updated", time(schedule.update_time)),
        ("request id", schedule.request_id.clone()),
        ("etag", schedule.etag.clone()),
    ];
    head + &fields(spec_fields(schedule.spec.as_ref()).into_iter().chain(rest))
}

/// What is away from the node that a schedule relieves.
fn relieved(schedule: &v1::Schedule) -> String {
    if schedule.relieved.is_empty() {
        return String::new();
    }
    format!("{}, since {}", on_nodes(&schedule.relieved), time(schedule.relieve_time))
}

/// What has moved in the hour of its budget.
fn hour(schedule: &v1::Schedule) -> String {
    let start = schedule.hour_start_time.filter(|_| schedule.hour_moved_bytes > 0);
    start.map_or(String::new(), |start| {
        format!("{} moved since {}", size(schedule.hour_moved_bytes), time(Some(start)))
    })
}

/// A line for each record that a file declares or that was removed for it.
pub fn applied(document: &AppliedDoc, _: View) -> String {
    let dry_run = if document.dry_run { " (dry run)" } else { "" };
    let line = |AppliedRecord { name, change }: &AppliedRecord| {
        let change = match change {
            Change::Created => "created",
            Change::Configured => "configured",
            Change::Unchanged => "unchanged",
            Change::Pruned => "pruned",
        };
        format!("{} {change}{dry_run}\n", clean(name))
    };
    document.applied.iter().map(line).collect()
}
