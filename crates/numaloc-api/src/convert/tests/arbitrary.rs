//! Random records of every kind, for property tests.

mod outcomes;

use crate::value::{
    CallStats, Condition, Emit, Event, EventType, FailedProcess, FoundAt, Job, JobId, JobProgress,
    JobState, Limits, MemberResult, MemberState, MigrationSpec, NamedOutcome, OnInterrupt, Outcome,
    Partner, Pins, PlanSummary, Policy, ProcessOutcome, QosClass, Requirement, Schedule,
    ScheduleId, ScheduleSpec, ScheduleState, Selector, Target, TargetProcess, Workload, WorkloadId,
    WorkloadSpec,
};
use numaloc_core::{
    Account, BesideKernel, CacheStop, Compact, Flows, HomeRule, HugetlbSource, Identity, KeepFast,
    Locality, MakeRoom, MapRule, NodeId, NodeSet, NumaBalancing, Offload, OffloadUse, Options,
    Order, Pacing, Placement, Profile, Reason, Relief, ReliefBound, Share, Tiers, Watch, Weights,
};
use outcomes::{failed, members, outcome, progress};
use proptest::{
    collection::{btree_map, btree_set, vec},
    option,
    prelude::*,
};
use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

/// Amounts so small that the sum of a few hundred fits into an i64.
fn bytes() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 0..1_u64 << 50]
}

fn time() -> impl Strategy<Value = SystemTime> {
    // Up to the end of the year 9999.
    let since = (0..253_402_300_800_u64, 0..1_000_000_000_u32);
    since.prop_map(|(seconds, nanos)| SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos))
}

fn span(seconds: std::ops::Range<u64>) -> impl Strategy<Value = Duration> {
    (seconds, 0..1_000_000_000_u32).prop_map(|(seconds, nanos)| Duration::new(seconds, nanos))
}

/// Text for people, with any characters.
fn words() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), ".{0,20}", Just("\0\n\u{10ffff}".to_owned())]
}

fn token() -> &'static str {
    "[A-Za-z0-9._-]{1,64}"
}

fn path() -> impl Strategy<Value = String> {
    "(/[a-z]{1,3}){1,3}"
}

fn labels() -> impl Strategy<Value = std::collections::BTreeMap<String, String>> {
    btree_map("[a-z./]{1,9}", "[a-z ]{0,9}", 0..4)
}

fn selector() -> impl Strategy<Value = Selector> {
    let values = || btree_set("[a-z ]{0,9}", 1..4);
    let condition = prop_oneof![
        values().prop_map(Condition::In),
        values().prop_map(Condition::NotIn),
        Just(Condition::Exists),
        Just(Condition::DoesNotExist),
    ];
    let requirement = ("[a-z./]{1,9}", condition);
    let requirement = requirement.prop_map(|(key, condition)| Requirement { key, condition });
    (option::of(token()), btree_set(requirement, 0..4))
        .prop_map(|(namespace, requirements)| Selector { namespace, requirements })
}

fn nodes(least: usize) -> impl Strategy<Value = NodeSet> {
    btree_set(0..65_536_u32, least..4).prop_map(|ids| ids.into_iter().map(NodeId).collect())
}

/// Boxed: without optimisation, values of many generated members take more stack than a thread has.
fn target() -> BoxedStrategy<Target> {
    let units = btree_set("[a-z]{1,9}\\.service", 0..3);
    let ids = || btree_set(token(), 0..2);
    let processes = (btree_set(1..i32::MAX, 1..4), btree_set(target_process(), 0..3));
    let labels = (selector(), btree_set("uid:[0-9]{1,5}", 0..3));
    (processes, btree_set(path(), 0..3), units, (ids(), ids()), (ids(), ids()), labels)
        .prop_map(
            |((pids, processes), cgroups, units, containers, (pods, virtual_machines), labels)| {
                let (containers, container_labels) = containers;
                Target {
                    pids,
                    cgroups,
                    units,
                    containers,
                    pods,
                    virtual_machines,
                    container_labels,
                    labels: labels.0,
                    workload_creators: labels.1,
                    processes,
                    files: Default::default(),
                }
            },
        )
        .boxed()
}

fn target_process() -> impl Strategy<Value = TargetProcess> {
    (1..i32::MAX, 0..1_u64 << 60, token()).prop_map(|(pid, start_time, boot_id)| TargetProcess {
        pid,
        start_time,
        boot_id,
    })
}

fn pins() -> impl Strategy<Value = Pins> {
    btree_map(1..i32::MAX, target_process(), 0..3)
}

