//! Pictures of `locality` and `migrate`, without a daemon.

use crate::run::{fails, json, numalocctl, program, refused, text};
use serde_json::Value;
use std::{fs, os::unix::fs::PermissionsExt};

#[test]
fn nonsense_is_refused() {
    for command in ["locality --pid 1", "migrate --pid 1"] {
        fails(&format!("{command} --draw a.png"), 2, "expected an SVG file");
        fails(&format!("{command} --draw-exact"), 2, "--draw");
        let daemon = format!("{command} --draw a.svg --endpoint unix:///no/such/socket");
        fails(&daemon, 2, "--standalone");
    }
    fails("migrate --pid 1 --draw", 2, "FILE.svg");
}

#[test]
fn a_file_that_cannot_be_written_is_said_before_anything_is_looked_at() {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path().join("a.svg");
    fs::create_dir(&folder).unwrap();
    for command in ["locality", "migrate"] {
        for file in ["/no/such/a.svg", &folder.display().to_string()] {
            // There is no such process either.
            fails(&format!("{command} --pid 999999999 --draw {file}"), 1, file);
        }
    }
    let file = directory.path().join("b.svg");
    fails(&format!("locality --pid 999999999 --draw {}", file.display()), 3, "999999999");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "nothing is left behind");
}

fn number(of: &Value, field: &str) -> u64 {
    of[field].as_u64().unwrap_or_else(|| panic!("{field}: {of}"))
}

#[test]
fn its_own_memory_is_drawn() {
    let directory = tempfile::tempdir().unwrap();
    let (pid, file) = (std::process::id(), directory.path().join("own.svg"));
    let shown =
        json(&numalocctl(&format!("locality --pid {pid} --draw {} -o json", file.display())), 0);
    let process = &shown["processes"][0];
    assert_eq!(number(process, "pid"), u64::from(pid));
    let resident = |of: &Value| {
        let nodes = of["nodes"].as_array().unwrap().iter().map(|node| number(node, "bytes"));
        nodes.sum::<u64>() + number(of, "unplaced_bytes")
    };
    let rows = process["mappings"].as_array().unwrap().iter();
    let cells: u64 = rows.flat_map(|row| row["cells"].as_array().unwrap()).map(resident).sum();
    assert!(cells > 0 && cells + resident(&process["other"]) == resident(process), "{process}");
    let drawn = fs::read_to_string(&file).unwrap();
    assert!(drawn.starts_with("<svg ") && drawn.contains(&pid.to_string()), "{drawn}");
    let mode = fs::metadata(&file).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600, "it shows what /proc/PID/maps shows to nobody else");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "nothing is left behind");
}

#[test]
fn a_picture_without_a_file_is_text_as_wide_as_asked_for() {
    let line = format!("locality --draw --pid {}", std::process::id());
    for columns in [60, 120] {
        let mut command = program();
        command.args(line.split(' ')).env("COLUMNS", columns.to_string());
        let shown = text(&command.output().unwrap(), 0);
        let bars = shown.lines().filter(|line| line.contains('|'));
        let widths: Vec<_> = bars.map(|line| line.chars().count()).collect();
        assert!(widths.iter().all(|width| *width <= columns && *width >= columns - 12), "{shown}");
        assert!(!widths.is_empty() && !shown.contains('\x1b'), "{shown}");
    }
}

#[test]
fn an_endpoint_in_the_environment_is_no_picture_of_its_host() {
    let mut command = program();
    command
        .args(["locality", "--pid", "1", "--draw"])
        .env("NUMALOC_ENDPOINT", "unix:///no/such/socket");
    refused("locality --draw", &command.output().unwrap(), 2, "page maps of this host");
}
