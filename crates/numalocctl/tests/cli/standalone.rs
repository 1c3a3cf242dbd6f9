//! Commands that need no daemon, on this host.

use crate::run::{fails, finish, interrupt, json, numalocctl, program, refused, text, until};
use signal_hook::consts::SIGINT;
use std::{
    fs::{self, OpenOptions},
    io::Read,
    os::unix::{
        fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
        process::{CommandExt, ExitStatusExt},
    },
    process::{Command, Stdio},
};

#[test]
fn nonsense_is_refused() {
    for command in ["locality", "plan", "migrate"] {
        fails(command, 2, "--pid");
        fails(&format!("{command} --pid x"), 2, "--pid: x is not a pid");
        fails(&format!("{command} --pid -1"), 2, "-1");
        fails(&format!("{command} --pid 0"), 2, "0");
    }
    for command in ["plan --pid 1", "migrate --pid 1"] {
        fails(&format!("{command} --target-ratio 101"), 2, "expected a percentage");
        fails(&format!("{command} --target-ratio -1"), 2, "-1");
        fails(&format!("{command} --reserve 1x"), 2, "expected a size");
        fails(&format!("{command} --reserve -1"), 2, "expected a size");
        fails(&format!("{command} --to x"), 2, "not a valid list of nodes");
        fails(&format!("{command} --to -1"), 2, "not a valid list of nodes");
        fails(&format!("{command} --profile slow"), 2, "gentle, balanced, fast");
        fails(&format!("{command} --order random"), 2, "probed, address, damon, referenced");
        fails(&format!("{command} --max-stall 99us"), 2, "from 100us to 60s");
        fails(&format!("{command} --node-cpu-max 0"), 2, "from 1 to 100");
        fails(&format!("{command} --include-gigantic=perhaps"), 2, "perhaps");
        fails(&format!("{command} --numa-balancing off"), 2, "ignore, warn, pause");
        let pause = format!("{command} --numa-balancing pause --standalone");
        fails(&pause, 2, "--numa-balancing pause needs the daemon");
        fails(&format!("{command} --offload maybe"), 2, "auto, off, require");
        let require = format!("{command} --offload require --standalone");
        fails(&require, 2, "--offload require needs the daemon");
    }
    fails("advise --seconds 0", 2, "expected a duration");
    fails("advise --pid 0", 2, "0");
    fails("advise --min-bytes 1", 2, "at least one page");
    fails("migrate --pid 1 --timeout -5s", 2, "expected a duration");
    fails("migrate --pid 1 --timeout 0", 2, "above 0");
    fails("migrate --pid 1 --batch-bytes 1", 2, "at least one page");
    fails(
        "migrate --pid 1 --workers 0",
        2,
        "--workers: invalid value '0': expected a whole number from 1 to 256",
    );
    fails("migrate --pid 1 --progress --no-progress", 2, "cannot be used with");
    fails("locality --selector a=b --standalone", 2, "--selector needs the daemon");
    fails("locality --container abc --standalone", 3, "no running container abc: ");
    fails("locality --pod a/b --standalone", 3, "no running pod a/b: ");
    fails("locality --vm db --standalone", 3, "no running virtual machine db: ");
    fails(
        "topology -o xml",
        2,
        "--output: invalid value 'xml': expected one of table, wide, json, yaml, csv",
    );
    fails("-o csv status", 2, "status has no output 'csv': expected one of table, json, yaml");
    fails("--no-headers drain", 2, "drain prints no table");
    fails("completions bash -o json", 2, "-o");
    fails(
        "migrat --pid 1",
        2,
        "numalocctl: there is no command 'migrat': did you mean 'migrate'? (see --help)",
    );
}

/// `--benefit` says why nothing is measured where that cannot be.
#[test]
fn what_a_move_brings_is_a_question_of_plan_and_migrate() {
    for command in ["locality --pid 1", "topology", "schedules create --pid 1"] {
        fails(&format!("{command} --benefit"), 2, "--benefit");
    }
    if !fs::exists("/sys/fs/resctrl/mon_data").unwrap() {
        let pid = std::process::id();
        let run = numalocctl(&format!("migrate --standalone --pid {pid} --benefit"));
        let errors = String::from_utf8(run.stderr).unwrap();
        assert!(errors.contains("remote memory traffic is not measured: no counters"), "{errors}");
    }
}

