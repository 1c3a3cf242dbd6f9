//! Jobs that use it, jobs that do not and why, and the counts.

use super::*;
use std::time::Instant;

fn count(host: &Host, offloaded: u64, failed: u64) {
    host.write(DCBM, "folios_migrated", &offloaded.to_string());
    host.write(DCBM, "folios_failures", &failed.to_string());
}

fn refused(offloading: &Offloading, asked: &Asked) -> String {
    let report = offloading.begin(asked, BYTES).expect("auto is not refused").end(9);
    assert!(!report.used && report.interface.is_empty(), "{report:?}");
    assert_eq!(report.cpu_folios, Some(9));
    let required = Asked { policy: Offload::Require, ..*asked };
    let refusal = offloading.begin(&required, BYTES).expect_err("it cannot be had");
    assert!(refusal.0.contains(&report.reason), "{refusal} does not say {}", report.reason);
    report.reason
}

#[test]
fn a_kernel_without_it_costs_nothing_and_says_why() {
    let host = Host::plain();
    let offloading = host.offloading();
    let reason = refused(&offloading, &asked(Offload::Auto));
    assert!(reason.starts_with("unavailable: this kernel cannot"), "{reason}");
    assert!(!host.is_noted());
}

#[test]
fn what_is_not_allowed_is_not_done() {
    let host = Host::dcbm();
    let before = host.settings(DCBM);
    let offloading = host.offloading();
    let disabled = Dma::Disabled;
    let reason = refused(&offloading, &Asked { rules: disabled, ..asked(Offload::Auto) });
    assert!(reason.contains("offload.enable"), "{reason}");
    let reason = refused(&offloading, &Asked { is_granted: false, ..asked(Offload::Auto) });
    assert!(reason.contains("ceiling"), "{reason}");
    let off = begin(&offloading, Offload::Off).end(9);
    assert_eq!(off, OffloadUse { requested: Offload::Off, ..OffloadUse::default() });
    let nothing = offloading.begin(&asked(Offload::Require), 0);
    assert!(!nothing.expect("there is nothing to move").end(0).used);
    assert_eq!(host.settings(DCBM), before);
}

#[test]
fn folios_are_counted_by_the_kernel() {
    let host = Host::dcbm();
    let offloading = host.offloading();
    count(&host, 2000, 5);
    let using = begin(&offloading, Offload::Auto);
    count(&host, 2600, 5);
    let report = using.end(700);
    assert!(report.used && report.reason.is_empty() && !report.shared, "{report:?}");
    assert_eq!(report.interface, "dcbm");
    assert_eq!((report.offloaded_folios, report.failed_folios), (Some(600), Some(0)));
    assert_eq!(report.cpu_folios, Some(100));
    // Any process may reset the counters.
    let using = begin(&offloading, Offload::Auto);
    count(&host, 3, 5);
    let report = using.end(700);
    assert_eq!((report.offloaded_folios, report.cpu_folios), (None, None));
}

#[test]
fn a_kernel_that_does_not_count_is_not_spoken_for() {
    for host in [Host::early(), Host::alibaba()] {
        let report = begin(&host.offloading(), Offload::Auto).end(700);
        assert!(report.used, "{report:?}");
        assert_eq!((report.offloaded_folios, report.failed_folios), (None, None));
        assert_eq!(report.cpu_folios, None);
    }
}

#[test]
fn counts_of_two_jobs_at_once_are_of_both() {
    let host = Host::dcbm();
    let offloading = host.offloading();
    count(&host, 2000, 5);
    let first = begin(&offloading, Offload::Auto);
    count(&host, 2100, 5);
    let second = begin(&offloading, Offload::Auto);
    count(&host, 2300, 5);
    let (first, second) = (first.end(250), second.end(200));
    assert!(first.shared && second.shared);
    assert_eq!((first.offloaded_folios, second.offloaded_folios), (Some(300), Some(200)));
    assert_eq!((first.cpu_folios, second.cpu_folios), (None, None));
    assert!(!begin(&offloading, Offload::Auto).end(0).shared, "the others have ended");
}

