//! The arguments of `numalocctl web`.

use super::top::{parse_budget, parse_delay};
use clap::Args;
use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

const EXAMPLES: &str = "\
The address that is printed has a token, which gives your rights to every client that has it. The page shows what top, jobs, advise and \
locality --draw show; it changes something only where you confirm it.

Examples:
  numalocctl web                                       prints the address; Ctrl-C ends it
  numalocctl web --standalone --listen 127.0.0.1:7007
  numalocctl web --listen unix:///run/user/0/numaloc.sock
  numalocctl web --report before.html                  one file that needs no server
  numalocctl web --report after.html --before before.html";

#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct WebArgs {
    /// Where to serve the page: a loopback address with a port (0: any free one), or unix:///PATH, a socket for this user alone.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0", value_parser = parse_listen)]
    pub listen: Listen,
    /// Write what the page shows into FILE.html, which needs no server, and end.
    #[arg(long, value_name = "FILE.html", conflicts_with = "listen", value_parser = parse_report)]
    pub report: Option<PathBuf>,
    /// Compare with an earlier report, which is only read.
    #[arg(long, value_name = "FILE.html", requires = "report", value_parser = parse_report)]
    pub before: Option<PathBuf>,
    /// Serve a page that cannot move or cancel anything.
    #[arg(long, conflicts_with = "report")]
    pub read_only: bool,
    /// Time between two scans, from 100ms to 1h.
    #[arg(short, long, value_name = "DURATION", default_value = "2s", value_parser = parse_delay, allow_hyphen_values = true)]
    pub delay: Duration,
    /// Most CPU time for scans, in percent of one CPU; scans by the daemon use 2 %.
    #[arg(long, value_name = "PERCENT", default_value = "2", value_parser = parse_budget, allow_hyphen_values = true)]
    pub cpu_budget: f64,
}

/// Where the page is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// An address of this machine's loopback interface.
    Tcp(SocketAddr),
    Unix(PathBuf),
}

fn parse_listen(text: &str) -> Result<Listen, String> {
    if let Some(path) = text.strip_prefix("unix://") {
        return match path.starts_with('/') && !path.ends_with('/') {
            true => Ok(Listen::Unix(path.into())),
            false => Err("a socket is named by its absolute path, unix:///run/...".into()),
        };
    }
    let expected =
        "expected a loopback address with a port, for example 127.0.0.1:0, or unix:///PATH";
    let address = match text.strip_prefix("localhost:") {
        Some(port) => {
            (IpAddr::from(Ipv4Addr::LOCALHOST), port.parse().map_err(|_| expected)?).into()
        }
        None => text.parse::<SocketAddr>().map_err(|_| expected)?,
    };
    match address.ip().is_loopback() {
        true => Ok(Listen::Tcp(address)),
        false => Err(format!(
            "{} is not an address of the loopback interface; from another machine, use ssh -L (/usr/share/doc/numaloc/web.md)",
            address.ip()
        )),
    }
}

fn parse_report(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match path.extension() {
        Some(extension) if extension.eq_ignore_ascii_case("html") => Ok(path),
        _ => Err("expected an HTML file, for example before.html".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_served_on_this_machine_alone() {
        for (text, address) in [
            ("127.0.0.1:0", "127.0.0.1:0"),
            ("127.3.2.1:80", "127.3.2.1:80"),
            ("[::1]:7007", "[::1]:7007"),
            ("localhost:7007", "127.0.0.1:7007"),
        ] {
            assert_eq!(parse_listen(text), Ok(Listen::Tcp(address.parse().unwrap())), "{text}");
        }
        assert_eq!(parse_listen("unix:///run/a"), Ok(Listen::Unix("/run/a".into())));
        for (text, words) in [
            ("0.0.0.0:80", "0.0.0.0 is not an address of the loopback"),
            ("[::]:80", "loopback"),
            ("192.168.0.1:80", "loopback"),
            ("example.com:80", "expected a loopback"),
            ("localhost", "expected a loopback"),
            ("localhost:99999", "expected a loopback"),
            ("127.0.0.1", "expected a loopback"),
            ("", "expected a loopback"),
            ("unix://a", "absolute path"),
            ("unix:///", "absolute path"),
        ] {
            let message = parse_listen(text).expect_err(text);
            assert!(message.contains(words), "{text}: {message}");
        }
    }

    #[test]
    fn reports_are_html() {
        assert_eq!(parse_report("/a/b.HTML"), Ok("/a/b.HTML".into()));
        for name in ["", "a", "a.svg", ".html"] {
            assert!(parse_report(name).is_err(), "{name}");
        }
    }
}