/// One parser and one form of words, whatever the option.
#[test]
fn amounts_are_refused_in_our_words() {
    for (line, words) in [
        (
            "migrate 1 --timeout 5x",
            "--timeout: invalid duration '5x': expected a duration such as 500ms",
        ),
        ("migrate 1 --rate 5x", "--rate: invalid rate '5x': expected an amount a second such as"),
        ("migrate 1 --reserve 5x", "--reserve: invalid size '5x': expected a size such as"),
        (
            "migrate 1 --target-ratio 5x",
            "--target-ratio: invalid percentage '5x': expected a percentage",
        ),
        ("top -d 5x", "--delay: invalid duration '5x'"),
        ("advise --seconds 5x", "--seconds: invalid duration '5x'"),
        ("jobs ls --since 5x", "--since: '5x' is not a valid time"),
        ("jobs ls --limit 0", "--limit: invalid value '0': expected a whole number of at least 1"),
        ("schedules create 1 --interval 5x", "--interval: invalid duration '5x'"),
        (
            "migrate 1 --profile slow",
            "--profile: invalid value 'slow': expected one of gentle, balanced, fast",
        ),
        (
            "migrate 1 --include-shared=x",
            "--include-shared: invalid value 'x': expected one of true, false",
        ),
    ] {
        fails(line, 2, words);
    }
    // Without a daemon these come as far as to ask for it.
    if !fs::exists("/run/numaloc/numalocd.sock").unwrap() {
        for amounts in
            ["--rate 1.5G/s --timeout 1d --max-stall 0.5ms --target-ratio 80%", "--reserve 1.5GiB"]
        {
            fails(&format!("migrate --pid 1 --detach {amounts}"), 5, "--detach needs the daemon");
        }
    }
}

#[test]
fn what_is_not_there_is_said() {
    fails("locality --pid 999999999", 3, "999999999");
    fails("locality --cgroup /no/such/cgroup", 3, "/no/such/cgroup");
    fails("advise --pid 999999999 --seconds 1", 3, "999999999");
    fails("advise --cgroup /no/such/cgroup", 3, "/no/such/cgroup");
    fails("advise --unit no-such-unit", 3, "no-such-unit");
    fails("locality --unit no-such-unit", 3, "no-such-unit");
    fails("locality --cgroup ../../etc", 2, "..");
    fails("locality --pid 999999999 -o json", 3, "999999999");
    for command in ["plan", "migrate"] {
        // On a machine with one node, too.
        fails(&format!("{command} --pid 999999999 --standalone"), 3, "999999999");
        for option in ["--to", "--from"] {
            let line = format!("{command} --pid 1 {option} 1023 --standalone");
            fails(&line, 2, "node 1023 does not exist");
        }
    }
}

#[test]
fn pids_come_as_pidof_prints_them_and_errors_say_what_is_expected() {
    let pid = std::process::id();
    let several = |words: [&str; 3]| program().args(words).output().unwrap();
    for both in [format!("{pid} {pid}"), format!("{pid},{pid}")] {
        assert!(several(["locality", "--pid", &both]).status.success(), "{both}");
        assert!(several(["locality", "-o=json", &both]).status.success(), "{both}");
    }
    fails("locality --pid abc", 2, "abc is not a pid");
    fails("locality --pid 0", 2, "0 is not a valid pid");
    refused("--pid ''", &several(["locality", "--pid", ""]), 2, "does the process run?");
    for command in ["locality", "plan", "migrate", "schedules create"] {
        fails(command, 2, "no target: name processes by pid or name");
    }
}

/// A copy of sleep under a name that no other process has, and that the kernel cuts.
#[test]
fn a_name_means_all_processes_of_that_name() {
    let folder = tempfile::tempdir().unwrap();
    let name = format!("numaloc-sleeper-{}", std::process::id());
    let copy = folder.path().join(&name);
    // By another process, as below.
    assert!(Command::new("cp").arg("/bin/sleep").arg(&copy).status().unwrap().success());
    let mut sleeping: Vec<_> =
        (0..2).map(|_| Command::new(&copy).arg("60").spawn().unwrap()).collect();
    let output = program().args(["locality", &name]).output().unwrap();
    let https = program()
        .args(["locality", &name, "--endpoint", "https://192.0.2.1:7443"])
        .output()
        .unwrap();
    let mut pids: Vec<u32> = sleeping.iter().map(|child| child.id()).collect();
    for child in &mut sleeping {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    pids.sort_unstable();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{message}");
    assert_eq!(message, format!("numalocctl: {name}: pids {}, {}\n", pids[0], pids[1]));
    refused("https", &https, 2, "may be on another one");
    fails(&format!("locality {name}"), 3, "no process is named");
}

#[test]
fn its_own_locality_is_shown() {
    let pid = std::process::id();
    let output = numalocctl(&format!("locality --pid {pid} -o json"));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains(&format!("\"pid\": {pid}")), "{text}");
}

