//! Opens connections to the daemon, over Unix sockets and TLS.

use crate::{
    endpoint::{Address, Endpoint, TlsFiles},
    exit::Failure,
    place::SOCKET,
};
use std::{error::Error, fs, path::PathBuf, time::Duration};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint as Transport, Identity};

/// Longest wait for a connection.
pub const CONNECT: Duration = Duration::from_secs(5);
/// A connection is probed if nothing has come over it for this long. It is given up if there is no answer for the same
/// time again.
const PROBE: Duration = Duration::from_secs(20);

/// EACCES, as [`reason`] has it: connect(2) on a socket that this user may not write to.
const FORBIDDEN: &str = "Permission denied";

/// Connects within a time limit.
pub async fn connect(endpoint: &Endpoint, within: Duration) -> Result<Channel, Failure> {
    let transport = Transport::from_shared(endpoint.uri.clone());
    let mut transport = transport.map_err(|error| Failure::Usage(error.to_string()))?;
    if endpoint.address == Address::Https {
        let tls = tls(&endpoint.tls)?;
        let refuse = |error| Failure::Usage(format!("certificates: {}", reason(&error)));
        transport = transport.tls_config(tls).map_err(refuse)?;
    }
    let transport = transport
        .connect_timeout(within)
        .http2_keep_alive_interval(PROBE)
        .keep_alive_timeout(PROBE);
    // connect_timeout does not cover the TLS handshake.
    match tokio::time::timeout(within, transport.connect()).await {
        Ok(Ok(channel)) => Ok(channel),
        Ok(Err(error)) => Err(unreachable(&endpoint.uri, reason(&error))),
        Err(_) => Err(unreachable(
            &endpoint.uri,
            format!("no connection within {} s", within.as_secs_f64()),
        )),
    }
}

/// The error for a daemon that cannot be reached.
pub fn unreachable(endpoint: &str, reason: String) -> Failure {
    if endpoint.starts_with("unix://") && reason == FORBIDDEN {
        return Failure::SocketForbidden { endpoint: endpoint.to_owned(), is_optional: false };
    }
    let advice = match endpoint.strip_prefix("unix://") {
        Some(SOCKET) => "start it (systemctl start numalocd)",
        Some(_) => "start it, or correct the path of its socket",
        None => "check the address, and that numalocd listens there",
    };
    Failure::Unreachable { endpoint: endpoint.to_owned(), reason, advice: advice.to_owned() }
}

/// The innermost cause: the message of the kernel, without its number, or of the TLS library.
pub fn reason(error: &dyn Error) -> String {
    let text = numaloc_api::innermost(error);
    match text.split_once(" (os error ") {
        Some((message, _)) => message.to_owned(),
        None => text,
    }
}

fn tls(files: &TlsFiles) -> Result<ClientTlsConfig, Failure> {
    let ca = read(&files.ca, "--tls-ca")?;
    let certificate = read(&files.certificate, "--tls-cert")?;
    let key = read(&files.key, "--tls-key")?;
    Ok(ClientTlsConfig::new()
        .ca_certificate(Certificate::from_pem(ca))
        .identity(Identity::from_pem(certificate, key)))
}

fn read(file: &Option<PathBuf>, option: &str) -> Result<Vec<u8>, Failure> {
    let Some(path) = file else {
        let message = format!("https needs {option}, or the [tls] section of numalocctl.toml");
        return Err(Failure::Usage(message));
    };
    let refuse = |error: std::io::Error| Failure::Config {
        path: path.clone(),
        reason: format!("{error} ({option})"),
    };
    fs::read(path).map_err(refuse)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Code;
    use std::io;

    #[test]
    fn a_socket_that_may_not_be_opened_is_not_a_daemon_that_is_to_be_started() {
        let failed = |endpoint: &str, kind: i32| {
            let failure = unreachable(endpoint, reason(&io::Error::from_raw_os_error(kind)));
            (failure.to_string(), Code::from(&failure))
        };
        let socket = "unix:///run/numaloc/numalocd.sock";
        let (message, code) = failed(socket, 13);
        assert!(message.contains("the group that owns the socket"), "{message}");
        assert!(!message.contains("start it"), "{message}");
        assert_eq!(code, Code::Permission);
        let (message, code) = failed(socket, 2);
        assert!(message.contains("start it (systemctl start numalocd)"), "{message}");
        assert_eq!(code, Code::Unreachable);
        assert_eq!(failed("https://host:7601", 13).1, Code::Unreachable, "a firewall");
    }
}
