//! The whole way on the fake driver.

use super::{
    held::{DsaJournal, NOTE, by_name, set_up, take_down},
    idxd::{Age, Idxd},
    note::NotedDevice,
    tree::DsaBus,
    *,
};
use nix::libc;
use numaloc_host::{fake::Fake, journal, killed};
use std::{collections::BTreeSet, io};

const AGES: [Age; 2] = [Age::Old, Age::New];

/// Two devices, at nodes 0 and 1.
fn two(age: Age) -> Idxd {
    Idxd::new(age, &[(0, 0), (2, 1)])
}

fn taken(host: &Fake) -> DsaJournal {
    DsaJournal::take(&host.roots(), NOTE).expect("it can be written").expect("it is free")
}

/// Sets up queues on all devices.
fn set_up_all(host: &Fake, idxd: &Idxd) -> Vec<String> {
    let mut journal = taken(host);
    let devices = discover::devices(idxd);
    let devices: Vec<&Device> = devices.iter().collect();
    shown(set_up(idxd, &mut journal, &devices))
}

fn take_down_all(host: &Fake, idxd: &Idxd) -> Vec<String> {
    shown(take_down(idxd, &mut taken(host)).expect("the note can be written"))
}

fn shown(reports: Vec<DeviceReport>) -> Vec<String> {
    reports.iter().map(DeviceReport::to_string).collect()
}

/// A host where a note can be written.
fn host() -> Fake {
    let host = Fake::new();
    host.write("run/numaloc/other", "");
    host
}

fn note(host: &Fake) -> Option<Vec<NotedDevice>> {
    DsaJournal::peek(&host.roots(), NOTE)
}

#[test]
fn a_queue_is_set_up_in_the_drivers_order_and_taken_down() {
    for age in AGES {
        let (host, idxd) = (host(), two(age));
        let before = idxd.state();
        let reports = set_up_all(&host, &idxd);
        assert_eq!(
            reports,
            ["dsa0: wq0.0 is set up for the kernel", "dsa2: wq2.0 is set up for the kernel"]
        );
        let written = idxd.written.borrow().join("\n");
        let named = match age {
            Age::Old => "",
            Age::New => "devices/wq0.0/driver_name dmaengine\n",
        };
        let expected = format!(
            "devices/dsa0/cmd_status 0\n\
             devices/engine0.0/group_id 0\n\
             devices/engine0.1/group_id 0\n\
             devices/engine0.2/group_id 0\n\
             devices/engine0.3/group_id 0\n\
             devices/wq0.0/group_id 0\n\
             devices/wq0.0/size 128\n\
             devices/wq0.0/type kernel\n\
             devices/wq0.0/name numaloc\n\
             devices/wq0.0/mode dedicated\n\
             devices/wq0.0/priority 10\n\
             devices/wq0.0/max_transfer_size 2147483648\n\
             {named}\
             drivers/idxd/bind dsa0\n\
             drivers/dmaengine/bind wq0.0\n\
             devices/dsa2/cmd_status 0\n"
        );
        assert!(written.starts_with(&expected), "{written}");
        let devices = discover::devices(&idxd);
        assert!(devices.iter().all(|device| device.ready().is_some()), "{devices:#?}");
        assert!(devices.iter().all(|device| device.state == State::Enabled));

        let reports = take_down_all(&host, &idxd);
        assert_eq!(reports.len(), 2);
        assert!(
            reports.iter().all(|text| text.ends_with("and the device is restored")),
            "{reports:?}"
        );
        assert_eq!((idxd.state(), note(&host)), (before, None));
        assert_eq!(take_down_all(&host, &idxd), [""; 0]);
    }
}

#[test]
fn a_process_that_is_killed_at_any_point_leaves_nothing() {
    for age in AGES {
        let recover = |(host, idxd): &(Fake, Idxd)| {
            if let Ok(taken) = DsaJournal::take(&host.roots(), NOTE) {
                let _ = take_down(idxd, &mut taken.expect("it is free"));
            }
        };
        let points = killed::leaves_nothing(
            || (host(), two(age)),
            |(host, idxd)| (idxd.state(), journal::is_noted(&host.roots(), NOTE)),
            |it| {
                set_up_all(&it.0, &it.1);
                recover(it);
            },
            recover,
        );
        // Each of the two is set up and taken down, with notes before and after.
        assert!(points > 36, "{points}");
    }
}

