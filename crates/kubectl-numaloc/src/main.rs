//! The program `kubectl-numaloc`: see the library for what it does.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    kubectl_numaloc::main()
}
