//! Prints the answers of `numalocctl jobs` as text.

use super::{
    cells::{age, bounded, dash, labels, short, time},
    colour::{self, Style},
    csv,
    fields::fields,
    members::members,
    migration::migration,
    plan::plan_alone,
    policy::{qos_class, spec_fields},
    table::Table,
    target::target,
};
use crate::{
    clean::clean,
    job::{is_end, state},
    output::View,
    units::size,
};
use numaloc_api::v1;

pub fn jobs(answer: &v1::ListJobsResponse, view: View) -> String {
    if view.csv {
        return csv::jobs(&answer.jobs, view);
    }
    let has_why = !view.wide && answer.jobs.iter().any(|job| why(job).is_some());
    states(&table(&answer.jobs, view, has_why).render(view), view)
}

/// Why a job waits, if it does.
fn why(job: &v1::Job) -> Option<&str> {
    let waits = matches!(job.state(), v1::JobState::Queued | v1::JobState::Suspended);
    Some(&job.state_message[..]).filter(|message| waits && !message.is_empty())
}

/// A job as its change is reported, or the header of these lines.
pub fn job_line(job: Option<&v1::Job>, view: View) -> String {
    if view.csv {
        return csv::jobs(job, view);
    }
    states(&table(job, view, false).lines(view), view)
}

/// Colours the states of jobs.
fn states(text: &str, view: View) -> String {
    colour::words(text, view, |line| {
        let state = line.split_whitespace().nth(1)?;
        let style = match state {
            "failed" | "interrupted" => Style::Bad,
            "partial" | "cancelled" | "paused" => Style::Warning,
            "running" | "succeeded" => Style::Good,
            _ => return None,
        };
        Some((state, style))
    })
}

/// A table of jobs; `has_why`: with a column for what jobs wait for, which wide ones have among their messages.
fn table<'a>(jobs: impl IntoIterator<Item = &'a v1::Job>, view: View, has_why: bool) -> Table {
    let mut table = Table::new().words("NAME").words("STATE").words("TARGET").words("MOVED");
    table = table.words("CREATOR").numbers("AGE");
    if has_why {
        table = table.words("WHY");
    }
    if view.wide {
        table = table.words("CREATED");
        table = table.words("STARTED").words("ENDED").words("SCHEDULE").words("QOS");
        table = table.words("REQUEST ID").words("MESSAGE");
    }
    for job in jobs {
        let spec = job.spec.as_ref();
        let target = bounded(target(spec.and_then(|spec| spec.target.as_ref())), view);
        let mut row = vec![job.name.clone(), state(job), target, moved(job), job.creator.clone()];
        row.push(age(job.create_time, view));
        row.extend(has_why.then(|| dash(why(job).unwrap_or_default())));
        if view.wide {
            row.extend([job.create_time, job.start_time, job.end_time].map(short));
            let policy = spec.and_then(|spec| spec.policy.as_ref());
            let qos = policy.map_or(String::new(), |policy| qos_class(policy.qos_class()));
            let message = match &job.state_message[..] {
                "" => held_back(job).unwrap_or_default(),
                message => message.to_owned(),
            };
            row.extend([&job.schedule, &qos, &job.request_id, &message].map(|text| dash(text)));
        }
        table.row(row);
    }
    table
}

/// The reason why a job that is under way is throttled at the moment, if it is.
fn held_back(job: &v1::Job) -> Option<String> {
    let progress = job.progress.as_ref().filter(|_| !is_end(job.state()))?;
    let is_held_back = !progress.held_back.is_empty();
    is_held_back.then(|| format!("throttled: {}", progress.held_back))
}

/// `560.0 MiB of 630.0 MiB`.
fn moved(job: &v1::Job) -> String {
    let of = |moved, all| format!("{} of {}", size(moved), size(all));
    match (&job.outcome, &job.progress) {
        _ if is_end(job.state()) => {
            let account = job.outcome.as_ref().and_then(|outcome| outcome.account.as_ref());
            account.map_or(of(0, 0), |account| of(account.moved_bytes, account.found_bytes))
        }
        (_, Some(progress)) => of(progress.moved_bytes, progress.planned_bytes),
        _ => "-".to_owned(),
    }
}

/// A job that was only checked: what would be created.
pub fn job_to_be(job: &v1::Job, view: View) -> String {
    match job.name.as_str() {
        "" => format!(
            "the daemon would take it; nothing has changed\n{}",
            fields(spec_fields(job.spec.as_ref())) + &members(&job.members, view)
        ),
        name => format!("the daemon would give back {}; nothing has changed\n", clean(name)),
    }
}

/// `2 more members that take no part`; empty if there are none.
fn more_members(count: i32) -> String {
    match count {
        0 => String::new(),
        1 => "1 more member that takes no part".to_owned(),
        _ => format!("{count} more members that take no part"),
    }
}

/// One job in full. Its plan is shown only with `-o wide`; `topology` has the distances for that.
pub fn job(job: &v1::Job, topology: &v1::Topology, view: View) -> String {
    let has_ended = is_end(job.state());
    let reason = match &job.state_message[..] {
        message if !has_ended && !message.is_empty() => format!(": {}", clean(message)),
        _ => String::new(),
    };
    let mut text = format!("{} {}{reason}\n", clean(&job.name), state(job));
    let progress = job.progress.as_ref().filter(|_| !has_ended);
    let progress = progress.map_or(String::new(), |progress| {
        let (settled, planned) = (size(progress.settled_bytes), size(progress.planned_bytes));
        let moved = size(progress.moved_bytes);
        let why = held_back(job).map_or(String::new(), |why| format!("; {why}"));
        format!("{settled} of {planned} settled, {moved} moved{why}")
    });
    let rest = [
        ("schedule", job.schedule.clone()),
        ("request id", job.request_id.clone()),
        ("created", format!("{} by {}", time(job.create_time), job.creator)),
        ("started", time(job.start_time)),
        ("ended", time(job.end_time)),
        ("progress", progress),
        ("labels", labels(&job.labels)),
        ("not listed", more_members(job.more_members)),
    ];
    text += &fields(spec_fields(job.spec.as_ref()).into_iter().chain(rest));
    // After the job's end the members are shown with its outcome.
    if !has_ended {
        text += &members(&job.members, view);
    }
    if view.wide && job.plan.is_some() {
        let spec = job.spec.as_ref();
        let policy = spec.and_then(|spec| spec.policy.clone());
        let limits = spec.and_then(|spec| spec.limits).unwrap_or_default();
        let answer =
            v1::PlanMigrationResponse { plan: job.plan.clone(), policy, ..Default::default() };
        // Its options are among the fields of the job.
        text += &format!("\nplan:\n{}", plan_alone(&answer, topology, &limits, view));
    }
    if has_ended {
        text += &format!("\n{}", migration(job, view));
    }
    text
}
