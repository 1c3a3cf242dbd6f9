//! Work queues of DSA devices, which the daemon sets up and takes down. No machine here has such a device: the driver is a fake
//! that takes and refuses what the kernel's does, mounted where the kernel's files would be. All else is real: the daemon, its signals,
//! and its files.

use super::*;
use nix::{
    libc::{EINVAL, ENXIO},
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
};
use numaloc_dma::dsa::idxd::{Age, DsaBus, Idxd};
use numaloc_tests::fuse::{self, Caller, Files, Kind};
use serde_json::Value;
use std::{collections::BTreeMap, io, panic, thread};

const BUS: &str = "/sys/bus/dsa";
/// The note of what has to be taken down.
const NOTE: &str = "/run/numaloc/dsa";
const MANAGED: &str = "[dsa]\nmanage_work_queue = true\n";
const DRIVERS: [&str; 3] = ["dmaengine", "idxd", "user"];

/// The driver's files below [`BUS`].
struct Driver(Idxd);

impl Files for Driver {
    fn kind(&self, path: &str) -> Option<Kind> {
        match path.split('/').collect::<Vec<_>>().as_slice() {
            [""] | ["devices"] | ["drivers"] => Some(Kind::Directory),
            ["drivers", driver] => DRIVERS.contains(driver).then_some(Kind::Directory),
            ["drivers", driver, "bind" | "unbind"] => {
                DRIVERS.contains(driver).then_some(Kind::File)
            }
            ["devices", part] => self.0.names().contains(*part).then_some(Kind::Directory),
            ["devices", part, "driver"] => self.0.driver(part).map(|_| Kind::Link),
            ["devices", _, _] => self.0.read(path).is_ok().then_some(Kind::File),
            _ => None,
        }
    }

    fn names(&self, directory: &str) -> Vec<String> {
        let owned =
            |names: &[&str]| -> Vec<String> { names.iter().map(|&name| name.to_owned()).collect() };
        match directory.split('/').collect::<Vec<_>>().as_slice() {
            [""] => owned(&["devices", "drivers"]),
            ["drivers"] => owned(&DRIVERS),
            ["drivers", _] => owned(&["bind", "unbind"]),
            ["devices"] => self.0.names().into_iter().collect(),
            ["devices", part] => {
                let mut names = self.0.attributes(part);
                names.extend(self.0.driver(part).map(|_| "driver"));
                owned(&names)
            }
            _ => Vec::new(),
        }
    }

    fn read(&self, file: &str) -> io::Result<String> {
        self.0.read(file)
    }

    fn write(&self, file: &str, text: &str, _: Caller) -> io::Result<()> {
        self.0.write(file, text)
    }

    fn target(&self, link: &str) -> io::Result<String> {
        let part = link.split('/').nth(1).unwrap_or_default();
        let driver = self.0.driver(part).ok_or(io::ErrorKind::NotFound)?;
        Ok(format!("../../drivers/{driver}"))
    }
}

/// A device at each node. Differences of older drivers are in the tests of the fake itself.
fn two() -> Idxd {
    Idxd::new(Age::New, &[(0, 0), (2, 1)])
}

/// Runs a test, and what it starts, where this driver is. Others see nothing of it: the thread has a mount namespace of its own.
fn with(idxd: Idxd, test: impl FnOnce() + Send + 'static) {
    let beside = thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNS).expect("it takes root");
        let none = None::<&str>;
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(none, "/", none, private, none).expect("what is mounted here stays here");
        // sysfs takes no new directories.
        mount(Some("none"), "/sys/bus", Some("tmpfs"), MsFlags::empty(), none).expect("a tmpfs");
        fs::create_dir(BUS).expect("a directory");
        fuse::serve(Driver(idxd), Path::new(BUS));
        test();
    });
    if let Err(why) = beside.join() {
        panic::resume_unwind(why);
    }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("a directory");
    let name = |entry: io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
    entries.map(|entry| name(entry).into_string().expect("UTF-8")).collect()
}

/// All attributes and links of all devices and their parts, by `wq0.0/state`. Without the result of the last command,
/// which cannot be put back.
fn state() -> BTreeMap<String, String> {
    let devices = Path::new(BUS).join("devices");
    let mut state = BTreeMap::new();
    for part in names(&devices) {
        for file in names(&devices.join(&part)) {
            let path = devices.join(&part).join(&file);
            let text = match fs::read_link(&path) {
                Ok(to) => to.display().to_string(),
                Err(_) => fs::read_to_string(&path).expect("a text").trim().to_owned(),
            };
            state.extend((file != "cmd_status").then(|| (format!("{part}/{file}"), text)));
        }
    }
    assert!(state.len() > 100, "{state:?}");
    state
}

/// The work queues that are enabled.
fn enabled(state: &BTreeMap<String, String>) -> Vec<&str> {
    let queues = state.iter().filter(|(_, text)| *text == "enabled");
    queues
        .filter_map(|(file, _)| file.strip_suffix("/state"))
        .filter(|it| it.starts_with("wq"))
        .collect()
}

const BOTH: [&str; 2] = ["wq0.0", "wq2.0"];

fn note() -> String {
    fs::read_to_string(NOTE).unwrap_or_default()
}

/// All events. It answers once the queues are as they are to be.
fn events(daemon: &Daemon) -> Vec<v1::Event> {
    daemon.client().listed_events()
}

