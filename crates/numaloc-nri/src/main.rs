//! The program `numaloc-nri`: see the library for what it does.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    numaloc_nri::main()
}