#[test]
fn each_refused_step_is_reported_and_the_steps_before_are_undone() {
    let (free, all) = (host(), two(Age::New));
    set_up_all(&free, &all);
    let files: BTreeSet<String> = all
        .written
        .borrow()
        .iter()
        .filter_map(|line| line.split_once(' '))
        // To clear cmd_status is a courtesy of newer kernels.
        .filter(|(file, _)| !file.ends_with("cmd_status"))
        .map(|(file, _)| file.to_owned())
        .filter(|file| !file.contains("2."))
        .collect();
    assert!(files.len() >= 14, "{files:?}");
    for file in files {
        for errno in [libc::EPERM, libc::EBUSY, libc::EINVAL, libc::ENODEV, libc::EACCES] {
            let (host, idxd) = (host(), Idxd::new(Age::New, &[(0, 0)]));
            let before = idxd.state();
            *idxd.refuse.borrow_mut() = Some((file.clone(), errno));
            let reports = set_up_all(&host, &idxd);
            let text = &reports[0];
            assert!(text.starts_with("dsa0: no work queue is set up: /sys/bus/dsa/"), "{text}");
            for words in [file.as_str(), "does not take '", "what had been done is undone"] {
                assert!(text.contains(words), "{words}: {text}");
            }
            assert!(text.contains(&io::Error::from_raw_os_error(errno).to_string()), "{text}");
            assert_eq!((idxd.state(), idxd.refuse.take().is_some()), (before, true), "{file}");
            take_down_all(&host, &idxd);
            assert_eq!(note(&host), None);
        }
    }
}

#[test]
fn a_refusal_names_cmd_status_in_words() {
    let tree = Idxd::new(Age::New, &[(0, 0)]);
    let refused = |file: &str, value: &str| {
        let error = refusal::write(&tree, "dsa0", file, value).expect_err("refused");
        error.to_string()
    };
    let text = refused("drivers/idxd/bind", "dsa0");
    assert!(text.contains("(cmd_status 0x800d0000: no work queue is configured)"), "{text}");
    tree.change(0, |device| {
        device.engines[0] = 0;
        device.queues[0].group = 0;
        device.queues[0].dedicated = true;
    });
    tree.write("drivers/idxd/bind", "dsa0").unwrap();
    let text = refused("drivers/dmaengine/bind", "wq0.0");
    assert!(text.contains("0x80200000: the driver_name"), "{text}");
    tree.write("devices/wq0.0/driver_name", "dmaengine").unwrap();
    let text = refused("drivers/dmaengine/bind", "wq0.0");
    assert!(text.contains("0x80040000: the work queue has no name"), "{text}");
    // Sizes are read-only while the device is enabled.
    let text = refused("devices/wq0.0/size", "1");
    assert!(text.contains("os error 1") && text.contains("is enabled"), "{text}");
}

#[test]
fn a_shared_queue_needs_a_threshold() {
    let tree = Idxd::new(Age::Old, &[(0, 0)]);
    tree.change(0, |device| (device.engines[0], device.svm) = (0, true));
    for (file, value) in
        [("group_id", "0"), ("size", "16"), ("type", "kernel"), ("name", "x"), ("priority", "1")]
    {
        tree.write(&format!("devices/wq0.0/{file}"), value).unwrap();
    }
    tree.write("drivers/idxd/bind", "dsa0").unwrap();
    let error = refusal::write(&tree, "dsa0", "drivers/dmaengine/bind", "wq0.0").unwrap_err();
    assert!(error.to_string().contains("has no threshold"), "{error}");
}

/// A device whose user queue is in use.
fn used(idxd: &Idxd, number: u32, queue: usize) {
    idxd.change(number, |device| {
        device.enabled = true;
        device.engines[1] = 1;
        let queue = &mut device.queues[queue];
        (queue.kind, queue.name, queue.driver) = ("user", "db".into(), Some("user"));
        (queue.size, queue.group, queue.dedicated) = (16, 1, true);
        queue.driver_name = "user".into();
    });
}

