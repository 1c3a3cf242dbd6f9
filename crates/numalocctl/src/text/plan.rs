//! Prints the answers of `numalocctl plan` as text.

use super::{
    attached::attached,
    benefit::benefit,
    by_use::by_use,
    cells::{fixed, kind, page_tables, process, skip, source, why},
    colour::{self, Style},
    files::files_of,
    held::held,
    homes::homes,
    left_out::{found_members, left_out},
    named::{Stage, named},
    one_sided::one_sided,
    policy::asked,
    sharing::sharing,
    table::{Table, list},
    wide::warnings,
};
use crate::{
    fields::{self, amount},
    output::View,
    units::{percent, seconds, size},
};
use numaloc_api::{v1, value::Policy};
use numaloc_core::{HeatSource, HugetlbSource, MakeRoom, Options, Placement};
use std::{cmp::Reverse, fmt::Write};

/// Rows of one table that are shown without `-o wide`.
const ROWS: usize = 20;

/// The memory that would move, and the members left out; then its places, largest first, and other facts. `topology`
/// has the distances, `limits` the bounds of the move.
pub fn plan(
    answer: &v1::PlanMigrationResponse,
    topology: &v1::Topology,
    limits: &v1::Limits,
    view: View,
) -> String {
    let mut text = plan_alone(answer, topology, limits, view);
    let is_of_files = answer.plan.as_ref().is_some_and(|plan| plan.files.is_some());
    let options = Policy::from(answer.policy.clone().unwrap_or_default()).options;
    let asked = asked(&options);
    if view.wide && !view.rows_alone() && !is_of_files && !asked.is_empty() {
        let _ = writeln!(text, "options: {}", asked.join(", "));
    }
    text
}

/// The same without the options.
pub fn plan_alone(
    answer: &v1::PlanMigrationResponse,
    topology: &v1::Topology,
    limits: &v1::Limits,
    view: View,
) -> String {
    let none = v1::Plan::default();
    let plan = answer.plan.as_ref().unwrap_or(&none);
    if let Some(cached) = &plan.files {
        return files_of(cached, &answer.missing, view);
    }
    let options = Policy::from(answer.policy.clone().unwrap_or_default()).options;
    if view.rows_alone() {
        return tables(plan, view).trim_start().to_owned();
    }
    let mut text = head(plan, &options, limits);
    text += &found_members(&answer.found);
    text += &left_out(&answer.missing);
    text += &skips(&plan.processes, view);
    text += &named(&plan.named, answer.policy.as_ref(), Stage::Planned);
    text += &tables(plan, view);
    text += &homes(&plan.processes, view);
    for route in &plan.routes {
        let _ = writeln!(text, "route: {}", route_text(route, topology));
    }
    totals(&mut text, plan, &options);
    colour::words(&text, view, |line| {
        let named = |name| line.starts_with(name).then_some((name, Style::Warning));
        let warning = ["left out:", "skipped:", "no room:", "warning:", "exposed:"]
            .into_iter()
            .find_map(named);
        let is_answer = line.starts_with("would move:") || line == "nothing to move";
        warning.or(is_answer.then_some((line, Style::Heading)))
    })
}

/// The answer: how much would move from where to where, what that changes, and how long it takes.
fn head(plan: &v1::Plan, options: &Options, limits: &v1::Limits) -> String {
    let shares = change(
        [plan.movable_before, plan.movable_after],
        [plan.overall_before, plan.overall_after],
    );
    let share = share_name(options);
    if plan.moves.is_empty() {
        return format!("nothing to move\n{share}: {shares}\n");
    }
    let to_move: i64 = plan.moves.iter().map(|sum| sum.remote_bytes).sum();
    let of = match plan.expected_bytes < to_move {
        true => format!(" of {} that could", size(to_move)),
        false => String::new(),
    };
    let flows = plan.expected_flows.iter();
    let flows = flows.map(|flow| {
        let (from, to, bytes) = (flow.from_node_id, flow.to_node_id, size(flow.bytes));
        let bytes = if plan.expected_flows.len() > 1 { bytes + " " } else { String::new() };
        format!("{bytes}node {from} -> {to}")
    });
    let flows = match flows.collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => none,
        flows => format!(": {flows}"),
    };
    let expected = size(plan.expected_bytes);
    let takes = takes(plan, options, limits);
    let brings = plan.benefit.as_ref().and_then(benefit);
    let brings = brings.map(|brings| format!("benefit: {brings}\n")).unwrap_or_default();
    format!("would move: {expected}{of}{flows}\n{share}: {shares}\n{takes}{brings}")
}

