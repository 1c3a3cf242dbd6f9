//! Pages of docs as their readers follow them: their blocks, and the shell that they type them into.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

/// Where `tests/vm/suite` has laid out the pages, and what their commands name.
pub const SOURCE: &str = "/usr/local/src/numaloc";

/// Printed after each block, with its exit code.
const END: &str = "-- end of block:";

/// The blocks of a page that have not been taken yet.
#[derive(Debug)]
pub struct Page {
    name: String,
    blocks: Vec<String>,
}

impl Page {
    /// All blocks of a page, such as `docs/containerd.md`.
    pub fn open(name: &str) -> Self {
        let text = read(name);
        Self { name: name.to_owned(), blocks: blocks(&text) }
    }

    /// The blocks of a section of a page.
    pub fn section(name: &str, heading: &str) -> Self {
        let text = read(name);
        let begin = format!("## {heading}");
        let lines = text.lines().skip_while(|line| *line != begin).skip(1);
        let lines: Vec<_> = lines.take_while(|line| !line.starts_with("## ")).collect();
        assert!(!lines.is_empty(), "{name} has no section {heading}");
        Self { name: format!("{name}, {heading}"), blocks: blocks(&lines.join("\n")) }
    }

    /// Takes the first block that begins with this text, as it is written.
    pub fn take(&mut self, begin: &str) -> String {
        let place = self.blocks.iter().position(|block| block.starts_with(begin));
        let Some(place) = place else {
            panic!("{} has no block that begins with {begin}: {:#?}", self.name, self.blocks)
        };
        self.blocks.remove(place)
    }

    /// Asserts that all blocks have been taken. A new block of the page is tried, or left out here for a reason.
    pub fn assert_tried(&self) {
        assert!(self.blocks.is_empty(), "{}: not tried: {:#?}", self.name, self.blocks);
    }
}

fn read(name: &str) -> String {
    let path = format!("{SOURCE}/{name}");
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The indented blocks of a page in Markdown, without their indentation.
fn blocks(page: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        let code = line.trim_start();
        let indent = line.len() - code.len();
        if indent < 4 || code.is_empty() {
            continue;
        }
        let mut block = vec![code];
        while let Some(more) = lines.next_if(|next| next.is_empty() || next.starts_with("    ")) {
            block.push(more.get(indent..).unwrap_or_default());
        }
        blocks.push(block.join("\n").trim_end().to_owned());
    }
    blocks
}

/// A shell at the top of the repository. The definitions of one block hold for the next ones. It ends when this value
/// is dropped.
#[derive(Debug)]
pub struct Shell {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Shell {
    pub fn start() -> Self {
        let mut child = Command::new("sh")
            .current_dir(SOURCE)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell starts");
        let mut input = child.stdin.take().expect("it is piped");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        // It ends at the first command that fails; complaints belong to what is printed.
        writeln!(input, "set -e\nexec 2>&1").expect("the shell reads");
        Self { child, input, output }
    }

    /// Types a block, whose commands have to succeed. Returns what they print.
    pub fn types(&mut self, block: &str) -> String {
        // Commands do not read what is typed next.
        let (code, said) = self.reads(block, &format!("{{\n{block}\n}} </dev/null\ncode=$?"));
        assert_eq!(code, 0, "the exit code of\n{block}\n{said}");
        said
    }

    /// Types a block of one command that may fail. Returns its exit code, and what it prints.
    pub fn tries(&mut self, command: &str) -> (i32, String) {
        self.reads(command, &format!("code=0\n{{\n{command}\n}} </dev/null || code=$?"))
    }

    /// Sends lines that leave an exit code in `code`.
    fn reads(&mut self, block: &str, typed: &str) -> (i32, String) {
        writeln!(self.input, "{typed}\nprintf '\\n{END} %s\\n' $code").expect("the shell reads");
        let mut said = String::new();
        loop {
            let mut line = String::new();
            let bytes = self.output.read_line(&mut line).expect("text");
            assert!(bytes > 0, "a command has failed:\n{block}\n{said}");
            if let Some(code) = line.strip_prefix(END) {
                return (code.trim().parse().expect("a number"), said.trim().to_owned());
            }
            said.push_str(&line);
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