#[test]
fn advice_is_given_on_any_machine() {
    let pid = std::process::id();
    let advice = json(&numalocctl(&format!("advise --pid {pid} --seconds 1 -o json")), 0);
    assert_eq!(advice["advice"]["is_whole"], false);
    assert!(advice["advice"]["findings"].is_array(), "{advice}");
    // At least this test has memory.
    let output = numalocctl("advise --min-bytes 4K --seconds 1 -o json");
    let code = output.status.code().unwrap_or(-1);
    let advice = json(&output, code);
    let is_whole = advice["advice"]["unreadable_count"] == 0;
    assert_eq!(code, if is_whole { 0 } else { 6 }, "{advice}");
    assert_eq!(advice["advice"]["is_whole"], true);
    assert!(advice["advice"]["subject_count"].as_u64() > Some(0), "{advice}");
}

#[test]
fn help_and_version_are_no_errors() {
    for line in ["--help", "version", "version -o json", "--version", "migrate --help", "topology"]
    {
        let output = numalocctl(line);
        assert_eq!(output.status.code(), Some(0), "{line}");
        assert!(!output.stdout.is_empty() && output.stderr.is_empty(), "{line}");
    }
}

#[test]
fn answers_come_in_each_form() {
    let shown = |line: &str| text(&numalocctl(line), 0);
    let nodes = json(&numalocctl("topology --standalone -o json"), 0);
    let yaml = shown("topology --standalone -o yaml");
    let read: serde_json::Value = serde_saphyr::from_str(&yaml).unwrap();
    let count = |answer: &serde_json::Value| answer["topology"]["nodes"].as_array().map(Vec::len);
    assert_eq!(count(&read), count(&nodes));
    let csv = shown("topology --standalone -o csv");
    assert!(csv.starts_with("node,cpus,total_bytes,") && csv.lines().count() > 1, "{csv}");
    let pid = std::process::id();
    let rows = shown(&format!("locality --standalone {pid} --no-headers"));
    assert!(rows.lines().count() == 1 && rows.contains(&pid.to_string()), "{rows}");
    let rows = shown(&format!("locality --standalone {pid} -o csv"));
    assert!(rows.starts_with("pid,comm,node0_bytes,") && rows.lines().count() == 2, "{rows}");
}

#[test]
fn colours_are_for_terminals_unless_they_are_asked_for() {
    let shown = |line: &str| String::from_utf8(numalocctl(line).stdout).unwrap();
    let plain = ["doctor --standalone", "doctor --standalone --color never"];
    assert!(plain.iter().all(|line| !shown(line).contains('\x1b')));
    assert!(shown("doctor --standalone --color always").contains("\x1b[32mok\x1b[0m"));
}

#[test]
fn a_reader_that_has_gone_is_no_error() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_numalocctl"));
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = command.arg("topology").stdout(writer).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn many_processes_are_no_matter_of_open_files() {
    let sleep = || Command::new("sleep").arg("60").spawn().unwrap();
    let mut sleeping: Vec<_> = (0..40).map(|_| sleep()).collect();
    let pids: Vec<String> = sleeping.iter().map(|child| child.id().to_string()).collect();
    let script = "ulimit -Sn 64 && exec \"$0\" locality --pid \"$1\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_numalocctl"), &pids.join(",")]);
    let output = command.output().unwrap();
    for child in &mut sleeping {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// docs/troubleshooting.md states that: it is not a result of a look at the target, which may need to move.
#[test]
fn on_a_machine_with_one_node_plan_and_migrate_fail() {
    if fs::exists("/sys/devices/system/node/node1").unwrap() {
        numaloc_sys::fixture::skipped("this machine has more than one node");
        return;
    }
    let pid = std::process::id();
    for command in ["plan", "migrate"] {
        fails(&format!("{command} --standalone --pid {pid}"), 1, "one NUMA node with memory");
    }
}

/// As after `setpriv --reuid=65534`, which leaves root's HOME.
#[test]
fn a_configuration_that_may_not_be_read_is_left_out_with_a_warning() {
    let [home, open] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let folder = home.path().join(".config/numaloc");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("numalocctl.toml"), "endpoint = \"unix:///no/such/socket\"\n").unwrap();
    // Other users may not reach the directory of the build.
    fs::set_permissions(open.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let copy = open.path().join("numalocctl");
    // By another process: as long as any child of this one, forked meanwhile, has the copy open for writing, it cannot
    // be run.
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_numalocctl")).arg(&copy).status();
    assert!(copied.unwrap().success());
    let run = |user: Option<u32>| {
        let mut command = Command::new(&copy);
        command.env_remove("NUMALOC_ENDPOINT").env_remove("XDG_CONFIG_HOME");
        command.env("HOME", home.path()).args(["advise", "--pid", "999999999"]);
        user.map(|user| command.uid(user).gid(user));
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, message) = run(None);
    assert_eq!(code, Some(5), "{message}");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o0)).unwrap();
    // root may read it all the same.
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let (code, message) = run(is_root.then_some(65534));
    assert_eq!(code, Some(3), "{message}");
    assert!(message.contains("numalocctl.toml is left out"), "{message}");
    assert!(message.contains("no process 999999999"), "{message}");
}