/// The duration at the profile's pace or at the rate of the limits, and whether it is longer than they allow.
fn takes(plan: &v1::Plan, options: &Options, limits: &v1::Limits) -> String {
    let paced = fields::seconds(plan.expected_duration);
    let by_rate = limits
        .rate_bytes_per_second
        .map_or(0.0, |rate| amount(plan.expected_bytes) as f64 / amount(rate).max(1) as f64);
    let by_cache = plan.expected_room.iter().any(|room| room.cache_bytes > 0);
    let pace = match limits.rate_bytes_per_second {
        Some(rate) if by_rate > paced => format!("at {}/s", size(rate)),
        _ => {
            let profile = options.pacing.profile.name();
            let cache = if by_cache { ", with dropping page cache" } else { "" };
            format!("with profile {profile}{cache}")
        }
    };
    let time = paced.max(by_rate);
    let bound = fields::seconds(limits.timeout);
    let late = match bound > 0.0 && time > bound {
        true => format!("; --timeout ends it after {}", seconds(bound)),
        false => String::new(),
    };
    format!("takes: about {} {pace}{late}\n", seconds(time))
}

/// The memory that would move, and with all columns the memory that stays, with an empty line before and after it.
fn tables(plan: &v1::Plan, view: View) -> String {
    let moves = match &plan.extent_moves[..] {
        [] => move_sums(plan, view),
        moves => extents(moves, view),
    };
    let stays = match &plan.skipped_extents[..] {
        _ if !view.wide => String::new(),
        [] => skip_sums(plan, view),
        extents => skipped(extents, plan.source(), view),
    };
    let all = [moves, stays].into_iter().filter(|table| !table.is_empty());
    let all: Vec<String> = all.map(|table| format!("\n{table}")).collect();
    let gap = if all.is_empty() || view.rows_alone() { "" } else { "\n" };
    all.concat() + gap
}

/// Weights that were looked up, with where they are from.
fn weights(plan: &v1::Plan) -> String {
    let source = match plan.weight_source() {
        v1::WeightSource::Kernel => "the kernel's, /sys/kernel/mm/mempolicy/weighted_interleave",
        v1::WeightSource::Hmat => "by the bandwidths of HMAT",
        v1::WeightSource::Bench => "by the bandwidths of numalocctl bench",
        v1::WeightSource::Unspecified => return String::new(),
    };
    let weights = plan.weights.iter().map(|on| format!("{}={}", on.node_id, on.weight));
    format!("weights: {} ({source})\n", weights.collect::<Vec<_>>().join(","))
}

