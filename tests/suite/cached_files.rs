//! The page cache of files as a target: it goes where the command line says, and nothing is read from the disk for it.

use crate::{
    app::Layout,
    cli::{NOBODY, as_nobody, assert_refused, code, json, numalocctl},
    disk::{Mounted, OnDisk, cached_pages},
    place::{away, both, home},
    scene::ballast,
    settings::Setting,
    truth::{self, Nodes, Truth, high_watermark_bytes},
};
use serde_json::Value;
use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Command, Output},
};

const MIB: u64 = 1 << 20;
/// Pages of the piece that a placement on several nodes moves whole.
const PIECE: u64 = 512;

/// Sectors that have been read from all disks.
fn sectors_read() -> u64 {
    let text = fs::read_to_string("/proc/diskstats").expect("readable");
    let read = |line: &str| line.split_whitespace().nth(5)?.parse::<u64>().ok();
    text.lines().filter_map(read).sum()
}

fn migrate(path: &Path, arguments: &[&str]) -> Output {
    let path = path.to_str().expect("text");
    numalocctl(&[&["migrate", "--file", path, "-o", "json"], arguments].concat())
}

/// Moves the cache of a file, and returns the document.
fn moved(path: &Path, arguments: &[&str]) -> Value {
    json(&migrate(path, arguments))
}

/// What a run says of the memory that it found, in the outcome of its job.
fn account<'a>(document: &'a Value, field: &str) -> &'a Value {
    &document["outcome"]["account"][field]
}

fn bytes(document: &Value, field: &str) -> u64 {
    account(document, field).as_u64().unwrap_or_else(|| panic!("{field} in {document}"))
}

fn number(document: &Value, field: &str) -> u64 {
    document[field].as_u64().unwrap_or_else(|| panic!("{field} in {document}"))
}

/// Asserts that the node of each cached page is that of `node`, which gets the number of its piece.
fn assert_pieces(path: &Path, node: impl Fn(u64) -> u32) {
    let pages = cached_pages(path);
    let wrong = pages.iter().find(|(page, on)| *on != node(page / PIECE));
    assert_eq!(wrong, None, "of {} pages", pages.len());
}

#[test]
fn cache_goes_to_a_node_is_spread_and_comes_back() {
    let _still = Setting::still_host();
    goes_is_spread_and_comes_back(&OnDisk::new("cached", 64));
}

#[test]
fn cache_of_xfs_and_btrfs_does_so_too() {
    let _still = Setting::still_host();
    for (kind, mib) in [("xfs", 320), ("btrfs", 256)] {
        let mounted = Mounted::new(kind, mib);
        goes_is_spread_and_comes_back(&OnDisk::new(mounted.path().join("cached"), 64));
    }
}

/// Moves the cache of a file of 64 MiB.
fn goes_is_spread_and_comes_back(file: &OnDisk) {
    file.read(home());
    let cached = file.cached();
    assert!(cached[&home()] >= 60 * MIB, "the scene: {cached:?}");
    let all: u64 = cached.values().sum();
    let stat = || {
        let metadata = fs::metadata(file.path()).expect("it is there");
        (metadata.atime(), metadata.atime_nsec(), metadata.mtime())
    };
    let (read, times) = (sectors_read(), stat());

    let document = moved(file.path(), &["--to", &away().to_string()]);
    assert_eq!(file.cached(), Nodes::from([(away(), all)]), "{document}");
    assert_eq!(bytes(&document, "moved_bytes"), cached[&home()], "{document}");
    let [first, second] = both();
    let nodes = format!("{first},{second}");
    moved(file.path(), &["--place", "interleave", "--nodes", &nodes]);
    assert_pieces(file.path(), |piece| both()[piece as usize % 2]);
    moved(file.path(), &["--place", "weighted", "--weights", &format!("{first}=3,{second}=1")]);
    assert_pieces(file.path(), |piece| if piece % 4 == 3 { second } else { first });
    let in_halves = ["--place", "block", "--nodes", &nodes];
    moved(file.path(), &in_halves);
    assert_pieces(file.path(), |piece| both()[piece as usize / 16]);
    let again = moved(file.path(), &in_halves);
    assert_eq!(bytes(&again, "found_bytes"), 0, "{again}");
    moved(file.path(), &["--to", &home().to_string()]);
    assert_eq!(file.cached(), Nodes::from([(home(), all)]));

    assert_eq!(sectors_read() - read, 0, "of the disk");
    assert_eq!(stat(), times);
    let content = fs::read(file.path()).expect("readable");
    assert!(content.iter().all(|byte| *byte == 7));
}

/// khugepaged makes huge pages of mapped memory, on the node that most of it is on. It must not find the mappings of
/// a run.
#[test]
fn the_kernel_makes_no_huge_pages_of_moving_memory() {
    let _still = Setting::still_host();
    let _eager = Setting::eager_khugepaged();
    let file = OnDisk::new("collapsed", 64);
    file.read(home());
    let all: u64 = file.cached().values().sum();
    for node in [away(), home(), away(), home()] {
        let document = moved(file.path(), &["--to", &node.to_string()]);
        assert_eq!(file.cached(), Nodes::from([(node, all)]), "{document}");
    }
}

