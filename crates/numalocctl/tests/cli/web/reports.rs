//! `web --report`: one file, and what an earlier one had.

use super::*;

#[test]
fn a_report_is_one_file_that_names_cannot_break() {
    let fake = Fake::start(hostile());
    let file = fake.folder().join("a.html");
    let output = fake.run(&format!("web --delay 100ms --report {}", file.display()));
    assert_eq!(text(&output, 0), format!("{}\n", file.display()));
    let mode = fs::metadata(&file).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600, "it shows what /proc/PID/maps shows to nobody else");
    let page = fs::read_to_string(file).unwrap();
    let (before, rest) = page.split_once("id=\"report\">").unwrap();
    let (data, after) = rest.split_once("</script>").unwrap();
    let data: Value = serde_json::from_str(data).unwrap();
    assert_eq!(
        data["view"]["top"]["processes"][0]["comm"],
        "</script><img src=x onerror=alert(1)>"
    );
    assert_eq!(
        data["advice"]["findings"][0]["brings"],
        "moves 600.0 MiB from node 2 to node 0 in about 500 ms; it uses 1.2 CPUs"
    );
    let text = data["texts"]["jobs/42"].as_str().expect("as jobs get prints it");
    assert!(text.contains("\nplan:\n"), "{text}");
    assert!(data["texts"]["schedules/7"].as_str().unwrap().starts_with("schedules/7 waiting"));
    let command = data["command"].as_str().expect("the command");
    assert!(command.contains("web --delay 100ms --report "), "{command}");
    assert!(!before.contains("<img") && !after.contains("<img src=x"));
    assert!(before.contains("default-src 'none'; script-src 'nonce-"), "{before}");
    for words in [" src=\"http", " href=\"http", "<link rel=\"stylesheet\"", "@import", "url("] {
        assert!(!page.contains(words), "{words}");
    }
}

#[test]
fn a_report_has_what_an_earlier_one_had() {
    let fake = Fake::start(script());
    let file = |name: &str| fake.folder().join(name).display().to_string();
    let (before, after) = (file("before.html"), file("after.html"));
    let report = |options: &str| {
        text(&fake.run(&format!("web --delay 100ms --report {options}")), 0);
    };
    report(&before);
    report(&format!("{after} --before {before}"));
    let page = fs::read_to_string(after).unwrap();
    let data = page.split_once("id=\"report\">").unwrap().1.split_once("</script>").unwrap().0;
    let data: Value = serde_json::from_str(data).unwrap();
    let earlier = &data["before"]["view"]["top"];
    assert_eq!(earlier["time"], data["view"]["top"]["time"], "the fake's clock stands still");
    let row = json!({"pid": null, "start_time_ticks": null, "cgroup": "/redis", "remote_bytes": 610 << 20});
    assert_eq!(earlier["workloads"], json!([row]), "of rows what is compared");
    assert_eq!(earlier["processes"][0]["pid"], 4711);
    // What is there is not overwritten for a report that cannot be compared.
    let line = format!("web --report {} --before /no/such.html", file("new.html"));
    refused(&line, &fake.run(&line), 2, "cannot compare with /no/such.html");
    assert!(!fake.folder().join("new.html").exists());
    fails("web --before a.html", 2, "--report");
}