fn qos_class() -> impl Strategy<Value = Option<QosClass>> {
    option::of(prop_oneof![Just(QosClass::Lsr), Just(QosClass::Ls), Just(QosClass::Be)])
}

/// Boxed, because a strategy lies on the stack with all of its parts.
fn placement() -> BoxedStrategy<Placement> {
    let weights = btree_map((0..65_536_u32).prop_map(NodeId), 1..=255_i64, 2..5);
    let weights = weights.prop_map(|pairs| Weights::new(pairs).expect("two nodes or more"));
    let weighted = weights.clone();
    prop_oneof![
        Just(Placement::Home),
        option::of(weights).prop_map(Placement::Balance),
        option::of(nodes(2)).prop_map(Placement::Block),
        option::of(nodes(2)).prop_map(Placement::Interleave),
        weighted.prop_map(Placement::Weighted),
        option::of(nodes(2)).prop_map(|nodes| {
            Placement::Bandwidth(numaloc_core::ByBandwidth { nodes, known: None })
        }),
    ]
    .boxed()
}

fn tiers() -> impl Strategy<Value = Tiers> {
    let keep = prop_oneof![
        (0..=i64::MAX as u64).prop_map(KeepFast::Bytes),
        (0..=100_u8).prop_map(KeepFast::Percent),
    ];
    let nodes = || option::of(nodes(1));
    let free = option::of(0..=i64::MAX as u64);
    let beside = (0..3_usize).prop_map(|at| BesideKernel::ALL[at]);
    let watch = (0..2_usize).prop_map(|at| Watch::ALL[at]);
    let fields = (nodes(), nodes(), 2..=3600_u64, keep, free, beside, watch);
    fields.prop_map(|(fast, slow, seconds, keep_fast, free_fast_bytes, beside_kernel, watch)| {
        // A node is fast or slow.
        let slow = slow.map(|slow| slow.minus(fast.as_ref().unwrap_or(&NodeSet::new())));
        Tiers {
            fast,
            slow: slow.filter(|slow| !slow.is_empty()),
            cold_after: Duration::from_secs(seconds),
            keep_fast,
            free_fast_bytes,
            beside_kernel,
            watch,
            seen: None,
        }
    })
}

/// Nodes for all memory, a placement, or placements of single mappings.
fn place() -> impl Strategy<Value = (Option<NodeSet>, Placement, Vec<MapRule>)> {
    let pattern =
        "heap|stack|anon|anon>[1-9]{1,6}[KMGT]?|(memfd:|anon:|/|)[a-z*? =]{1,9}|sysv:[1-9]{1,6}";
    let placements = prop_oneof![placement(), nodes(1).prop_map(Placement::Nodes)];
    let rules = btree_map(pattern, placements, 1..4).prop_map(|rules| {
        let mut by_pattern: Vec<MapRule> = Vec::new();
        for (pattern, placement) in rules {
            let pattern = pattern.parse().expect("valid");
            if by_pattern.iter().all(|rule| rule.pattern != pattern) {
                by_pattern.push(MapRule { pattern, placement });
            }
        }
        by_pattern
    });
    prop_oneof![
        option::of(nodes(1)).prop_map(|to| (to, Placement::Home, Vec::new())),
        placement().prop_map(|placement| (None, placement, Vec::new())),
        tiers().prop_map(|tiers| (None, Placement::Tiers(tiers), Vec::new())),
        rules.prop_map(|rules| (None, Placement::Home, rules)),
    ]
}

