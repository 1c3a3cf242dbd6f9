//! `workloads`.

use super::{
    jobs::{dash, short},
    table::{Table, clean},
};
use crate::{
    doc::{RemovedDoc, WorkloadsDoc},
    output::View,
};

/// A row per workload.
pub fn workloads(document: &WorkloadsDoc, view: View) -> String {
    let mut table = Table::new().words("NAME").words("CGROUP").words("QOS").words("LABELS");
    if view.wide {
        table = table.words("CONTAINER").words("POD").words("CREATOR").words("CREATED");
    }
    for workload in &document.workloads {
        let labels = workload.labels.iter().map(|(key, value)| format!("{key}={value}"));
        let labels = Some(labels.collect::<Vec<_>>().join(",")).filter(|text| !text.is_empty());
        let mut row = vec![workload.name.clone(), workload.cgroup.clone()];
        row.extend([dash(&workload.qos_class), dash(&labels)]);
        if view.wide {
            row.extend([dash(&workload.container_id), dash(&workload.pod_uid)]);
            row.extend([workload.creator.clone(), short(workload.create_time)]);
        }
        table.row(row);
    }
    table.render(view)
}

/// A line for each that is no more.
pub fn removed(document: &RemovedDoc, _: View) -> String {
    document.removed.iter().map(|name| format!("{} removed\n", clean(name))).collect()
}
