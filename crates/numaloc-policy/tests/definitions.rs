//! Compares the files of `packaging/kubernetes/crds`, and the chart's copies, with the definitions of the kinds, of which they
//! are made.

use std::{env, fs, path::Path};

const FOLDERS: [&str; 2] = [
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/kubernetes/crds"),
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/kubernetes/numaloc/crds"),
];

#[test]
fn the_files_are_what_the_definitions_say() {
    for folder in FOLDERS {
        compare(Path::new(folder));
    }
}

fn compare(folder: &Path) {
    let writes = env::var("NUMALOC_CRDS").is_ok_and(|value| value == "write");
    let definitions = numaloc_policy::definitions();
    assert_eq!(fs::read_dir(folder).expect("a folder").count(), definitions.len());
    for definition in definitions {
        let name = definition["spec"]["names"]["plural"].as_str().expect("a name");
        let path = folder.join(format!("{name}.yaml"));
        let text = serde_saphyr::to_string(&definition).expect("YAML");
        let text = format!(
            "# Made by NUMALOC_CRDS=write cargo test -p numaloc-policy --test definitions\n{text}"
        );
        if writes {
            fs::write(&path, &text).expect("the file can be written");
        }
        let found = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            found == text,
            "{name}.yaml differs: run this test with NUMALOC_CRDS=write, and look at what has changed"
        );
        let read: serde_json::Value = serde_saphyr::from_str(&found).expect("YAML");
        assert_eq!(read, definition, "{name}.yaml");
    }
}
