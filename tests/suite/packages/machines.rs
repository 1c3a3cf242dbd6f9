//! Containers of Debian's LXC and systemd-nspawn: their names, where people have them, and their memory, which comes home by name.

use super::*;
use crate::{
    cpus::cpus_of,
    settings::Setting,
    truth::{Truth, off},
};

/// The root of the containers: nothing but names of this system's own directories.
const ROOT: &str = "/tmp/machine";

/// Redis as the first process of a container, on the CPUs of node 1. What `stop` names ends it.
#[derive(Debug)]
struct Machine {
    name: &'static str,
    port: &'static str,
    stop: &'static [&'static str],
}

impl Drop for Machine {
    fn drop(&mut self) {
        // No panic here: the test may be panicking already.
        run(self.stop[0], &self.stop[1..]);
    }
}

impl Machine {
    /// The process of Redis, as the whole system numbers it.
    fn pid(&self) -> i32 {
        let listening = format!("*:{}", self.port);
        let all = fs::read_dir("/proc")
            .expect("mounted")
            .filter_map(|entry| entry.expect("readable").file_name().to_str()?.parse::<i32>().ok());
        let title = |pid: &i32| {
            let title = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            title.starts_with("redis-server") && title.contains(&listening)
        };
        all.into_iter().find(title).expect("it runs")
    }

    /// By its name it is found, it comes home, and it is shown.
    fn comes_home(&self) {
        let (name, pid) = (self.name, self.pid());
        let away = || off(&Truth::of(pid).without_files().all(), 0);
        assert!(away() >= DATA, "{name}: {}", away());
        let digest = redis(self.port, &["debug", "digest"]);
        done("taskset", &["-a", "-p", "-c", &cpus_of(0), &pid.to_string()]);
        let ask = |arguments: &[&str]| -> Value {
            let said = done("/usr/bin/numalocctl", &[arguments, &["-o", "json"]].concat());
            serde_json::from_str(&said).expect("JSON")
        };
        for standalone in [&[][..], &["--standalone"]] {
            let said = ask(&[&["locality", "--container", name], standalone].concat());
            let processes = said["locality"]["processes"].as_array().expect("a list");
            assert!(processes.iter().any(|each| each["process"]["pid"] == pid), "{said}");
        }
        let said = ask(&["migrate", "--container", name]);
        assert_eq!(said["state"], "JOB_STATE_SUCCEEDED", "{said}");
        assert!(away() <= DATA / 8, "{name}: {}", away());
        assert_eq!(redis(self.port, &["debug", "digest"]), digest);
        until("top shows its name", || {
            let shown = ["top", "-b", "-n", "3", "--delay", "2", "-o", "json"];
            let shown = done("/usr/bin/numalocctl", &shown);
            let last = shown.lines().last().expect("three");
            let last: Value = serde_json::from_str(last).expect("JSON");
            let mut rows = last["processes"].as_array().expect("a list").iter();
            let container = rows.find_map(|row| (row["pid"] == pid).then(|| &row["container"]));
            let container = container.and_then(Value::as_str).unwrap_or_default();
            container == name || container.starts_with(&format!("{name}/"))
        });
    }
}

fn prepared() -> (Setting, System) {
    let balancing = Setting::numa_balancing(false);
    let system = System::new();
    system.install(1, &["numaloc"]);
    make_root(ROOT);
    (balancing, system)
}

#[test]
fn a_container_of_systemd_nspawn_comes_home_by_its_name() {
    let _prepared = prepared();
    let stop = &["machinectl", "terminate", "nspawned"];
    let machine = Machine { name: "nspawned", port: "7311", stop };
    let (cpus, root) = (cpus_of(1), format!("--directory={ROOT}"));
    let nspawn = ["systemd-nspawn", "--quiet", &root, "--bind-ro=/usr", "--machine=nspawned"];
    let redis = ["redis-server", "--port", "7311", "--save", "", "--enable-debug-command", "yes"];
    let unit = ["--unit=nspawned", "--collect", "taskset", "-c", &cpus];
    done("systemd-run", &[&unit[..], &nspawn, &["--as-pid2"], &redis].concat());
    fill_redis(machine.port);
    machine.comes_home();
}

#[test]
fn a_container_of_lxc_comes_home_by_its_name() {
    let _prepared = prepared();
    let stop = &["lxc-stop", "--kill", "--name", "lxc-web"];
    let machine = Machine { name: "lxc-web", port: "7312", stop };
    let config = format!(
        "lxc.rootfs.path = dir:{ROOT}\nlxc.mount.entry = /usr usr none bind,ro 0 0\nlxc.mount.auto = proc:mixed sys:ro\n\
         lxc.apparmor.profile = unconfined\nlxc.net.0.type = none\nlxc.uts.name = web\n\
         lxc.init.cmd = /usr/bin/redis-server --port 7312 --save \"\" --enable-debug-command yes\n"
    );
    fs::write("/tmp/lxc-web.conf", config).expect("writable");
    let start = ["lxc-start", "--daemon", "--name", "lxc-web", "--rcfile", "/tmp/lxc-web.conf"];
    done("taskset", &[&["-c", &cpus_of(1)], &start[..]].concat());
    fill_redis(machine.port);
    machine.comes_home();
}
