use super::*;
use crate::store::Store;
use clap::{CommandFactory, error::ErrorKind};
use numaloc_host::journal::Journal;
use std::{fs, process::ExitCode};

fn args(line: &[&str]) -> Args {
    Args::try_parse_from([&["numalocd"], line].concat()).unwrap()
}

#[test]
fn documented_commands_parse() {
    documented::all_parse("numalocd", 10, |words| match words[1].starts_with('-') {
        true => Args::try_parse_from(words).map(drop),
        // A message that begins with the program's name.
        false => Ok(()),
    });
}

#[test]
fn the_command_line_is_consistent() {
    Args::command().debug_assert();
    let help = Args::command().render_long_help().to_string();
    for word in ["--check-config", "NUMALOC_ENDPOINT=unix://", "/etc/numaloc/numalocd.toml"] {
        assert!(help.contains(word), "{help}");
    }
}

#[test]
fn usage_is_refused_with_2() {
    for line in [
        &["--nope"][..],
        &["--log-level", "loud"],
        &["--socket"],
        &["--socket", "relative.sock"],
        &["word"],
        &["--restore"],
        &["--repair", "--compact"],
        &["--check-config", "--restore", "x"],
    ] {
        let error = Args::try_parse_from([&["numalocd"], line].concat()).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{line:?}");
    }
    let version = Args::try_parse_from(["numalocd", "--version"]).unwrap_err();
    assert_eq!((version.kind(), version.exit_code()), (ErrorKind::DisplayVersion, 0));
}

#[test]
fn the_state_directory_is_the_option_then_systemds_then_the_default() {
    let systemd = Some(OsStr::new("/state/a:/state/b"));
    let given = args(&["--state-dir", "/mine"]);
    assert_eq!(given.state_directory_or(systemd), Path::new("/mine"));
    assert_eq!(args(&[]).state_directory_or(systemd), Path::new("/state/a"));
    assert_eq!(args(&[]).state_directory_or(None), Path::new("/var/lib/numaloc"));
    assert_eq!(args(&[]).state_directory_or(Some(OsStr::new(""))), Path::new("/var/lib/numaloc"));
}

#[test]
fn options_go_before_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("c.toml");
    fs::write(
        &file,
        "[listen]\nsocket = \"/run/x\"\n[log]\nlevel = \"warn\"\n[queue]\nmoves = 7\n",
    )
    .unwrap();
    let file = file.to_str().unwrap();
    let config = args(&["--config", file]).configuration().unwrap().config;
    assert_eq!(config.listen.socket, Path::new("/run/x"));
    assert_eq!(config.log, "warn".parse().unwrap());

    let config = args(&["--config", file, "--socket", "/run/y.sock", "--log-level", "debug"]);
    let config = config.configuration().unwrap().config;
    assert_eq!(config.listen.socket, Path::new("/run/y.sock"));
    assert_eq!(config.log, "debug".parse().unwrap());
    assert_eq!(config.queue.moves, 7);
}

#[test]
fn check_config_prints_a_line_for_each_problem() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("c.toml");
    let check = |text: &str| {
        fs::write(&file, text).unwrap();
        let mut out = Vec::new();
        let args = args(&["--check-config", "--config", file.to_str().unwrap()]);
        let code = check_config(&args, &mut out).unwrap();
        (format!("{code:?}"), String::from_utf8(out).unwrap())
    };
    let (code, out) = check("[queue]\nmoves = 0\n[listen]\ntcp = \"1.2.3.4:5\"\n");
    assert_eq!((code, out.lines().count()), (format!("{:?}", ExitCode::FAILURE), 2), "{out}");
    let (code, out) = check("");
    assert_eq!(code, format!("{:?}", ExitCode::SUCCESS));
    assert_eq!(out, format!("{}: ok\n", file.display()));

    let drop_in = directory.path().join("conf.d/a.toml");
    fs::create_dir(directory.path().join("conf.d")).unwrap();
    fs::write(&drop_in, "queue.moves = 0\n").unwrap();
    let (code, out) = check("[queue]\nmoves = 1\n");
    assert_eq!(code, format!("{:?}", ExitCode::FAILURE));
    assert_eq!(out, format!("{}:1: queue.moves: 0 is out of range: 1 to 256\n", drop_in.display()));
    fs::write(&drop_in, "queue.moves = 2\n").unwrap();
    let (file_name, drop_in) = (file.display(), drop_in.display());
    let ok = format!("{file_name}: ok\n{drop_in}: ok\n");
    let note = format!("note: {drop_in}:1: queue.moves: replaces the value at {file_name}:2\n");
    assert_eq!(check("[queue]\nmoves = 1\n"), (format!("{:?}", ExitCode::SUCCESS), ok + &note));

    fs::remove_file(&file).unwrap();
    let args = args(&["--check-config", "--config", file.to_str().unwrap()]);
    let code = check_config(&args, &mut Vec::new()).unwrap();
    assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::FAILURE));
}

