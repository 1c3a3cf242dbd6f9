//! Prints what memory of each node costs as text.

use super::{cells::age, csv, table::Table};
use crate::{
    clean::clean,
    doc::{BenchDoc, PairDoc},
    output::View,
    units::size,
};
use std::fmt::Write;

/// A row for each pair of nodes, and how it was measured.
pub fn bench(document: &BenchDoc, view: View) -> String {
    if view.csv {
        return csv::pairs(document, view);
    }
    let mut text = pairs(document, view);
    if view.rows_alone() {
        return text;
    }
    let kind = if document.huge_pages { "huge pages" } else { "base pages" };
    let (memory, seconds) = (size(document.memory_bytes), document.seconds);
    let _ = writeln!(
        text,
        "\nRATIO: latency against memory of the own node. {memory} for each pair ({kind}), {seconds} s for each figure, on {}.",
        clean(&document.host)
    );
    for left_out in &document.left_out {
        let _ = writeln!(text, "left out: node {}: {}", left_out.node, clean(&left_out.reason));
    }
    text
}

/// The same for `topology`, with when it was measured.
pub fn kept(document: &BenchDoc, view: View) -> String {
    let when = age(document.time.parse().ok(), view);
    format!("\nmeasured by numalocctl bench {when} ago:\n{}", pairs(document, view))
}

fn pairs(document: &BenchDoc, view: View) -> String {
    let with_firmware = view.wide || document.pairs.iter().any(PairDoc::has_firmware);
    let mut table = Table::new().numbers("CPUS OF NODE").numbers("MEMORY OF NODE");
    table = table
        .numbers("DISTANCE")
        .numbers("LATENCY")
        .numbers("RATIO")
        .numbers("READ")
        .numbers("WRITE");
    if with_firmware {
        table = table.numbers("FIRMWARE LATENCY").numbers("FIRMWARE READ");
        table = table.numbers("FIRMWARE WRITE");
    }
    let own = |pair: &PairDoc| {
        let of = |of: &&PairDoc| (of.cpu_node, of.memory_node) == (pair.cpu_node, pair.cpu_node);
        document.pairs.iter().find(of).map(|own| own.latency_ns).filter(|&own| own > 0.0)
    };
    let rate = |bytes: u64| format!("{}/s", size(bytes));
    let dash = |cell: Option<String>| cell.unwrap_or_else(|| "-".to_owned());
    for pair in &document.pairs {
        let mut row = vec![
            pair.cpu_node.to_string(),
            pair.memory_node.to_string(),
            pair.distance.to_string(),
            format!("{:.1} ns", pair.latency_ns),
            dash(own(pair).map(|own| format!("{:.2}", pair.latency_ns / own))),
            rate(pair.bandwidth_bytes_per_second),
            rate(pair.write_bandwidth_bytes_per_second),
        ];
        if with_firmware {
            row.push(dash(pair.firmware_latency_ns.map(|latency_ns| format!("{latency_ns} ns"))));
            row.push(dash(pair.firmware_read_bandwidth_bytes_per_second.map(rate)));
            row.push(dash(pair.firmware_write_bandwidth_bytes_per_second.map(rate)));
        }
        table.row(row);
    }
    table.render(view)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doc::LeftOutDoc;
    use std::time::{Duration, UNIX_EPOCH};

    fn document() -> BenchDoc {
        let pair = |cpu_node, memory_node, latency_ns, firmware| PairDoc {
            cpu_node,
            memory_node,
            distance: if cpu_node == memory_node { 10 } else { 21 },
            latency_ns,
            bandwidth_bytes_per_second: 12 << 30,
            write_bandwidth_bytes_per_second: 5 << 30,
            firmware_latency_ns: firmware,
            firmware_write_latency_ns: None,
            firmware_bandwidth_bytes_per_second: firmware.map(|_| 4 << 30),
            firmware_read_bandwidth_bytes_per_second: firmware.map(|_| 11 << 30),
            firmware_write_bandwidth_bytes_per_second: firmware.map(|_| 4 << 30),
        };
        BenchDoc {
            host: "db1".into(),
            time: "2026-01-01T00:00:00Z".into(),
            memory_bytes: 256 << 20,
            huge_pages: true,
            seconds: 1.0,
            pairs: vec![
                pair(0, 0, 90.0, Some(85)),
                pair(0, 8, 135.0, None),
                pair(8, 0, 140.0, None),
            ],
            left_out: vec![LeftOutDoc { node: 9, reason: "it has no memory".into() }],
        }
    }

    #[test]
    fn each_pair_is_a_row() {
        let view =
            View { now: UNIX_EPOCH + Duration::from_secs(1_767_225_600 + 7200), ..View::TABLE };
        insta::assert_snapshot!(bench(&document(), view));
        insta::assert_snapshot!(kept(&document(), view));
    }
}
