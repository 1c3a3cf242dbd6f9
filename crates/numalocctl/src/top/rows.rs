//! Selection and order of the rows that are shown. Pure.

use crate::{
    columns::{Column, Sort},
    doc::{TopDoc, TopRowDoc},
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum List {
    /// Workloads: cgroups that have processes.
    Workloads,
    Processes,
    /// The processes of a cgroup.
    Within(String),
}

/// Identifies a row: the cgroup, or pid and start time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowKey {
    Cgroup(String),
    Process(i32, u64),
}

/// The key of a row.
pub fn key(row: &TopRowDoc) -> RowKey {
    match row.pid {
        Some(pid) => RowKey::Process(pid, row.start_time_ticks.unwrap_or_default()),
        None => RowKey::Cgroup(row.cgroup.clone().unwrap_or_default()),
    }
}

/// The rows of a list that a filter lets through, sorted.
pub fn rows<'a>(document: &'a TopDoc, list: &List, filter: &str, sort: Sort) -> Vec<&'a TopRowDoc> {
    let wanted = filter.to_lowercase();
    let all = match list {
        List::Workloads => &document.workloads,
        List::Processes | List::Within(_) => &document.processes,
    };
    let is_within = |row: &&TopRowDoc| match list {
        List::Within(cgroup) => row.cgroup.as_ref() == Some(cgroup),
        _ => true,
    };
    let mut rows: Vec<&TopRowDoc> =
        all.iter().filter(is_within).filter(|row| passes(row, &wanted)).collect();
    rows.sort_by(|left, right| {
        let compare = |column: Column| column.value(left).compare(&column.value(right));
        let order = compare(sort.column);
        let order = if sort.reverse { order.reverse() } else { order };
        // Among rows with equal figures (a host without remote memory), the largest comes first.
        let by_size = || compare(Column::Memory);
        let by_key = || (left.pid, &left.cgroup).cmp(&(right.pid, &right.cgroup));
        order.then_with(by_size).then_with(by_key)
    });
    rows
}