#[test]
fn top_shows_the_page_cache_of_files_as_often_as_asked() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let path = directory.path().join("cached");
    fs::write(&path, vec![7; 3 << 20]).expect("room");
    let file = path.display();
    let output = numalocctl(&format!("top --file {file} -b -n 2 -d 100ms -o json"));
    let printed = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<serde_json::Value> =
        printed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 2, "{output:?}");
    for line in lines {
        let file = &line["locality"]["files"]["files"][0];
        let cached = file["nodes"].as_array().expect("nodes");
        let bytes: u64 = cached.iter().filter_map(|on| on["bytes"].as_u64()).sum();
        assert_eq!(bytes, 3 << 20, "{line}");
    }
    fails(&format!("top --file {file} -b --processes"), 2, "--processes has no meaning for files");
    fails("top --file /none -b -n 1", 3, "no file /none");
}

/// O_NONBLOCK of open(2): opening a pipe without a reader is an error.
const NO_WAIT: i32 = 0o4000;

/// The list of containers is a pipe, so that reading it takes forever. Signals have their default effect until
/// something is moved or changed.
#[test]
fn ctrl_c_ends_a_search_for_names_at_once() {
    let home = tempfile::tempdir().unwrap();
    let storage = home.path().join(".local/share/containers/storage/overlay-containers");
    fs::create_dir_all(&storage).unwrap();
    let list = storage.join("containers.json");
    assert!(Command::new("mkfifo").arg(&list).status().unwrap().success());
    for command in ["locality", "plan", "migrate", "advise"] {
        let mut child = program();
        child.env("HOME", home.path()).args([command, "--standalone", "--container", "x"]);
        let mut child = child.spawn().unwrap();
        let open = || OpenOptions::new().write(true).custom_flags(NO_WAIT).open(&list);
        let mut writer = None;
        until("it reads the list", || {
            writer = open().ok();
            writer.is_some()
        });
        interrupt(&child);
        let mut ended = None;
        until("it ends", || {
            ended = child.try_wait().unwrap();
            ended.is_some()
        });
        assert_eq!(ended.and_then(|status| status.signal()), Some(SIGINT), "{command}");
    }
}

/// The nodes over time, as numastat -n and vmstat are used.
#[test]
fn nodes_are_printed_until_they_have_been_seen() {
    let printed = |options: &str, times: usize, mark: &str| {
        let mut command = program();
        command.args(format!("topology --standalone -w -d 100ms {options}").split_whitespace());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (mut text, mut buffer) = (String::new(), [0; 4096]);
        while text.matches(mark).count() < times {
            let count = child.stdout.as_mut().unwrap().read(&mut buffer).unwrap();
            assert!(count > 0, "{options}: it has ended: {text}");
            text += &String::from_utf8_lossy(&buffer[..count]);
        }
        interrupt(&child);
        assert_eq!(finish(child).status.code(), Some(0), "{options}");
        text
    };
    let table = printed("", 3, "NODE");
    assert!(table.starts_with("20") && table.lines().next().unwrap().ends_with('Z'), "{table}");
    let csv = printed("-o csv", 3, "\n0,");
    assert_eq!(csv.matches("node,cpus").count(), 1, "{csv}");
    let lines = printed("-o json", 2, "\n");
    let first: serde_json::Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!(first["topology"]["nodes"][0]["node_id"], 0);
    fails("topology -d 1s", 2, "--watch");
    fails("topology -w -d 1ms", 2, "from 100ms to 1h");
}
