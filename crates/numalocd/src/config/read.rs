//! The keys of the configuration, and their allowed values.

use super::{
    Calls, Ceilings, Config, Fault, Grant, Grantee, Listen, NOBODY, Problem, Queue, Quota,
    Reserved, Retention, Role, Socket, Stop,
    section::{Report, Section},
    units::{
        address, cgroups, count, devices, flag, group, mode, names, path, size, socket, span,
        spiffe, text, user,
    },
};
use crate::{
    log::Levels,
    tls::{Keys, Pem, Tls},
};
use numaloc_api::value::{Limits, QosClass};
use numaloc_core::Profile;
use numaloc_dma::{Dma, WorkQueues, kernel::Settings};
use numaloc_executor::Scheduling;
use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};
use toml::de::{DeTable, DeValue};

const DAY: Duration = Duration::from_secs(24 * 3600);
const MANY: u64 = 10_000_000;

/// Reads a configuration, and the accounts and TLS files that it names.
pub(super) fn read(from: &str) -> Result<Config, Vec<Problem>> {
    let report = Report::new(from);
    let (document, errors) = DeTable::parse_recoverable(from);
    for error in &errors {
        let line = error.span().map_or(1, |span| report.line(span));
        report.note(line, String::new(), Fault::Syntax(error.message().to_owned()));
    }
    if !errors.is_empty() {
        return report.conclude(Config::default());
    }
    let config = Section::document(&report, document.into_inner(), |root| {
        let (mut seen, mut reserved) = (Vec::new(), Vec::new());
        let tls_line = |at: &Section<'_>| at.has("tls").then(|| at.line_of("tls"));
        let (tls_line, listen) = root.within("listen", |at| (tls_line(at), listen(at)));
        let config = Config {
            listen,
            queue: root.within("queue", queue),
            mover: root.within("mover", mover),
            limits: root.within("limits", limits),
            quota: root.within("quota", quota),
            calls: root.within("calls", calls),
            retention: root.within("retention", retention),
            offload: root.within("offload", offload),
            grants: {
                let grants = root.each("grants", |at| grant(at, &mut seen, &mut reserved));
                grants.into_iter().flatten().collect()
            },
            reserved,
            metrics: root.within("metrics", |at| metrics(at, tls_line.is_some())),
            log: root.within("log", |at| at.read("level", levels)).unwrap_or_default(),
            stop: root.within("stop", stop),
            dsa: root.within("dsa", dsa),
        };
        let beyond = config.metrics.is_some_and(|address| !address.ip().is_loopback());
        if let (Some(line), None, false) = (tls_line, config.listen.tcp, beyond) {
            root.complain_at(line, "listen.tls", Fault::UnusedTls);
        }
        config
    });
    report.conclude(config)
}

fn listen(at: &mut Section<'_>) -> Listen {
    let default = Listen::default();
    let path = at.read("socket", socket).unwrap_or(default.socket);
    let mut others = vec![path.clone()];
    let (tcp, tls) = tcp(at);
    Listen {
        mode: at.read("mode", mode).unwrap_or(default.mode),
        group: at.read("group", group_of_socket),
        sockets: at.each("sockets", |at| further(at, &mut others)).into_iter().flatten().collect(),
        socket: path,
        tcp,
        tls,
    }
}

/// An additional socket. `others` has the paths of the sockets before it, the main one first.
fn further(at: &mut Section<'_>, others: &mut Vec<PathBuf>) -> Option<Socket> {
    let path_line = at.line_of("path");
    let path = at.require("path", socket);
    let mode = at.read("mode", mode).unwrap_or(Listen::default().mode);
    let group = at.read("group", group_of_socket);
    let max_role = at.require("max_role", role);
    let path = path?;
    let is_below = |path: &Path, other: &Path| {
        path.parent().is_some_and(|directory| other.starts_with(directory))
    };
    // No socket may be in or below the directory of another. The exception: an additional socket may be below the directory of
    // the main one, because that directory is never mounted into a container.
    let (main, before) = others.split_first()?;
    let shared = before.iter().find(|other| is_below(&path, other) || is_below(other, &path));
    let shared = shared.or(Some(main).filter(|main| is_below(&path, main)));
    if let Some(other) = shared {
        at.complain_at(path_line, "path", Fault::SharedDirectory(other.display().to_string()));
    }
    others.push(path.clone());
    Some(Socket { path, mode, group, max_role: max_role? })
}

