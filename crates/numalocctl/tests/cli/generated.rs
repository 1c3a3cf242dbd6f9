//! The output of `completions` and `generate man`.

use crate::run::{fails, numalocctl, text};
use std::{
    fs,
    io::Write,
    process::{Command, Stdio},
};

/// Whether a program is installed.
fn has(program: &str) -> bool {
    let found = Command::new("sh").args(["-c", "command -v \"$0\"", program]).output().unwrap();
    found.status.success()
}

#[test]
fn shells_take_the_completions() {
    for shell in ["bash", "zsh", "fish"] {
        let script = text(&numalocctl(&format!("completions {shell}")), 0);
        for word in ["numalocctl", "schedules", "max-stall", "gentle", "referenced"] {
            assert!(script.contains(word), "{shell} lacks {word}");
        }
        // `-n` reads a script without running it. All three shells have it.
        if !has(shell) {
            continue;
        }
        let mut reads = Command::new(shell).arg("-n").stdin(Stdio::piped()).spawn().unwrap();
        reads.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
        assert!(reads.wait().unwrap().success(), "{shell}");
    }
    fails("completions tcsh", 2, "tcsh");
}

/// Completions by bash for a line, whose last word is being typed.
fn offered(script: &std::path::Path, endpoint: &str, words: &[&str]) -> Vec<String> {
    let program = env!("CARGO_BIN_EXE_numalocctl");
    let words = [&[program], words].concat();
    let typed = words.join("' '");
    let [.., before, last] = &words[..] else { panic!("two words") };
    let code = format!(
        ". {}; COMP_WORDS=('{typed}'); COMP_CWORD={}; COMPREPLY=(); _numalocctl_known {program} '{last}' '{before}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        script.display(),
        words.len() - 1,
    );
    let mut command = Command::new("bash");
    command.args(["--norc", "-c", &code]).env("NUMALOC_ENDPOINT", endpoint);
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn shells_complete_what_the_program_knows() {
    let jobs = vec![crate::answers::job(numaloc_api::v1::JobState::Running, 1)];
    let fake = crate::fake::Fake::start(crate::fake::Script { jobs, ..Default::default() });
    assert_eq!(text(&fake.run("__complete jobs"), 0), "42\n");
    assert!(text(&numalocctl("__complete columns"), 0).contains("remote\n"));
    let pid = std::process::id().to_string();
    assert!(text(&numalocctl("__complete pids"), 0).lines().any(|line| line == pid));
    // The command waits for no daemon, and does not report that there is none.
    for kind in ["jobs", "schedules", "workloads", "containers"] {
        let alone = numalocctl(&format!("__complete {kind} --endpoint unix:///no/such/socket"));
        assert_eq!((text(&alone, 0).as_str(), &alone.stderr[..]), ("", &b""[..]), "{kind}");
    }
    if !has("bash") {
        return;
    }
    let script = fake.folder().join("completions");
    fs::write(&script, text(&numalocctl("completions bash"), 0)).unwrap();
    let offers = |words: &[&str]| offered(&script, &fake.endpoint, words);
    assert_eq!(offers(&["jobs", "cancel", "4"]), ["42"]);
    assert_eq!(offers(&["events", "--job", ""]), ["42"]);
    assert!(offers(&["jobs", "cancel", "9"]).is_empty());
    assert!(offers(&["locality", "--pid", &pid[..1]]).contains(&pid));
    assert!(offers(&["top", "--columns", "remo"]).contains(&"remote".to_owned()));
    assert!(offers(&["ge"]).is_empty() && offers(&["__"]).is_empty(), "hidden commands");
    assert!(offers(&["local"]).contains(&"locality".to_owned()));
    let zsh = text(&numalocctl("completions zsh"), 0);
    assert!(
        zsh.contains(":PID:_numalocctl_known pids'") && zsh.contains(":_numalocctl_known jobs'")
    );
    let fish = text(&numalocctl("completions fish"), 0);
    assert!(fish.contains("-x -a \"(numalocctl __complete pids 2>/dev/null)\""), "{fish}");
    for script in [zsh, fish] {
        assert!(!script.contains("'__complete") && !script.contains("-a \"__complete"));
    }
}

#[test]
fn each_command_has_a_man_page() {
    let folder = tempfile::tempdir().unwrap();
    let line = format!("generate man {}", folder.path().display());
    assert_eq!(text(&numalocctl(&line), 0), "");
    for page in ["numalocctl.1", "numalocctl-migrate.1", "numalocctl-jobs-ls.1"] {
        let source = fs::read_to_string(folder.path().join(page)).unwrap();
        for section in ["EXIT STATUS", "FILES", "ENVIRONMENT", "EXAMPLES"] {
            assert!(
                source.contains(&format!(".SH \"{section}\""))
                    || source.contains(&format!(".SH {section}")),
                "{page}: {section}"
            );
        }
    }
    for page in ["migrate", "plan", "schedules-create", "schedules-update"] {
        let path = folder.path().join(format!("numalocctl-{page}.1"));
        let source = fs::read_to_string(path).unwrap().replace('\\', "");
        for option in
            ["profile", "max-stall", "include-gigantic", "node-cpu-max", "numa-balancing", "order"]
        {
            assert!(source.contains(&format!("--{option}")), "{page} lacks --{option}");
        }
    }
    let page = |name: &str| {
        let source = fs::read_to_string(folder.path().join(format!("{name}.1"))).unwrap();
        source.replace('\\', "")
    };
    assert!(page("numalocctl-pause-all").contains("fBnumalocctl pause-allfR [OPTIONS]"));
    assert!(page("numalocctl-schedules-update").contains("[OPTIONS] <ID> [PROCESS]..."));
    // For an update, fields that are left out stay; options of all commands are in one page.
    assert!(!page("numalocctl-schedules-update").contains("[default: "));
    assert!(
        page("numalocctl").contains("--tls-ca") && !page("numalocctl-jobs-ls").contains("--tls-ca")
    );
    assert!(!page("numalocctl").contains("numalocctl-help"));
    let mut pages = 0;
    for entry in fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        assert!(!path.to_string_lossy().contains("generate"), "{}", path.display());
        pages += 1;
        if has("groff") {
            let mut groff = Command::new("groff");
            groff.args(["-man", "-Tutf8", "-wall", "-z"]).arg(&path);
            let output = groff.output().unwrap();
            let warnings = String::from_utf8_lossy(&output.stderr);
            assert!(
                output.status.success() && warnings.is_empty(),
                "{}: {warnings}",
                path.display()
            );
        }
    }
    assert!(pages >= 25, "{pages} pages");
    fails(&format!("generate man {}/none", folder.path().display()), 1, "cannot write");
}
