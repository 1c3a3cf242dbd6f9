//! Runs the program, and keeps its output.

use std::{
    io::Read,
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Longest wait, longer than any test needs.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// The program, with an environment that names no daemon.
pub fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_numalocctl"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env_remove("NUMALOC_ENDPOINT").env("HOME", "/nonexistent");
    command.env_remove("XDG_CONFIG_HOME");
    command
}

pub fn numalocctl(line: &str) -> Output {
    program().args(line.split_whitespace()).output().unwrap()
}

/// Runs a command line that has to fail with this code and one line that contains `words`.
pub fn fails(line: &str, code: i32, words: &str) {
    refused(line, &numalocctl(line), code, words);
}

/// Checks that a run failed with this code and one line that contains `words`.
pub fn refused(line: &str, output: &Output, code: i32, words: &str) {
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{line}: {message}");
    assert_eq!(message.lines().count(), 1, "{line}: {message}");
    assert!(message.starts_with("numalocctl: ") && message.contains(words), "{line}: {message}");
    assert!(output.stdout.is_empty(), "{line}");
}

/// The standard output of a run that ended with `code`.
pub fn text(output: &Output, code: i32) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{message}{text}");
    text
}

/// The JSON of a run that ended with `code`.
pub fn json(output: &Output, code: i32) -> serde_json::Value {
    serde_json::from_str(&text(output, code)).unwrap()
}

/// Waits until a condition holds.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < DEADLINE, "{what} did not come about");
        thread::sleep(Duration::from_millis(5));
    }
}

pub fn interrupt(child: &Child) {
    signal(child, "INT");
}

pub fn signal(child: &Child, name: &str) {
    let (pid, kill) = (child.id().to_string(), format!("kill -{name} \"$0\""));
    let status = Command::new("sh").args(["-c", &kill, &pid]).status().unwrap();
    assert!(status.success());
}

/// Waits for the end of a program.
pub fn finish(mut child: Child) -> Output {
    let mut stdout = child.stdout.take().unwrap();
    let mut stderr = child.stderr.take().unwrap();
    let both = thread::spawn(move || {
        let mut text = Vec::new();
        stderr.read_to_end(&mut text).unwrap();
        text
    });
    let mut out = Vec::new();
    stdout.read_to_end(&mut out).unwrap();
    Output { status: child.wait().unwrap(), stdout: out, stderr: both.join().unwrap() }
}
