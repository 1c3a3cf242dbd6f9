//! `events`: lists, filters and the stream of new ones.

use crate::{
    answers::event,
    fake::{Fake, Script},
    run::{finish, json, text, until},
};
use std::io::{BufRead, BufReader};

#[test]
fn stored_events_are_listed() {
    let fake = Fake::start(Script::default());
    let listed =
        json(&fake.run("events -o json --type failed,completed --job 42 --label app=a,b="), 0);
    assert_eq!(listed["events"].as_array().unwrap().len(), 1200);
    assert_eq!(listed["events"][0]["type"], "EVENT_TYPE_COMPLETED");
    let asked = fake.seen("ListEvents").remove(0);
    assert!(
        asked.contains("types: [Failed, Completed]") && asked.contains("\"jobs/42\""),
        "{asked}"
    );
    let old = fake.run("events --type fight-begun,placement-stable");
    let note = "note: --type fight-begun is now placement-contested";
    assert!(String::from_utf8_lossy(&old.stderr).contains(note), "{old:?}");
    let asked = fake.seen("ListEvents").pop().unwrap();
    assert!(asked.contains("types: [PlacementContested, PlacementStable]"), "{asked}");
    let rest = text(&fake.run("events --no-headers --after 1198"), 0);
    assert_eq!(rest.lines().count(), 2, "{rest}");
}

#[test]
fn a_watch_goes_on_after_the_last_event_that_it_showed() {
    let events = vec![vec![event(1), event(2)], vec![event(3)]];
    let fake = Fake::start(Script { events, ..Script::default() });
    let mut child = fake.command("events -w -o json --after 0").spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for number in 1..=3 {
        let line: serde_json::Value =
            serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert_eq!(line["name"], format!("events/{number}"));
    }
    let asked = fake.seen("WatchEvents");
    assert!(asked[0].contains("after: \"events/0\""), "{asked:?}");
    assert!(asked[1].contains("after: \"events/2\""), "{asked:?}");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_watch_that_has_seen_nothing_misses_nothing() {
    let fake = Fake::start(Script { events: vec![vec![], vec![]], ..Script::default() });
    let mut child = fake.command("events -w").spawn().unwrap();
    until("the second watch", || fake.seen("WatchEvents").len() > 1);
    let asked = fake.seen("WatchEvents");
    for request in &asked[..2] {
        assert!(request.contains("events/0") && request.contains("since: None"), "{asked:?}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_watch_of_a_daemon_that_is_gone_ends() {
    let fake =
        Fake::start(Script { events: vec![vec![event(1)]], dies: true, ..Script::default() });
    let child = fake.command("events -w --reconnect-timeout 300ms").spawn().unwrap();
    let output = finish(child);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    let shown = text(&output, 5);
    assert!(shown.starts_with("TIME ") && shown.contains("number 1"), "{shown}");
    assert_eq!(message.lines().count(), 2, "{message}");
    assert!(
        message.contains("broke off") && message.contains("cannot reach numalocd"),
        "{message}"
    );
}

#[test]
fn a_reader_that_has_gone_ends_the_watch() {
    let events = vec![(1..100).map(event).collect()];
    let fake = Fake::start(Script { events, ..Script::default() });
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = fake.command("events -w --after 0").stdout(writer).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_connection_that_breaks_is_told_apart_from_a_refusal() {
    let mut fake = Fake::start(Script { events: vec![vec![event(1)]], ..Script::default() });
    let line = "events -w --no-headers --after 0 --reconnect-timeout 300ms";
    let mut child = fake.command(line).spawn().unwrap();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    let mut shown = String::new();
    reader.read_line(&mut shown).unwrap();
    assert!(shown.contains("number 1"), "{shown}");
    fake.stop();
    let output = child.wait_with_output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{message}");
    assert!(message.contains("Connection refused"), "{message}");
}