#[test]
fn mapped_cache_goes_while_it_is_used_and_files_in_memory_too() {
    let _still = Setting::still_host();
    let layout = Layout::remote(&["file:/mnt/disk/used:32M:dirty", "memfd:16M"]);
    let mut app = layout.start("user");
    let beside = OnDisk::new("beside", 8);
    beside.read(home());
    let paths = ["--file", "/mnt/disk/used", "--file", "/mnt/disk/beside"];
    let looked = json(&numalocctl(&[&["locality", "-o", "json"], &paths[..]].concat()));
    let files = &looked["locality"]["files"]["files"];
    let mapped: Vec<_> = [0, 1].iter().map(|file| &files[file]["mapped_bytes"]).collect();
    assert_eq!(mapped, [32 * MIB, 0], "{looked}");
    moved(Path::new("/mnt/disk/used"), &["--to", &home().to_string()]);
    let on = |region: &str| Truth::of(app.pid()).region(app.range(region));
    assert_eq!(on("file"), Nodes::from([(home(), 32 * MIB)]));
    // A memfd has no path of its own.
    let mapped = fs::read_dir(format!("/proc/{}/map_files", app.pid())).expect("it runs");
    let start = format!("{:x}-", app.range("memfd").start);
    let mut mapped = mapped.filter_map(|entry| Some(entry.ok()?.path()));
    let is_it = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&start))
    };
    let memfd = mapped.find(is_it).expect("it is mapped");
    moved(&memfd, &["--to", &home().to_string()]);
    assert_eq!(on("memfd"), Nodes::from([(home(), 16 * MIB)]));
    app.check();
    fs::remove_file("/mnt/disk/used").expect("it is there");
}

#[test]
fn a_full_node_takes_what_it_has_room_for() {
    let _still = Setting::still_host();
    let file = OnDisk::new("large", 96);
    file.read(away());
    let ballast = ballast(home(), high_watermark_bytes(home()) + 48 * MIB);
    let output = migrate(file.path(), &["--to", &home().to_string(), "--reserve", "8M"]);
    assert_eq!(code(&output), Some(6), "{output:?}");
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let (found, moved) = (bytes(&document, "found_bytes"), bytes(&document, "moved_bytes"));
    let left = account(&document, "left").as_array().expect("a list");
    assert_eq!(left.len(), 1, "{document}");
    assert_eq!(left[0]["reason"], "LEFT_REASON_NO_MEMORY", "{document}");
    assert_eq!(found - moved, number(&left[0], "bytes"));
    let cached = file.cached();
    assert_eq!(truth::on(&cached, away()), found - moved, "{cached:?} {document}");
    drop(ballast);
}

#[test]
fn directories_are_shown_file_by_file_and_others_are_refused() {
    let directory = Path::new("/mnt/disk/directory");
    fs::create_dir(directory).expect("the disk has room");
    let (one, two) = (OnDisk::new("directory/one", 8), OnDisk::new("directory/two", 4));
    Command::new("mkfifo").arg(directory.join("fifo")).status().expect("busybox has it");
    fs::hard_link(one.path(), directory.join("again")).expect("ext4 has them");
    one.read(away());
    let document = json(&numalocctl(&["locality", "--file", "/mnt/disk/directory", "-o", "json"]));
    let looked = &document["locality"]["files"];
    assert_eq!(number(looked, "file_count"), 2, "{document}");
    let files = looked["files"].as_array().expect("a list");
    assert_eq!(files.len(), 1, "nothing of the other is in memory: {document}");
    assert_eq!(files[0]["path"], "/mnt/disk/directory/again", "one of its names counts");
    assert_eq!(files[0]["nodes"][0]["node_id"], away(), "{document}");
    assert_eq!(two.cached(), Nodes::new(), "to look has read nothing");

    for (arguments, expected, thing) in [
        (&["--file", "/none"][..], 3, "no file /none"),
        (&["--file", "/proc/version"], 2, "it is on proc"),
        (&["--file", "/mnt/disk/directory/fifo"], 2, "not a regular file"),
        // The daemon is asked where one is named.
        (&["--file", "/mnt/disk/directory/one", "--endpoint", "unix:///x"], 5, "unix:///x"),
    ] {
        assert_refused(&[&["locality"], arguments].concat(), expected, thing);
    }
    for (arguments, thing) in [
        (&[][..], "a file has no home"),
        (&["--place", "balance"], "no placement balance"),
        (&["--to", "7"], "node 7"),
        (&["--to", &home().to_string(), "--include-shared"], "--include-shared"),
        (&["--to", &home().to_string(), "--pid", "1"], "--pid"),
    ] {
        let words = [&["migrate", "--file", "/mnt/disk/directory/one"], arguments].concat();
        assert_refused(&words, 2, thing);
    }
    let refused = as_nobody(&["locality", "--file", "/mnt/disk/directory/one"]);
    assert_eq!(code(&refused), Some(4), "{NOBODY}: {refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("owner of the file"), "{refused:?}");
    drop((one, two));
    fs::remove_dir_all(directory).expect("it is there");
}
