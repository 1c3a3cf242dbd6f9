//! `workloads`.

use super::{
    cells::{dash, short},
    fields::fields,
    table::Table,
};
use crate::{
    clean::clean,
    doc::{RemovedDoc, RenewedDoc, ReplacedDoc, WorkloadDoc, WorkloadsDoc},
    output::View,
    time::Time,
    units::seconds,
};

/// A row per workload.
pub fn workloads(document: &WorkloadsDoc, view: View) -> String {
    table(&document.workloads, view).render(view)
}

/// A workload as its change is told, or the header of that.
pub fn workload_line(workload: Option<&WorkloadDoc>, view: View) -> String {
    table(workload, view).lines(view)
}

fn table<'a>(workloads: impl IntoIterator<Item = &'a WorkloadDoc>, view: View) -> Table {
    let mut table = Table::new().words("NAME").words("CGROUP").words("QOS").words("LABELS");
    if view.wide {
        table = table.words("NAMESPACE").words("CONTAINER").words("POD").words("SOURCE");
        table = table.words("CREATOR").words("CREATED").words("EXPIRES");
    }
    for workload in workloads {
        let labels = Some(labels(workload)).filter(|text| !text.is_empty());
        let mut row = vec![workload.name.clone(), workload.cgroup.clone()];
        row.extend([dash(&workload.qos_class), dash(&labels)]);
        if view.wide {
            row.extend([dash(&workload.namespace), dash(&workload.container_id)]);
            row.extend([dash(&workload.pod_uid), dash(&workload.source), workload.creator.clone()]);
            row.extend([short(workload.create_time), short(workload.expire_time)]);
        }
        table.row(row);
    }
    table
}

fn labels(workload: &WorkloadDoc) -> String {
    let labels = workload.labels.iter().map(|(key, value)| format!("{key}={value}"));
    labels.collect::<Vec<_>>().join(",")
}

/// One workload in full.
pub fn workload(workload: &WorkloadDoc, _: View) -> String {
    let maybe = |text: &Option<String>| text.clone().unwrap_or_default();
    let time = |time: Option<Time>| time.map_or(String::new(), Time::short);
    let lease = workload.ttl_seconds.map_or("none".to_owned(), |ttl| {
        format!("{}, until {} unless it is renewed", seconds(ttl), time(workload.expire_time))
    });
    let rest = [
        ("cgroup", workload.cgroup.clone()),
        ("container", maybe(&workload.container_id)),
        ("pod", maybe(&workload.pod_uid)),
        ("namespace", maybe(&workload.namespace)),
        ("labels", labels(workload)),
        ("qos", maybe(&workload.qos_class)),
        ("source", maybe(&workload.source)),
        ("lease", lease),
        ("created", format!("{} by {}", time(workload.create_time), workload.creator)),
        ("etag", workload.etag.clone()),
    ];
    clean(&workload.name) + "\n" + &fields(rest)
}

/// A line for each record that was removed.
pub fn removed(document: &RemovedDoc, _: View) -> String {
    document.removed.iter().map(|name| format!("{} removed\n", clean(name))).collect()
}

/// The changes to a set.
pub fn replaced(document: &ReplacedDoc, _: View) -> String {
    let ReplacedDoc { written_count, unchanged_count, removed_count, missing } = document;
    let counts =
        format!("{written_count} written, {unchanged_count} unchanged, {removed_count} removed\n");
    let left_out = |name: &String| {
        format!("{} left out: no cgroup of its container, or several\n", clean(name))
    };
    counts + &missing.iter().map(left_out).collect::<String>()
}

/// How many workloads have been renewed.
pub fn renewed(document: &RenewedDoc, _: View) -> String {
    match document.workload_count {
        0 => "no workloads of that source: register them anew\n".to_owned(),
        count => format!("{count} renewed\n"),
    }
}