#[test]
fn a_failed_copy_ends_it_for_the_jobs_that_share_it() {
    let host = Host::dcbm();
    let before = host.settings(DCBM);
    let offloading = host.offloading();
    count(&host, 2000, 5);
    let using = [begin(&offloading, Offload::Auto), begin(&offloading, Offload::Require)];
    count(&host, 2100, 8);
    // As the thread that looks does.
    offloading.0.look(&mut offloading.0.session());
    assert_eq!((host.settings(DCBM), host.is_noted()), (before.clone(), false));
    let late = begin(&offloading, Offload::Auto).end(0);
    assert!(!late.used && late.reason.contains("3 folios"), "{late:?}");
    for report in using.map(|using| using.end(0)) {
        assert!(report.used && report.failed, "{report:?}");
        assert!(
            report.reason.starts_with("failed: an engine could not copy 3 folios"),
            "{report:?}"
        );
        assert_eq!(report.failed_folios, Some(3));
    }
    assert!(begin(&offloading, Offload::Auto).end(0).used, "the next ones try again");
    assert_eq!(host.settings(DCBM), before);
}

#[test]
fn a_thread_looks_while_it_is_on() {
    const DEADLINE: Duration = Duration::from_secs(60);
    let host = Host::dcbm();
    let before = host.settings(DCBM);
    let offloading = host.looked_at(Duration::from_millis(1));
    count(&host, 2000, 5);
    let using = begin(&offloading, Offload::Auto);
    count(&host, 2000, 6);
    let begin = Instant::now();
    while host.is_noted() || host.settings(DCBM) != before {
        assert!(begin.elapsed() < DEADLINE, "{}", host.settings(DCBM));
        std::thread::yield_now();
    }
    assert!(using.end(10).failed);
}

#[test]
fn a_failure_after_the_last_look_is_not_missed() {
    let host = Host::dcbm();
    let offloading = host.offloading();
    count(&host, 2000, 5);
    let using = begin(&offloading, Offload::Auto);
    count(&host, 2000, 6);
    assert!(using.end(10).failed);
}

#[test]
fn what_goes_away_in_the_middle_ends_it() {
    let gone = |host: &Host, path: &str| fs::remove_dir_all(host.path(path)).expect("it was there");
    for (path, told) in
        [(DCBM, "interface is gone"), ("sys/class/dma/dma0chan0", "dma0chan0 is gone")]
    {
        let host = Host::dcbm();
        let offloading = host.offloading();
        let using = begin(&offloading, Offload::Require);
        gone(&host, path);
        offloading.0.look(&mut offloading.0.session());
        let report = using.end(10);
        assert!(report.failed && report.reason.contains(told), "{report:?}");
        assert!(!host.is_noted(), "nothing is left to put back");
    }
}

#[test]
fn a_refused_switch_leaves_all_as_it_was() {
    let host = Host::dcbm();
    begin(&host.offloading(), Offload::Auto).end(0);
    let before = host.settings(DCBM);
    // Another module copies, so the kernel says EBUSY, after the channels have been set.
    host.write("sys", "other", "");
    let reason = refused(&host.offloading(), &asked(Offload::Auto));
    assert!(
        reason.starts_with("failed: cannot change") && reason.contains("offloading"),
        "{reason}"
    );
    assert_eq!((host.settings(DCBM), host.is_noted()), (before, false));
}

#[test]
fn offload_that_is_on_already_is_used_as_it_is() {
    let host = Host::dcbm();
    host.write(DCBM, "offloading", "1");
    host.write(DCBM, "nr_dma_chan", "2");
    let before = host.settings(DCBM);
    let report = begin(&host.offloading(), Offload::Auto).end(10);
    assert!(report.used, "{report:?}");
    assert_eq!((host.settings(DCBM), host.is_noted()), (before, false));
}
