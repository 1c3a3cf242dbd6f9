//! The file's tables, where they differ from the configuration that is made of them.

use super::{
    Calls, Ceilings, Config, Grant, Grantee, HostMetrics, Listen, Queue, Quota, Reserved,
    Retention, Role, Stop, declared::ScheduleTable, value, value::Account,
};
use crate::{log::Levels, tls::Tls};
use numaloc_api::value::Limits;
use numaloc_config::{
    Resctrl, Tiers,
    value::{DAY_MS, duration, rate, size, some_count},
};
use numaloc_core::SMALLEST_PAGE;
use numaloc_dma::{Dma, WorkQueues, kernel::Settings};
use numaloc_executor::Scheduling;
use serde::{Deserialize, Deserializer};
use std::{net::SocketAddr, path::PathBuf, time::Duration};

/// The file as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub(super) struct File {
    pub(super) listen: Listen,
    queue: Queue,
    #[serde(deserialize_with = "MoverTable::deserialize")]
    mover: Scheduling,
    limits: LimitsTable,
    quota: Quota,
    calls: Calls,
    retention: Retention,
    offload: OffloadTable,
    pub(super) grants: Vec<GrantTable>,
    pub(super) metrics: MetricsTable,
    log: LogTable,
    stop: Stop,
    pub(super) dsa: DsaTable,
    tiers: Tiers,
    pub(super) resctrl: Resctrl,
    pub(super) schedule: Vec<ScheduleTable>,
}

impl From<File> for Config {
    fn from(file: File) -> Self {
        let OffloadTable { enable, polling, channels_max } = file.offload;
        let DsaTable { manage_work_queue, devices } = file.dsa;
        let reserved = file.grants.iter().flat_map(GrantTable::reserved).collect();
        let missing_accounts = file.grants.iter().filter_map(GrantTable::missing).collect();
        Self {
            listen: file.listen,
            queue: file.queue,
            mover: file.mover,
            node_bandwidth_max: file.limits.node_bandwidth_max_bytes_per_second,
            limits: file.limits.into(),
            quota: file.quota,
            calls: file.calls,
            retention: file.retention,
            offload: if enable {
                Dma::Enabled(Settings { polling, channels_max })
            } else {
                Dma::Disabled
            },
            grants: file.grants.into_iter().filter_map(GrantTable::grant).collect(),
            missing_accounts,
            reserved,
            metrics: file.metrics.listen,
            host_metrics: file.metrics.host,
            log: file.log.level,
            stop: file.stop,
            dsa: if manage_work_queue {
                WorkQueues::Enabled(devices)
            } else {
                WorkQueues::Disabled
            },
            tiers: file.tiers,
            resctrl: file.resctrl,
            schedules: Vec::new(),
        }
    }
}

#[derive(Deserialize)]
#[serde(
    remote = "Scheduling",
    default = "Scheduling::default",
    deny_unknown_fields,
    expecting = "a table"
)]
struct MoverTable {
    #[serde(rename = "scheduling", deserialize_with = "value::is_batch")]
    batch: bool,
    #[serde(deserialize_with = "some_count::<0, 19, _, _>")]
    nice: Option<i8>,
}

/// `[limits]`. The bounds are those of the limits in a request; the last one is of its policy.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
struct LimitsTable {
    #[serde(deserialize_with = "size::<SMALLEST_PAGE, { 1 << 30 }, _, _>")]
    batch_bytes: Option<u64>,
    #[serde(deserialize_with = "some_count::<1, 256, _, _>")]
    workers: Option<usize>,
    #[serde(deserialize_with = "duration::<1, { 366 * DAY_MS }, _, _>")]
    timeout: Option<Duration>,
    #[serde(deserialize_with = "rate")]
    rate_bytes_per_second: Option<u64>,
    #[serde(deserialize_with = "rate")]
    node_bandwidth_max_bytes_per_second: Option<u64>,
}

impl From<LimitsTable> for Limits {
    fn from(table: LimitsTable) -> Self {
        let LimitsTable { batch_bytes, workers, timeout, rate_bytes_per_second, .. } = table;
        Self { batch_bytes, workers, timeout, rate_bytes_per_second, hourly_budget_bytes: None }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
struct OffloadTable {
    enable: bool,
    polling: bool,
    #[serde(deserialize_with = "some_count::<1, 16, _, _>")]
    channels_max: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub(super) struct MetricsTable {
    #[serde(deserialize_with = "value::some_address")]
    pub(super) listen: Option<SocketAddr>,
    host: HostMetrics,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
struct LogTable {
    #[serde(deserialize_with = "value::parsed")]
    level: Levels,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub(super) struct DsaTable {
    pub(super) manage_work_queue: bool,
    #[serde(deserialize_with = "value::devices")]
    pub(super) devices: Vec<String>,
}

/// `[[grants]]`. `check` refuses one without a role, or with more or fewer than one grantee.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub(super) struct GrantTable {
    #[serde(deserialize_with = "value::some_user")]
    user: Option<Account>,
    #[serde(deserialize_with = "value::some_group_id")]
    group: Option<Account>,
    #[serde(deserialize_with = "value::some_certificate_name")]
    certificate: Option<String>,
    #[serde(deserialize_with = "value::some_spiffe_id")]
    spiffe: Option<String>,
    pub(super) role: Option<Role>,
    #[serde(deserialize_with = "value::cgroups")]
    pub(super) cgroups: Vec<String>,
    #[serde(deserialize_with = "value::files")]
    pub(super) files: Vec<String>,
    #[serde(deserialize_with = "value::names")]
    pub(super) names: Vec<String>,
    pub(super) ceilings: Option<Ceilings>,
}

impl GrantTable {
    /// Whom it is for: the first one, if there are several. `None` for an account that this host does not have: the
    /// grant has no effect.
    pub(super) fn to(&self) -> Option<Grantee> {
        let uid = self.user.as_ref().and_then(Account::id).map(Grantee::Uid);
        let gid = self.group.as_ref().and_then(Account::id).map(Grantee::Gid);
        let certificate = self.certificate.clone().map(Grantee::Certificate);
        uid.or(gid).or(certificate).or(self.spiffe.clone().map(Grantee::Spiffe))
    }

    /// That this host does not have the account that it is for.
    pub(super) fn missing(&self) -> Option<String> {
        let user = self.user.as_ref().and_then(Account::missing);
        let group = self.group.as_ref().and_then(Account::missing);
        user.map(|name| format!("user '{name}' does not exist here"))
            .or_else(|| group.map(|name| format!("group '{name}' does not exist here")))
    }

    fn grant(self) -> Option<Grant> {
        let (to, role) = (self.to()?, self.role?);
        let ceilings = self.ceilings.unwrap_or_default();
        Some(Grant { to, role, cgroups: self.cgroups, files: self.files, ceilings })
    }

    fn reserved(&self) -> impl Iterator<Item = Reserved> {
        let name = |to: Grantee| move |prefix| Reserved { prefix, to: to.clone() };
        self.to().into_iter().flat_map(move |to| self.names.iter().cloned().map(name(to)))
    }
}

#[derive(Deserialize)]
#[serde(remote = "Tls", deny_unknown_fields, expecting = "a table")]
struct TlsTable {
    #[serde(deserialize_with = "value::certificate_file")]
    certificate: PathBuf,
    #[serde(deserialize_with = "value::key_file")]
    key: PathBuf,
    #[serde(deserialize_with = "value::certificate_file")]
    client_ca: PathBuf,
}

pub(super) fn tls<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Tls>, D::Error> {
    TlsTable::deserialize(from).map(Some)
}