fn totals(text: &mut String, plan: &v1::Plan, options: &Options) {
    text.push_str(&weights(plan));
    text.push_str(&by_use(plan.tier_use));
    text.push_str(&warnings(plan));
    if !plan.moves.is_empty() {
        let _ = writeln!(text, "order: {}", order(plan.order()));
    }
    if let Some(limit_bytes) = plan.limit_bytes {
        let limit = size(limit_bytes);
        let enough = match &options.relief {
            Some(relief) => format!("node {} needs no more", relief.node),
            None => format!("{} % local is enough", options.target_ratio),
        };
        let _ = writeln!(text, "limit: {enough}, so it ends after {limit}");
    }
    rooms(text, &plan.expected_room);
    if plan.nearer_bytes > 0 {
        let bytes = size(plan.nearer_bytes);
        let _ =
            writeln!(text, "nearer: {bytes} find no room at home, and go to nodes nearer to it");
    }
    if plan.no_room_bytes > 0 {
        let _ = writeln!(text, "no room: {} do not fit now", size(plan.no_room_bytes));
        if options.make_room == MakeRoom::MoveCache {
            text.push_str("room: how much page cache can go to other nodes shows when it moves\n");
        }
    }
    if plan.unasked_bytes > 0 {
        let _ = writeln!(
            text,
            "policies: not looked up for {}, because that would block the process; a migration looks them up, and leaves what is bound",
            size(plan.unasked_bytes)
        );
    }
    text.push_str(&beyond_pool(plan, options.hugetlb));
    for left in &plan.left {
        let _ = writeln!(text, "stays: {}: {}", size(left.bytes), why(left.reason, plan.source()));
    }
    text.push_str(&sharing(plan));
    fixed(text, &plan.fixed);
    *text += &page_tables(&plan.processes);
    if plan.unplaced_bytes > 0 {
        let _ = writeln!(text, "unplaced: {} on no known node", size(plan.unplaced_bytes));
    }
    text.push_str(&attached(&plan.unmapped, plan.unseen_bytes));
    text.push_str(&held(&plan.held_files));
    text.push_str(&one_sided(&plan.one_sided));
    if let Some(source) = source(plan.source()) {
        let _ = writeln!(text, "source: {source}");
    }
}

fn rooms(text: &mut String, rooms: &[v1::NodeRoom]) {
    for room in rooms.iter().filter(|room| room.cache_bytes > 0) {
        let (node, free, cache) = (room.node_id, size(room.free_bytes), size(room.cache_bytes));
        let _ =
            writeln!(text, "room: node {node}: {free} free, {cache} by dropping unused page cache");
    }
    for room in rooms.iter().filter(|room| room.demotes && room.cache_bytes > 0) {
        let _ = writeln!(
            text,
            "room: node {}: the kernel demotes memory of this node to a lower tier, also that of others, before it drops page cache (demotion_enabled)",
            room.node_id
        );
    }
    for room in rooms.iter().filter(|room| room.protected_bytes > 0) {
        let (node, protected) = (room.node_id, size(room.protected_bytes));
        let _ = writeln!(
            text,
            "room: node {node}: {protected} of page cache stay, because cgroups protect them (memory.min, memory.low)"
        );
    }
    for room in rooms.iter().filter(|room| room.exchange_bytes > 0) {
        let (node, bytes) = (room.node_id, size(room.exchange_bytes));
        let _ = writeln!(text, "room: node {node}: {bytes} in exchange for others' memory");
    }
    for (room, &page) in rooms
        .iter()
        .flat_map(|room| room.used_up_pool_page_bytes.iter().map(move |page| (room, page)))
    {
        let (node, page) = (room.node_id, size(page));
        let _ = writeln!(
            text,
            "hugetlb: this takes the last free pages of {page} of node {node}: a process that is bound there and maps them without a reservation gets SIGBUS (--pool-reserve keeps some)"
        );
    }
}

fn order(order: v1::MoveOrder) -> HeatSource {
    match order {
        v1::MoveOrder::Damon => HeatSource::Damon,
        v1::MoveOrder::Referenced => HeatSource::Referenced,
        v1::MoveOrder::Unspecified | v1::MoveOrder::Probed | v1::MoveOrder::Address => {
            HeatSource::Address
        }
    }
}

/// Names the hugetlb memory that the pools have no pages for, and what will happen to it.
fn beyond_pool(plan: &v1::Plan, source: HugetlbSource) -> String {
    let bytes = size(plan.beyond_pool_bytes);
    match (plan.beyond_pool_bytes, source) {
        (0, _) => String::new(),
        (_, HugetlbSource::Fresh) => format!(
            "hugetlb: {bytes} come fresh from free memory: the targets' pools grow permanently, the sources' shrink\n"
        ),
        (_, HugetlbSource::Pool) => format!(
            "hugetlb: {bytes} of it are more than the targets' pools have (--hugetlb fresh takes free memory)\n"
        ),
    }
}

