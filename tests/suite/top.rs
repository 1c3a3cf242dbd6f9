//! `numalocctl top`: what it says of processes is what numa_maps says.

use crate::{
    app::{App, Layout},
    cli::{as_nobody, code, command, numalocctl},
    place::{both, with_memory},
    settings::Setting,
    truth::Truth,
};
use serde_json::Value;
use std::{
    io::{BufRead, BufReader},
    process::Stdio,
};

const PROCESSES: usize = 40;
/// Largest difference between the share of local memory and that in numa_maps, in percent. Applications take a page now
/// and then.
const POINTS: f64 = 3.0;

/// The document of the first line in which all processes have been looked at.
pub fn after_a_full_pass(arguments: &[&str]) -> Value {
    first_document(arguments, |document| document["unseen_count"] == 0)
}

/// What the command shows as soon as that holds.
pub fn first_document(arguments: &[&str], holds: impl Fn(&Value) -> bool) -> Value {
    let mut child = command()
        .args(["top", "-b", "-d", "500ms", "-n", "2000", "-o", "json", "--standalone"])
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let documents =
        lines.map_while(Result::ok).map(|line| serde_json::from_str(&line).expect("JSON"));
    let mut documents = documents.filter(|document: &Value| holds(document));
    let found = documents.next().expect("a document of which it holds");
    child.kill().ok();
    child.wait().ok();
    found
}

pub fn row(document: &Value, pid: i32) -> &Value {
    let rows = document["processes"].as_array().expect("rows");
    rows.iter().find(|row| row["pid"] == pid).unwrap_or_else(|| panic!("no row of {pid}"))
}

/// Processes with home on one of two nodes or on all, and memory of several sizes on either. A few have been moved in part.
fn placed() -> Vec<(App, Vec<u32>)> {
    let [first, second] = both();
    let homes = [
        (first.to_string(), vec![first]),
        (second.to_string(), vec![second]),
        (String::new(), with_memory().to_vec()),
    ];
    let start = |number: usize| {
        let (nodes, home) = homes[number % 3].clone();
        let region = format!("anon:{}M", 2 + number % 7);
        let layout = Layout::remote(&[region.as_str()]).on(nodes).memory_on(both()[number / 3 % 2]);
        (layout.load("idle").start(&format!("top{number}")), home)
    };
    let apps: Vec<_> = (0..PROCESSES).map(start).collect();
    // Numbers 3 and 9 have CPUs on the first node and memory on the second.
    for (number, ratio) in [(3, "30"), (9, "40")] {
        let pid = apps[number].0.pid().to_string();
        numalocctl(&["migrate", "--standalone", "--pid", &pid, "--target-ratio", ratio]);
    }
    apps
}

#[test]
fn shares_are_those_of_numa_maps() {
    let _balancing = Setting::numa_balancing(false);
    let apps = placed();
    let document = after_a_full_pass(&["--cpu-budget", "50"]);
    let mut shares = Vec::new();
    let nodes = document["nodes"].as_array().expect("a list").iter();
    let is_near = |node: &&Value| node["total_bytes"] != 0 && node["is_lower_tier"] == false;
    let near: Vec<&Value> = nodes.filter(is_near).collect();
    for (app, home) in &apps {
        let row = row(&document, app.pid());
        assert_eq!(row["home_nodes"], serde_json::json!(home), "{row}");
        assert!(row["age_seconds"].is_f64(), "{row}");
        // What may run on all nodes has no share.
        let is_home = |node: &&Value| home.iter().any(|home| node["node"] == *home);
        let is_everywhere = near.len() > 1 && near.iter().all(is_home);
        assert_eq!(row["is_unpinned"], is_everywhere, "{row}");
        if is_everywhere {
            assert!(row["local_percent"].is_null(), "{row}");
            continue;
        }
        let nodes = Truth::of(app.pid()).all();
        let local: u64 = home.iter().filter_map(|node| nodes.get(node)).sum();
        let percent = local as f64 * 100.0 / nodes.values().sum::<u64>() as f64;
        let said = row["local_percent"].as_f64().expect("a share");
        assert!((said - percent).abs() <= POINTS, "{said} of {percent}: {row}, {nodes:?}");
        shares.push(said);
    }
    let between = shares.iter().filter(|share| (20.0..80.0).contains(*share)).count();
    assert!(between >= 2, "partly moved ones: {shares:?}");
}

#[test]
fn a_full_pass_comes_with_a_small_budget_too() {
    let _balancing = Setting::numa_balancing(false);
    let app = Layout::remote(&["anon:16M"]).start("top");
    let document = after_a_full_pass(&["--cpu-budget", "2"]);
    let row = row(&document, app.pid());
    assert!(row["remote_bytes"].as_u64() >= Some(16 << 20), "{row}");
}

#[test]
fn without_rights_it_shows_what_it_may() {
    let app = Layout::remote(&["anon:4M"]).start("top");
    let arguments =
        ["top", "-b", "-n", "1", "-d", "3s", "--cpu-budget", "100", "-o", "json", "--standalone"];
    let output = as_nobody(&arguments);
    assert_eq!(code(&output), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let row = row(&document, app.pid());
    assert_eq!((&row["local_percent"], &row["is_hidden"]), (&Value::Null, &Value::Bool(true)));
    assert!(row["resident_bytes"].as_u64() >= Some(4 << 20), "{row}");
    assert!(document["hidden_count"].as_u64() > Some(0) && document["nodes"].is_array());
}