/// A group name is checked here but kept as a name, because it is looked up again when the socket is made.
fn group_of_socket(value: &DeValue<'_>) -> Result<String, Fault> {
    group(value)?;
    Ok(value.as_str().map_or_else(|| number(value), str::to_owned))
}

fn number(value: &DeValue<'_>) -> String {
    value.as_integer().map(|number| number.as_str().to_owned()).unwrap_or_default()
}

fn tcp(at: &mut Section<'_>) -> (Option<SocketAddr>, Option<Tls>) {
    let (has_tcp, has_tls) = (at.has("tcp"), at.has("tls"));
    let (tcp_line, plain_line) = (at.line_of("tcp"), at.line_of("plain_loopback"));
    let address = at.read("tcp", address);
    let plain = at.read("plain_loopback", flag).unwrap_or(false);
    let tls = at.optional("tls", tls).flatten();
    if plain && has_tls {
        at.complain_at(plain_line, "plain_loopback", Fault::PlainAndTls);
    }
    if !has_tcp && plain {
        at.complain_at(plain_line, "plain_loopback", Fault::WithoutTcp);
    }
    match (address, has_tls, plain) {
        (Some(_), false, false) => at.complain_at(tcp_line, "tcp", Fault::Plain),
        (Some(address), false, true) if !address.ip().is_loopback() => {
            at.complain_at(tcp_line, "tcp", Fault::PlainBeyondLoopback(address));
        }
        _ => {}
    }
    (address, tls)
}

fn tls(at: &mut Section<'_>) -> Option<Tls> {
    let certificate = at.require("certificate", |value| pem(value, Pem::Certificate));
    let key = at.require("key", |value| pem(value, Pem::Key));
    let client_ca = at.require("client_ca", |value| pem(value, Pem::Certificate));
    let tls = Tls { certificate: certificate?, key: key?, client_ca: client_ca? };
    if let Err(error) = Keys::read(&tls) {
        at.complain("", Fault::Tls(error));
    }
    Some(tls)
}

fn pem(value: &DeValue<'_>, kind: Pem) -> Result<PathBuf, Fault> {
    let path = path(value)?;
    kind.read(&path)?;
    Ok(path)
}

fn queue(at: &mut Section<'_>) -> Queue {
    let default = Queue::default();
    Queue {
        moves: at.read("moves", count(1..=256)).unwrap_or(default.moves),
        plans: at.read("plans", count(1..=256)).unwrap_or(default.plans),
        moves_per_node: at.read("moves_per_node", count(1..=256)).unwrap_or(default.moves_per_node),
        rate_bytes_per_second: at.read("rate_bytes_per_second", rate),
    }
}

/// The bounds are those of the rate in a request.
fn rate(value: &DeValue<'_>) -> Result<u64, Fault> {
    size(numaloc_core::PAGE..=i64::MAX.unsigned_abs())(value)
}

fn mover(at: &mut Section<'_>) -> Scheduling {
    let default = Scheduling::default();
    Scheduling {
        batch: at.read("scheduling", is_batch).unwrap_or(default.batch),
        nice: at.read("nice", count(0..=19)).or(default.nice),
    }
}

fn is_batch(value: &DeValue<'_>) -> Result<bool, Fault> {
    match text(value)? {
        "batch" => Ok(true),
        "other" => Ok(false),
        other => Err(Fault::Form {
            text: other.to_owned(),
            wanted: "scheduling: there are batch and other, see sched(7)",
        }),
    }
}

/// The bounds are those of the limits in a request.
fn limits(at: &mut Section<'_>) -> Limits {
    let page = numaloc_core::PAGE;
    let most = i64::MAX.unsigned_abs();
    Limits {
        batch_bytes: at.read("batch_bytes", size(page..=1 << 30)),
        workers: at.read("workers", count(1..=256)),
        timeout: at.read("timeout", span(Duration::from_millis(1)..=366 * DAY)),
        rate_bytes_per_second: at.read("rate_bytes_per_second", size(page..=most)),
    }
}

