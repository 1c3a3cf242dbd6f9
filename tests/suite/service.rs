//! The daemon as packages install it: the unit files of `systemd/` under a real systemd. These tests need a machine whose first
//! process is systemd: `tests/vm/suite --systemd --daemon`.

mod access;
mod balancing;
mod bus;
mod life;
mod work;

use crate::{
    app::until,
    daemon::Client,
    kernel_log::KernelLog,
    unit::{UNITS, systemctl},
};
use numaloc_api::v1;
use std::{fs, io::Read, process::Command, sync::OnceLock, thread, time::Duration};

const SERVICE: &str = "numalocd.service";
const SOCKET_UNIT: &str = "numalocd.socket";
const SOCKET: &str = "/run/numaloc/numalocd.sock";
const CONFIG: &str = "/etc/numaloc/numalocd.toml";
const STATE: &str = "/var/lib/numaloc";
const LOG: &str = "/run/numalocd.log";
const MIB: u64 = 1 << 20;

/// The installed service. When this value is dropped, the service is stopped and its state is removed.
#[derive(Debug)]
pub struct Installed;

impl Installed {
    /// With the configuration that is shipped; the service is not started.
    fn new() -> Self {
        static DONE: OnceLock<()> = OnceLock::new();
        DONE.get_or_init(install);
        let installed = Self;
        let shipped = fs::read_to_string("/usr/share/numaloc/numalocd.toml").expect("shipped");
        installed.configure(&shipped);
        installed.drop_in("log", &format!("StandardError=append:{LOG}"));
        installed
    }

    pub fn with(config: &str) -> Self {
        let installed = Self::new();
        installed.configure(config);
        installed
    }

    /// Starts the service. `systemctl start` returns once the service has said that it is ready, so nothing here waits for it.
    pub fn start() -> Self {
        let installed = Self::new();
        installed.run();
        installed
    }

    pub fn run(&self) {
        systemctl(&["start", SERVICE]);
        assert_eq!(self.property("ActiveState"), "active");
    }

    /// Adds to the configuration, as an administrator would. It counts from the next reload on.
    pub fn add(&self, config: &str) {
        let before = fs::read_to_string(CONFIG).expect("a configuration");
        self.configure(&format!("{before}\n{config}\n"));
    }

    fn configure(&self, config: &str) {
        fs::write(CONFIG, config).expect("a configuration");
    }

    /// Adds lines to the unit's service section, as an administrator would.
    fn drop_in(&self, name: &str, lines: &str) {
        let directory = format!("{UNITS}/{SERVICE}.d");
        fs::create_dir_all(&directory).expect("systemd's directory");
        let text = format!("[Service]\n{lines}\n");
        fs::write(format!("{directory}/{name}.conf"), text).expect("a drop-in");
        systemctl(&["daemon-reload"]);
    }

    /// Adds a drop-in that is shipped, as an administrator would link it.
    fn shipped(&self, name: &str) {
        let file = format!("/usr/share/numaloc/numalocd-{name}.conf");
        let text = fs::read_to_string(file).expect("shipped");
        let lines: Vec<_> = text.lines().filter(|line| *line != "[Service]").collect();
        self.drop_in(name, &lines.join("\n"));
    }

    fn property(&self, property: &str) -> String {
        systemctl(&["show", "--value", "--property", property, "--", SERVICE])
    }

    fn pid(&self) -> i32 {
        self.property("MainPID").parse().expect("a pid")
    }

    /// Waits until systemd has started the service again, and returns the new pid.
    fn comes_back(&self, old: i32) -> i32 {
        until("systemd starts it again", || {
            let pid = self.pid();
            pid != old && pid != 0 && self.property("ActiveState") == "active"
        });
        self.pid()
    }

    fn client(&self) -> Client {
        Client::new(&format!("unix://{SOCKET}"))
    }

