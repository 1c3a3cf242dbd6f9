//! Sessions on trees of files that behave as those kernels do: see `ruled`.

mod ruled;
mod using;

use super::*;
use numaloc_host::killed;
use ruled::Host;
use session::{NAME, OffloadJournal};
use std::fs;

const DCBM: &str = "sys/module/dcbm/parameters";
const EARLY: &str = "sys/kernel/dcbm";
const ALIBABA: &str = "sys/kernel/mm/migrate";
const RULES: Dma = Dma::Enabled(Settings { polling: false, channels_max: Some(4) });
fn asked(policy: Offload) -> Asked {
    Asked { policy, rules: RULES, is_granted: true }
}

const BYTES: u64 = 64 << 20;

fn begin(offloading: &Offloading, policy: Offload) -> Using {
    offloading.begin(&asked(policy), BYTES).expect("it is not refused")
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
            "batch_migrate_enabled=true dma_migrate_enabled=true dma_migrate_min_pages=32 dma_migrate_polling=false",
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
        assert!(host.is_noted());
        first.end(0);
        assert_eq!(host.settings(directory), meanwhile, "another job uses it");
        // A job that does not come to its end, as after a panic.
        drop(second);
        assert_eq!((host.settings(directory), host.is_noted()), (before.clone(), false));
        drop(begin(&offloading, Offload::Auto));
        assert_eq!(host.settings(directory), before);
    }
}

#[test]
fn a_daemon_that_is_killed_at_any_point_leaves_nothing() {
    for which in 0..3 {
        let host = || {
            let (host, directory, ..) = kernels().into_iter().nth(which).expect("there are three");
            (host, directory)
        };
        let points = killed::leaves_nothing(
            host,
            |(host, directory)| (host.settings(directory), host.is_noted()),
            |(host, _)| drop(host.offloading().begin(&asked(Offload::Auto), BYTES)),
            |(host, _)| drop(host.offloading().put_back()),
        );
        // Three notes, and at least two settings there and back.
        assert!(points >= 7, "{points}");
    }
}

/// A daemon is killed while a job uses it.
fn killed_while_used(host: &Host, directory: &str, meanwhile: &str) {
    begin(&host.offloading(), Offload::Auto).end(0);
    let job = || drop(begin(&host.offloading(), Offload::Auto));
    let changed =
        meanwhile.split(' ').filter(|setting| !host.settings(directory).contains(setting));
    // The settings, and the notes before and after.
    let writes = changed.count() + 2;
    assert!(killed::after(writes, job));
    assert_eq!((host.settings(directory).as_str(), host.is_noted()), (meanwhile, true));
}

#[test]
fn a_value_that_another_program_has_set_stays() {
    let host = Host::dcbm();
    let offloading = host.offloading();
    let using = begin(&offloading, Offload::Auto);
    host.write(DCBM, "reason_mask", "demotion");
    host.write(DCBM, "offloading", "0");
    let report = using.end(0);
    let settings = "nr_dma_chan=1 offloading=0 reason_mask=demotion";
    assert_eq!((host.settings(DCBM).as_str(), host.is_noted()), (settings, false));
    assert!(report.reason.contains("another program has switched it off"), "{report:?}");
}

#[test]
fn a_boot_has_set_it_again() {
    let host = Host::dcbm();
    let (_, _, _, meanwhile) = kernels().into_iter().next().expect("there are three");
    killed_while_used(&host, DCBM, &meanwhile);
    host.boot("boot-2");
    assert_eq!(host.offloading().put_back().expect("it may"), [""; 0]);
    assert!(!host.is_noted() && host.settings(DCBM).contains("offloading=1"));
}

/// Offload is on since a daemon died, and the next start could not put it back. The next job does.
#[test]
fn a_job_takes_over_what_was_left() {
    for (host, directory, before, meanwhile) in kernels() {
        killed_while_used(&host, directory, &meanwhile);
        let using = begin(&host.offloading(), Offload::Auto);
        assert_eq!(host.settings(directory), meanwhile);
        using.end(0);
        assert_eq!((host.settings(directory), host.is_noted()), (before, false));
    }
}

#[test]
fn a_value_that_the_kernel_made_another_one_of_is_put_back() {
    let host = Host::dcbm();
    // Four are asked for.
    host.write("sys", "channels", "2");
    let using = begin(&host.offloading(), Offload::Auto);
    let noted = OffloadJournal::peek(&host.roots(), NAME).expect("it is there");
    let channels = noted.knobs.iter().find(|knob| knob.name == "nr_dma_chan");
    let channels = channels.map(|knob| (knob.found.as_str(), knob.set.as_str()));
    assert_eq!(channels, Some(("1", "2")));
    using.end(0);
    assert!(host.settings(DCBM).contains("nr_dma_chan=1"));
}

#[test]
fn without_a_place_to_keep_it_nothing_is_changed() {
    let host = Host::dcbm();
    let before = host.settings(DCBM);
    begin(&host.offloading(), Offload::Auto).end(0);
    fs::remove_file(host.file()).expect("it is there");
    // A directory cannot be opened for writing, not even by root.
    fs::create_dir_all(host.file()).expect("a directory");
    let report = begin(&host.offloading(), Offload::Auto).end(7);
    assert!(report.reason.starts_with("failed: cannot keep"), "{report:?}");
    assert!(!report.used && report.failed, "{report:?}");
    assert_eq!((host.settings(DCBM), report.cpu_folios), (before, Some(7)));
}

#[test]
fn a_damaged_note_is_left_and_told() {
    let host = Host::dcbm();
    fs::create_dir_all(host.file().parent().expect("a directory")).expect("directories");
    for text in ["dcbm complete offloading=0>1 boot-1\n", "{\"boot\":\"boot-1\"}\n"] {
        fs::write(host.file(), text).expect("a file");
        let error = host.offloading().put_back().expect_err("it is not what was written");
        assert!(error.to_string().contains("numaloc/offload"), "{error}");
        assert!(host.is_noted());
    }
    // Names of other files are not taken from it.
    let line = "{\"boot\":\"boot-1\",\"changed\":{\"interface\":\"dcbm\",\"is_complete\":false,\
                \"knobs\":[{\"name\":\"../x\",\"found\":\"7\",\"set\":\"1\"}]}}\n";
    fs::write(host.file(), line).expect("a file");
    host.write("sys/module/dcbm", "x", "1");
    assert_eq!(host.offloading().put_back().expect("it may"), [""; 0]);
    assert!(host.settings(DCBM).contains("offloading=0"));
    assert_eq!(fs::read_to_string(host.path("sys/module/dcbm/x")).expect("a file"), "1\n");
}
