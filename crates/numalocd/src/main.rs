//! The program `numalocd`: see the library for what it does.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    numalocd::main()
}
