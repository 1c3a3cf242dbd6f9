//! `numalocd`: see the library.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    numalocd::main()
}
