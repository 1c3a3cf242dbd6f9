//! llama.cpp, which answers from a model that it maps: what it computes depends on each byte of the file.

use super::*;
use crate::{
    disk::{OnDisk, drop_cache},
    place::away,
};
use numaloc_tests::run;
use std::{env, path::Path};

/// The files of the machine around this virtual one, which has Python and llama.cpp, and where the disk is seen among them.
const HOST: &str = "/mnt/host";
const DISK: &str = "/mnt/host/mnt";

fn variable(name: &str) -> String {
    env::var(name).expect("tests/vm/suite sets it")
}

/// The disk among the files of the machine around this one.
struct Seen;

impl Seen {
    fn new() -> Self {
        run(&["mount", "--bind", "/mnt/disk", DISK]);
        Self
    }
}

impl Drop for Seen {
    fn drop(&mut self) {
        run(&["umount", DISK]);
    }
}

/// The answers in its output so far.
fn answers(of: &Stressor) -> Vec<String> {
    let output = of.output();
    // The last line may still be written.
    let whole = output.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().filter(|line| line.starts_with("answer ")).map(str::to_owned).collect()
}

/// Waits until it has answered twice more: the second of these answers began after this call.
fn answers_on(of: &mut Stressor) {
    let before = answers(of).len();
    until("it answers", || {
        assert!(of.end().is_none(), "{}", of.output());
        answers(of).len() >= before + 2
    });
}

#[test]
fn a_language_model_answers_alike_before_while_and_after_its_model_moves() {
    let _seen = Seen::new();
    let model = OnDisk::named("model.gguf");
    let made = Path::new(HOST).join(variable("NUMALOC_MODEL").trim_start_matches('/'));
    fs::copy(made, model.path()).expect("the disk has room");
    run(&["sync"]);
    drop_cache();
    model.read(away());
    let size = model.cached().values().sum::<u64>();
    assert!(
        off(&model.cached(), away()) == 0 && size >= 48 * MIB,
        "the scene: {:?}",
        model.cached()
    );

    let python = variable("NUMALOC_PYTHON");
    let script = variable("NUMALOC_ANSWERS");
    let command = format!("chroot {HOST} {python} {script} /mnt/model.gguf");
    let mut server = Stressor::start("llama", &command);
    answers_on(&mut server);
    let mapped = |server: &Stressor| Truth::of(server.pid()).of_files("model.gguf");
    let nodes = mapped(&server);
    assert!(
        off(&nodes, away()) == 0 && nodes[&away()] >= size * 9 / 10,
        "it maps the file: {nodes:?}"
    );
    let path = model.path().to_str().expect("text").to_owned();
    let mut to = |node: u32, target: &[&str]| {
        let name = node.to_string();
        let output =
            numalocctl(&[&["migrate", "--standalone", "--to", &name][..], target].concat());
        assert!(matches!(code(&output), Some(0 | 6)), "{output:?}");
        // The kernel leaves a page that a fault is bringing in.
        let nodes = mapped(&server);
        assert!(off(&nodes, node) <= size / 100, "to {node}: {nodes:?}: {output:?}");
        answers_on(&mut server);
    };
    // As the cache of a file, whose pages a process has mapped.
    to(home(), &["--file", &path]);
    to(away(), &["--file", &path]);
    // As memory of the process.
    to(home(), &["--cgroup", "/numaloc-llama"]);
    to(away(), &["--file", &path]);
    to(home(), &["--cgroup", "/numaloc-llama"]);
    let all = answers(&server);
    assert!(all.iter().all(|answer| *answer == all[0]), "{all:#?}");
    println!("{} answers alike", all.len());
    server.ends_by(Signal::SIGTERM);
}
