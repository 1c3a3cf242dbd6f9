//! The settings that a reload changes.

use super::{Config, Grant, Listen, Socket};
use numaloc_config::Resctrl;
use numaloc_dma::WorkQueues;

/// Returns the configuration that holds after `new` was read while `old` was in force, and a line for each setting that
/// differs in the file but needs a restart.
pub fn reload(old: &Config, new: Config) -> (Config, Vec<String>) {
    let pairs = fixed(old).into_iter().zip(fixed(&new));
    let later = pairs.filter(|(old, new)| old != new).map(|((key, old), (_, new))| {
        format!("{key} stays {old} until numalocd is restarted; the configuration file has {new}")
    });
    let later = later.collect();
    // TLS files are taken over, be it other paths or new contents. TLS is neither switched on nor off.
    let tls = old.listen.tls.as_ref().and(new.listen.tls.clone()).or(old.listen.tls.clone());
    let listen = Listen { tls, ..old.listen.clone() };
    let (dsa, tiers, resctrl) = (old.dsa.clone(), old.tiers.clone(), old.resctrl.clone());
    (Config { listen, metrics: old.metrics, dsa, tiers, resctrl, ..new }, later)
}

/// Whether a configuration that was read again differs from the last one in nothing but grants to accounts that were
/// missing then. So looking for them takes over nothing that an administrator is still writing.
pub fn has_found_accounts(last: &Config, again: &Config) -> bool {
    let is_known = |grant: &Grant| last.grants.contains(grant);
    let known = again.grants.iter().filter(|grant| is_known(grant));
    let same_but = Config {
        grants: again.grants.clone(),
        reserved: again.reserved.clone(),
        missing_accounts: again.missing_accounts.clone(),
        ..last.clone()
    };
    again.missing_accounts.len() < last.missing_accounts.len()
        && again.missing_accounts.iter().all(|missing| last.missing_accounts.contains(missing))
        && known.eq(&last.grants)
        && same_but == *again
}

/// The settings that hold until the daemon ends, each with its value for people to read.
fn fixed(config: &Config) -> [(&'static str, String); 13] {
    let listen = &config.listen;
    let shown = |value: Option<String>| value.unwrap_or_else(|| "unset".to_owned());
    let sockets: Vec<_> = listen.sockets.iter().map(described).collect();
    let sockets = Some(sockets.join("; ")).filter(|sockets| !sockets.is_empty());
    let (manages, devices) = match &config.dsa {
        WorkQueues::Disabled => (false, None),
        WorkQueues::Enabled(devices) => (true, Some(devices.join(", "))),
    };
    let devices = devices.filter(|devices| !devices.is_empty());
    let tiers: Vec<String> = config.tiers.order.iter().map(ToString::to_string).collect();
    let tiers = Some(tiers.join("; ")).filter(|tiers| !tiers.is_empty());
    let Resctrl { group, memory_bandwidth, l3 } = &config.resctrl;
    [
        ("listen.socket", listen.socket.display().to_string()),
        ("listen.mode", format!("{:04o}", listen.mode)),
        ("listen.group", shown(listen.group.clone())),
        ("listen.sockets", shown(sockets)),
        ("listen.tcp", shown(listen.tcp.map(|address| address.to_string()))),
        ("listen.tls", shown(listen.tls.as_ref().map(|_| "set".to_owned()))),
        ("metrics.listen", shown(config.metrics.map(|address| address.to_string()))),
        ("dsa.manage_work_queue", manages.to_string()),
        ("dsa.devices", shown(devices)),
        ("tiers.order", shown(tiers)),
        ("resctrl.group", shown(group.as_ref().map(|name| name.as_str().to_owned()))),
        ("resctrl.memory_bandwidth", shown(memory_bandwidth.as_ref().map(ToString::to_string))),
        ("resctrl.l3", shown(l3.as_ref().map(ToString::to_string))),
    ]
}

fn described(socket: &Socket) -> String {
    let Socket { path, mode, group, max_role } = socket;
    let group = group.as_deref().unwrap_or("unset");
    format!("{} ({mode:04o}, group {group}, {max_role} at most)", path.display())
}