#[test]
fn the_store_is_looked_after_while_no_daemon_has_it() {
    let root = tempfile::tempdir().unwrap();
    let state = |name: &str| root.path().join(name).to_str().unwrap().to_owned();
    let run = |line: &[&str]| {
        let mut out = Vec::new();
        let done = maintain(&args(line), &mut out).expect("something is asked for").unwrap();
        (done == ExitCode::SUCCESS, String::from_utf8(out).unwrap())
    };
    assert!(maintain(&args(&["--state-dir", &state("a")]), &mut Vec::new()).is_none());
    let (done, out) = run(&["--repair", "--state-dir", &state("a")]);
    assert!(!done && out.contains("numalocd.redb"), "{out}");
    let open = Store::open(Path::new(&state("a"))).unwrap();
    let (done, out) = run(&["--compact", "--state-dir", &state("a")]);
    assert!(!done && out.contains("in use"), "{out}");
    drop(open);
    let (done, out) = run(&["--compact", "--state-dir", &state("a")]);
    assert!(done && out.contains("0 records"), "{out}");
    let (done, out) = run(&["--repair", "--state-dir", &state("a")]);
    assert!(done && out.contains("nothing is wrong"), "{out}");
    let file = format!("{}/numalocd.redb", state("a"));
    let (done, out) = run(&["--restore", &file, "--state-dir", &state("b")]);
    assert!(done && out.contains("0 records restored") && !out.contains("before"), "{out}");
    let (done, out) = run(&["--restore", &file, "--state-dir", &state("b")]);
    assert!(done && out.contains("numalocd.redb.old: what was there before"), "{out}");
    let (done, out) = run(&["--restore", "/nowhere", "--state-dir", &state("b")]);
    assert!(!done && out.contains("/nowhere"), "{out}");
}

#[test]
fn settings_are_restored_where_no_daemon_lives() {
    let host = tempfile::tempdir().unwrap();
    let sysctl = host.path().join("sys/kernel/numa_balancing");
    fs::create_dir_all(host.path().join("sys/kernel/random")).unwrap();
    fs::write(host.path().join("sys/kernel/random/boot_id"), "boot-1\n").unwrap();
    fs::write(&sysctl, "0\n").unwrap();
    assert!(args(&["--restore-settings", "--state-dir", "/nowhere"]).restore_settings);
    let roots = || {
        let (proc, run) = (host.path().to_owned(), host.path().join("run"));
        numaloc_host::Roots { proc, run, ..Default::default() }
    };
    let restore = || {
        let mut out = Vec::new();
        let code = restore_settings(roots(), &mut out).unwrap();
        let value = fs::read_to_string(&sysctl).unwrap().trim().to_owned();
        (format!("{code:?}"), String::from_utf8(out).unwrap(), value)
    };
    let [done, failed] = [ExitCode::SUCCESS, ExitCode::FAILURE].map(|code| format!("{code:?}"));
    let nothing = (done.clone(), String::new(), "0".to_owned());
    assert_eq!(restore(), nothing);
    let run = host.path().join("run");
    assert!(!run.exists(), "it is not its to make");
    fs::create_dir(&run).unwrap();
    assert_eq!(restore(), nothing);

    let journal = Journal::<u32>::take(&roots(), "numa_balancing").unwrap();
    let mut journal = journal.expect("nobody has it");
    journal.note(&3).unwrap();
    // A daemon that runs has paused it.
    assert_eq!(restore(), nothing);
    drop(journal);
    let (code, out, value) = restore();
    assert_eq!((code, value.as_str()), (done, "3"));
    assert!(out.starts_with("kernel.numa_balancing = 3"), "{out}");

    fs::write(run.join("numaloc/numa_balancing"), "3 boot-1\n").unwrap();
    let (code, out, _) = restore();
    assert_eq!(code, failed);
    assert!(out.contains("numaloc/numa_balancing"), "{out}");
}

#[test]
fn work_queues_are_taken_down_where_no_daemon_lives() {
    let host = tempfile::tempdir().unwrap();
    let at = |name: &str| host.path().join(name);
    let devices = at("sys/bus/dsa/devices");
    for (file, text) in [
        ("dsa0/state", "disabled"),
        ("wq0.0/state", "disabled"),
        ("wq0.0/type", "kernel"),
        ("wq0.0/group_id", "0"),
        ("engine0.0/group_id", "0"),
    ] {
        fs::create_dir_all(devices.join(file).parent().unwrap()).unwrap();
        fs::write(devices.join(file), text).unwrap();
    }
    fs::create_dir_all(at("run/numaloc")).unwrap();
    let note = r#"{"boot":"","changed":[{"device":"dsa0","queue":"wq0.0","changes":[
        {"part":"engine0.0","attribute":"Group","before":"-1","after":"0"},
        {"part":"wq0.0","attribute":"Group","before":"-1","after":"0"},
        {"part":"wq0.0","attribute":"Type","before":"none","after":"kernel"}]}]}"#;
    fs::write(at("run/numaloc/dsa"), note.replace('\n', "") + "\n").unwrap();
    let restore = || {
        let (proc, sys, run) = (at("proc"), at("sys"), at("run"));
        let roots = numaloc_host::Roots { proc, sys, run, ..Default::default() };
        let mut out = Vec::new();
        let code = restore_settings(roots, &mut out).unwrap();
        (code == ExitCode::SUCCESS, String::from_utf8(out).unwrap())
    };
    let (done, out) = restore();
    assert!(done && out.starts_with("dsa0: the work queue is taken down"), "{out}");
    let value = |file: &str| fs::read_to_string(devices.join(file)).unwrap();
    assert_eq!([value("engine0.0/group_id"), value("wq0.0/group_id")], ["-1", "-1"]);
    assert!(value("wq0.0/type").starts_with("none"));
    assert_eq!(restore(), (true, String::new()));
}
