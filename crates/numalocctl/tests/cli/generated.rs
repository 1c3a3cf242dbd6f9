//! What `completions` and `generate man` write.

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
    // To update, what is left out stays; what all commands have is in one page.
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