fn policy() -> impl Strategy<Value = Policy> {
    let options = (any::<[bool; 5]>(), 0..=100_u8, place(), option::of(bytes()));
    let max_stall = option::of((100..60_000_000_u64).prop_map(Duration::from_micros));
    let profile = prop::sample::select(&Profile::ALL[..]);
    let pacing = (profile, max_stall, option::of(1..=100_u8)).prop_map(
        |(profile, max_stall, node_cpu_percent_max)| Pacing {
            profile,
            max_stall,
            node_cpu_percent_max,
            ..Pacing::default()
        },
    );
    let order =
        prop::sample::select(&[Order::Probed, Order::Address, Order::Damon, Order::Referenced][..]);
    let balancing = [NumaBalancing::Ignore, NumaBalancing::Warn, NumaBalancing::Pause];
    let balancing = prop::sample::select(balancing.to_vec());
    let on_interrupt = prop_oneof![Just(OnInterrupt::Stop), Just(OnInterrupt::Resume)];
    let emit = prop_oneof![Just(Emit::Always), Just(Emit::OnChange)];
    let tenant = option::of(token());
    let emit = (emit, prop::sample::select(&Offload::ALL[..]), tenant);
    let nodes_and_home =
        (option::of(nodes(1)), prop::sample::select(&HomeRule::ALL[..]), numaloc_core::NEAR_BOUNDS);
    let room = (
        prop::sample::select(&HugetlbSource::ALL[..]),
        prop::sample::select(&MakeRoom::ALL[..]),
        prop::sample::select(&Compact::ALL[..]),
    );
    let pace = (pacing, order, balancing, room, nodes_and_home);
    (options, qos_class(), on_interrupt, emit, pace).prop_map(
        |(options, qos_class, on_interrupt, (emit, offload, tenant), pace)| {
            let (
                pacing,
                order,
                numa_balancing,
                (hugetlb, make_room, compact),
                (from, home, near_distance),
            ) = pace;
            let (
                [include_shared, exclude_file, include_network, include_bound, include_gigantic],
                target_ratio,
                place,
                reserve_bytes,
            ) = options;
            let (to, placement, maps) = place;
            let is_plain = target_ratio == 100 && placement == Placement::Home && maps.is_empty();
            let bound = match include_shared {
                true => ReliefBound::Free { below_bytes: near_distance, until_bytes: 1 << 40 },
                false => ReliefBound::Traffic {
                    above_bytes_per_second: 1 << 40,
                    until_bytes_per_second: near_distance,
                },
            };
            let relief = (from.is_none() && is_plain).then(|| Relief {
                returning_bytes: include_bound.then_some(near_distance),
                return_after: Duration::from_millis(near_distance),
                ..Relief::within(NodeId(17), bound)
            });
            let options = Options {
                include_shared,
                exclude_file,
                include_network,
                include_bound,
                include_gigantic,
                hugetlb,
                make_room,
                compact,
                pacing,
                order,
                target_ratio,
                to,
                placement,
                maps,
                from,
                home,
                near_distance,
                reserve_bytes,
                pool_reserve_percent: target_ratio,
                node_bandwidth_max_bytes_per_second: include_shared.then_some(1 << 36),
                saturated: Default::default(),
                relief,
            };
            Policy { options, qos_class, on_interrupt, numa_balancing, offload, emit, tenant }
        },
    )
}

fn limits() -> impl Strategy<Value = Limits> {
    let batch_bytes = option::of(4096..=1_u64 << 30);
    let rate = option::of(4096..1_u64 << 60);
    (batch_bytes, option::of(1..=256_usize), option::of(span(1..1000)), rate).prop_map(
        |(batch_bytes, workers, timeout, rate_bytes_per_second)| Limits {
            batch_bytes,
            workers,
            timeout,
            hourly_budget_bytes: rate_bytes_per_second.filter(|rate| rate % 2 == 0),
            rate_bytes_per_second,
        },
    )
}

fn migration() -> impl Strategy<Value = MigrationSpec> {
    (target(), policy(), limits()).prop_map(|(target, policy, limits)| MigrationSpec {
        target,
        policy,
        limits,
    })
}

pub fn job() -> impl Strategy<Value = Job> {
    let id = token().prop_map(|id| JobId::new(&id).unwrap());
    let schedule = option::of(token().prop_map(|id| ScheduleId::new(&id).unwrap()));
    let wanted = option::of(prop::sample::select(&[JobState::Cancelled, JobState::Paused][..]));
    let state = (prop::sample::select(&JobState::ALL[..]), wanted, words());
    let who = (words(), any::<Option<u32>>(), option::of(token()), option::of(token()));
    let times = (time(), option::of(time()), option::of(time()));
    let plan = option::of(Just(Arc::new(PlanSummary::from(&super::answers::plan()))));
    let far = (option::of(progress()), plan, option::of(outcome().prop_map(Arc::new)));
    let who = (who, pins(), (members(), 0..10_000_usize), labels());
    (id, migration(), state, schedule, who, times, far).prop_map(
        |(id, spec, state, schedule, who, times, far)| {
            let ((creator, creator_gid, requester, request_id), pins, members, labels) = who;
            let (members, more_members) = members;
            let (state, wanted, state_message) = state;
            let ((created, started, ended), (progress, plan, outcome)) = (times, far);
            Job {
                id,
                spec,
                state,
                wanted,
                state_message,
                schedule,
                creator,
                creator_gid,
                pins,
                members,
                more_members,
                labels,
                requester,
                request_id,
                joined: Vec::new(),
                created,
                started,
                ended,
                progress,
                plan,
                outcome,
            }
        },
    )
}