#[test]
fn queues_are_set_up_at_the_start_and_taken_down_at_the_end() {
    with(two(), || {
        let before = state();
        assert_eq!(enabled(&before), [""; 0]);
        let mut daemon = Daemon::with(MANAGED);
        assert_eq!(events(&daemon), [], "{}", daemon.log());
        let set = state();
        assert_eq!(enabled(&set), BOTH, "{}", daemon.log());
        for (file, text) in [
            ("dsa0/state", "enabled"),
            ("dsa0/driver", "../../drivers/idxd"),
            ("wq0.0/driver", "../../drivers/dmaengine"),
            ("wq0.0/type", "kernel"),
            ("wq0.0/name", "numaloc"),
            ("wq0.0/size", "128"),
            ("group0.0/work_queues", "wq0.0"),
        ] {
            assert_eq!(set.get(file).map(String::as_str), Some(text), "{file}");
        }
        assert_ne!(note(), "");
        let shown = daemon.ctl(&["dsa", "-o", "json"]);
        let shown: Value = serde_json::from_slice(&shown.stdout).expect("JSON");
        let queue = &shown["devices"][1]["work_queues"][0];
        assert_eq!((&queue["name"], &queue["driver"]), (&"wq2.0".into(), &"dmaengine".into()));
        daemon.stop();
        assert_eq!((state(), note()), (before, String::new()), "{}", daemon.log());
    });
}

#[test]
fn what_a_killed_daemon_has_left_is_taken_down() {
    with(two(), || {
        let before = state();
        let mut daemon = Daemon::with(MANAGED);
        let kill = |daemon: &mut Daemon| {
            assert_eq!(events(daemon), [], "{}", daemon.log());
            daemon.kill();
            assert_eq!(enabled(&state()), BOTH, "{}", daemon.log());
            assert_ne!(note(), "");
        };
        // By the next start, whatever its configuration says.
        kill(&mut daemon);
        daemon.config = String::new();
        daemon.spawn();
        assert_eq!(events(&daemon), []);
        assert_eq!((state(), note()), (before.clone(), String::new()), "{}", daemon.log());
        daemon.stop();
        // It sets them up again if that is asked for.
        daemon.config = MANAGED.to_owned();
        daemon.spawn();
        kill(&mut daemon);
        daemon.spawn();
        // By what the unit runs when the daemon has ended.
        kill(&mut daemon);
        let program = env::var_os("NUMALOCD").unwrap_or_else(|| "numalocd".into());
        let mut restore = Command::new(program);
        restore.arg("--restore-settings").arg("--state-dir").arg(&daemon.state);
        let output = restore.output().expect("it starts");
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("dsa2: the work queue is taken down"), "{text}");
        assert_eq!((state(), note()), (before, String::new()));
    });
}

#[test]
fn a_queue_that_cannot_be_set_up_is_an_event() {
    let idxd = two();
    *idxd.refuse.borrow_mut() = Some(("drivers/dmaengine/bind".to_owned(), ENXIO));
    idxd.refuse_status.set(0x800a_0000);
    with(idxd, || {
        let before = state();
        let mut daemon = Daemon::with(MANAGED);
        let shown = daemon.ctl(&["events", "--type", "dsa-queue-failed", "-o", "json"]);
        let document: Value = serde_json::from_slice(&shown.stdout).expect("JSON");
        let told = document["events"].as_array().expect("a list");
        assert_eq!(told.len(), 2, "{document}");
        for (event, number) in told.iter().zip(["0", "2"]) {
            assert_eq!(event["type"], "EVENT_TYPE_DSA_QUEUE_FAILED");
            assert!(event["job"] == "" && event["schedule"] == "", "{event}");
            let message = event["message"].as_str().expect("a message");
            for words in [
                format!("dsa{number}: no work queue is set up: {BUS}/drivers/dmaengine/bind"),
                format!("does not take 'wq{number}.0'"),
                io::Error::from_raw_os_error(ENXIO).to_string(),
                "(cmd_status 0x800a0000: the work queue could not be registered as a DMA channel"
                    .to_owned(),
                "what had been done is undone".to_owned(),
            ] {
                assert!(message.contains(&words), "{words}: {message}");
            }
            let logged = format!("does not take 'wq{number}.0'");
            assert!(daemon.log().contains(&logged), "{}", daemon.log());
        }
        // Nothing is left of the try.
        assert_eq!((enabled(&state()).len(), state()), (0, before));
        // The note has each device's end meanwhile, and goes with the daemon.
        daemon.stop();
        assert_eq!(note(), "");
        // Each start reports, and what was reported before stays.
        daemon.spawn();
        assert_eq!(events(&daemon).len(), 4);
    });
}

#[test]
fn a_refused_attribute_is_reported_with_its_value() {
    let idxd = Idxd::new(Age::New, &[(0, 0)]);
    *idxd.refuse.borrow_mut() = Some(("devices/wq0.0/size".to_owned(), EINVAL));
    with(idxd, || {
        let daemon = Daemon::with(MANAGED);
        let shown = daemon.ctl(&["events", "--no-headers"]);
        let text = String::from_utf8_lossy(&shown.stdout).into_owned();
        assert_eq!(text.lines().count(), 1, "{text}");
        for words in
            ["dsa_queue_failed", "devices/wq0.0/size does not take '128'", "max_ attributes"]
        {
            assert!(text.contains(words), "{words}: {text}");
        }
    });
}
