//! Prints the devices of `numalocctl dsa` as text.

use super::{csv, table::Table};
use crate::{
    doc::{DsaDeviceDoc, DsaDoc, WorkQueueDoc},
    output::View,
    units::size,
};
use std::fmt::Write;

/// A row for each work queue that has been given a use, or for each at all; below, the kernel's abilities and missing
/// requirements.
pub fn dsa(document: &DsaDoc, view: View) -> String {
    if view.csv {
        return csv::devices(document, view);
    }
    let mut table = Table::new().words("DEVICE").numbers("NODE").words("DEVICE STATE");
    table = table.words("QUEUE").words("STATE").words("TYPE").words("MODE").words("DRIVER");
    if view.wide {
        table = table.words("NAME").numbers("GROUP").numbers("SIZE").numbers("PRIORITY");
        table = table.numbers("MAX TRANSFER").numbers("CLIENTS");
    }
    for device in &document.devices {
        let queues = device.work_queues.iter();
        let mut shown = queues.filter(|queue| view.wide || queue.is_in_use()).peekable();
        if shown.peek().is_none() {
            table.row(row(device, None, view));
        }
        shown.for_each(|queue| table.row(row(device, Some(queue), view)));
    }
    let mut text = table.fitted(view);
    if view.rows_alone() {
        return text;
    }
    let offload = &document.kernel_offload;
    let interface = offload.interface.unwrap_or("none");
    let word = if offload.available { "available" } else { "unavailable" };
    let gap = if text.is_empty() { "" } else { "\n" };
    let _ = write!(text, "{gap}kernel offload: {interface}, {word}");
    if let Some(reason) = &offload.reason {
        let _ = write!(text, ": {reason}");
    }
    text.push('\n');
    for device in &document.devices {
        if let Some(status) = &device.cmd_status {
            let (code, words) = (status.code, status.text);
            let _ = writeln!(text, "{}: last command: {words} (cmd_status {code:#x})", device.name);
        }
        if let Some(errors) = &device.errors {
            let _ = writeln!(text, "{}: errors: {errors}", device.name);
        }
    }
    for missing in &document.missing {
        let _ = writeln!(text, "missing: {}: {}", missing.what, missing.remedy);
    }
    text
}

fn row(device: &DsaDeviceDoc, queue: Option<&WorkQueueDoc>, view: View) -> Vec<String> {
    let dash = |text: Option<&str>| text.unwrap_or("-").to_owned();
    let number = |number: Option<u64>| number.map_or("-".to_owned(), |number| number.to_string());
    let mut row = vec![
        device.name.clone(),
        number(device.numa_node.map(u64::from)),
        device.state.to_owned(),
        dash(queue.map(|queue| queue.name.as_str())),
        dash(queue.map(|queue| queue.state)),
        dash(queue.and_then(|queue| queue.kind.as_deref())),
        dash(queue.and_then(|queue| queue.mode.as_deref())),
        dash(queue.and_then(|queue| queue.driver.as_deref())),
    ];
    if view.wide {
        row.extend([
            dash(queue.and_then(|queue| queue.label.as_deref())),
            number(queue.and_then(|queue| queue.group).map(u64::from)),
            number(queue.and_then(|queue| queue.size)),
            number(queue.and_then(|queue| queue.priority)),
            queue.and_then(|queue| queue.max_transfer_bytes).map_or("-".to_owned(), size),
            number(queue.and_then(|queue| queue.clients)),
        ]);
    }
    row
}