/// The name of a share: where the request names the nodes, memory there need not be local to the CPUs.
pub fn share_name(options: &Options) -> &'static str {
    match (&options.to, &options.placement) {
        (_, Placement::Tiers(_)) => "on their tier",
        (Some(_), _) => "on target",
        (None, _) => "local",
    }
}

/// The shares before and after, such as `50.0 % -> 100.0 %`, of movable and of all memory.
pub fn change(movable: [Option<v1::Share>; 2], overall: [Option<v1::Share>; 2]) -> String {
    let arrow = |shares: [Option<v1::Share>; 2]| {
        let [from, to] = shares.map(|share| share.map(|share| percent(share.local_percent)));
        let (from, to) = (from.unwrap_or("?".to_owned()), to.map(|to| format!("{to} %")));
        format!("{from} % -> {}", to.unwrap_or("unknown".to_owned()))
    };
    let near = match movable {
        [Some(before), Some(after)] if before.near_bytes + after.near_bytes > 0 => {
            let [before, after] = [before, after].map(|share| percent(near_percent(share)));
            format!("\nnear: {before} % -> {after} % of the movable memory")
        }
        _ => String::new(),
    };
    let demoted = match overall[0].map_or(0, |before| before.demoted_bytes) {
        0 => String::new(),
        bytes => format!("\ndemoted: {} on a lower tier stay there", size(bytes)),
    };
    format!(
        "{} of the movable memory, {} of all memory{near}{demoted}",
        arrow(movable),
        arrow(overall)
    )
}

/// The part of a share that is near, in percent.
pub fn near_percent(share: v1::Share) -> f64 {
    let all = share.local_bytes.saturating_add(share.remote_bytes);
    let share = |all: i64| share.near_bytes as f64 * 100.0 / all as f64;
    if all > 0 { share(all) } else { 0.0 }
}

/// The part of a share that is near, if there is any, as a part of a sentence.
pub fn near(share: v1::Share) -> String {
    match share.near_bytes {
        0 => String::new(),
        _ => format!("{} % near, ", percent(near_percent(share))),
    }
}

/// A line for each process that is skipped.
pub fn skips(processes: &[v1::ProcessLocality], view: View) -> String {
    let mut text = String::new();
    let skipped = processes.iter().filter_map(|each| Some((each, skip(each)?)));
    let shown = if view.wide { usize::MAX } else { ROWS };
    for (each, reason) in skipped.clone().take(shown) {
        let who = process(each.process, &each.comm);
        let _ = writeln!(text, "skipped: {reason} for process {who}");
    }
    let more = skipped.count().saturating_sub(shown);
    if more > 0 {
        let _ = writeln!(text, "... and {more} more skipped (-o wide shows all)");
    }
    text
}

/// `node 2 -> 0 (distance 21), then 1 (31)`.
fn route_text(route: &v1::Route, topology: &v1::Topology) -> String {
    let from = topology.nodes.iter().find(|node| node.node_id == route.from_node_id);
    let distances = from.map_or(&[][..], |from| &from.distances);
    let mut text = format!("node {} -> ", route.from_node_id);
    for (index, &to) in route.to_node_ids.iter().enumerate() {
        let distance = distances.iter().find(|each| each.node_id == to);
        let distance = distance.map_or(0, |to| to.distance);
        let _ = match index {
            0 => write!(text, "{to} (distance {distance})"),
            _ => write!(text, ", then {to} ({distance})"),
        };
    }
    if route.to_node_ids.len() > 1 {
        text += ": nearest first, then most free memory";
    }
    if !route.nearer_node_ids.is_empty() {
        let _ = write!(text, "; what finds no room goes to {}", list(&route.nearer_node_ids));
    }
    text
}

