//! The result of copying by a DMA engine, in lines.

use crate::clean::clean;
use numaloc_api::v1;
use std::fmt::Write;

/// The engines used, and the reason why no more were. The absence of an engine is shown only with all columns.
pub fn offload(text: &mut String, offload: &v1::OffloadUse, is_wide: bool) {
    let reason = Some(clean(&offload.reason)).filter(|reason| !reason.is_empty());
    match (offload.used, reason) {
        (true, reason) => {
            let interface = match &offload.interface[..] {
                "" => "unknown".to_owned(),
                interface => clean(interface),
            };
            let _ = writeln!(text, "offload: by {interface}{}", counts(offload));
            if let Some(reason) = reason {
                let _ = writeln!(text, "offload: given up, then copied by CPU: {reason}");
            }
        }
        (false, Some(reason)) if offload.failed || is_wide => {
            let _ = writeln!(text, "offload: not used: {reason}");
        }
        _ => {}
    }
}

fn counts(offload: &v1::OffloadUse) -> String {
    let Some(offloaded) = offload.offloaded_folios else {
        return ", which does not report what it copied".to_owned();
    };
    let failed = offload.failed_folios.unwrap_or(0);
    let of_all = match offload.shared {
        true => ", including folios of other jobs at the same time",
        false => "",
    };
    let by_cpu = offload.cpu_folios.map_or(String::new(), |folios| format!(", {folios} by CPU"));
    format!(": {offloaded} folios, {failed} failed{by_cpu}{of_all}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use v1::OffloadUse;

    fn lines(used: &OffloadUse, is_wide: bool) -> String {
        let mut text = String::new();
        offload(&mut text, used, is_wide);
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
        let told = "offload: by dcbm: 500 folios, 0 failed, including folios of other jobs at the same time\n";
        assert_eq!(lines(&shared, false), told);
        let silent = OffloadUse { offloaded_folios: None, interface: "alibaba".into(), ..used() };
        let told = "offload: by alibaba, which does not report what it copied\n";
        assert_eq!(lines(&silent, false), told);
    }

    #[test]
    fn a_host_without_an_engine_is_no_news() {
        let reason = "unavailable: no engine".to_owned();
        let refused = OffloadUse { reason, ..OffloadUse::default() };
        assert_eq!(lines(&refused, false), "");
        assert_eq!(lines(&refused, true), "offload: not used: unavailable: no engine\n");
        let off = OffloadUse { requested: v1::Offload::Off.into(), ..OffloadUse::default() };
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
    }
}
