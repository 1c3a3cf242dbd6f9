//! Compiles the workspace's `proto` folder; no protoc is needed.

#[path = "build/json.rs"]
mod json;

use std::{env, error::Error, fs, path::PathBuf};

/// Answers with encoded records, and their types in src/encoded.rs.
const ENCODED: [(&str, &str); 7] = [
    ("CreateJobResponse", "MadeJob"),
    ("GetJobResponse", "OneRecord"),
    ("ListEventsResponse", "RecordPage"),
    ("ListJobsResponse", "RecordPage"),
    ("WatchEventsResponse", "OneRecord"),
    ("WatchJobResponse", "FollowedJob"),
    ("WatchJobsResponse", "WatchedJob"),
];

fn main() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../../proto");
    println!("cargo::rerun-if-changed={}", root.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(root.join("numaloc/v1"))? {
        files.push(entry?.path());
    }
    files.retain(|path| path.extension().is_some_and(|extension| extension == "proto"));
    files.sort();
    let mut compiler = protox::Compiler::new([&root])?;
    compiler.include_imports(true).include_source_info(true).open_files(&files)?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    // With the options of google/api, which reflection shows. prost drops options that it does not know, so there are none in
    // the set, and they do not change the generated code.
    fs::write(out.join("numaloc.v1.bin"), compiler.encode_file_descriptor_set())?;
    let set = compiler.file_descriptor_set();
    let generate = || tonic_prost_build::configure().emit_rerun_if_changed(false);
    // By their names, descriptions of messages are found in the set: policies are read by them.
    let mut config = tonic_prost_build::Config::new();
    config.enable_type_names();
    fs::write(out.join("enumerations.rs"), json::derive(&set, &mut config))?;
    generate().btree_map(".").compile_fds_with_config(set.clone(), config)?;
    // src/encoded.rs: the servers, except that some answers hold records that are encoded already.
    let encoded = out.join("encoded");
    fs::create_dir_all(&encoded)?;
    let servers = generate().build_client(false).extern_path(".numaloc.v1", "crate::v1");
    let answers = ENCODED.iter().fold(servers, |servers, (answer, encoded)| {
        servers.extern_path(format!(".numaloc.v1.{answer}"), format!("crate::encoded::{encoded}"))
    });
    answers.out_dir(encoded).compile_fds(set)?;
    Ok(())
}
