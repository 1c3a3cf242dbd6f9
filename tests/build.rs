//! Compiles the part of the Container Runtime Interface that the suites call.

use std::{env, error::Error};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = "suite/containerd";
    println!("cargo::rerun-if-changed={folder}/runtime.proto");
    // Without the suites nobody calls it.
    if env::var_os("CARGO_FEATURE_VM").is_some() {
        let set = protox::compile(["runtime.proto"], [folder])?;
        tonic_prost_build::configure()
            .build_server(false)
            .emit_rerun_if_changed(false)
            .btree_map(".")
            .compile_fds(set)?;
    }
    Ok(())
}
