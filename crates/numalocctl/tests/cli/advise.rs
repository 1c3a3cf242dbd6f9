//! `advise`, answered by the fake daemon.

use crate::{
    fake::{Fake, Script},
    run::{fails, json, text},
};
use serde_json::json;

#[test]
fn the_daemons_advice_is_shown() {
    let fake = Fake::start(Script::default());
    let shown = json(&fake.run("advise --seconds 3 -o json"), 0);
    assert_eq!(fake.seen("GetAdvice").len(), 1);
    let advice = &shown["advice"];
    let finding = &advice["findings"][0];
    assert_eq!(finding["kind"], "FINDING_KIND_PINNED_REMOTE");
    assert_eq!((&finding["cgroup"], &finding["process"]), (&json!("/redis"), &json!(null)));
    let flow = json!({ "from_node_id": 2, "to_node_id": 0, "bytes": 600 << 20 });
    assert_eq!(finding["flows"], json!([flow]));
    assert_eq!(finding["commands"], json!(["numalocctl migrate --cgroup /redis"]));
    assert_eq!(finding["source"], "MEMORY_SOURCE_COUNTED");
    assert_eq!((&advice["subject_count"], &advice["is_whole"]), (&json!(3), &json!(true)));
    // A kind that only a newer daemon knows.
    assert_eq!(advice["findings"][1]["kind"], 99);
    let shown = text(&fake.run("advise --cgroup /redis"), 0);
    assert!(shown.contains("moves 600.0 MiB from node 2 to node 0"), "{shown}");
    assert!(shown.contains("\n     numalocctl migrate --cgroup /redis\n"), "{shown}");
}

#[test]
fn nothing_is_carried_out_without_a_yes_or_on_another_host() {
    fails("advise --apply --standalone", 2, "add --yes");
    fails("advise --yes", 2, "--apply");
    fails("advise --apply --undo", 2, "--undo");
    fails("advise --undo --pid 1 --standalone", 2, "leave the target out");
    for options in ["--apply --yes", "--undo"] {
        let line = format!("advise {options} --endpoint https://other.example:1");
        fails(&line, 2, "may be on another one");
    }
}
