//! One sample of each record that requests and results are made of, for the tests of all crates. Every field has a value that is not the
//! default; no two fields of one type have the same. Struct literals name each field, so that a new one does not compile until it is set.

use crate::{
    Account, CacheStop, CallStats, Compact, HomeRule, HugetlbSource, Identity, Locality, MakeRoom,
    Offload, OffloadUse, Options, Order, Pacing, Placement, ProcessOutcome, Profile, Reason, Share,
};
use std::time::Duration;

const MIB: u64 = 1 << 20;

/// Options that all differ from the defaults.
pub fn options() -> Options {
    Options {
        include_shared: true,
        exclude_file: true,
        include_network: true,
        include_bound: true,
        target_ratio: 90,
        to: "0,2".parse().ok(),
        // The only placement that nodes can be named for in `to`.
        placement: Placement::Home,
        // They exclude `to`.
        maps: Vec::new(),
        home: HomeRule::Busy,
        from: "8,65535".parse().ok(),
        include_gigantic: true,
        hugetlb: HugetlbSource::Fresh,
        pacing: Pacing {
            profile: Profile::Gentle,
            max_stall: Some(Duration::from_micros(2_500)),
            node_cpu_percent_max: Some(80),
            workers: Some(4),
        },
        order: Order::Damon,
        near_distance: 20,
        make_room: MakeRoom::None,
        compact: Compact::Never,
        reserve_bytes: Some(1 << 30),
        pool_reserve_percent: 10,
        node_bandwidth_max_bytes_per_second: Some(80 << 30),
        // It is measured before a plan.
        saturated: Default::default(),
        // It excludes `from`.
        relief: None,
    }
}

/// An account with bytes of each kind, which closes.
pub fn account() -> Account {
    let mut account = Account::default();
    account.found(600 * MIB);
    account.moved(560 * MIB);
    account.nearer(32 * MIB);
    account.moved_back(MIB);
    account.vanished(3 * MIB);
    account.left(Reason::Shared, 2 * MIB);
    account.left(Reason::Bound, 16 * MIB);
    account.left(Reason::Pinned, 18 * MIB);
    account
}

/// The locality of memory of which this many MiB are local and remote. 64 MiB more of each may not move.
pub fn locality(local_mib: u64, remote_mib: u64) -> Locality {
    let share = |more: u64| Share {
        local_bytes: (local_mib + more) * MIB,
        remote_bytes: (remote_mib + more) * MIB,
        near_bytes: remote_mib * MIB / 2,
        demoted_bytes: (more + 1) << 12,
    };
    Locality { movable: share(0), overall: share(64) }
}

/// A process whose memory moved, but for some of it. Its name has a control character.
pub fn process_outcome() -> ProcessOutcome {
    ProcessOutcome {
        identity: Identity { pid: 4712, start_time: 94_712 },
        comm: "redis-\x07fork".to_owned(),
        account: account(),
        error: Some("move_pages: no such process".to_owned()),
    }
}

/// Statistics of calls in which no number is zero.
pub fn calls() -> CallStats {
    let ms = Duration::from_millis;
    CallStats {
        calls: 36,
        addresses: 143_360,
        retried_addresses: 12,
        hinted_addresses: 3,
        longest: ms(9),
        total: ms(180),
        times: [11, 0, 4, 6, 0, 13, 2, 0, 0, 0, 0, 0, 0],
        over_stall: 2,
        rested: ms(30),
        held_back: ms(40),
        huge_page_wait: ms(20),
        split_huge_pages: 5,
        failed_pages: 7,
        cache_bytes: 100 * MIB,
        cache_stop: Some(CacheStop::Refaults),
        reclaims: 9,
        compactions: 1,
        compaction_wait: ms(8),
        exchanged_bytes: 48 * MIB,
        workers: 4,
        sampled_bytes: 300 * MIB,
    }
}

/// Offload that was used until it failed.
pub fn offload_use() -> OffloadUse {
    OffloadUse {
        requested: Offload::Require,
        used: true,
        interface: "dcbm".to_owned(),
        reason: "failed: an engine could not copy 4 folios".to_owned(),
        failed: true,
        offloaded_folios: Some(140_000),
        failed_folios: Some(4),
        cpu_folios: Some(40),
        shared: true,
    }
}