/// The memory that will move, for plans that have only sums.
fn move_sums(plan: &v1::Plan, view: View) -> String {
    let mut table = Table::new().numbers("BYTES").words("KIND").numbers("EXTENTS");
    table = table.numbers("LENGTH").numbers("SHARED");
    for sum in &plan.moves {
        let (kind, extents) = (kind(sum.kind()), sum.extents.to_string());
        let (length, shared) = (size(sum.length_bytes), size(sum.shared_bytes));
        table.row(vec![size(sum.remote_bytes), kind, extents, length, shared]);
    }
    table.render(view)
}

/// The memory that stays, for plans that have only sums.
fn skip_sums(plan: &v1::Plan, view: View) -> String {
    let mut table = Table::new().numbers("STAYS").words("WHY").words("KIND").numbers("EXTENTS");
    for sum in &plan.skipped {
        let (bytes, kind) = (size(sum.remote_bytes), kind(sum.kind()));
        table.row(vec![bytes, why(sum.reason, plan.source()), kind, sum.extents.to_string()]);
    }
    table.render(view)
}

fn extents(moves: &[v1::ExtentMove], view: View) -> String {
    let mut table = Table::new().numbers("BYTES").numbers("FROM").words("TO").words("KIND");
    if view.wide {
        table = table.numbers("LENGTH").numbers("HUGETLB").numbers("SHARED");
    }
    table = table.words("PID").words("ADDRESS").words("NAME");
    let mut rows: Vec<_> = moves
        .iter()
        .flat_map(|extent| extent.remote.iter().zip(&extent.routes).map(move |pair| (extent, pair)))
        .collect();
    rows.sort_by_key(|(_, (remote, _))| Reverse(remote.bytes));
    let shown = if view.wide { rows.len() } else { rows.len().min(ROWS) };
    for (extent, (remote, route)) in &rows[..shown] {
        let (from, to) = (remote.node_id.to_string(), list(&route.to_node_ids));
        let mut row = vec![size(remote.bytes), from, to, kind(extent.kind())];
        if view.wide {
            let page = extent.hugetlb_page_bytes.map_or("-".to_owned(), size);
            row.extend([size(extent.length_bytes), page, size(extent.shared_bytes)]);
        }
        row.extend(place(&extent.mappings, &extent.name));
        table.row(row);
    }
    let mut text = table.render(view);
    if shown < rows.len() && !view.rows_alone() {
        let bytes: u64 = rows[shown..].iter().map(|(_, (remote, _))| amount(remote.bytes)).sum();
        let more = rows.len() - shown;
        let _ = writeln!(text, "... and {more} more with {} (-o wide shows all)", size(bytes));
    }
    text
}

fn skipped(extents: &[v1::SkippedExtent], source: v1::PageSource, view: View) -> String {
    let mut table = Table::new().numbers("STAYS").words("WHY").words("KIND");
    table = table.words("PID").words("ADDRESS").words("NAME");
    let mut rows: Vec<_> = extents.iter().collect();
    rows.sort_by_key(|skipped| Reverse(skipped.remote_bytes));
    for skipped in rows {
        let mut row =
            vec![size(skipped.remote_bytes), why(skipped.reason, source), kind(skipped.kind())];
        row.extend(place(skipped.mapping.as_slice(), &skipped.name));
        table.row(row);
    }
    table.render(view)
}

/// The first process that maps it, the number of further processes, the address in the first one, and the name.
fn place(mappings: &[v1::ExtentMapping], name: &str) -> [String; 3] {
    let name = if name.is_empty() { "-" } else { name }.to_owned();
    let Some((first, more)) = mappings.split_first() else {
        return ["-".to_owned(), "-".to_owned(), name];
    };
    let others = if more.is_empty() { String::new() } else { format!(" +{}", more.len()) };
    [format!("{}{others}", first.pid), format!("{:#x}", first.start_address), name]
}
