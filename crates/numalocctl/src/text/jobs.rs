//! `jobs`.

use super::{
    cells::{dash, labels, short},
    fields::fields,
    members::members,
    migration::migration,
    plan::plan,
    schedules::spec_fields,
    table::Table,
};
use crate::{
    clean::clean,
    doc::{JobDoc, JobsDoc},
    job_state::JobState,
    output::View,
    time::Time,
    units::size,
};

/// A row per job.
pub fn jobs(document: &JobsDoc, view: View) -> String {
    table(&document.jobs, view).render(view)
}

/// A job as its change is told, or the header of that.
pub fn job_line(job: Option<&JobDoc>, view: View) -> String {
    table(job, view).lines(view)
}

fn table<'a>(jobs: impl IntoIterator<Item = &'a JobDoc>, view: View) -> Table {
    let mut table = Table::new().words("NAME").words("STATE").words("TARGET").words("MOVED");
    table = table.words("CREATOR").words("CREATED");
    if view.wide {
        table = table.words("STARTED").words("ENDED").words("SCHEDULE").words("QOS");
        table = table.words("REQUEST ID").words("MESSAGE");
    }
    for job in jobs {
        let state = job.state.name().to_owned();
        let target = job.spec.target.to_string();
        let mut row = vec![job.name.clone(), state, target, moved(job), job.creator.clone()];
        row.push(short(job.create_time));
        if view.wide {
            row.extend([job.start_time, job.end_time].map(short));
            let message = job.state_message.clone().or_else(|| held_back(job));
            row.extend([&job.schedule, &job.spec.qos_class, &job.request_id, &message].map(dash));
        }
        table.row(row);
    }
    table
}

/// What holds a job that is under way back at the moment, if anything does.
fn held_back(job: &JobDoc) -> Option<String> {
    let progress = job.progress.as_ref().filter(|_| !job.state.is_end())?;
    Some(format!("held back: {}", progress.held_back.as_ref()?))
}

/// `560.0 MiB of 630.0 MiB`.
fn moved(job: &JobDoc) -> String {
    let of = |moved, all| format!("{} of {}", size(moved), size(all));
    match (&job.outcome, &job.progress) {
        (Some(outcome), _) => of(outcome.account.moved_bytes, outcome.account.found_bytes),
        (None, Some(progress)) => of(progress.moved_bytes, progress.planned_bytes),
        (None, None) => "-".to_owned(),
    }
}

/// A job that was only checked: what would be created.
pub fn job_to_be(job: &JobDoc, view: View) -> String {
    match job.name.as_str() {
        "" => format!(
            "the daemon would take it; nothing has changed\n{}",
            fields(spec_fields(&job.spec)) + &members(&job.members, view)
        ),
        name => format!("the daemon would give back {}; nothing has changed\n", clean(name)),
    }
}

/// `2 more members that take no part`; empty if there are none.
fn more_members(count: u64) -> String {
    match count {
        0 => String::new(),
        1 => "1 more member that takes no part".to_owned(),
        _ => format!("{count} more members that take no part"),
    }
}

/// One job in full. Its plan is shown only with `-o wide`.
pub fn job(job: &JobDoc, view: View) -> String {
    let reason =
        job.state_message.as_deref().filter(|_| !job.state.is_end() || job.outcome.is_none());
    let reason = reason.map_or(String::new(), |message| format!(": {}", clean(message)));
    let mut text = format!("{} {}{reason}\n", clean(&job.name), job.state.name());
    let time = |time: Option<Time>| time.map_or(String::new(), Time::short);
    let progress = job.progress.as_ref().filter(|_| !job.state.is_end());
    let progress = progress.map_or(String::new(), |progress| {
        let (settled, planned) = (size(progress.settled_bytes), size(progress.planned_bytes));
        let moved = size(progress.moved_bytes);
        let why = held_back(job).map_or(String::new(), |why| format!("; {why}"));
        format!("{settled} of {planned} settled, {moved} moved{why}")
    });
    let created = format!("{} by {}", time(job.create_time), job.creator);
    let rest = [
        ("schedule", job.schedule.clone().unwrap_or_default()),
        ("request id", job.request_id.clone().unwrap_or_default()),
        ("created", created),
        ("started", time(job.start_time)),
        ("ended", time(job.end_time)),
        ("progress", progress),
        ("labels", labels(&job.labels)),
        ("not listed", more_members(job.more_members)),
    ];
    text += &fields(spec_fields(&job.spec).into_iter().chain(rest));
    // After the job's end the members are shown with its outcome.
    if !job.state.is_end() {
        text += &members(&job.members, view);
    }
    if let Some(document) = job.plan.as_ref().filter(|_| view.wide) {
        text += &format!("\nplan:\n{}", plan(document, view));
    }
    if let Some(outcome) = job.outcome.as_ref().filter(|_| job.state != JobState::Unknown) {
        text += &format!("\n{}", migration(outcome, view));
    }
    text
}
