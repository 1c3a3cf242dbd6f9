//! Kernels that cannot give copies to a DMA engine: Debian's. Everything is copied by CPU, and said to be.

use crate::{
    cli::{assert_refused, code, numalocctl},
    scene::Scene,
};
use numaloc_core::page_size;
use numaloc_dma::kernel;
use numaloc_host::Roots;
use serde_json::Value;

const MIB: u64 = 1 << 20;

#[test]
fn these_kernels_have_no_interface() {
    let probed = kernel::probe(&Roots::default());
    assert_eq!((probed.interface, probed.available), (None, false), "{probed:?}");
    let reason = probed.reason.expect("a reason");
    assert!(reason.contains("/sys/kernel/mm/migrate") && reason.contains("dcbm"), "{reason}");
}

#[test]
fn auto_moves_by_cpu_and_says_why() {
    let scene = Scene::remote(&["anon:32M", "thp:16M"]);
    let pid = scene.app.pid().to_string();
    let arguments = ["migrate", "--pid", &pid, "--standalone", "--offload", "auto", "-o", "json"];
    let output = numalocctl(&arguments);
    assert_eq!(code(&output), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let offload = &document["outcome"]["offload"];
    assert_eq!((&offload["requested"], &offload["used"]), (&"OFFLOAD_AUTO".into(), &false.into()));
    let reason = offload["reason"].as_str().expect("a reason");
    assert!(reason.starts_with("unavailable: "), "{offload}");
    assert!(offload["offloaded_folios"].is_null() && offload["interface"] == "", "{offload}");
    // A folio for each base page, or one for each huge page: all by CPU.
    let folios = offload["cpu_folios"].as_u64().expect("a number");
    assert!(folios >= 32 * MIB / page_size(), "{offload}");
    scene.assert_on("anon", 0, 32 * MIB);
    scene.assert_on("thp", 0, 16 * MIB);
    scene.finish();
}

#[test]
fn require_needs_the_daemon_and_moves_nothing() {
    let scene = Scene::remote(&["anon:16M"]);
    let pid = scene.app.pid().to_string();
    let arguments = ["migrate", "--pid", &pid, "--standalone", "--offload", "require"];
    assert_refused(&arguments, 2, "--offload require needs the daemon");
    scene.assert_on("anon", 1, 16 * MIB);
    scene.finish();
}
