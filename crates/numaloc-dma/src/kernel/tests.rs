//! The interfaces on trees that look as those kernels' do.

use super::*;
use numaloc_host::{Error, fake::Fake};

const ALIBABA: &str = "sys/kernel/mm/migrate";
const DCBM: &str = "sys/module/dcbm/parameters";
const EARLY: &str = "sys/kernel/dcbm";
const SETTINGS: Settings = Settings { polling: true, channels_max: Some(4) };

fn with(files: &[(&str, &str)], directory: &str) -> Fake {
    let fake = Fake::new();
    for (name, text) in files {
        fake.write(&format!("{directory}/{name}"), text);
    }
    fake
}

fn alibaba() -> Fake {
    let files = [
        ("batch_migrate_enabled", "false\n"),
        ("dma_migrate_enabled", "false\n"),
        ("dma_migrate_polling", "true\n"),
    ];
    with(&files, ALIBABA)
}

fn dcbm(directory: &str, more: &[(&str, &str)]) -> Fake {
    let fake = with(more, directory);
    fake.write(&format!("{directory}/offloading"), "0\n");
    fake.write(&format!("{directory}/nr_dma_chan"), "1\n");
    fake
}

fn names(knobs: &[Knob]) -> Vec<(&str, &str)> {
    knobs.iter().map(|knob| (knob.name, knob.value.as_str())).collect()
}

#[test]
fn a_kernel_without_any_says_what_it_lacks() {
    let probed = probe(&Fake::new().roots());
    assert_eq!((probed.interface, probed.available), (None, false));
    let reason = probed.reason.unwrap();
    assert!(reason.contains("dma_migrate_enabled") && reason.contains("dcbm"), "{reason}");
}

#[test]
fn a_directory_without_the_switch_is_none() {
    let fake = with(&[("batch_migrate_enabled", "false\n")], ALIBABA);
    assert_eq!(probe(&fake.roots()).interface, None);
}

#[test]
fn each_layout_is_found() {
    for (fake, name) in
        [(alibaba(), "alibaba"), (dcbm(DCBM, &[]), "dcbm"), (dcbm(EARLY, &[]), "dcbm")]
    {
        let available = Probed { interface: Some(name), available: true, reason: None };
        assert_eq!(probe(&fake.roots()), available);
    }
}

#[test]
fn without_a_channel_it_cannot_be_used() {
    let fake = alibaba();
    std::fs::create_dir_all(fake.path("sys/class/dma")).unwrap();
    let probed = probe(&fake.roots());
    assert_eq!((probed.interface, probed.available), (Some("alibaba"), false));
    assert!(probed.reason.unwrap().contains("/sys/class/dma"));
    fake.write("sys/class/dma/dma0chan0/in_use", "0\n");
    assert!(probe(&fake.roots()).available);
}

#[test]
fn alibaba_takes_what_this_kernel_has() {
    let fake = alibaba();
    let interface = find(&fake.roots()).unwrap();
    let three = [
        ("dma_migrate_polling", "1"),
        ("batch_migrate_enabled", "1"),
        ("dma_migrate_enabled", "1"),
    ];
    assert_eq!(names(&interface.wanted(&SETTINGS)), three);
    fake.write(&format!("{ALIBABA}/dma_migrate_min_pages"), "32\n");
    assert_eq!(
        names(&interface.wanted(&SETTINGS)),
        three,
        "the shortest copy is the kernel's matter"
    );
    assert!(interface.write("dma_migrate_min_pages", "64").is_err());
    let waiting = Settings { polling: false, ..SETTINGS };
    assert_eq!(names(&interface.wanted(&waiting))[..2], [("dma_migrate_polling", "0"), three[1]]);
    assert_eq!(interface.counters().unwrap(), None);
    assert_eq!(interface.read("dma_migrate_polling").unwrap(), "1", "the form that is written");
}

