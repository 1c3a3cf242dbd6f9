//! containerd's data on a container beyond the Container Runtime Interface: a JSON text in the answer to
//! ContainerStatus with `verbose` (`ContainerInfo` in pkg/cri/server/container_status.go). It has the runtime
//! specification (github.com/opencontainers/runtime-spec, config.md and config-linux.md), which NRI's plugins get as
//! well.

use crate::runtime::v1::ContainerStatusResponse;
use serde::Deserialize;

/// containerd's data on a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Info {
    /// The sandbox of its pod.
    #[serde(rename = "sandboxID")]
    pub sandbox_id: String,
    /// Its first process; 0 if it does not run, or has only just started.
    pub pid: u32,
    /// The runtime specification, with the resources that were set last.
    pub runtime_spec: Option<Spec>,
}

/// The part of config.json of the OCI runtime specification that is read here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Spec {
    /// The first process.
    pub process: Option<Process>,
    /// The part that is specific to Linux.
    pub linux: Option<Linux>,
}

/// The first process of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Process {
    /// The value that is written to /proc/PID/oom_score_adj; `None`: inherited.
    pub oom_score_adj: Option<i64>,
}

/// The part of a specification that is for Linux only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Linux {
    /// Its cgroup: a path, or `slice:prefix:name` for systemd.
    pub cgroups_path: String,
    /// Limits of its cgroup; `None`: none.
    pub resources: Option<Resources>,
}

/// The resources of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Resources {
    /// CPU time, and the CPUs and nodes of its cpuset; `None`: no limit.
    pub cpu: Option<Cpu>,
    /// Limits of memory; `None`: no limit.
    pub memory: Option<Memory>,
}

/// CPU time, and the CPUs and nodes of a cpuset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Cpu {
    /// Relative weight (cpu.shares of cgroup v1).
    pub shares: Option<u64>,
    /// Microseconds of CPU time in each period; at most 0: no limit.
    pub quota: Option<i64>,
    /// The period of `quota` in microseconds.
    pub period: Option<u64>,
    /// cpuset.cpus, as a list; empty: all.
    pub cpus: String,
    /// cpuset.mems, as a list; empty: all.
    pub mems: String,
}

/// Limits of memory, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// Most bytes; at most 0: no limit.
    pub limit: Option<i64>,
}

impl Info {
    /// Reads it.
    ///
    /// # Errors
    /// The answer has none, or it is not what containerd writes.
    pub fn read(answer: &ContainerStatusResponse) -> Result<Self, serde_json::Error> {
        serde_json::from_str(answer.info.get("info").map_or("", String::as_str))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Info, serde_json::Error> {
        let info = [("info".to_owned(), text.to_owned())].into();
        Info::read(&ContainerStatusResponse { status: None, info })
    }

    #[test]
    fn what_containerd_writes_is_read() {
        // From containerd 1.7, cut down.
        let text = r#"{"sandboxID": "s1", "pid": 4711, "removing": false, "snapshotKey": "c1",
            "config": {"metadata": {"name": "main"}}, "runtimeSpec": {"ociVersion": "1.1.0",
            "process": {"user": {"uid": 0}, "oomScoreAdj": -997},
            "linux": {"resources": {"devices": [{"allow": false}], "memory": {"limit": 1048576},
                "cpu": {"shares": 2048, "quota": 200000, "period": 100000, "cpus": "0-1", "mems": "0"}},
                "cgroupsPath": "kubepods-pod1.slice:cri-containerd:c1"}}}"#;
        let cpu = Cpu {
            shares: Some(2048),
            quota: Some(200_000),
            period: Some(100_000),
            cpus: "0-1".to_owned(),
            mems: "0".to_owned(),
        };
        let resources =
            Resources { cpu: Some(cpu), memory: Some(Memory { limit: Some(1_048_576) }) };
        let linux = Linux {
            cgroups_path: "kubepods-pod1.slice:cri-containerd:c1".to_owned(),
            resources: Some(resources),
        };
        let process = Some(Process { oom_score_adj: Some(-997) });
        let runtime_spec = Some(Spec { process, linux: Some(linux) });
        let expected = Info { sandbox_id: "s1".to_owned(), pid: 4711, runtime_spec };
        assert_eq!(read(text).expect("it is valid"), expected);
        let bare = read(r#"{"pid": 0, "runtimeSpec": null}"#).expect("it is valid");
        assert_eq!(bare, Info::default());
    }

    #[test]
    fn garbage_is_an_error() {
        for text in ["", "{", "[]x", r#"{"pid": -1}"#, r#"{"runtimeSpec": 7}"#] {
            read(text).expect_err(text);
        }
        Info::read(&ContainerStatusResponse::default()).expect_err("there is none");
    }
}
