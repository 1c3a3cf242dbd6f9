//! The last results of `numalocctl bench` on this host: the file that it keeps.

use crate::{Roots, files::read};
use numaloc_core::{NodeId, Speed, SpeedTable, number};
use serde::Deserialize;
use std::{fs, path::PathBuf};

/// The name of the file.
const NAME: &str = "bench.json";

/// The part of the document of `bench` that is needed here.
#[derive(Debug, Deserialize)]
struct Kept {
    host: String,
    pairs: Vec<Pair>,
}

#[derive(Debug, Deserialize)]
struct Pair {
    cpu_node: u32,
    memory_node: u32,
    latency_ns: f64,
    bandwidth_bytes_per_second: u64,
    /// Not in results of version 0.1.
    write_bandwidth_bytes_per_second: Option<u64>,
}

/// The files in which a result may be, the first to be taken first: the user's own, and root's, which all users may read.
pub fn files(roots: &Roots) -> Vec<PathBuf> {
    let folders = roots.state.clone().map(|state| state.join("numaloc"));
    folders.into_iter().chain([host_folder(roots)]).map(|folder| folder.join(NAME)).collect()
}

/// The folder of root's results.
fn host_folder(roots: &Roots) -> PathBuf {
    roots.var.join("lib/numalocctl")
}

/// The file in which a result of this process is kept. `None`: it is not root, and its user has no folder.
pub fn own_file(roots: &Roots) -> Option<PathBuf> {
    use std::os::unix::fs::MetadataExt;
    // The directory belongs to the effective user (proc_pid(5)).
    let is_root = fs::metadata(roots.proc.join("self")).is_ok_and(|own| own.uid() == 0);
    let state = || Some(roots.state.as_ref()?.join("numaloc"));
    let folder = if is_root { Some(host_folder(roots)) } else { state() };
    Some(folder?.join(NAME))
}

/// The speeds of the first file that is about this host; empty if there is none. A file of another version is ignored.
pub fn read(roots: &Roots) -> SpeedTable {
    let read = |file: PathBuf| serde_json::from_str::<Kept>(&fs::read_to_string(file).ok()?).ok();
    let mut found = files(roots).into_iter().filter_map(read).peekable();
    // Most hosts have none: nothing more is read there.
    if found.peek().is_none() {
        return SpeedTable::new();
    }
    let host = read::host_name(roots).ok();
    let kept = found.find(|kept| Some(&kept.host) == host.as_ref());
    kept.into_iter().flat_map(|kept| kept.pairs).map(speed).collect()
}

fn speed(pair: Pair) -> ((NodeId, NodeId), Speed) {
    let known = |value: u64| Some(value).filter(|&value| value > 0);
    let speed = Speed {
        latency_ps: known(number::whole(pair.latency_ns * 1000.0)),
        read_bandwidth: known(pair.bandwidth_bytes_per_second),
        write_bandwidth: pair.write_bandwidth_bytes_per_second.and_then(known),
        ..Speed::default()
    };
    ((NodeId(pair.cpu_node), NodeId(pair.memory_node)), speed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    fn kept(host: &str, latency: &str) -> String {
        format!(
            r#"{{"host": "{host}", "time": "x", "pairs": [{{"cpu_node": 0, "memory_node": 8, "distance": 21,
            "latency_ns": {latency}, "bandwidth_bytes_per_second": 7, "firmware_latency_ns": null}}]}}"#
        )
    }

    fn latency(roots: &Roots) -> Option<u64> {
        read(roots).get(&(NodeId(0), NodeId(8)))?.latency_ps
    }

    #[test]
    fn the_own_result_of_this_host_comes_first() {
        let fake = Fake::new();
        let roots = Roots { state: Some(fake.path("state")), ..fake.roots() };
        assert!(read(&roots).is_empty());
        fake.write("proc/sys/kernel/hostname", "db1\n");
        fake.write("var/lib/numalocctl/bench.json", &kept("db1", "142.3"));
        assert_eq!(latency(&roots), Some(142_300));
        fake.write("state/numaloc/bench.json", &kept("db2", "1.0"));
        assert_eq!(latency(&roots), Some(142_300), "a home directory may be that of many hosts");
        fake.write("state/numaloc/bench.json", &kept("db1", "90.5"));
        assert_eq!(latency(&roots), Some(90_500));
        assert_eq!(latency(&fake.roots()), Some(142_300), "of a daemon");
    }

    #[test]
    fn what_is_not_a_result_is_none() {
        let fake = Fake::new();
        fake.write("proc/sys/kernel/hostname", "db1\n");
        for bad in ["", "[]", "{\"host\": 1}", &kept("db1", "-1"), &kept("db1", "0")] {
            fake.write("var/lib/numalocctl/bench.json", bad);
            assert_eq!(latency(&fake.roots()), None, "{bad}");
        }
    }
}
