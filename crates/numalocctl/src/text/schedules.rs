//! `schedules`.

use super::{
    cells::{dash, labels, short},
    fields::fields,
    table::{Table, list},
};
use crate::{
    clean::clean,
    doc::{ScheduleDoc, SchedulesDoc, SpecDoc},
    output::View,
    time::Time,
    units::{seconds, size},
};

/// A row per schedule.
pub fn schedules(document: &SchedulesDoc, view: View) -> String {
    table(&document.schedules, view).render(view)
}

/// A schedule as its change is told, or the header of that.
pub fn schedule_line(schedule: Option<&ScheduleDoc>, view: View) -> String {
    table(schedule, view).lines(view)
}

fn table<'a>(schedules: impl IntoIterator<Item = &'a ScheduleDoc>, view: View) -> Table {
    let mut table = Table::new().words("NAME").words("STATE").words("TARGET").words("INTERVAL");
    table = table.words("LAST JOB").words("LAST RUN").words("NEXT RUN");
    if view.wide {
        table = table.words("JITTER").words("CREATOR").words("CREATED").words("UPDATED");
        table = table.words("ETAG").words("MESSAGE");
    }
    for schedule in schedules {
        let target = schedule.spec.target.to_string();
        let interval = interval(schedule);
        let mut row = vec![schedule.name.clone(), schedule.state.clone(), target, interval];
        row.push(dash(&schedule.last_job));
        row.extend([schedule.last_run_time, schedule.next_run_time].map(short));
        if view.wide {
            row.extend([seconds(schedule.jitter_seconds), schedule.creator.clone()]);
            row.extend([schedule.create_time, schedule.update_time].map(short));
            row.extend([schedule.etag.clone(), dash(&schedule.state_message)]);
        }
        table.row(row);
    }
    table
}

fn interval(schedule: &ScheduleDoc) -> String {
    match schedule.interval_seconds {
        0.0 => "once".to_owned(),
        interval => seconds(interval),
    }
}

/// One schedule in full.
pub fn schedule(schedule: &ScheduleDoc, _: View) -> String {
    let message = schedule.state_message.as_deref();
    let reason = message.map_or(String::new(), |message| format!(": {}", clean(message)));
    let head = format!("{} {}{reason}\n", clean(&schedule.name), clean(&schedule.state));
    let time = |time: Option<Time>| time.map_or(String::new(), Time::short);
    let created = format!("{} by {}", time(schedule.create_time), schedule.creator);
    let ttl = schedule.ttl_after_gone_seconds.map_or("never".to_owned(), |ttl| {
        format!("when its target has been gone for {}", seconds(ttl))
    });
    let rest = [
        ("interval", interval(schedule)),
        ("jitter", seconds(schedule.jitter_seconds)),
        ("removed", ttl),
        ("labels", labels(&schedule.labels)),
        ("last job", schedule.last_job.clone().unwrap_or_default()),
        ("last run", time(schedule.last_run_time)),
        ("next run", time(schedule.next_run_time)),
        ("target gone", time(schedule.gone_time)),
        ("created", created),
        ("updated", time(schedule.update_time)),
        ("request id", schedule.request_id.clone().unwrap_or_default()),
        ("etag", schedule.etag.clone()),
    ];
    head + &fields(spec_fields(&schedule.spec).into_iter().chain(rest))
}

/// The migration that was asked for; values at their defaults are left out.
pub fn spec_fields(spec: &SpecDoc) -> Vec<(&'static str, String)> {
    let options = &spec.options;
    let balancing = spec.numa_balancing;
    let mut asked = options.asked();
    asked.extend((balancing != "warn").then(|| format!("numa_balancing {balancing}")));
    asked.extend((spec.offload != "auto").then(|| format!("offload {}", spec.offload)));
    asked.extend((spec.emit == "always").then(|| "events of each run".to_owned()));
    asked.extend((spec.on_interrupt == "resume").then(|| "resume".to_owned()));
    let limits = &spec.limits;
    let limits = [
        limits.timeout_seconds.map(|timeout| format!("timeout {}", seconds(timeout))),
        limits.batch_bytes.map(|bytes| format!("batches of {}", size(bytes))),
        limits.workers.map(|workers| format!("{workers} workers")),
        limits.rate_bytes_per_second.map(|bytes| format!("{}/s", size(bytes))),
    ];
    let to = options.to_nodes.as_ref().map(|nodes| list(nodes.iter().copied()));
    vec![
        ("target", spec.target.to_string()),
        ("to nodes", to.unwrap_or("local".to_owned())),
        ("options", asked.join(", ")),
        ("limits", limits.into_iter().flatten().collect::<Vec<_>>().join(", ")),
        ("qos", spec.qos_class.clone().unwrap_or_default()),
    ]
}
