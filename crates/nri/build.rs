//! Compiles the messages of the interface; no protoc is needed.

use std::{env, error::Error, path::PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../../proto");
    println!("cargo::rerun-if-changed={}", root.join("nri").display());
    let mut compiler = protox::Compiler::new([&root])?;
    compiler.include_source_info(true).open_file("nri/pkg/api/v1alpha1/api.proto")?;
    // Messages alone: the calls are ttrpc, not gRPC (src/session.rs).
    tonic_prost_build::configure()
        .emit_rerun_if_changed(false)
        .build_client(false)
        .build_server(false)
        .btree_map(".")
        .compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}
