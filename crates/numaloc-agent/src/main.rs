//! The program `numaloc-agent`: see the library for what it does.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    numaloc_agent::main()
}
