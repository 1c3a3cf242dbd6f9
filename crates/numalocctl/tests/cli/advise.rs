//! `advise` through the daemon.

use crate::{
    fake::{Fake, Script},
    run::{json, text},
};
use serde_json::json;

#[test]
fn the_daemons_advice_is_shown() {
    let fake = Fake::start(Script::default());
    let shown = json(&fake.run("advise --seconds 3 -o json"), 0);
    assert_eq!(fake.seen("GetAdvice").len(), 1);
    let finding = &shown["findings"][0];
    assert_eq!(finding["kind"], "pinned_remote");
    assert_eq!((&finding["cgroup"], &finding["pid"]), (&json!("/redis"), &json!(null)));
    assert_eq!(finding["flows"], json!([{ "from_node": 2, "to_node": 0, "bytes": 600 << 20 }]));
    assert_eq!(finding["commands"], json!(["numalocctl migrate --cgroup /redis"]));
    assert_eq!((&finding["source"], &finding["sampled_pages"]), (&json!("counted"), &json!(null)));
    assert_eq!((&shown["subject_count"], &shown["whole_host"]), (&json!(3), &json!(true)));
    // What only a newer daemon knows.
    assert_eq!(shown["findings"][1]["kind"], "kind_99");
    let shown = text(&fake.run("advise --cgroup /redis"), 0);
    assert!(shown.contains("moves 600.0 MiB from node 2 to node 0"), "{shown}");
    assert!(shown.contains("\n     numalocctl migrate --cgroup /redis\n"), "{shown}");
}
