//! Metrics of the daemon's own process, under the names that Prometheus uses for all programs.

use numaloc_host::{OwnProcess, Roots};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{counter::ConstCounter, gauge::ConstGauge},
    registry::Unit,
};
use std::fmt;

/// Reads the use of CPU, memory and files whenever the metrics are read.
#[derive(Debug, Default)]
pub(super) struct ProcessCollector(Roots);

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        // If the values cannot be read, they are left out: the other metrics are useful without them.
        let Ok(own) = OwnProcess::read(&self.0) else { return Ok(()) };
        let cpu = ConstCounter::new(own.cpu.as_secs_f64());
        let help = "Time that the process has used CPUs";
        show(&mut encoder, "process_cpu", help, Some(&Unit::Seconds), &cpu)?;
        let start = ConstGauge::new(super::since_epoch(own.start_time));
        let help = "When the process started";
        show(&mut encoder, "process_start_time", help, Some(&Unit::Seconds), &start)?;
        let bytes = Some(&Unit::Bytes);
        let gauges = [
            ("process_resident_memory", "Memory of the process", bytes, Some(own.resident_bytes)),
            ("process_virtual_memory", "Its address space", bytes, Some(own.virtual_bytes)),
            ("process_threads", "Its threads", None, Some(own.threads)),
            ("process_open_fds", "Its open file descriptors", None, Some(own.open_files)),
            ("process_max_fds", "Most that it may open", None, own.most_open_files),
        ];
        for (name, help, unit, value) in gauges {
            let Some(value) = value else { continue };
            show(&mut encoder, name, help, unit, &ConstGauge::new(value))?;
        }
        Ok(())
    }
}

fn show(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    unit: Option<&Unit>,
    metric: &impl EncodeMetric,
) -> fmt::Result {
    metric.encode(encoder.encode_descriptor(name, help, unit, metric.metric_type())?)
}
