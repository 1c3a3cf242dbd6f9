//! What a reload changes.

use super::{Config, Tcp, Tls};

/// The configuration in force after `new` was read while `old` was in force, and a line for each setting that changed in
/// the file but takes a restart.
pub fn reload(old: &Config, new: Config) -> (Config, Vec<String>) {
    let pairs = fixed(old).into_iter().zip(fixed(&new));
    let later = pairs.filter(|(old, new)| old != new).map(|((key, old), (_, new))| {
        format!("{key} stays {old} until numalocd is restarted; the configuration file says {new}")
    });
    let later = later.collect();
    (Config { listen: old.listen.clone(), metrics: old.metrics, ..new }, later)
}

/// What holds until the end, and its value for people.
fn fixed(config: &Config) -> [(&'static str, String); 6] {
    let listen = &config.listen;
    let shown = |value: Option<String>| value.unwrap_or_else(|| "unset".to_owned());
    let tcp = listen.tcp.as_ref();
    [
        ("listen.socket", listen.socket.display().to_string()),
        ("listen.mode", format!("{:04o}", listen.mode)),
        ("listen.group", shown(listen.group.clone())),
        ("listen.tcp", shown(tcp.map(|tcp| tcp.address.to_string()))),
        ("listen.tls", shown(tcp.and_then(files))),
        ("metrics.listen", shown(config.metrics.map(|address| address.to_string()))),
    ]
}

fn files(tcp: &Tcp) -> Option<String> {
    let Tls { certificate, key, client_ca } = tcp.tls.as_ref()?;
    Some(format!("{} {} {}", certificate.display(), key.display(), client_ca.display()))
}
