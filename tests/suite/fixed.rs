//! Pages of the kernel that are mapped into a process, and secret memory: they can never move.

use crate::{
    app::{App, Layout},
    cli::{code, numalocctl},
    engine::{inspect, migrate},
    settings::Setting,
    top::{after_a_full_pass, row},
    truth::{Truth, on},
};
use numaloc_core::{FixedKind, Options, Reason};
use numaloc_host::Target;

const MIB: u64 = 1 << 20;
/// The rings of an io_uring cannot be mapped at a chosen address (io_uring/memmap.c, `io_uring_get_unmapped_area`), as regions are.
const RINGS: [&str; 3] = ["packet-ring:8M", "perf-ring:516K", "secret:8M"];
const RING_BYTES: u64 = 8 * MIB + (516 << 10);

fn on_remote(app: &App, name: &str) -> u64 {
    on(&Truth::of(app.pid()).region(app.range(name)), 1)
}

#[test]
fn rings_and_secret_memory_are_rows_of_their_own() {
    let _settings = Setting::still_host();
    let regions: Vec<&str> = ["anon:16M"].into_iter().chain(RINGS).collect();
    let app = Layout::remote(&regions).start("target");
    let (packet_bytes, secret_bytes) = (on_remote(&app, "packet-ring"), on_remote(&app, "secret"));
    assert_eq!((packet_bytes, secret_bytes), (8 * MIB, 8 * MIB), "the kernel's own count");

    let plan = inspect(&[Target::Pid(app.pid())], &Options::default()).plan;
    let [kernel, secret] = [FixedKind::Kernel, FixedKind::Secret].map(|kind| &plan.fixed[&kind]);
    assert_eq!((kernel.mapped_bytes, secret.mapped_bytes), (RING_BYTES, 8 * MIB), "{plan:?}");
    assert_eq!(on_node(&secret.nodes, 1), secret_bytes, "{secret:?}");
    let kernel_bytes = on_node(&kernel.nodes, 1);
    assert!((packet_bytes..=RING_BYTES).contains(&kernel_bytes), "{kernel:?}");
    assert!(!plan.moves.iter().any(|each| is_ring(&each.name)), "{plan:?}");

    let outcome = migrate(&[Target::Pid(app.pid())], &Options::default());
    assert!(!outcome.is_partial(), "{outcome:?}");
    for reason in [Reason::Busy, Reason::Pinned, Reason::KernelPage, Reason::NotMovable] {
        assert_eq!(outcome.account().left_for(reason), 0, "{outcome:?}");
    }
    assert_eq!(on_remote(&app, "anon"), 0);
    assert_eq!(on_remote(&app, "packet-ring"), packet_bytes);

    let pid = app.pid().to_string();
    let migrated = numalocctl(&["migrate", "--pid", &pid]);
    assert_eq!(code(&migrated), Some(0), "{migrated:?}");
    for command in ["plan", "locality"] {
        let shown = numalocctl(&[command, "--pid", &pid]);
        let text = String::from_utf8_lossy(&shown.stdout);
        assert!(text.contains("cannot move: 8.5 MiB of kernel objects"), "{text}");
        assert!(text.contains("cannot move: 8.0 MiB of secret memory"), "{text}");
    }
    let live = after_a_full_pass(&["--cpu-budget", "50"]);
    let row = row(&live, app.pid());
    assert!(row["remote_bytes"].as_u64().is_some_and(|bytes| bytes < packet_bytes), "{row}");
}

fn on_node(nodes: &std::collections::BTreeMap<numaloc_core::NodeId, u64>, node: u32) -> u64 {
    nodes.get(&numaloc_core::NodeId(node)).copied().unwrap_or(0)
}

fn is_ring(name: &str) -> bool {
    ["socket:", "anon_inode:", "/secretmem"].iter().any(|prefix| name.starts_with(prefix))
}