    fn log(&self) -> String {
        fs::read_to_string(LOG).unwrap_or_default()
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let status = Command::new("systemctl").args(["show", SERVICE]).output();
            let status = status.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
            let told =
                ["Result=", "ActiveState=", "SubState=", "StatusText=", "ExecMain", "NRestarts="];
            let status = status.unwrap_or_default();
            let lines =
                status.lines().filter(|line| told.iter().any(|name| line.starts_with(name)));
            eprintln!("the service:\n{}", lines.collect::<Vec<_>>().join("\n"));
            eprintln!("its log:\n{}", self.log());
        }
        // No panic here: the test may be panicking already.
        for arguments in [&["stop", SOCKET_UNIT, SERVICE][..], &["reset-failed"]] {
            Command::new("systemctl").args(arguments).status().ok();
        }
        for directory in [format!("{UNITS}/{SERVICE}.d"), STATE.to_owned()] {
            fs::remove_dir_all(directory).ok();
        }
        fs::remove_file(LOG).ok();
        Command::new("systemctl").arg("daemon-reload").status().ok();
    }
}

/// Does what a package's scripts do after its files are installed.
fn install() {
    fs::create_dir_all("/var/tmp").expect("PrivateTmp= needs it");
    fs::create_dir_all("/etc/numaloc").expect("a directory");
    for (program, arguments) in [
        ("systemd-sysusers", &["numaloc.conf"][..]),
        ("systemd-tmpfiles", &["--create", "numaloc.conf"]),
    ] {
        let output = Command::new(program).args(arguments).output().expect("it starts");
        assert!(output.status.success(), "{program}: {output:?}");
    }
    systemctl(&["daemon-reload"]);
}

/// The uid of the user `numaloc` and the gid of the group `numaloc`.
fn ids() -> (u32, u32) {
    let number = |file: &str| -> u32 {
        let text = fs::read_to_string(file).expect("text");
        let line = text.lines().find(|line| line.starts_with("numaloc:")).expect("numaloc");
        line.split(':').nth(2).and_then(|id| id.parse().ok()).expect("a number")
    };
    (number("/etc/passwd"), number("/etc/group"))
}

/// The log of systemd at level debug while `act` runs: it includes every message that is sent to it. systemd drops
/// all but 200 records in 5 s (src/basic/log.c, write_to_kmsg), so a pause of that length comes first, and `act` has
/// to be short.
fn systemd_logs(act: impl FnOnce()) -> String {
    thread::sleep(Duration::from_secs(5));
    let _level = DebugLevel::new();
    let mut log = KernelLog::from_now();
    act();
    log.read().to_owned()
}

/// systemd logs at level debug until this value is dropped.
struct DebugLevel;

impl DebugLevel {
    fn new() -> Self {
        let level = Self;
        systemctl(&["log-level", "debug"]);
        level
    }
}

impl Drop for DebugLevel {
    fn drop(&mut self) {
        Command::new("systemctl").args(["log-level", "info"]).status().ok();
    }
}

pub fn proc_status(pid: i32, name: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.expect("a field").trim().to_owned()
}

/// Asserts that a process has these capabilities, can get no others, and is confined by a filter of system calls.
pub fn assert_confined(pid: i32, capabilities: &[u32]) {
    let expected = capabilities.iter().fold(0u64, |set, number| set | 1 << number);
    for set in ["CapEff", "CapPrm", "CapBnd", "CapAmb"] {
        assert_eq!(u64::from_str_radix(&proc_status(pid, set), 16), Ok(expected), "{set}");
    }
    let (privileges, filter) = (proc_status(pid, "NoNewPrivs"), proc_status(pid, "Seccomp"));
    assert_eq!((privileges.as_str(), filter.as_str()), ("1", "2"));
}

/// CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE and CAP_SYS_NICE: what the unit has (linux/capability.h).
pub const SHIPPED: [u32; 3] = [2, 19, 23];
/// With the drop-in for page frames, CAP_SYS_ADMIN, too.
pub const WITH_FRAMES: [u32; 4] = [2, 19, 21, 23];

/// The daemon's report about itself and about the caller.
pub fn status(client: &Client) -> v1::GetStatusResponse {
    let answer = client.runtime.block_on(client.daemon().get_status(v1::GetStatusRequest {}));
    answer.expect("it answers").into_inner()
}

/// Creates a slow job that resumes after an end of the daemon, and waits until the job has moved something.
pub fn resuming(client: &Client, pid: i32) -> String {
    let mut request = crate::daemon::request(pid, crate::daemon::slow(8 * MIB));
    let on_interrupt = v1::InterruptAction::Resume.into();
    let policy = v1::Policy { on_interrupt, ..v1::Policy::default() };
    request.spec.as_mut().expect("a spec").policy = Some(policy);
    let name = client.try_create(request).expect("it is taken").name;
    client.moves(&name);
    name
}
