//! The system's message bus. Without it systemd answers only root.

use super::*;

/// A running bus to which systemd is connected. It is stopped when this value is dropped.
#[derive(Debug)]
pub struct Bus;

impl Bus {
    pub fn start() -> Self {
        let passwd = fs::read_to_string("/etc/passwd").expect("users");
        if !passwd.contains("messagebus:") {
            let line = "messagebus:x:150:65534::/nonexistent:/bin/false\n";
            fs::write("/etc/passwd", passwd + line).expect("a user");
        }
        fs::create_dir_all(UNITS).expect("systemd's directory");
        let socket = "[Socket]\nListenStream=/run/dbus/system_bus_socket\n";
        let service = "[Service]\nType=notify\nExecStart=/usr/bin/dbus-daemon --system --address=systemd: \
                       --nofork --nopidfile --systemd-activation --syslog-only\n";
        fs::write(format!("{UNITS}/dbus.socket"), socket).expect("a unit");
        fs::write(format!("{UNITS}/dbus.service"), service).expect("a unit");
        systemctl(&["daemon-reload"]);
        let bus = Self;
        systemctl(&["start", "dbus.socket", "dbus.service"]);
        until("systemd is at the bus", || {
            use std::os::unix::process::CommandExt;
            let mut command = Command::new("systemctl");
            let output =
                command.args(["show", "--property=Version"]).uid(65534).gid(65534).output();
            output.expect("it starts").status.success()
        });
        bus
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        Command::new("systemctl").args(["stop", "dbus.socket", "dbus.service"]).status().ok();
        for name in ["dbus.socket", "dbus.service"] {
            fs::remove_file(format!("{UNITS}/{name}")).ok();
        }
        Command::new("systemctl").arg("daemon-reload").status().ok();
    }
}
