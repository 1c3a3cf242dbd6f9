//! Compiles the messages of the kubelet's podresources API; no protoc is needed.

use std::{env, error::Error, path::PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../../proto");
    let file = "podresources/v1/api.proto";
    println!("cargo::rerun-if-changed={}", root.join(file).display());
    let mut compiler = protox::Compiler::new([&root])?;
    compiler.include_source_info(true).include_imports(true).open_files([file])?;
    tonic_prost_build::configure()
        .emit_rerun_if_changed(false)
        .build_server(env::var_os("CARGO_FEATURE_FAKE").is_some())
        .btree_map(".")
        .compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}
