//! What became of copying by a DMA engine, in lines.

use crate::{clean::clean, doc::OffloadDoc, units::size};
use std::fmt::Write;

/// What was used, and why not more. That a host has no engine is told only to those who ask for all.
pub fn offload(text: &mut String, document: &OffloadDoc, is_wide: bool) {
    let reason = document.reason.as_deref().map(clean);
    match (document.used, reason) {
        (true, reason) => {
            let interface = clean(document.interface.as_deref().unwrap_or("unknown"));
            let _ = writeln!(text, "offload: by {interface}{}", counts(document));
            if let Some(reason) = reason {
                let _ = writeln!(text, "offload: given up, then copied by CPU: {reason}");
            }
        }
        (false, Some(reason)) if document.failed || is_wide => {
            let _ = writeln!(text, "offload: not used: {reason}");
        }
        _ => {}
    }
    let rates = document.cpu_bytes_per_second.zip(document.engine_bytes_per_second);
    if let Some((cpu, engine)) = rates.filter(|_| is_wide) {
        let (cpu, engine) = (size(cpu), size(engine));
        let _ = writeln!(text, "offload: expected {engine}/s with it, {cpu}/s by CPU");
    }
}

fn counts(document: &OffloadDoc) -> String {
    let Some(offloaded) = document.offloaded_folios else {
        return ", which does not say what it has copied".to_owned();
    };
    let failed = document.failed_folios.unwrap_or(0);
    let of_all = match document.shared {
        true => ", with those of other jobs at the same time",
        false => "",
    };
    let by_cpu = document.cpu_folios.map_or(String::new(), |folios| format!(", {folios} by CPU"));
    format!(": {offloaded} folios, {failed} failed{by_cpu}{of_all}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_core::{Offload, OffloadUse, offload::Expected};

    fn lines(offload_use: &OffloadUse, is_wide: bool) -> String {
        let mut text = String::new();
        offload(&mut text, &offload_use.into(), is_wide);
        text
    }

    fn used() -> OffloadUse {
        OffloadUse {
            used: true,
            interface: "dcbm".into(),
            offloaded_folios: Some(500),
            failed_folios: Some(0),
            cpu_folios: Some(12),
            ..OffloadUse::default()
        }
    }

    #[test]
    fn what_was_copied_is_told_with_whose_it_is() {
        assert_eq!(lines(&used(), false), "offload: by dcbm: 500 folios, 0 failed, 12 by CPU\n");
        let shared = OffloadUse { shared: true, cpu_folios: None, ..used() };
        let told =
            "offload: by dcbm: 500 folios, 0 failed, with those of other jobs at the same time\n";
        assert_eq!(lines(&shared, false), told);
        let silent = OffloadUse { offloaded_folios: None, interface: "alibaba".into(), ..used() };
        let told = "offload: by alibaba, which does not say what it has copied\n";
        assert_eq!(lines(&silent, false), told);
    }

    #[test]
    fn a_host_without_an_engine_is_no_news() {
        let reason = "unavailable: no engine".to_owned();
        let refused = OffloadUse { reason, ..OffloadUse::default() };
        assert_eq!(lines(&refused, false), "");
        assert_eq!(lines(&refused, true), "offload: not used: unavailable: no engine\n");
        let off = OffloadUse { requested: Offload::Off, ..OffloadUse::default() };
        assert_eq!(lines(&off, true), "");
    }

    #[test]
    fn a_failure_is_always_told() {
        let failed = OffloadUse { failed: true, reason: "failed: gone".into(), ..used() };
        assert!(
            lines(&failed, false)
                .ends_with("offload: given up, then copied by CPU: failed: gone\n")
        );
        let never = OffloadUse { used: false, ..failed };
        assert_eq!(lines(&never, false), "offload: not used: failed: gone\n");
        let expected = Expected { cpu_bytes_per_second: 1 << 30, engine_bytes_per_second: 2 << 30 };
        let measured = OffloadUse { expected: Some(expected), ..used() };
        let told = "offload: expected 2.0 GiB/s with it, 1.0 GiB/s by CPU\n";
        assert!(lines(&measured, true).ends_with(told), "{}", lines(&measured, true));
    }
}