fn passes(row: &TopRowDoc, wanted: &str) -> bool {
    let has = |text: &Option<String>| {
        text.as_ref().is_some_and(|text| text.to_lowercase().contains(wanted))
    };
    wanted.is_empty()
        || has(&row.comm)
        || has(&row.cgroup)
        || has(&row.container)
        || row.pid.is_some_and(|pid| pid.to_string().contains(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cmp::Ordering;

    fn process(pid: i32, comm: &str, cgroup: &str, remote_mib: Option<u64>) -> TopRowDoc {
        TopRowDoc {
            pid: Some(pid),
            start_time_ticks: Some(1),
            comm: Some(comm.into()),
            cgroup: Some(cgroup.into()),
            remote_bytes: remote_mib.map(|mib| mib << 20),
            ..TopRowDoc::default()
        }
    }

    fn document() -> TopDoc {
        let processes = vec![
            process(1, "init", "/init.scope", None),
            process(20, "Redis", "/a", Some(5)),
            process(10, "mysqld", "/a", Some(5)),
            process(30, "idle", "/redis.slice/b", Some(70)),
        ];
        let workload = TopRowDoc {
            cgroup: Some("/a".into()),
            container: Some("shop/db-0/redis".into()),
            ..TopRowDoc::default()
        };
        TopDoc { processes, workloads: vec![workload], ..TopDoc::default() }
    }

    fn pids(list: &List, filter: &str, sort: &str) -> Vec<i32> {
        let document = document();
        let rows = rows(&document, list, filter, sort.parse().unwrap());
        rows.iter().map(|row| row.pid.unwrap_or_default()).collect()
    }

    #[test]
    fn rows_are_sorted_and_what_is_not_known_comes_last() {
        assert_eq!(pids(&List::Processes, "", "nrmem"), [30, 10, 20, 1]);
        assert_eq!(pids(&List::Processes, "", "-nrmem"), [1, 10, 20, 30]);
        assert_eq!(pids(&List::Processes, "", "name"), [20, 30, 1, 10]);
        assert_eq!(pids(&List::Processes, "", "-pid"), [30, 20, 10, 1]);
        for column in Column::ALL {
            assert_eq!(pids(&List::Processes, "", column.name()).len(), 4, "{column:?}");
        }
    }

    #[test]
    fn of_equal_rows_the_largest_comes_first() {
        let sized = |pid, gib: u64| TopRowDoc {
            resident_bytes: Some(gib << 30),
            ..process(pid, "x", "/a", Some(0))
        };
        let processes = vec![sized(1, 1), sized(2, 3), sized(3, 2)];
        let document = TopDoc { processes, ..TopDoc::default() };
        let order = |sort: &str| -> Vec<i32> {
            let rows = rows(&document, &List::Processes, "", sort.parse().unwrap());
            rows.iter().map(|row| row.pid.unwrap()).collect()
        };
        assert_eq!((order("remote"), order("-remote")), (vec![2, 3, 1], vec![2, 3, 1]));
        assert_eq!(order("-mem"), [1, 3, 2]);
    }

    /// A row that has everything.
    fn full(more: u64) -> TopRowDoc {
        TopRowDoc {
            pid: Some(10 + more as i32),
            start_time_ticks: Some(1),
            comm: Some(format!("app-{more}")),
            cgroup: Some("/a".into()),
            container: Some("web".into()),
            process_count: 1,
            home_nodes: vec![more as u32],
            is_unpinned: more.is_multiple_of(3),
            near_nodes: Vec::new(),
            resident_bytes: Some(more << 20),
            cache_bytes: Some(more << 20),
            local_bytes: Some(more << 20),
            remote_bytes: Some(more << 20),
            near_bytes: Some(more << 20),
            demoted_bytes: Some(more << 20),
            local_percent: Some(more as f64),
            by_node: vec![crate::doc::NodeBytes { node: 0, bytes: more << 20 }],
            age_seconds: Some(more as f64),
            is_hidden: false,
            cpu_percent: Some(more as f64),
            moved_bytes: more << 20,
            kernel_migrated_pages: Some(more << 8),
            kernel_migrated_bytes: Some(more << 20),
            kernel_demoted_pages: Some(more << 8),
            kernel_promoted_pages: Some(more << 8),
            kernel_hint_faults: Some(more << 8),
            traffic_bytes_per_second: Some(more << 30),
            remote_traffic_bytes_per_second: Some(more << 20),
            job: Some(format!("jobs/{more}")),
            held_back: None,
        }
    }

    /// A column without an order, or that shows nothing of a row that has everything, is of no use.
    #[test]
    fn each_column_has_an_order_and_a_cell() {
        let (less, more) = (full(1), full(2));
        for column in Column::ALL {
            let [less_value, more_value] = [&less, &more].map(|row| column.value(row));
            assert_ne!(less_value.compare(&more_value), Ordering::Equal, "{column:?}");
            assert_eq!(less_value.compare(&less_value), Ordering::Equal, "{column:?}");
            for slot in crate::columns::slots(&[column], &[0]) {
                let cells = [&less, &more].map(|row| slot.value(row).text());
                assert!(
                    !cells[0].trim().is_empty() && cells[0] != cells[1],
                    "{column:?}: {cells:?}"
                );
            }
        }
    }

    /// The page for a browser shows rows by a script, which no compiler checks.
    #[test]
    fn the_page_shows_each_field_of_a_row_and_sorts_by_each_column() {
        let page = concat!(
            include_str!("../web/page/shared.js"),
            include_str!("../web/page/lists.js"),
            include_str!("../web/page/details.js")
        );
        let row = serde_json::to_value(full(1)).unwrap();
        for (field, value) in row.as_object().unwrap() {
            assert!(page.contains(&format!("row.{field}")), "{field}");
            let is_optional = ["near_nodes", "held_back"].contains(&field.as_str());
            assert!(is_optional || !value.is_null(), "{field} has a value");
        }
        let (_, columns) = page.split_once("const rowColumns = [\n").unwrap();
        let (columns, _) = columns.split_once("\n];").unwrap();
        for column in columns.lines() {
            for part in ["id: \"", "title: \"", "cell: ", "by: "] {
                assert!(column.contains(part), "{part}: {column}");
            }
        }
    }

    #[test]
    fn names_cgroups_and_pids_are_filtered() {
        assert_eq!(pids(&List::Processes, "REDIS", "pid"), [20, 30]);
        assert_eq!(pids(&List::Processes, "0", "pid"), [10, 20, 30]);
        assert_eq!(pids(&List::Within("/a".into()), "", "pid"), [10, 20]);
        assert_eq!(pids(&List::Workloads, "/A", "name"), [0]);
        assert_eq!(pids(&List::Workloads, "shop/DB", "name"), [0], "by its container");
        assert!(pids(&List::Workloads, "nothing has this", "name").is_empty());
    }
}
