//! The commands with an API server of a few objects.

mod doctor;

use super::*;
use crate::args::Output;
use serde_json::{Value, json};
use std::{
    cell::RefCell,
    collections::BTreeMap,
    time::{Duration, UNIX_EPOCH},
};

/// Objects and lists by path, and the patches.
#[derive(Default)]
struct Fake {
    lists: BTreeMap<String, Vec<Value>>,
    objects: BTreeMap<String, Value>,
    forbidden: Vec<String>,
    listed: RefCell<Vec<String>>,
    patched: RefCell<Vec<(String, Value)>>,
}

impl Fake {
    fn look<T: Clone>(&self, map: &BTreeMap<String, T>, path: &str) -> Result<T, Failure> {
        if self.forbidden.iter().any(|forbidden| forbidden == path) {
            return Err(Failure::Forbidden(format!("cannot list {path}")));
        }
        map.get(path).cloned().ok_or_else(|| Failure::NotFound(format!("{path} not found")))
    }
}

impl Api for Fake {
    async fn get(&self, path: &str) -> Result<Value, Failure> {
        self.look(&self.objects, path)
    }

    async fn list(&self, path: &str, _metadata: bool) -> Result<Vec<Value>, Failure> {
        self.listed.borrow_mut().push(path.to_owned());
        self.look(&self.lists, path.split('?').next().unwrap_or_default())
    }

    async fn patch(&self, path: &str, patch: &Value) -> Result<Value, Failure> {
        self.get(path).await?;
        self.patched.borrow_mut().push((path.to_owned(), patch.clone()));
        Ok(Value::Null)
    }
}

/// Ten minutes after 1970 began.
fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(600)
}

fn node(name: &str, remote: u64, reachable: bool, observed: &str) -> Value {
    let condition = |kind: &str, holds: bool, message: &str| {
        let status = if holds { "True" } else { "False" };
        json!({"type": kind, "status": status, "message": message})
    };
    json!({
        "metadata": {"name": name},
        "status": {
            "observedTime": observed, "localPercent": 75, "localBytes": 3 * remote, "remoteBytes": remote, "containers": 4,
            "managedContainers": 1, "agentVersion": "0.1.0", "daemonVersion": "0.1.0",
            "topRemote": [{"namespace": "shop", "pod": format!("redis-{name}"), "container": "redis", "remoteBytes": remote, "localPercent": 75}],
            "conditions": [
                condition("DaemonReachable", reachable, "no such socket"),
                condition("FiguresRead", reachable, ""),
                condition("ResultsPosted", true, ""),
                condition("ClusterRead", true, ""),
                condition("PoliciesAccepted", true, ""),
            ],
        },
    })
}

fn cluster() -> Fake {
    let pod = json!({
        "metadata": {
            "name": "redis-0", "namespace": "shop", "uid": "5f1c", "labels": {"app": "redis"},
            "annotations": {"numaloc.io/policy": "bestEffort", "numaloc.io/status": "{\"source\":\"annotation numaloc.io/policy\"}"},
        },
        "spec": {"nodeName": "a", "containers": [{"name": "redis"}, {"name": "exporter"}]},
    });
    let policy = |name: &str, spec: Value| json!({"metadata": {"namespace": "shop", "name": name}, "spec": spec});
    let event = json!({"reason": "MemoryLocalityCompleted", "message": "Container redis completed: ...\nTotal: ...", "lastTimestamp": "1970-01-01T00:09:00Z"});
    let lists = [
        (
            object::NODES.to_owned(),
            vec![
                json!({"metadata": {"name": "a"}}),
                json!({"metadata": {"name": "b"}}),
                json!({"metadata": {"name": "c", "labels": {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}}}),
                json!({"metadata": {"name": "windows", "labels": {"kubernetes.io/os": "windows"}}}),
                json!({"metadata": {"name": "arm", "labels": {"kubernetes.io/arch": "arm64"}}}),
                json!({"metadata": {"name": "virtual", "labels": {"type": "virtual-kubelet"}}}),
            ],
        ),
        (
            object::NODE_LOCALITIES.to_owned(),
            vec![
                node("a", 1 << 20, true, "1970-01-01T00:09:50Z"),
                node("b", 3 << 30, false, "1970-01-01T00:00:00Z"),
            ],
        ),
        (object::pods("shop"), vec![pod.clone()]),
        (object::PODS.to_owned(), vec![pod.clone()]),
        (
            object::CLUSTER_POLICIES.to_owned(),
            vec![
                policy("bounds", json!({"bounds": {"profile": "gentle"}})),
                policy("other", json!({"schedule": {}, "namespaces": {"include": ["x"]}})),
            ],
        ),
        (
            object::policies("shop"),
            vec![
                policy(
                    "often",
                    json!({"schedule": {"interval": "10m"}, "podSelector": {"matchLabels": {"app": "redis"}}}),
                ),
                policy("broken", json!({"schedule": {"intervall": "1m"}})),
            ],
        ),
        (object::ALL_POLICIES.to_owned(), vec![]),
        ("/api/v1/namespaces/shop/events".to_owned(), vec![event]),
    ];
    let objects = [
        (format!("{}/redis-0", object::pods("shop")), pod),
        (
            format!("{}/a", object::NODE_LOCALITIES),
            node("a", 1 << 20, true, "1970-01-01T00:09:50Z"),
        ),
    ];
    Fake { lists: lists.into(), objects: objects.into(), ..Fake::default() }
}