#[test]
fn devices_of_others_are_left_alone() {
    for age in AGES {
        let (host, idxd) = (host(), Idxd::new(age, &[(0, 0), (2, 0), (4, 1)]));
        used(&idxd, 0, 1);
        // Configured and not enabled yet.
        idxd.change(2, |device| device.queues[3].size = 8);
        let before = idxd.state();
        let reports = set_up_all(&host, &idxd);
        assert!(reports[0].contains("another program has enabled it"), "{reports:?}");
        assert!(reports[1].contains("another program has begun to configure wq2.3"), "{reports:?}");
        assert!(reports[2].contains("wq4.0 is set up"), "{reports:?}");
        let written = idxd.written.borrow().join("\n");
        assert!(!written.contains("dsa0") && !written.contains("wq0."), "{written}");
        assert!(!written.contains("dsa2") && !written.contains("wq2."), "{written}");
        take_down_all(&host, &idxd);
        assert_eq!(idxd.state(), before);
    }
}

#[test]
fn a_device_is_never_disabled_under_a_queue_of_others() {
    for age in AGES {
        for enabled in [true, false] {
            let (host, idxd) = (host(), Idxd::new(age, &[(0, 0)]));
            set_up_all(&host, &idxd);
            idxd.change(0, |device| {
                let queue = &mut device.queues[2];
                (queue.kind, queue.name, queue.group) = ("user", "db".into(), 0);
                queue.driver = enabled.then_some("user");
            });
            let reports = take_down_all(&host, &idxd);
            assert!(reports[0].contains("another program uses wq0.2"), "{reports:?}");
            let devices = discover::devices(&idxd);
            assert_eq!(devices[0].state, State::Enabled);
            assert_eq!(devices[0].queues[0].driver, None);
            assert_eq!(devices[0].queues[2].label.as_deref(), Some("db"));
            assert_eq!(note(&host), None);
        }
    }
}

#[test]
fn a_queue_that_has_been_given_away_meanwhile_is_not_taken_down() {
    let (host, idxd) = (host(), Idxd::new(Age::New, &[(0, 0)]));
    set_up_all(&host, &idxd);
    idxd.change(0, |device| device.queues[0].name = "db".into());
    let before = idxd.state();
    let reports = take_down_all(&host, &idxd);
    assert!(reports[0].contains("another program uses wq0.0"), "{reports:?}");
    assert_eq!((idxd.state(), note(&host)), (before, None));
}

#[test]
fn a_queue_that_the_kernel_uses_stays_for_another_try() {
    let (host, idxd) = (host(), Idxd::new(Age::New, &[(0, 0)]));
    let before = idxd.state();
    set_up_all(&host, &idxd);
    idxd.change(0, |device| device.queues[0].clients = 1);
    let set = idxd.state();
    let reports = take_down_all(&host, &idxd);
    assert!(reports[0].contains("the kernel still uses wq0.0"), "{reports:?}");
    assert_eq!(idxd.state(), set);
    // A daemon that starts again meanwhile finds it ready.
    let reports = set_up_all(&host, &idxd);
    assert_eq!(reports, ["dsa0: the kernel has wq0.0 already"]);
    idxd.change(0, |device| device.queues[0].clients = 0);
    take_down_all(&host, &idxd);
    assert_eq!((idxd.state(), note(&host)), (before, None));
}

#[test]
fn a_device_may_be_removed_at_any_time() {
    for age in AGES {
        for after in 0..16 {
            let (host, idxd) = (host(), two(age));
            idxd.remove_after.set(Some((after, 0)));
            let reports = set_up_all(&host, &idxd);
            assert!(reports[1].ends_with("wq2.0 is set up for the kernel"), "{after}: {reports:?}");
            if idxd.devices.borrow().len() == 1 && after < 13 {
                assert!(reports[0].contains("the device has been removed"), "{after}: {reports:?}");
                assert!(reports[0].ends_with("is undone"), "{after}: {reports:?}");
            }
            idxd.remove_after.set(None);
            idxd.remove(0);
            take_down_all(&host, &idxd);
            assert_eq!(note(&host), None, "{after}");
        }
        // While it is taken down.
        for after in 0..4 {
            let (host, idxd) = (host(), two(age));
            set_up_all(&host, &idxd);
            idxd.written.borrow_mut().clear();
            idxd.remove_after.set(Some((after, 2)));
            take_down_all(&host, &idxd);
            idxd.remove_after.set(None);
            idxd.remove(2);
            take_down_all(&host, &idxd);
            assert_eq!(note(&host), None, "{after}");
            assert_eq!(discover::devices(&idxd)[0].state, State::Disabled);
        }
    }
}

