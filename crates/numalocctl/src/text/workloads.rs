//! Prints the answers of `numalocctl workloads` as text.

use super::{
    cells::{age, dash, labels, short, time},
    csv,
    fields::fields,
    policy::qos_class,
    table::Table,
};
use crate::{clean::clean, doc::RemovedDoc, fields as values, output::View, units::seconds};
use numaloc_api::v1;

pub fn workloads(answer: &v1::ListWorkloadsResponse, view: View) -> String {
    match view.csv {
        true => csv::workloads(&answer.workloads, view),
        false => table(&answer.workloads, view).render(view),
    }
}

/// A workload as its change is reported, or the header of these lines.
pub fn workload_line(workload: Option<&v1::Workload>, view: View) -> String {
    match view.csv {
        true => csv::workloads(workload, view),
        false => table(workload, view).lines(view),
    }
}

fn table<'a>(workloads: impl IntoIterator<Item = &'a v1::Workload>, view: View) -> Table {
    let mut table = Table::new().words("NAME").words("CGROUP").words("QOS").words("LABELS");
    table = table.numbers("AGE");
    if view.wide {
        table = table.words("NAMESPACE").words("CONTAINER").words("POD").words("SOURCE");
        table = table.words("CREATOR").words("CREATED").words("EXPIRES");
    }
    for workload in workloads {
        let mut row = vec![workload.name.clone(), workload.cgroup.clone()];
        row.extend(
            [qos_class(workload.qos_class()), labels(&workload.labels)].map(|text| dash(&text)),
        );
        row.push(age(workload.create_time, view));
        if view.wide {
            let v1::Workload { namespace, container_id, pod_uid, source, .. } = workload;
            row.extend([namespace, container_id, pod_uid, source].map(|text| dash(text)));
            row.push(workload.creator.clone());
            row.extend([short(workload.create_time), short(workload.expire_time)]);
        }
        table.row(row);
    }
    table
}

pub fn workload(workload: &v1::Workload, _: View) -> String {
    let lease = workload.ttl.map_or("none".to_owned(), |ttl| {
        let (ttl, until) = (seconds(values::seconds(Some(ttl))), time(workload.expire_time));
        format!("{ttl}, until {until} unless it is renewed")
    });
    let rest = [
        ("cgroup", workload.cgroup.clone()),
        ("container", workload.container_id.clone()),
        ("pod", workload.pod_uid.clone()),
        ("namespace", workload.namespace.clone()),
        ("labels", labels(&workload.labels)),
        ("qos", qos_class(workload.qos_class())),
        ("source", workload.source.clone()),
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
pub fn replaced(answer: &v1::ReplaceWorkloadsResponse, _: View) -> String {
    let v1::ReplaceWorkloadsResponse { written_count, unchanged_count, removed_count, missing } =
        answer;
    let counts =
        format!("{written_count} written, {unchanged_count} unchanged, {removed_count} removed\n");
    let left_out = |name: &String| {
        format!("{} left out: no cgroup of its container, or several\n", clean(name))
    };
    counts + &missing.iter().map(left_out).collect::<String>()
}

pub fn renewed(answer: &v1::RenewWorkloadsResponse, _: View) -> String {
    match answer.workload_count {
        0 => "no workloads of this source: register them again\n".to_owned(),
        count => format!("{count} renewed\n"),
    }
}
