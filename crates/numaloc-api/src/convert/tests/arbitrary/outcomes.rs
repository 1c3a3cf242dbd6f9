//! Random results of jobs.

use super::*;

pub(super) fn failed() -> impl Strategy<Value = Vec<FailedProcess>> {
    let failed = (identity(), words(), words());
    let failed = failed.prop_map(|(identity, comm, error)| FailedProcess { identity, comm, error });
    vec(failed, 0..3)
}

fn flows() -> impl Strategy<Value = Flows> {
    let ends = (0..65_536_u32, 0..65_536_u32).prop_map(|(from, to)| (NodeId(from), NodeId(to)));
    btree_map(ends, bytes(), 0..4)
}

pub(super) fn members() -> impl Strategy<Value = Vec<MemberResult>> {
    let state = (prop::sample::select(&MemberState::ALL[..]), words(), [0..9_usize, 0..9]);
    let remote = btree_map((0..65_536_u32).prop_map(NodeId), bytes(), 0..4);
    let sides = (option::of(locality()), option::of(locality()));
    let found =
        (option::of(path()), words()).prop_map(|(cgroup, by)| Box::new(FoundAt { cgroup, by }));
    let what = (account(), flows(), failed(), option::of(found));
    let member = (target(), state, nodes(0), remote, sides, what).prop_map(
        |(
            member,
            (state, reason, [processes, unreadable]),
            home,
            remote,
            (before, after),
            what,
        )| {
            let (account, flows, failed, found) = what;
            MemberResult {
                member,
                state,
                reason,
                processes,
                home,
                remote,
                before,
                after,
                account,
                flows,
                failed,
                unreadable,
                found,
            }
        },
    );
    vec(member, 0..3)
}

fn account() -> impl Strategy<Value = Account> {
    let left = btree_map(prop::sample::select(&Reason::ALL[..]), bytes(), 0..4);
    (bytes(), bytes(), bytes(), bytes(), left).prop_map(
        |(found, moved, moved_back, vanished, left)| {
            let mut account = Account::default();
            account.found(found);
            account.moved(moved);
            account.moved_back(moved_back);
            account.vanished(vanished);
            left.into_iter().for_each(|(reason, bytes)| account.left(reason, bytes));
            account
        },
    )
}

fn identity() -> impl Strategy<Value = Identity> {
    (any::<i32>(), bytes()).prop_map(|(pid, start_time)| Identity { pid, start_time })
}

/// On the heap: strategies are values, and a job has several of these.
fn locality() -> BoxedStrategy<Locality> {
    let share =
        || {
            (bytes(), bytes(), bytes()).prop_map(|(local_bytes, remote_bytes, demoted_bytes)| {
                Share { local_bytes, remote_bytes, demoted_bytes, ..Share::default() }
            })
        };
    (share(), share()).prop_map(|(movable, overall)| Locality { movable, overall }).boxed()
}

fn calls() -> impl Strategy<Value = CallStats> {
    let spans = [span(0..9), span(0..9), span(0..9), span(0..9), span(0..9), span(0..9)];
    let stop = option::of(prop::sample::select(&CacheStop::ALL[..]));
    (any::<[u32; 13]>(), spans, stop).prop_map(|(counts, spans, cache_stop)| {
        let counts = counts.map(u64::from);
        let [
            calls,
            addresses,
            retried_addresses,
            hinted_addresses,
            over_stall,
            split_huge_pages,
            failed_pages,
            cache_bytes,
            reclaims,
            compactions,
            exchanged_bytes,
            workers,
            sampled_bytes,
        ] = counts;
        let [longest, total, rested, held_back, huge_page_wait, compaction_wait] = spans;
        CallStats {
            calls,
            addresses,
            retried_addresses,
            hinted_addresses,
            longest,
            total,
            over_stall,
            rested,
            held_back,
            huge_page_wait,
            split_huge_pages,
            failed_pages,
            cache_bytes,
            cache_stop,
            reclaims,
            compactions,
            compaction_wait,
            exchanged_bytes,
            workers,
            sampled_bytes,
            times: CallStats::default().times,
        }
    })
}

pub(super) fn outcome() -> impl Strategy<Value = Outcome> {
    let process = (identity(), words(), account(), option::of("[a-z ]{1,9}"));
    let process = process.prop_map(|(identity, comm, account, error)| ProcessOutcome {
        identity,
        comm,
        account,
        error,
    });
    let partner = (target(), 0..9usize, account(), flows(), option::of("[a-z ]{1,9}"));
    let partner = partner.prop_map(|(member, processes, account, flows, error)| Partner {
        member,
        processes,
        account,
        flows,
        error,
    });
    let named = ("[a-z*]{1,9}", btree_map(0..9u32, 1..1_u64 << 40, 0..3), bytes());
    let named = named.prop_map(|(pattern, nodes, moved_bytes)| NamedOutcome {
        pattern,
        nodes: nodes.into_iter().map(|(node, bytes)| (NodeId(node), bytes)).collect(),
        moved_bytes,
    });
    let rest = (vec(partner, 0..3), option::of(offload()), vec(named, 0..3), "[a-z ]{0,9}");
    let sides = (locality(), option::of(locality()), option::of(bytes()), rest);
    let both = (flows(), flows());
    (vec(process, 0..3), account(), both, calls(), span(0..9), sides).prop_map(
        |(
            processes,
            others,
            (flows, cache_flows),
            calls,
            elapsed,
            (before, after, returned_bytes, rest),
        )| {
            let (partners, offload, named, look_error) = rest;
            Outcome {
                processes,
                others,
                flows,
                cache_flows,
                calls,
                elapsed,
                before,
                after,
                returned_bytes,
                partners,
                offload,
                named,
                look_error,
                ended_with: None,
            }
        },
    )
}

fn offload() -> impl Strategy<Value = OffloadUse> {
    let requested = prop::sample::select(&Offload::ALL[..]);
    let counts = (option::of(bytes()), option::of(bytes()), option::of(bytes()));
    (requested, any::<[bool; 3]>(), "[a-z]{0,9}", "[a-z ]{0,9}", counts).prop_map(
        |(requested, [used, failed, shared], interface, reason, counts)| OffloadUse {
            requested,
            used,
            interface,
            reason,
            failed,
            offloaded_folios: counts.0,
            failed_folios: counts.1,
            cpu_folios: counts.2,
            shared,
        },
    )
}

pub(super) fn progress() -> impl Strategy<Value = JobProgress> {
    (bytes(), bytes(), bytes(), words(), time()).prop_map(
        |(planned_bytes, moved_bytes, settled_bytes, held_back, measured)| JobProgress {
            planned_bytes,
            moved_bytes,
            settled_bytes,
            held_back,
            measured,
        },
    )
}
