//! Reads addresses of the daemon: `unix://`, `http://` and `https://`.

use std::{
    net::IpAddr,
    path::{Path, PathBuf},
};
use tonic::transport::Uri;

/// The address of the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    Unix(PathBuf),
    /// By TCP with certificates on both sides.
    Https,
    /// By TCP on this machine.
    Http,
}

/// Paths of the PEM files for https.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// Authorities for checking the daemon's certificate.
    pub ca: Option<PathBuf>,
    /// The certificate to show to the daemon.
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
}

/// An address of the daemon, with the certificates to connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The address as it was written.
    pub uri: String,
    pub address: Address,
    /// The certificates, which only https needs.
    pub tls: TlsFiles,
}

impl Endpoint {
    /// Whether the daemon is surely this host's. An address by TCP may be another host's.
    pub fn is_this_host(&self) -> bool {
        matches!(self.address, Address::Unix(_))
    }

    /// Reads an address.
    ///
    /// # Errors
    /// The address is wrong: the message names the expected form.
    pub fn new(uri: &str, tls: TlsFiles) -> Result<Self, String> {
        Ok(Self { uri: uri.to_owned(), address: address(uri)?, tls })
    }
}

fn address(text: &str) -> Result<Address, String> {
    let refuse = |what: &str| format!("'{text}' is not a valid address of numalocd: {what}");
    if let Some(path) = text.strip_prefix("unix://") {
        return match path.starts_with('/') && !path.ends_with('/') {
            true => Ok(Address::Unix(Path::new(path).to_owned())),
            false => Err(refuse("a socket is named by its absolute path, unix:///run/...")),
        };
    }
    let expected = "write unix:///PATH, https://HOST:PORT or http://HOST:PORT";
    let uri: Uri = text.parse().map_err(|_| refuse(expected))?;
    let (Some(host), Some(_)) = (uri.host(), uri.port_u16()) else {
        return Err(refuse(expected));
    };
    let more = uri.path_and_query().is_some_and(|rest| rest.as_str() != "/");
    if more || uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err(refuse("expected only a host and a port"));
    }
    match uri.scheme_str() {
        Some("https") => Ok(Address::Https),
        Some("http") if is_loopback(host) => Ok(Address::Http),
        Some("http") => Err(refuse("http is for this machine only, use https with certificates")),
        _ => Err(refuse(expected)),
    }
}

/// Whether a host is this machine, by `localhost` or an address of the loopback interface.
pub fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let cases = [
            ("unix:///run/a.sock", Address::Unix("/run/a.sock".into())),
            ("unix:///run/a b%20c", Address::Unix("/run/a b%20c".into())),
            ("https://node1.example:7443", Address::Https),
            ("https://node1.example:7443/", Address::Https),
            ("https://[2001:db8::1]:7443", Address::Https),
            ("http://127.0.0.1:7000", Address::Http),
            ("http://localhost:7000", Address::Http),
            ("http://[::1]:7000", Address::Http),
        ];
        for (text, expected) in cases {
            assert_eq!(address(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        let cases = [
            ("", "write unix"),
            ("/run/a.sock", "write unix"),
            ("unix:/run/a.sock", "write unix"),
            ("unix://run/a.sock", "absolute path"),
            ("unix:///", "absolute path"),
            ("https://node1.example", "write unix"),
            ("https://node1.example:99999", "write unix"),
            ("https://me@node1.example:7443", "expected only a host and a port"),
            ("https://node1.example:7443/v1", "expected only a host and a port"),
            ("http://node1.example:7000", "this machine only"),
            ("http://127.0.0.1.example:7000", "this machine only"),
            ("ftp://localhost:21", "write unix"),
        ];
        for (text, words) in cases {
            let message = address(text).unwrap_err();
            assert!(message.contains(words), "{text}: {message}");
        }
    }
}