fn said(cluster: &Fake, action: &Action) -> Result<(String, bool), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let answer = runtime.block_on(answer(cluster, action, "shop", now()));
    answer.map(|answer| (answer.text, answer.is_well)).map_err(|failure| failure.to_string())
}

#[test]
fn nodes_with_the_most_remote_memory_come_first() {
    let action = Action::Top { of: View::Nodes, output: Output::Table };
    let (text, is_well) = said(&cluster(), &action).expect("an answer");
    assert!(is_well);
    insta::assert_snapshot!(text, @r#"
    NODE    LOCAL%    REMOTE   CONTAINERS   MANAGED   DAEMON   OBSERVED
    b           75   3.0 GiB            4         1   False         10m
    a           75   1.0 MiB            4         1   True          10s
    (all)       75   3.0 GiB            8         2
    "#);
}

#[test]
fn containers_are_those_of_the_namespace() {
    let of = |all_namespaces| View::Containers { all_namespaces };
    let top = |cluster: &Fake, of| said(cluster, &Action::Top { of, output: Output::Table });
    let mut cluster = cluster();
    insta::assert_snapshot!(top(&cluster, of(false)).expect("an answer").0, @r#"
    NAMESPACE   POD       CONTAINER   NODE    REMOTE   LOCAL%
    shop        redis-b   redis       b      3.0 GiB       75
    shop        redis-a   redis       a      1.0 MiB       75
    "#);
    for node in cluster.lists.get_mut(object::NODE_LOCALITIES).expect("nodes") {
        node["status"]["topRemote"][0]["namespace"] = "other".into();
    }
    let (text, _) = top(&cluster, of(false)).expect("an answer");
    assert_eq!(
        text,
        "No container in namespace shop is among the ten of its node with the most remote memory.\n"
    );
    assert_eq!(top(&cluster, of(true)).expect("an answer").0.lines().count(), 3);
}

#[test]
fn policies_say_whom_they_select_and_what_is_wrong() {
    let action = Action::Policies { all_namespaces: false, output: Output::Table };
    let mut cluster = cluster();
    let (text, is_well) = said(&cluster, &action).expect("an answer");
    assert!(!is_well, "one of them is broken");
    insta::assert_snapshot!(text, @r#"
    NAMESPACE   NAME     PRIORITY   DOES       ENFORCE   ROLLOUT   PODS   STATE
    (cluster)   bounds          0   bounds     no          100 %      1   accepted
    (cluster)   other           0   once       no          100 %      0   accepted
    shop        often           0   each 10m                          1   accepted
    shop        broken              nothing                               spec.schedule.intervall is not known; known here: policy, spec, interval, jitter, paused
    "#);
    cluster.forbidden.push(object::pods("shop"));
    let (text, _) = said(&cluster, &action).expect("an answer");
    assert!(text.contains('?'), "{text}");
}

#[test]
fn policies_that_choose_namespaces_by_labels_are_known_with_the_right_to_list_these() {
    let mut cluster = cluster();
    let explain = Action::Explain { pod: "redis-0".to_owned() };
    let list = Action::Policies { all_namespaces: false, output: Output::Json };
    let both = |cluster: &Fake| {
        let rows = said(cluster, &list).expect("an answer").0;
        let rows: Value = serde_json::from_str(&rows).expect("JSON");
        let rows = rows["items"].as_array().expect("items").clone();
        let row = rows.iter().find(|row| row["name"] == "labelled").cloned();
        (row.map(|row| row["pods"].clone()), said(cluster, &explain).expect("an answer").0)
    };
    both(&cluster);
    assert!(!cluster.listed.take().contains(&object::NAMESPACES.to_owned()), "none needs them");
    for (team, kind, count) in [("db", "Pod", "1"), ("web", "Pod", "0"), ("db", "Job", "0")] {
        let labels = json!({"matchLabels": {"team": "db"}});
        let spec = json!({"schedule": {}, "namespaceSelector": labels, "ownerKinds": [kind]});
        let policy = json!({"metadata": {"name": "labelled"}, "spec": spec});
        cluster.lists.insert(object::CLUSTER_POLICIES.to_owned(), vec![policy]);
        let namespace = json!({"metadata": {"name": "shop", "labels": {"team": team}}});
        cluster.lists.insert(object::NAMESPACES.to_owned(), vec![namespace]);
        let (pods, text) = both(&cluster);
        assert_eq!(pods, Some(json!(count)), "{team} {kind}");
        let line = "ClusterMemoryLocalityPolicy labelled: once, priority 0";
        assert_eq!(text.contains(line), count == "1", "{text}");
    }
    cluster.forbidden.push(object::NAMESPACES.to_owned());
    let (pods, text) = both(&cluster);
    assert_eq!(pods, Some(json!("?")));
    assert!(text.contains("labelled: unknown, it selects namespaces by labels"), "{text}");
}

#[test]
fn a_pod_is_explained() {
    let action = Action::Explain { pod: "redis-0".to_owned() };
    let (text, is_well) = said(&cluster(), &action).expect("an answer");
    assert!(is_well);
    insta::assert_snapshot!(text, @r#"
    pod shop/redis-0, on node a
    annotations:
      numaloc.io/policy: bestEffort
    policies that select it:
      ClusterMemoryLocalityPolicy bounds: bounds, priority 0
      MemoryLocalityPolicy shop/often: each 10m, priority 0
    ConfigMap: for pods with the label koordinator.sh/qosClass
    decides:
      redis: annotation numaloc.io/policy: once
      exporter: annotation numaloc.io/policy: once
    agent: seen 10s ago, its daemon answers
    status: {
        "source": "annotation numaloc.io/policy"
      }
    events:
      60s ago MemoryLocalityCompleted: Container redis completed: ...
        Total: ...
    "#);
    let missing = said(&cluster(), &Action::Explain { pod: "x".to_owned() });
    assert_eq!(missing, Err("/api/v1/namespaces/shop/pods/x not found".to_owned()));
}

#[test]
fn what_decides_is_known_before_there_is_a_status() {
    let mut cluster = cluster();
    let path = format!("{}/redis-0", object::pods("shop"));
    let decides = |cluster: &Fake| {
        let explain = Action::Explain { pod: "redis-0".to_owned() };
        let (text, _) = said(cluster, &explain).expect("an answer");
        let begin = text.find("ConfigMap").expect("a line");
        text[begin..text.find("agent:").expect("a line")].to_owned()
    };
    let pod = cluster.objects.get_mut(&path).expect("a pod");
    pod["metadata"]["annotations"] = json!({"numaloc.io/policy.container.exporter": "none"});
    pod["metadata"]["labels"]["koordinator.sh/qosClass"] = "LS".into();
    insta::assert_snapshot!(decides(&cluster), @r#"
    ConfigMap: none has resource-qos-config
    decides:
      redis: MemoryLocalityPolicy shop/often: each 10m
      exporter: annotation numaloc.io/policy.container.exporter: none
    "#);
    cluster.lists.insert(object::policies("shop"), vec![]);
    let config = |name: &str, value: &str| {
        let path = format!("/api/v1/namespaces/{name}");
        (path, json!({"data": {"resource-qos-config": value}}))
    };
    let best = r#"{"clusterStrategy": {"lsClass": {"memoryLocality": {"policy": "none"}}}, "nodeStrategies": [{"name": "db", "nodeSelector":
        {"matchLabels": {"pool": "db"}}, "lsClass": {"memoryLocality": {"policy": "bestEffort", "migrateIntervalMinutes": 10}}}]}"#;
    cluster.objects.extend([config("koordinator-system/configmaps/slo-controller-config", best)]);
    let line = "\n  redis: ConfigMap koordinator-system/slo-controller-config: none\n";
    assert!(decides(&cluster).contains(line), "{}", decides(&cluster));
    let node = json!({"metadata": {"name": "a", "labels": {"pool": "db"}}});
    cluster.objects.insert(format!("{}/a", object::NODES), node);
    insta::assert_snapshot!(decides(&cluster), @r#"
    ConfigMap koordinator-system/slo-controller-config, for class LS: each 10m
    decides:
      redis: ConfigMap koordinator-system/slo-controller-config: each 10m
      exporter: annotation numaloc.io/policy.container.exporter: none
    "#);
    // The first that has the key counts, also with mistakes.
    cluster.objects.extend([config("kube-system/configmaps/ack-slo-config", "{")]);
    let line = "\n  redis: ConfigMap kube-system/ack-slo-config: what it had last\n";
    assert!(decides(&cluster).contains(line), "{}", decides(&cluster));
    cluster.forbidden.push("/api/v1/namespaces/kube-system/configmaps/ack-slo-config".to_owned());
    let text = decides(&cluster);
    assert!(
        text.starts_with("ConfigMap kube-system/ack-slo-config: unknown, cannot list"),
        "{text}"
    );
    assert!(
        text.contains("redis: ConfigMap kube-system/ack-slo-config: unknown, you may not"),
        "{text}"
    );
    let pod = cluster.objects.get_mut(&path).expect("a pod");
    pod["metadata"]["labels"]["koordinator.sh/qosClass"] = "".into();
    let text = decides(&cluster);
    assert!(
        text.contains("redis: no source of these; the agent's default for its class"),
        "{text}"
    );
    cluster.forbidden.push(object::CLUSTER_POLICIES.to_owned());
    assert!(decides(&cluster).ends_with("decides: unknown, without the policies\n"));
}

#[test]
fn the_last_runs_of_a_pod_are_a_table() {
    let mut cluster = cluster();
    let status = json!({"containers": [{"name": "redis", "source": "annotation numaloc.io/policy"}], "lastRuns": [
        {"ended": "1970-01-01T00:09:30Z", "result": "MemoryLocalityCompleted", "movedBytes": 3_u64 << 30, "remoteBytes": 1 << 20,
         "message": "moved 3.0 GiB; 1.0 MiB is pinned"},
        {"ended": "1970-01-01T00:00:00Z", "result": "MemoryLocalityFailed", "movedBytes": 0, "message": "redis: it has\nended"},
    ]});
    let path = format!("{}/redis-0", object::pods("shop"));
    let pod = cluster.objects.get_mut(&path).expect("a pod");
    pod["metadata"]["annotations"]["numaloc.io/status"] = status.to_string().into();
    let explain = Action::Explain { pod: "redis-0".to_owned() };
    let (text, _) = said(&cluster, &explain).expect("an answer");
    assert!(!text.contains("lastRuns"), "{text}");
    let begin = text.find("last runs").expect("a table");
    insta::assert_snapshot!(&text[begin..text.find("events").expect("events")], @r#"
    last runs:
      AGO   RESULT        MOVED      LEFT   WHY
      30s   Completed   3.0 GiB   1.0 MiB   moved 3.0 GiB; 1.0 MiB is pinned
      10m   Failed          0 B         ?   redis: it has ended
    "#);
}

#[test]
fn a_static_pod_and_a_cluster_without_definitions_are_explained() {
    let mut cluster = cluster();
    let path = format!("{}/redis-0", object::pods("shop"));
    let mut pod = cluster.objects[&path].clone();
    pod["metadata"]["annotations"]["kubernetes.io/config.mirror"] = "0123abcd".into();
    cluster.objects = [(path, pod)].into();
    let explain = |cluster: &Fake| said(cluster, &Action::Explain { pod: "redis-0".to_owned() });
    let (text, is_well) = explain(&cluster).expect("an answer");
    assert!(!is_well && text.contains("agent: none has reported"), "{text}");
    let listed = cluster.listed.take();
    assert!(
        listed.iter().any(|path| path.ends_with("involvedObject.uid%3D0123abcd")),
        "{listed:?}"
    );
    cluster.lists.remove(object::NODE_LOCALITIES);
    let (text, is_well) = explain(&cluster).expect("an answer");
    let expected = "agent: unknown, the cluster does not define NodeMemoryLocality";
    assert!(is_well && text.contains(expected), "{text}");
}

#[test]
fn a_run_is_asked_for_by_an_annotation() {
    let cluster = cluster();
    let action =
        |id: Option<&str>| Action::Run { pod: "redis-0".to_owned(), id: id.map(str::to_owned) };
    let (text, _) = said(&cluster, &action(None)).expect("an answer");
    assert!(text.starts_with("pod/redis-0 annotated: run 1970-01-01T00:10:00Z\n"), "{text}");
    let patch =
        json!({"metadata": {"annotations": {"numaloc.io/run-now": "1970-01-01T00:10:00Z"}}});
    assert_eq!(
        cluster.patched.take(),
        [("/api/v1/namespaces/shop/pods/redis-0".to_owned(), patch)]
    );
    assert!(said(&cluster, &action(Some("a\nb"))).is_err());
}

#[test]
fn the_command_line_is_consistent() {
    use clap::CommandFactory;
    Args::command().debug_assert();
}

#[test]
fn terminals_get_nothing_to_obey() {
    assert_eq!(plain("a\u{1b}[2J\nb\r"), "a\u{fffd}[2J\nb\u{fffd}");
}