#[test]
fn only_one_process_has_queues_and_the_note_is_theirs() {
    let host = host();
    let roots = host.roots();
    let Err(error) = prepare(&roots, &[]) else { panic!("the host has no device") };
    assert!(error.to_string().contains("modprobe idxd"), "{error}");
    let held = taken(&host);
    let Err(error) = prepare(&roots, &[]) else { panic!("it is taken") };
    assert!(error.to_string().contains("another process"), "{error}");
    drop(held);
    assert!(recover(&roots).expect("it can be read").is_empty());
}

#[test]
fn names_choose_devices() {
    let devices = discover::devices(&two(Age::New));
    let (chosen, unknown) = by_name(&devices, &["dsa2".into(), "dsa7".into()]);
    assert_eq!(chosen.len(), 1);
    assert_eq!(chosen[0].name, "dsa2");
    assert_eq!(
        shown(unknown),
        ["dsa7: no work queue is set up: no device has this name; the host has dsa0, dsa2"]
    );
}

#[test]
fn a_tree_of_files_says_the_same_as_the_driver() {
    for age in AGES {
        let (host, idxd) = (host(), two(age));
        set_up_all(&host, &idxd);
        used(&idxd, 2, 3);
        idxd.write_tree(&host.path("sys/bus/dsa"));
        let found = find(&host.roots());
        assert_eq!(found.devices, discover::devices(&idxd));
        assert!(found.bus && found.undriven.is_empty());
        let [first, second] = found.devices.as_slice() else { panic!("{found:?}") };
        assert_eq!((first.name.as_str(), first.numa_node), ("dsa0", Some(numaloc_core::NodeId(0))));
        let queue = first.queue("wq0.0").expect("a queue");
        assert_eq!(queue.label.as_deref(), Some("numaloc"));
        assert_eq!(queue.driver.as_deref(), Some("dmaengine"));
        assert_eq!(queue.size, Some(128));
        assert_eq!(first.groups[0].engines.len(), 4);
        assert_eq!(first.queue("wq0.1").and_then(|queue| queue.group), None);
        assert_eq!(second.queue("wq2.3").and_then(Queue::purpose), Some("user"));
        assert_eq!(first.errors, None);
        // The other readers see the same.
        assert_eq!(
            found.devices.iter().map(|device| &device.name).collect::<Vec<_>>(),
            ["dsa0", "dsa2"]
        );
        let conditions = conditions(&host.roots());
        assert_eq!(conditions, discover::conditions(&idxd));
        assert_eq!(conditions.get("wq0.0/state").map(String::as_str), Some("enabled"));
        assert_eq!(conditions.get("wq0.1/state").map(String::as_str), Some("disabled"));
    }
}

#[test]
fn parts_may_lie_in_the_directory_of_their_device() {
    let host = host();
    for (file, text) in [
        ("dsa0/state", "enabled\n"),
        ("dsa0/numa_node", "-1\n"),
        ("dsa0/errors", "00000000,00000001\n"),
        ("dsa0/cmd_status", "0x80040000\n"),
        ("dsa0/wq0.0/state", "enabled\n"),
        ("dsa0/wq0.0/type", "kernel\n"),
        ("dsa0/wq0.0/driver_name", "dmaengine\n"),
        ("dsa0/engine0.0/group_id", "0\n"),
        ("iax1/state", "enabled\n"),
    ] {
        host.write(&format!("sys/bus/dsa/devices/{file}"), text);
    }
    let found = find(&host.roots());
    let [device] = found.devices.as_slice() else { panic!("{found:?}") };
    assert_eq!((device.numa_node, device.queues.len()), (None, 1));
    assert_eq!(device.errors.as_deref(), Some("00000000,00000001"));
    assert_eq!(device.command_status.words(), Some("the work queue has no name"));
    assert!(device.queues[0].is_ready());
    assert_eq!(device.engines[0].group, Some(0));
}

#[test]
fn a_function_without_a_driver_is_found() {
    let host = host();
    for (address, device) in [("0000:6a:01.0", "0x0b25"), ("0000:6a:02.0", "0x0cfe")] {
        host.write(&format!("sys/bus/pci/devices/{address}/vendor"), "0x8086\n");
        host.write(&format!("sys/bus/pci/devices/{address}/device"), &format!("{device}\n"));
    }
    assert_eq!(find(&host.roots()).undriven, ["0000:6a:01.0"]);
    let link = host.path("sys/bus/pci/devices/0000:6a:01.0/driver");
    std::os::unix::fs::symlink("../../drivers/idxd", link).unwrap();
    assert!(find(&host.roots()).undriven.is_empty());
}
