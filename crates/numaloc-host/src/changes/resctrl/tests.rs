//! Reading formats. What makes and removes groups takes a file system that keeps the kernel's rules: see `tests/resctrl`.

use super::{format::parse, *};
use crate::fake::Fake;
use numaloc_core::{DomainValues, GroupName, Notation};

#[test]
fn schemata_are_read_with_and_without_padding() {
    // Linux 6.1 pads values; domains have gaps.
    let text = "    MB:0=100;17= 10\n    L3:0=00fff;17=f\nL3CODE:0=1\n";
    let parse = |name, notation| parse(text, name, notation);
    assert_eq!(parse("MB", Notation::Number), Some([(0, 100), (17, 10)].into()));
    assert_eq!(parse("L3", Notation::Mask), Some([(0, 0xfff), (17, 0xf)].into()));
    assert_eq!(parse("L3DATA", Notation::Mask), None);
    for damaged in ["MB:\n", "MB:0\n", "MB:0=\n", "MB:x=1\n", "MB:0=1;\n", "MB:0=-1\n", "MB", ""] {
        assert_eq!(super::format::parse(damaged, "MB", Notation::Number), None, "{damaged}");
    }
}

fn wanted(memory_bandwidth: &str) -> MoverGroup {
    let memory_bandwidth = DomainValues::parse(memory_bandwidth, Notation::Number).ok();
    MoverGroup { name: GroupName::parse("numaloc").expect("a name"), memory_bandwidth, l3: None }
}

#[test]
fn files_that_say_something_else_are_errors_that_name_them() {
    let fake = Fake::new();
    let root = "sys/fs/resctrl";
    fake.write(&format!("{root}/info/MB/num_closids"), "8\n");
    fake.write(&format!("{root}/schemata"), "    L3:0=f\n");
    let error =
        |fake: &Fake| check(&fake.roots(), &wanted("20")).expect_err("it is damaged").to_string();
    assert!(error(&fake).contains("no line MB, which info has"), "{}", error(&fake));
    fake.write(&format!("{root}/schemata"), "    MB:0=100\n");
    assert!(error(&fake).contains("min_bandwidth"), "{}", error(&fake));
    fake.write(&format!("{root}/info/MB/min_bandwidth"), "ten\n");
    assert!(error(&fake).contains("'ten' is not a number"), "{}", error(&fake));
    fake.write(&format!("{root}/info/MB/min_bandwidth"), "10\n");
    fake.write(&format!("{root}/info/MB/bandwidth_gran"), "10\n");
    check(&fake.roots(), &wanted("20")).expect("it is well");
    assert!(check(&fake.roots(), &wanted("3=20")).is_err());
}

#[test]
fn a_host_without_the_resource_names_those_that_it_has() {
    let fake = Fake::new();
    fake.write("sys/fs/resctrl/info/L3/num_closids", "8\n");
    fake.write("sys/fs/resctrl/schemata", "    L3:0=f\n");
    let error = check(&fake.roots(), &wanted("20")).expect_err("no MB").to_string();
    assert!(error.contains("has no MB; it has L3"), "{error}");
}

#[test]
fn a_note_that_nobody_wrote_removes_nothing() {
    let fake = Fake::new();
    fake.write("proc/sys/kernel/random/boot_id", "boot\n");
    fake.write("sys/fs/resctrl/numaloc/tasks", "");
    for text in [
        "x\n",
        "{\"boot\":\"boot\",\"changed\":{\"group\":7}}\n",
        // Another group has this name by now, or none.
        "{\"boot\":\"boot\",\"changed\":{\"group\":\"numaloc\",\"inode\":1}}\n",
        "{\"boot\":\"boot\",\"changed\":{\"group\":\"other\",\"inode\":1}}\n",
        "{\"boot\":\"boot\",\"changed\":{\"group\":\"../../resctrl/numaloc\",\"inode\":null}}\n",
        // Of an earlier boot.
        "{\"boot\":\"before\",\"changed\":{\"group\":\"numaloc\",\"inode\":null}}\n",
    ] {
        fake.write("run/numaloc/resctrl", text);
        assert!(!matches!(recover(&fake.roots()), Ok(Some(_))), "{text}");
        assert!(fake.path("sys/fs/resctrl/numaloc/tasks").exists(), "{text}");
    }
}
