//! numalocd's figures on the agent's port: read once a minute at most, and only while there is a reader.

use crate::{
    facts::Facts,
    reading::{OTHERS, Places, Reading},
};
use parking_lot::Mutex;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, text::encode_registry},
    metrics::MetricType,
    registry::{Registry, Unit},
};
use std::{fmt, sync::Arc, time::Duration};
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

/// Shortest interval between two readings of numalocd's metrics.
pub const PERIOD: Duration = Duration::from_secs(60);
/// Longest wait for the next scrape. numalocd keeps measuring the host's memory for the same time after its metrics
/// were read.
const INTEREST: Duration = Duration::from_secs(300);
/// Figures that are older are not served: numalocd has not answered since.
const FRESH: Duration = Duration::from_secs(180);

/// The figures as they were last read, and who wants them.
#[derive(Debug, Default)]
pub struct Figures {
    state: Mutex<State>,
    asked: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// When the agent's metrics were last scraped.
    scraped: Option<Instant>,
    /// Whether the cluster has a NodeMemoryLocality of this node.
    is_defined: bool,
    /// Whether the agent makes a label of the node of them.
    is_always: bool,
    /// The figures as OpenMetrics text without its last line, and when they were read.
    text: Option<(Arc<str>, Instant)>,
}

impl State {
    fn is_wanted(&self) -> bool {
        self.is_defined
            || self.is_always
            || self.scraped.is_some_and(|scraped| scraped.elapsed() < INTEREST)
    }
}

impl Figures {
    /// Whether the cluster has a NodeMemoryLocality of this node, which is made of them.
    pub fn define(&self, is_defined: bool) {
        self.state.lock().is_defined = is_defined;
        self.asked.notify_one();
    }

    /// Notes that they are wanted as long as this process runs.
    pub fn always(&self) {
        self.state.lock().is_always = true;
        self.asked.notify_one();
    }

    /// Notes that the agent's metrics are being scraped. Returns the figures, if there are any.
    pub fn scrape(&self) -> Option<Arc<str>> {
        let mut state = self.state.lock();
        state.scraped = Some(Instant::now());
        self.asked.notify_one();
        let (text, read) = state.text.as_ref()?;
        (read.elapsed() < FRESH).then(|| Arc::clone(text))
    }

    /// Waits until this time, and then until there is a reader.
    pub async fn wanted(&self, from: Instant) {
        sleep_until(from).await;
        while !self.state.lock().is_wanted() {
            self.asked.notified().await;
        }
    }

    /// They were read, or cannot be.
    pub fn put(&self, text: Option<String>) {
        self.state.lock().text = text.map(|text| (text.into(), Instant::now()));
    }
}

/// The served text of a reading: the node's memory by NUMA node, the memory of at most `most` of its containers by pod,
/// and numalocd's other figures.
pub fn text(reading: &Reading, node: &str, pods: &[&Facts], most: usize) -> String {
    let mut registry = Registry::with_prefix("numaloc");
    registry.register_collector(Box::new(Memory::of(reading, node, pods, most)));
    let mut text = String::new();
    // A text takes whatever is written.
    let _ = encode_registry(&mut text, &registry);
    text + &reading.rest
}

#[derive(Debug)]
struct Memory {
    node: String,
    /// By NUMA node.
    nodes: Vec<(String, Places)>,
    /// By container: the values of [`CONTAINER_LABELS`].
    containers: Vec<([String; 5], Places)>,
}

const CONTAINER_LABELS: [&str; 5] = ["namespace", "pod", "container", "workload", "workload_kind"];

impl Memory {
    fn of(reading: &Reading, node: &str, pods: &[&Facts], most: usize) -> Self {
        let mut containers = Vec::new();
        if most > 0 {
            let mut others = reading.containers.get(OTHERS).copied().unwrap_or_default();
            for (at, (facts, container, places)) in
                reading.of_pods(pods.iter().copied()).into_iter().enumerate()
            {
                if at >= most {
                    others = others.and(places);
                    continue;
                }
                let (pod, owner) = (&facts.pod, &facts.pod.owner);
                let values = [&pod.namespace, &pod.name, &container.name, &owner.name, &owner.kind];
                containers.push((values.map(Clone::clone), places));
            }
            if others != Places::default() {
                let none = String::new;
                containers.push(([none(), none(), OTHERS.to_owned(), none(), none()], others));
            }
        }
        let nodes = reading.nodes.iter().map(|(id, places)| (id.to_string(), *places)).collect();
        Self { node: node.to_owned(), nodes, containers }
    }
}

