use super::*;
use clap::{CommandFactory, error::ErrorKind};
use std::{fs, process::ExitCode};

fn args(line: &[&str]) -> Args {
    Args::try_parse_from([&["numalocd"], line].concat()).unwrap()
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
    for line in [&["--nope"][..], &["--log-level", "loud"], &["--socket"], &["word"]] {
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
    let config = args(&["--config", file]).configuration().unwrap();
    assert_eq!(config.listen.socket, Path::new("/run/x"));
    assert_eq!(config.log, "warn".parse().unwrap());

    let config = args(&["--config", file, "--socket", "y.sock", "--log-level", "debug"]);
    let config = config.configuration().unwrap();
    assert_eq!(config.listen.socket, Path::new("y.sock"));
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

    fs::remove_file(&file).unwrap();
    let args = args(&["--check-config", "--config", file.to_str().unwrap()]);
    let code = check_config(&args, &mut Vec::new()).unwrap();
    assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::FAILURE));
}
