//! Output as data, as snapshots.

use super::{View, fixture, machine, records, *};

/// As `-o csv` prints it.
const DATA: View = View { wide: true, csv: true, ..View::TABLE };

/// The names of the columns, and whether docs/json.md has each of them.
fn documented(data: &str) {
    let text = include_str!("../../../../../docs/json.md");
    let names = data.lines().next().expect("a line of names").split(',');
    let by_node = |name: &&str| !name.starts_with("node") && !name.starts_with("distance_to_");
    for name in names.filter(by_node) {
        let bounds = |byte: char| !byte.is_ascii_alphanumeric() && byte != '_';
        assert!(text.split(bounds).any(|word| word == name), "{name}");
    }
}

#[test]
fn records_are_lines_of_data() {
    let all = [
        jobs(&records::jobs(), DATA),
        schedules(&records::schedules(), DATA),
        workloads(&records::workloads(), DATA),
        events(&records::events(), DATA),
    ];
    all.iter().for_each(|each| documented(each));
    insta::assert_snapshot!(all.join("\n").replace("\r\n", "\n"));
    let followed = event_header(DATA) + &event_line(&records::events().events[0], DATA);
    assert_eq!(followed, all[3].split_inclusive("\r\n").take(2).collect::<String>());
}

#[test]
fn what_the_host_has_is_lines_of_data() {
    let looked = fixture::inspection(Options::default());
    let probed = Probed { interface: None, available: false, reason: None };
    let doctor = DoctorDoc::from(vec![Check::ok("kernel", "6.12, and \"more\"")]);
    let all = [
        topology(&machine(), DATA),
        locality(&looked.locality(), &machine(), DATA),
        dsa(&DsaDoc::new(&fixture::accelerators(), probed), DATA),
        super::doctor(&doctor, DATA),
    ];
    all.iter().for_each(|each| documented(each));
    insta::assert_snapshot!(all.join("\n").replace("\r\n", "\n"));
}

/// Each byte is in one row, and all rows have as many columns as there are names.
#[test]
fn the_rows_of_a_locality_are_all_of_it() {
    let looked = fixture::inspection(Options::default());
    let answer = looked.locality();
    let data = locality(&answer, &machine(), DATA);
    let mut lines = data.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let names = lines.next().expect("names");
    let column = names.iter().position(|name| *name == "total_bytes").expect("it is there");
    let sum: u64 = lines.map(|cells| cells[column].parse::<u64>().expect("a number")).sum();
    let total = answer.locality.and_then(|locality| locality.total).expect("a total");
    assert_eq!(sum, total.nodes.iter().map(|on| on.bytes as u64).sum::<u64>());
}