impl Collector for Memory {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let (bytes, gauge) = (Some(&Unit::Bytes), MetricType::Gauge);
        let help = "Memory of all processes by the NUMA node that it is on and by place";
        let mut family = encoder.encode_descriptor("node_memory", help, bytes, gauge)?;
        for (numa_node, places) in &self.nodes {
            let Places { local, remote, unpinned, .. } = places;
            let shown = [("local", local), ("remote", remote), ("unpinned", unpinned)];
            for (place, bytes) in shown.into_iter().chain(places.shown_demoted()) {
                let labels =
                    [("node", self.node.as_str()), ("numa_node", numa_node), ("place", place)];
                family.encode_family(&labels)?.encode_gauge(bytes)?;
            }
        }
        let help = "Memory of the containers that are pinned to CPUs by place";
        let mut family = encoder.encode_descriptor("container_memory", help, bytes, gauge)?;
        for (values, places) in &self.containers {
            let shown = [("local", &places.local), ("remote", &places.remote)];
            for (place, bytes) in shown.into_iter().chain(places.shown_demoted()) {
                let named = CONTAINER_LABELS.into_iter().zip(values.iter().map(String::as_str));
                let labels = [("node", self.node.as_str()), ("place", place)].into_iter();
                let labels: Vec<(&str, &str)> = labels.chain(named).collect();
                family.encode_family(&labels)?.encode_gauge(bytes)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::samples::{container_id, pod};

    fn facts(number: usize) -> Facts {
        let mut pod = pod(number);
        pod["metadata"]["labels"]["pod-template-hash"] = "6f7".into();
        pod["metadata"]["ownerReferences"] =
            serde_json::json!([{"kind": "ReplicaSet", "name": "web-6f7", "controller": true}]);
        Facts::new(serde_json::from_value(pod).expect("a pod"))
    }

    fn samples(reading: &Reading, pods: &[&Facts], most: usize) -> Vec<String> {
        let text = text(reading, "node-1", pods, most);
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    }

    #[test]
    fn containers_have_the_names_of_their_pods_and_no_more_than_allowed() {
        let pods = [1, 2, 3].map(facts);
        let pods: Vec<_> = pods.iter().collect();
        let mut lines = String::from("numaloc_host_memory_bytes{node=\"1\",place=\"remote\"} 9\n");
        for (number, remote) in [(1, 10), (2, 30), (3, 20)] {
            let id = container_id(number, 'a');
            lines += &format!(
                "numaloc_host_container_memory_bytes{{container=\"{id}\",place=\"remote\"}} {remote}\n"
            );
        }
        lines +=
            "numaloc_host_container_memory_bytes{container=\"other\",place=\"local\"} 5\n# EOF\n";
        let reading = Reading::of(&lines);
        let series = |pod: &str,
                      container: &str,
                      workload: &str,
                      kind: &str,
                      place: &str,
                      bytes| {
            let namespace = if pod.is_empty() { "" } else { "shop" };
            format!(
                "numaloc_container_memory_bytes{{node=\"node-1\",place=\"{place}\",namespace=\"{namespace}\",pod=\"{pod}\",\
                 container=\"{container}\",workload=\"{workload}\",workload_kind=\"{kind}\"}} {bytes}"
            )
        };
        let found = samples(&reading, &pods, 2);
        let containers: Vec<_> =
            found.iter().filter(|line| line.starts_with("numaloc_container")).collect();
        let expected = [
            series("web-2", "web", "web", "Deployment", "local", 0),
            series("web-2", "web", "web", "Deployment", "remote", 30),
            series("web-3", "web", "web", "Deployment", "local", 0),
            series("web-3", "web", "web", "Deployment", "remote", 20),
            series("", "other", "", "", "local", 5),
            series("", "other", "", "", "remote", 10),
        ];
        assert_eq!(containers, expected.iter().collect::<Vec<_>>());
        let none = samples(&reading, &pods, 0);
        assert!(!none.iter().any(|line| line.contains("web")), "{none:?}");
        for line in [
            "numaloc_node_memory_bytes{node=\"node-1\",numa_node=\"1\",place=\"remote\"} 9",
            // numalocd's own figures.
            "numaloc_host_memory_bytes{node=\"1\",place=\"remote\"} 9",
        ] {
            assert!(none.iter().any(|found| found == line), "{line}: {none:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn they_are_wanted_after_a_scrape_and_where_the_node_has_an_object() {
        let figures = Figures::default();
        let is_wanted = async || {
            let soon = tokio::time::timeout(Duration::from_secs(1), figures.wanted(Instant::now()));
            soon.await.is_ok()
        };
        assert!(!is_wanted().await);
        assert_eq!(figures.scrape(), None);
        assert!(is_wanted().await);
        let (begin, next) = (Instant::now(), Instant::now() + PERIOD);
        figures.scrape();
        figures.wanted(next).await;
        assert_eq!(Instant::now() - begin, PERIOD, "however often it is scraped");
        figures.put(Some("x 1\n".to_owned()));
        assert_eq!(figures.scrape().as_deref(), Some("x 1\n"));
        tokio::time::advance(INTEREST).await;
        assert!(!is_wanted().await, "nobody has asked for long");
        figures.define(true);
        assert!(is_wanted().await);
        assert_eq!(figures.scrape(), None, "what is served is not old");
        figures.put(None);
        figures.define(false);
        assert!(is_wanted().await, "it was scraped just now");
    }
}