fn quota(at: &mut Section<'_>) -> Quota {
    let default = Quota::default();
    let rate = at.read("requests_per_second", count(1..=1_000_000));
    Quota {
        open_jobs: at.read("open_jobs", count(1..=MANY)).unwrap_or(default.open_jobs),
        schedules: at.read("schedules", count(1..=MANY)).unwrap_or(default.schedules),
        workloads: at.read("workloads", count(1..=MANY)).unwrap_or(default.workloads),
        bytes: at.read("bytes", bytes).unwrap_or(default.bytes),
        all_bytes: at.read("all_bytes", bytes).unwrap_or(default.all_bytes),
        watches: at.read("watches", count(1..=MANY)).unwrap_or(default.watches),
        requests_per_second: rate.unwrap_or(default.requests_per_second),
    }
}

fn calls(at: &mut Section<'_>) -> Calls {
    let default = Calls::default();
    let range = Duration::from_secs(1)..=Duration::from_secs(3600);
    Calls {
        timeout: at.read("timeout", span(range.clone())).unwrap_or(default.timeout),
        long_timeout: at.read("long_timeout", span(range.clone())).unwrap_or(default.long_timeout),
        take_timeout: at.read("take_timeout", span(range)).unwrap_or(default.take_timeout),
    }
}

fn retention(at: &mut Section<'_>) -> Retention {
    let default = Retention::default();
    let age = at.read("age", span(Duration::from_secs(60)..=3660 * DAY));
    Retention {
        age: age.unwrap_or(default.age),
        jobs: at.read("jobs", count(1..=MANY)).unwrap_or(default.jobs),
        events: at.read("events", count(1..=MANY)).unwrap_or(default.events),
        bytes: at.read("bytes", bytes).unwrap_or(default.bytes),
    }
}

/// The lower bound is the size of the largest request.
fn bytes(value: &DeValue<'_>) -> Result<usize, Fault> {
    let bytes = size(1 << 20..=1 << 40)(value)?;
    Ok(usize::try_from(bytes).unwrap_or(usize::MAX))
}

fn offload(at: &mut Section<'_>) -> Dma {
    let enable = at.read("enable", flag).unwrap_or(false);
    let polling = at.read("polling", flag).unwrap_or(false);
    let channels_max = at.read("channels_max", count(1..=16));
    match enable {
        true => Dma::Enabled(Settings { polling, channels_max }),
        false => Dma::Disabled,
    }
}

fn stop(at: &mut Section<'_>) -> Stop {
    let grace = at.read("grace", span(Duration::from_millis(100)..=Duration::from_secs(300)));
    Stop { grace: grace.unwrap_or(Stop::default().grace) }
}

fn dsa(at: &mut Section<'_>) -> WorkQueues {
    let devices_line = at.line_of("devices");
    let manage = at.read("manage_work_queue", flag).unwrap_or(false);
    let devices = at.read("devices", devices).unwrap_or_default();
    if !manage && !devices.is_empty() {
        at.complain_at(devices_line, "devices", Fault::UnusedDevices);
    }
    match manage {
        true => WorkQueues::Enabled(devices),
        false => WorkQueues::Disabled,
    }
}