#[test]
fn dcbm_is_for_move_pages_alone_and_counts() {
    let counted = [
        ("reason_mask", "compaction,demotion\n"),
        ("folios_migrated", "7\n"),
        ("folios_failures", "2\n"),
    ];
    let fake = dcbm(DCBM, &counted);
    let interface = find(&fake.roots()).unwrap();
    let wanted = [("nr_dma_chan", "4"), ("reason_mask", "syscall_or_cpuset"), ("offloading", "1")];
    assert_eq!(names(&interface.wanted(&SETTINGS)), wanted);
    assert_eq!(interface.counters().unwrap(), Some(Counters { offloaded: 7, failed: 2 }));
    fake.write(&format!("{DCBM}/folios_migrated"), "many\n");
    assert!(matches!(interface.counters(), Err(Error::Parse { .. })));
    std::fs::remove_dir_all(fake.path(DCBM)).unwrap();
    assert!(matches!(interface.counters(), Err(Error::Read { .. })), "it is gone");
}

#[test]
fn an_early_dcbm_counts_nothing() {
    let fake = dcbm(EARLY, &[]);
    let interface = find(&fake.roots()).unwrap();
    assert_eq!(names(&interface.wanted(&SETTINGS)), [("nr_dma_chan", "4"), ("offloading", "1")]);
    assert_eq!(interface.counters().unwrap(), None);
}

#[test]
fn an_operators_mask_is_respected() {
    let fake = dcbm(DCBM, &[("reason_mask", "demotion\n")]);
    assert!(probe(&fake.roots()).available, "it is off: ours to set");
    fake.write(&format!("{DCBM}/offloading"), "1\n");
    let reason = probe(&fake.roots()).reason.unwrap();
    assert!(reason.contains("demotion alone") && reason.contains("syscall_or_cpuset"), "{reason}");
    fake.write(&format!("{DCBM}/reason_mask"), "demotion,syscall_or_cpuset\n");
    assert!(probe(&fake.roots()).available);
}

#[test]
fn nothing_but_its_settings_is_written() {
    let fake = dcbm(DCBM, &[("folios_migrated", "7\n")]);
    let interface = find(&fake.roots()).unwrap();
    interface.write("offloading", "1").unwrap();
    assert!(interface.is_on().unwrap());
    for name in ["folios_migrated", "../parameters/offloading"] {
        assert!(matches!(interface.write(name, "0"), Err(Error::Setting { .. })), "{name}");
    }
    assert!(interface.is_on().unwrap());
}

#[test]
fn engines_that_break_or_go_are_noticed() {
    let fake = Fake::new();
    let wq = "sys/bus/dsa/devices/wq0.0/state";
    fake.write("sys/class/dma/dma0chan0/in_use", "1\n");
    fake.write("sys/bus/dsa/devices/dsa0/errors", "0x0 0x0 0x0 0x0\n");
    fake.write("sys/bus/dsa/devices/dsa1/state", "disabled\n");
    fake.write(wq, "enabled\n");
    let before = condition(&fake.roots());
    let worse = || condition(&fake.roots()).worse_than(&before);
    assert_eq!(worse(), None);
    fake.write("sys/bus/dsa/devices/dsa1/state", "enabled\n");
    assert_eq!(worse(), None, "one more does no harm");
    fake.write(wq, "disabled\n");
    assert_eq!(worse().as_deref(), Some("wq0.0/state is disabled now"));
    fake.write(wq, "enabled\n");
    fake.write("sys/bus/dsa/devices/dsa0/errors", "0x1 0x0 0x0 0x0\n");
    assert!(worse().is_some_and(|worse| worse.starts_with("dsa0/errors are 0x1")));
    fake.write("sys/bus/dsa/devices/dsa0/errors", "0x0 0x0 0x0 0x0\n");
    std::fs::remove_dir_all(fake.path("sys/bus/dsa/devices/wq0.0")).unwrap();
    assert_eq!(worse().as_deref(), Some("wq0.0/state is gone"));
    std::fs::remove_dir_all(fake.path("sys/class/dma/dma0chan0")).unwrap();
    assert_eq!(worse().as_deref(), Some("the DMA channel dma0chan0 is gone"));
}