pub fn schedule() -> impl Strategy<Value = Schedule> {
    use ScheduleState as State;
    let states = [State::Waiting, State::Active, State::TargetGone, State::Paused];
    let state = prop::sample::select([&states[..], &[State::Completed]].concat());
    let spec = (migration(), prop_oneof![Just(Duration::ZERO), span(1..9999)], any::<bool>());
    let spec = (spec, 0..=100_u32, option::of(span(0..9999)), labels());
    let id = token().prop_map(|id| ScheduleId::new(&id).unwrap());
    let last_job = option::of(token().prop_map(|id| JobId::new(&id).unwrap()));
    let maybe = || option::of(time());
    let times = (maybe(), maybe(), maybe(), time(), time());
    let nodes = (0..1024_u32).prop_map(NodeId);
    let relieved = (prop::collection::btree_map(nodes, 1..1_u64 << 50, 0..3), maybe());
    let hour = (0..1_u64 << 50, maybe());
    let relieved = (relieved, hour);
    let times = (times, relieved);
    let who =
        (words(), any::<Option<u32>>(), option::of(token()), words(), pins(), option::of(path()));
    (id, spec, state, words(), last_job, times, who).prop_map(
        |(id, spec, state, state_message, last_job, times, who)| {
            let ((migration, interval, paused), percent, ttl_after_gone, labels) = spec;
            let jitter = interval * percent / 100;
            let (times, ((relieved, relieved_at), (hour_moved_bytes, hour_start))) = times;
            let (last_run, next_run, gone, created, updated) = times;
            let (creator, creator_gid, request_id, etag, pins, declared_in) = who;
            Schedule {
                id,
                spec: ScheduleSpec { migration, interval, jitter, ttl_after_gone, paused, labels },
                state,
                state_message,
                last_job,
                last_run,
                next_run,
                gone,
                created,
                updated,
                creator,
                creator_gid,
                pins,
                request_id,
                request_digest: 0,
                etag,
                declared_in,
                relieved,
                relieved_at,
                hour_moved_bytes,
                hour_start,
            }
        },
    )
}

pub fn workload() -> impl Strategy<Value = Workload> {
    let id = token().prop_map(|id| WorkloadId::new(&id).unwrap());
    let maybe = || option::of(token());
    let ids = (maybe(), maybe(), maybe(), maybe());
    let times = (time(), option::of(time()), option::of(span(1..9999)));
    let who = (words(), option::of(any::<u32>()), words());
    (id, path(), ids, labels(), qos_class(), times, who).prop_map(
        |(id, cgroup, ids, labels, qos_class, (created, expires, ttl), who)| {
            let (container_id, pod_uid, namespace, source) = ids;
            let spec = WorkloadSpec {
                id,
                cgroup,
                container_id,
                pod_uid,
                namespace,
                labels,
                qos_class,
                source,
                ttl,
            };
            let (creator, creator_gid, etag) = who;
            let request_id = None;
            Workload { spec, created, creator, creator_gid, etag, request_id, expires }
        },
    )
}

pub fn event() -> impl Strategy<Value = Event> {
    let kind = prop::sample::select(&EventType::ALL[..]);
    let job = option::of(token().prop_map(|id| JobId::new(&id).unwrap()));
    let schedule = option::of(token().prop_map(|id| ScheduleId::new(&id).unwrap()));
    let percent = || option::of(0.0..=100.0_f64);
    let ratios = (percent(), percent(), option::of(bytes()));
    // An event is about one target, or about the host.
    let about = prop_oneof![
        (job, schedule, target()),
        Just((None::<JobId>, None::<ScheduleId>, Target::default())),
    ];
    let what = (any::<u64>(), kind, time(), about);
    let more = (0..9_usize, 0..9_usize, option::of(any::<u32>()));
    let who = (words(), labels(), failed(), members(), more);
    (what, nodes(0), nodes(0), ratios, who, words()).prop_map(
        |(what, from, to, ratios, (creator, labels, failed, members, more), message)| {
            let (more_members, more_target_names, creator_gid) = more;
            let (number, kind, time, (job, schedule, target)) = what;
            let (before_percent, after_percent, remote_bytes) = ratios;
            Event {
                number,
                kind,
                time,
                job,
                schedule,
                creator,
                labels,
                target,
                from,
                to,
                before_percent,
                after_percent,
                remote_bytes,
                failed,
                members,
                more_members,
                more_target_names,
                creator_gid,
                message,
            }
        },
    )
}