fn grant(
    at: &mut Section<'_>,
    seen: &mut Vec<Grantee>,
    reserved: &mut Vec<Reserved>,
) -> Option<Grant> {
    let keys = ["user", "group", "certificate", "spiffe"];
    let given = keys.into_iter().filter(|key| at.has(key)).count();
    let user = at.read("user", user).map(Grantee::Uid);
    let group = at.read("group", group).map(Grantee::Gid);
    let certificate = at.read("certificate", certificate).map(Grantee::Certificate);
    let spiffe = at.read("spiffe", spiffe).map(Grantee::Spiffe);
    let role = at.require("role", role);
    let cgroups_line = at.line_of("cgroups");
    let cgroups = at.read("cgroups", cgroups).unwrap_or_default();
    let names_line = at.line_of("names");
    let names = at.read("names", names).unwrap_or_default();
    let ceilings_line = at.line_of("ceilings");
    let ceilings = at.optional("ceilings", ceilings);
    if given != 1 {
        at.complain("", Fault::Grantee);
    }
    let (to, role) = (user.or(group).or(certificate).or(spiffe)?, role?);
    if matches!(to, Grantee::Uid(NOBODY) | Grantee::Gid(NOBODY)) {
        at.complain("", Fault::Nobody);
    }
    if to == Grantee::Uid(0) {
        at.complain("", Fault::Root);
    }
    if role != Role::Operator && !cgroups.is_empty() {
        at.complain_at(cgroups_line, "cgroups", Fault::Cgroups);
    }
    if role != Role::Operator && !names.is_empty() {
        at.complain_at(names_line, "names", Fault::Names);
    }
    if role != Role::Operator && ceilings.is_some() {
        at.complain_at(ceilings_line, "ceilings", Fault::Ceilings);
    }
    if seen.contains(&to) {
        at.complain("", Fault::Shadowed);
    }
    seen.push(to.clone());
    reserved.extend(names.into_iter().map(|prefix| Reserved { prefix, to: to.clone() }));
    Some(Grant { to, role, cgroups, ceilings: ceilings.unwrap_or_default() })
}

fn ceilings(at: &mut Section<'_>) -> Ceilings {
    let default = Ceilings::default();
    Ceilings {
        profile: at.read("profile", profile).unwrap_or(default.profile),
        qos_class: at.read("qos_class", qos_class).unwrap_or(default.qos_class),
        include_shared: at.read("include_shared", flag).unwrap_or(default.include_shared),
        include_bound: at.read("include_bound", flag).unwrap_or(default.include_bound),
        named_nodes: at.read("named_nodes", flag).unwrap_or(default.named_nodes),
        fresh_hugetlb: at.read("fresh_hugetlb", flag).unwrap_or(default.fresh_hugetlb),
        reserve_bytes: at.read("reserve_bytes", flag).unwrap_or(default.reserve_bytes),
        rate_bytes_per_second: at.read("rate_bytes_per_second", rate),
        workers: at.read("workers", count(1..=256)).unwrap_or(default.workers),
        pause_numa_balancing: at
            .read("pause_numa_balancing", flag)
            .unwrap_or(default.pause_numa_balancing),
        offload: at.read("offload", flag).unwrap_or(default.offload),
    }
}

fn profile(value: &DeValue<'_>) -> Result<Profile, Fault> {
    let name = text(value)?;
    let known = Profile::ALL.into_iter().find(|profile| profile.name() == name);
    let wanted = "profile: there are gentle, balanced and fast";
    known.ok_or_else(|| Fault::Form { text: name.to_owned(), wanted })
}

fn qos_class(value: &DeValue<'_>) -> Result<QosClass, Fault> {
    match text(value)? {
        "lsr" => Ok(QosClass::Lsr),
        "ls" => Ok(QosClass::Ls),
        "be" => Ok(QosClass::Be),
        other => Err(Fault::Form {
            text: other.to_owned(),
            wanted: "class: there are lsr, ls and be, the first one first served",
        }),
    }
}

fn certificate(value: &DeValue<'_>) -> Result<String, Fault> {
    let name = text(value)?;
    let fits = (1..=253).contains(&name.len()) && !name.chars().any(char::is_control);
    if fits { Ok(name.to_owned()) } else { Err(Fault::CertificateName) }
}

fn role(value: &DeValue<'_>) -> Result<Role, Fault> {
    match text(value)? {
        "viewer" => Ok(Role::Viewer),
        "operator" => Ok(Role::Operator),
        "admin" => Ok(Role::Admin),
        other => Err(Fault::Form {
            text: other.to_owned(),
            wanted: "role: there are viewer, operator and admin",
        }),
    }
}

fn metrics(at: &mut Section<'_>, has_tls: bool) -> Option<SocketAddr> {
    at.read("listen", |value| {
        let address = address(value)?;
        let fits = has_tls || address.ip().is_loopback();
        if fits { Ok(address) } else { Err(Fault::Metrics(address)) }
    })
}

fn levels(value: &DeValue<'_>) -> Result<Levels, Fault> {
    Ok(text(value)?.parse()?)
}
