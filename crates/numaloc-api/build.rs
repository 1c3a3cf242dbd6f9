//! Compiles the workspace's `proto` folder; no protoc is needed.

use prost::Message;
use std::{env, error::Error, fs, path::PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../../proto");
    println!("cargo::rerun-if-changed={}", root.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(root.join("numaloc/v1"))? {
        files.push(entry?.path());
    }
    files.retain(|path| path.extension().is_some_and(|extension| extension == "proto"));
    files.sort();
    let set = protox::compile(&files, [&root])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("numaloc.v1.bin"), set.encode_to_vec())?;
    let generate = || tonic_prost_build::configure().emit_rerun_if_changed(false);
    generate().btree_map(".").compile_fds(set.clone())?;
    // src/encoded.rs: the same servers again, but for the answers that are encoded already.
    let encoded = out.join("encoded");
    fs::create_dir_all(&encoded)?;
    generate()
        .build_client(false)
        .extern_path(".numaloc.v1", "crate::v1")
        .extern_path(".numaloc.v1.ListJobsResponse", "crate::encoded::ListedJobs")
        .extern_path(".numaloc.v1.WatchJobsResponse", "crate::encoded::WatchedJob")
        .out_dir(encoded)
        .compile_fds(set)?;
    Ok(())
}
