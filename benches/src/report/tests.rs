use super::*;

fn figure(subject: &str, kernel: &str, metric: &str, values: &[f64]) -> Figure {
    Figure {
        bench: "throughput".into(),
        kernel: kernel.into(),
        case: "512 MiB of 4 KiB pages".into(),
        subject: subject.into(),
        metric: metric.into(),
        unit: "ms".into(),
        values: values.into(),
    }
}

#[test]
fn ratios_are_those_to_the_base_of_the_same_kernel() {
    let rows = compare(&[
        figure("migratepages", "6.1", "wall", &[10.0, 12.0, 11.0]),
        figure("migratepages", "7.2", "wall", &[100.0]),
        figure("one page a call", "7.2", "wall", &[250.0, 150.0]),
        figure("one page a call", "6.12", "wall", &[1.0]),
    ]);
    let ratios: Vec<_> = rows.iter().map(|row| row.ratio.map(|ratio| ratio.median)).collect();
    assert_eq!(ratios, [Some(1.0), Some(1.0), Some(2.0), None]);
}

#[test]
fn boots_are_compared_one_by_one() {
    let boot = |bare: f64, fast: f64| {
        let figure = |subject, value: f64| figure(subject, "6.1", "wall", &[value, value]);
        [figure("bare calls", bare), figure("numalocctl fast", fast), figure("migratepages", bare)]
    };
    // The second boot is slow, whatever runs there.
    let mut boots = [boot(100.0, 103.0), boot(300.0, 330.0), boot(90.0, 94.5)].concat();
    let of_fast = |figures: &[Figure]| {
        let results = goals::judge(figures);
        let is_it = |result: &&goals::GoalResult| {
            result.what == "numalocctl fast: wall / bare calls"
                && (result.kernel.as_str(), result.case.as_str())
                    == ("6.1", "512 MiB of 4 KiB pages")
        };
        let found = results.iter().find(is_it).unwrap().clone();
        found.value.map(|value| (value.median, value.range, found.met))
    };
    assert_eq!(of_fast(&boots), Some((1.05, Some((1.03, 1.1)), Some(true))));
    let rows = compare(&boots);
    assert_eq!(rows.len(), 3, "one row for each subject");
    assert_eq!(rows[1].figure.values.len(), 6);
    assert_eq!(rows[1].ratio.unwrap().median, 1.05);
    boots.remove(3);
    assert_eq!(of_fast(&boots), None, "a boot without one of the two");
}

#[test]
fn goals_are_met_missed_or_not_measured() {
    let results = goals::judge(&[
        figure("bare calls", "6.1", "wall", &[100.0]),
        figure("numalocctl fast", "6.1", "wall", &[105.0]),
        figure("bare calls", "6.12", "wall", &[100.0]),
        figure("numalocctl fast", "6.12", "wall", &[106.0]),
        figure("numalocctl fast", "7.2", "wall", &[50.0]),
    ]);
    let of = |kernel: &str| {
        let found = results.iter().find(|result| {
            result.kernel == kernel
                && result.case == "512 MiB of 4 KiB pages"
                && result.what == "numalocctl fast: wall / bare calls"
        });
        found.unwrap().met
    };
    assert_eq!((of("6.1"), of("6.12"), of("7.2")), (Some(true), Some(false), None));
}

#[test]
fn all_files_of_a_report_are_written() {
    let directory = tempfile::tempdir().unwrap();
    let lines = [("migratepages", [10.0, 12.0]), ("one page a call", [200.0, 210.0])]
        .map(|(subject, values)| figure(subject, "6.1", "wall", &values))
        .map(|figure| format!("@figure {}\n", serde_json::to_string(&figure).unwrap()));
    let log = directory.path().join("throughput-6.1.log");
    fs::write(&log, format!("for people\n{}", lines.concat())).unwrap();
    fs::write(directory.path().join("other.txt"), "@figure {").unwrap();
    fs::write(directory.path().join("machine.md"), "- node0: CPUs 0-3\n").unwrap();
    run(&Args { directory: directory.path().into() }).unwrap();
    let read = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
    let markdown = read("report.md");
    assert!(
        markdown.contains("| wall, ms | one page a call | 205 (202 to 208) **18.636** |"),
        "{markdown}"
    );
    assert!(markdown.contains("(throughput-wall.svg)"), "{markdown}");
    let at = |words: &str| markdown.find(words).expect(words);
    assert!(at("(throughput-wall.svg)") < at("## Goals that were not measured"), "{markdown}");
    assert!(at("## Goals\n") < at("[The others]") && at("[The others]") < at("## throughput"));
    assert_eq!(markdown.matches("not measured |").count(), goals::judge(&[]).len());
    assert!(markdown.contains("## Machine\n\n- node0: CPUs 0-3\n"), "{markdown}");
    let json: serde_json::Value = serde_json::from_str(&read("report.json")).unwrap();
    assert_eq!(json["figures"][1]["spread"], serde_json::json!([202.5, 207.5]));
    let plot = read("throughput-wall.svg");
    for words in ["one page a call", "left is better", "#0072B2", "18.6"] {
        assert!(plot.contains(words), "{words}: {plot}");
    }
    fs::write(&log, "@figure {").unwrap();
    assert!(run(&Args { directory: directory.path().into() }).is_err());
}
