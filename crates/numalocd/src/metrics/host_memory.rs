//! The memory of the host's processes, as the last round of looking has found it.
//!
//! The number of series is bounded where they are summed up ([`HostMemory`]). Names of programs and cgroups are chosen
//! by users; the encoder escapes them.

use numaloc_core::{live::KernelEvents, page_size};
use numaloc_host::host_memory::{HostMemory, Nearness, PinnedBytes};
use parking_lot::Mutex;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::Unit,
};
use std::{collections::BTreeMap, fmt, sync::Arc};

/// The values that are shown; none before the first round. Clones share the same values.
#[derive(Clone, Debug, Default)]
pub(super) struct ShownHostMemory(Arc<Mutex<Option<HostMemory>>>);

impl ShownHostMemory {
    pub(super) fn set(&self, memory: Option<HostMemory>) {
        *self.0.lock() = memory;
    }
}

fn place(place: Nearness) -> &'static str {
    match place {
        Nearness::Local => "local",
        Nearness::Remote => "remote",
        Nearness::Demoted => "demoted",
        Nearness::Unpinned => "unpinned",
    }
}

impl Collector for ShownHostMemory {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let shown = self.0.lock();
        let Some(memory) = shown.as_ref() else { return Ok(()) };
        let help = "Memory of processes by the node that it is on and by place";
        let mut family = gauge(&mut encoder, "host_memory", help, Some(&Unit::Bytes))?;
        for ((node, at), &bytes) in &memory.nodes {
            let labels = [("node", node.0.to_string()), ("place", place(*at).to_owned())];
            family.encode_family(&labels)?.encode_gauge(&bytes)?;
        }
        let help =
            "Memory of each node, used or not, by what it is and by its tier, lower is faster";
        let mut family = gauge(&mut encoder, "host_node_memory", help, Some(&Unit::Bytes))?;
        for (node, size) in &memory.sizes {
            let tier = size.tier.map_or(String::new(), |tier| tier.number.to_string());
            let source = size.tier.map_or("", |tier| tier.source.name()).to_owned();
            let kind = size.kind.name().to_owned();
            let labels = [
                ("node", node.0.to_string()),
                ("kind", kind),
                ("tier", tier),
                ("tier_source", source),
            ];
            family.encode_family(&labels)?.encode_gauge(&size.total_bytes)?;
        }
        let help = "The part of the remote memory that is on a node near to home, by this node";
        let mut family = gauge(&mut encoder, "host_near_memory", help, Some(&Unit::Bytes))?;
        for (node, bytes) in &memory.near {
            family.encode_family(&[("node", node.0.to_string())])?.encode_gauge(bytes)?;
        }
        let named = [
            ("host_unit_memory", "unit", &memory.units),
            ("host_container_memory", "container", &memory.containers),
            ("host_program_memory", "program", &memory.programs),
        ];
        for (name, label, named) in named {
            let help = format!("Memory of pinned processes by {label} and by place");
            let family = gauge(&mut encoder, name, &help, Some(&Unit::Bytes))?;
            by_name(family, label, named, !memory.lower.is_empty())?;
        }
        let named = [("unit", &memory.kernel_by_unit), ("container", &memory.kernel_by_container)];
        for (label, named) in named {
            kernel_events(&mut encoder, label, named)?;
        }
        let counts = memory.processes;
        let mut family =
            gauge(&mut encoder, "host_processes", "Processes with memory by state", None)?;
        for (state, count) in [
            ("pinned", counts.pinned),
            ("unpinned", counts.unpinned),
            ("hidden", counts.hidden),
            ("unseen", counts.unseen),
        ] {
            family.encode_family(&[("state", state)])?.encode_gauge(&(count as u64))?;
        }
        let help =
            "Age of the oldest scan of the memory of a process when the values were summed up";
        let oldest = gauge(&mut encoder, "host_oldest_look", help, Some(&Unit::Seconds))?;
        ConstGauge::new(memory.oldest_look.as_secs_f64()).encode(oldest)?;
        let help = "Time that was used for scans of the memory of the host's processes";
        let used = ConstCounter::new(memory.used.as_secs_f64());
        used.encode(encoder.encode_descriptor(
            "host_look",
            help,
            Some(&Unit::Seconds),
            used.metric_type(),
        )?)
    }
}

fn gauge<'a>(
    encoder: &'a mut DescriptorEncoder<'_>,
    name: &'a str,
    help: &str,
    unit: Option<&'a Unit>,
) -> Result<MetricEncoder<'a>, fmt::Error> {
    encoder.encode_descriptor(name, help, unit, MetricType::Gauge)
}

fn by_name(
    mut family: MetricEncoder<'_>,
    label: &str,
    named: &BTreeMap<String, PinnedBytes>,
    has_lower_tiers: bool,
) -> fmt::Result {
    for (name, bytes) in named {
        let demoted = has_lower_tiers.then_some((Nearness::Demoted, bytes.demoted));
        let places = [(Nearness::Local, bytes.local), (Nearness::Remote, bytes.remote)];
        for (at, bytes) in places.into_iter().chain(demoted) {
            family
                .encode_family(&[(label, name.as_str()), ("place", place(at))])?
                .encode_gauge(&bytes)?;
        }
    }
    Ok(())
}

/// What the kernel itself has done, by the name of a unit or container.
fn kernel_events(
    encoder: &mut DescriptorEncoder<'_>,
    label: &str,
    named: &BTreeMap<String, KernelEvents>,
) -> fmt::Result {
    let (kind, page) = (MetricType::Counter, page_size());
    let name = format!("host_{label}_hint_faults");
    let help =
        format!("Faults that NUMA balancing has caused to learn who uses a page, by {label}");
    let mut family = encoder.encode_descriptor(&name, &help, None, kind)?;
    for (name, events) in named {
        let Some(faults) = events.hint_faults else { continue };
        let labels = [(label, name.as_str())];
        ConstCounter::new(faults).encode(family.encode_family(&labels)?)?;
    }
    let name = format!("host_{label}_kernel_moved");
    let help = format!("Memory that the kernel itself has moved between nodes, by {label} and why");
    let mut family = encoder.encode_descriptor(&name, &help, Some(&Unit::Bytes), kind)?;
    for (name, events) in named {
        let why = [
            ("balanced", events.migrated_pages),
            ("demoted", events.demoted_pages),
            ("promoted", events.promoted_pages),
        ];
        for (why, pages) in why {
            let Some(bytes) = pages.map(|pages| pages.saturating_mul(page)) else { continue };
            let labels = [(label, name.as_str()), ("why", why)];
            ConstCounter::new(bytes).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}
