//! Sessions on trees of files that behave as those kernels do: see `ruled`.

mod ruled;
mod using;

use super::*;
use changes::Step;
use numaloc_core::HUGE;
use numaloc_host::offload::Settings;
use ruled::Host;
use std::fs;

const DCBM: &str = "sys/module/dcbm/parameters";
const EARLY: &str = "sys/kernel/dcbm";
const ALIBABA: &str = "sys/kernel/mm/migrate";
const RULES: config::Offload =
    config::Offload { enable: true, polling: false, channels_max: Some(4) };
const SETTINGS: Settings = Settings { polling: false, pages_min: Some(64), channels_max: Some(4) };

fn asked(policy: Offload) -> Asked {
    Asked { policy, rules: RULES, is_granted: true }
}

/// 64 MiB of huge pages.
fn amounts() -> Amounts {
    Amounts { base_bytes: 0, huge_bytes: 32 * HUGE, list_pages: 64 }
}

fn begin(offloading: &Offloading, policy: Offload) -> Using {
    offloading.begin(&asked(policy), &amounts()).expect("it is not refused")
}

/// Each kernel, with the settings before and while it is used.
fn kernels() -> [(Host, &'static str, String, String); 3] {
    let of = |host: Host, directory, before: &str, meanwhile: &str| {
        (host, directory, before.to_owned(), meanwhile.to_owned())
    };
    [
        of(
            Host::dcbm(),
            DCBM,
            "nr_dma_chan=1 offloading=0 reason_mask=compaction,demotion,syscall_or_cpuset",
            "nr_dma_chan=4 offloading=1 reason_mask=syscall_or_cpuset",
        ),
        of(Host::early(), EARLY, "nr_dma_chan=1 offloading=0", "nr_dma_chan=4 offloading=1"),
        of(
            Host::alibaba(),
            ALIBABA,
            "batch_migrate_enabled=false dma_migrate_enabled=false dma_migrate_min_pages=32 dma_migrate_polling=true",
            "batch_migrate_enabled=true dma_migrate_enabled=true dma_migrate_min_pages=256 dma_migrate_polling=false",
        ),
    ]
}

#[test]
fn it_is_on_while_any_job_uses_it_and_then_as_it_was() {
    for (host, directory, before, meanwhile) in kernels() {
        assert_eq!(host.settings(directory), before);
        let offloading = host.offloading();
        let first = begin(&offloading, Offload::Auto);
        assert_eq!(host.settings(directory), meanwhile);
        let second = begin(&offloading, Offload::Require);
        assert!(host.saved().exists());
        first.end(0);
        assert_eq!(host.settings(directory), meanwhile, "another job uses it");
        // A job that does not come to its end, as after a panic.
        drop(second);
        assert_eq!((host.settings(directory), host.saved().exists()), (before.clone(), false));
        drop(begin(&offloading, Offload::Auto));
        assert_eq!(host.settings(directory), before);
    }
}

/// The daemon is killed before the first step, after any step, and after the last: of switching on, and of putting back.
#[test]
fn whatever_a_death_leaves_is_repaired() {
    for which in 0..3 {
        let steps = |host: &Host| {
            let interface = ruled::find(&host.roots()).expect("it is there");
            let shared = host.offloading().0;
            (shared.steps_on(interface.as_ref(), &SETTINGS).expect("it can be read"), interface)
        };
        let count = steps(&kernels()[which].0).0.len();
        for done in 0..=count {
            let kernel = kernels().into_iter().nth(which);
            let (host, directory, before, _) = kernel.expect("there are three");
            let (steps, interface) = steps(&host);
            let shared = host.offloading().0;
            shared.carry_out(interface.as_ref(), &steps[..done]).expect("it may");
            assert_eq!(host.saved().exists(), done > 0);
            // It may die during the repair, too.
            for again in 0..3 {
                let left = host.offloading().0;
                let Some(saved) = left.saved.read().expect("it is whole") else { continue };
                let now = |name: &str| interface.read(name).ok();
                let repair = changes::to_put_back(&saved, now, ruled::BOOT);
                assert_eq!(repair.last(), Some(&Step::Forget));
                let some = again.min(repair.len() - 1);
                left.carry_out(interface.as_ref(), &repair[..some]).expect("it may");
            }
            host.offloading().put_back().expect("it may");
            assert_eq!(
                (host.settings(directory), host.saved().exists()),
                (before, false),
                "{directory} after {done} steps"
            );
            assert_eq!(host.offloading().put_back().expect("it may"), [""; 0]);
        }
    }
}

#[test]
fn what_somebody_else_has_set_stays() {
    let host = Host::dcbm();
    let offloading = host.offloading();
    let using = begin(&offloading, Offload::Auto);
    host.write(DCBM, "reason_mask", "demotion");
    host.write(DCBM, "offloading", "0");
    let report = using.end(0);
    let settings = "nr_dma_chan=1 offloading=0 reason_mask=demotion";
    assert_eq!((host.settings(DCBM).as_str(), host.saved().exists()), (settings, false));
    assert!(report.reason.contains("somebody has switched it off"), "{report:?}");
}

#[test]
fn a_boot_has_set_it_anew() {
    let host = Host::dcbm();
    std::mem::forget(begin(&host.offloading(), Offload::Auto));
    host.boot("boot-2");
    assert_eq!(host.offloading().put_back().expect("it may"), [""; 0]);
    assert!(!host.saved().exists() && host.settings(DCBM).contains("offloading=1"));
}

/// Offload is on since a daemon died, and the next start could not put it back. The next job does.
#[test]
fn a_job_takes_over_what_was_left() {
    for (host, directory, before, meanwhile) in kernels() {
        std::mem::forget(begin(&host.offloading(), Offload::Auto));
        let using = begin(&host.offloading(), Offload::Auto);
        assert_eq!(host.settings(directory), meanwhile);
        using.end(0);
        assert_eq!((host.settings(directory), host.saved().exists()), (before, false));
    }
}

#[test]
fn a_value_that_the_kernel_made_another_one_of_is_put_back() {
    let host = Host::alibaba();
    let offloading = host.offloading();
    // Only huge pages pay, so 512 base pages are asked for; this kernel takes 256 at most.
    let using = begin(&offloading, Offload::Auto);
    let saved = fs::read_to_string(host.saved()).expect("it is there");
    assert!(saved.contains("dma_migrate_min_pages=32>256"), "{saved}");
    using.end(0);
    assert!(host.settings(ALIBABA).contains("dma_migrate_min_pages=32"));
}

#[test]
fn without_a_place_to_keep_it_nothing_is_changed() {
    let host = Host::dcbm();
    let before = host.settings(DCBM);
    begin(&host.offloading(), Offload::Auto).end(0);
    // A directory cannot be opened for writing, not even by root.
    fs::create_dir(host.saved().with_extension("new")).expect("a directory");
    let report = begin(&host.offloading(), Offload::Auto).end(7);
    assert!(report.reason.starts_with("failed: cannot keep"), "{report:?}");
    assert!(!report.used && report.failed, "{report:?}");
    assert_eq!((host.settings(DCBM), report.cpu_folios), (before, Some(7)));
}

#[test]
fn a_damaged_record_is_left_and_told() {
    let host = Host::dcbm();
    for text in ["", "dcbm offloading=0>1 boot-1\n", "dcbm complete ../offloading=0>1 boot-1\n"] {
        fs::write(host.saved(), text).expect("a file");
        let error = host.offloading().put_back().expect_err("it is not what was written");
        assert!(error.to_string().contains("offload.saved"), "{error}");
    }
    assert!(host.settings(DCBM).contains("offloading=0"));
}
