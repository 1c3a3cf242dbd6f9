//! Compiles the messages of containerd and of the Container Runtime Interface; no protoc is needed.

use std::{env, error::Error, path::PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../../proto");
    let files = [
        "containerd/events/events.proto",
        "containerd/services/events/v1/events.proto",
        "containerd/services/version/v1/version.proto",
        "runtime/v1/api.proto",
    ];
    for file in files {
        println!("cargo::rerun-if-changed={}", root.join(file).display());
    }
    let mut compiler = protox::Compiler::new([&root])?;
    compiler.include_source_info(true).include_imports(true).open_files(files)?;
    tonic_prost_build::configure()
        .emit_rerun_if_changed(false)
        .build_server(env::var_os("CARGO_FEATURE_FAKE").is_some())
        .btree_map(".")
        .compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}
