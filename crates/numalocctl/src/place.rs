//! Decides where a command is carried out: in this program, or by the daemon.

use crate::{
    args::ConnectArgs,
    endpoint::{Endpoint, TlsFiles},
    exit::Failure,
    settings::{self, TlsSettings},
};
use std::{env, ffi::OsString, path::PathBuf};

/// The socket at which numalocd listens by default.
pub const SOCKET: &str = "/run/numaloc/numalocd.sock";

/// The surroundings of this program that locate the daemon.
#[derive(Clone, Debug)]
pub struct Environment {
    pub endpoint: Option<String>,
    /// The configuration files. Earlier ones take precedence.
    pub files: Vec<PathBuf>,
    /// The daemon's socket if nothing else names it.
    pub socket: PathBuf,
}

impl Environment {
    /// The surroundings of this process.
    pub fn read() -> Self {
        let config = base_directory("XDG_CONFIG_HOME", ".config");
        let folders = config.into_iter().chain(["/etc".into()]);
        Self {
            endpoint: set("NUMALOC_ENDPOINT").map(|value| value.to_string_lossy().into_owned()),
            files: folders.map(|folder| folder.join("numaloc/numalocctl.toml")).collect(),
            socket: SOCKET.into(),
        }
    }
}

fn set(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

/// The home directory of the user, if one is set.
pub fn home() -> Option<PathBuf> {
    set("HOME").map(Into::into)
}

/// A directory of the user's by a variable, and without one below the home directory. The XDG base directory
/// specification says that relative paths are ignored.
pub fn base_directory(variable: &str, below_home: &str) -> Option<PathBuf> {
    let given = set(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    given.or_else(|| Some(home()?.join(below_home)))
}

/// The program that carries a command out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// By this program itself, without a daemon.
    Here,
    Daemon(Endpoint),
}

impl Place {
    /// Whether the command affects this host.
    pub fn is_this_host(&self) -> bool {
        self.daemon().is_none_or(Endpoint::is_this_host)
    }

    /// The daemon, if it is one.
    pub fn daemon(&self) -> Option<&Endpoint> {
        match self {
            Self::Here => None,
            Self::Daemon(endpoint) => Some(endpoint),
        }
    }
}

/// The place for commands that also work without a daemon.
///
/// # Errors
/// The options contradict each other, or the address of the daemon is wrong.
pub fn choose(args: &ConnectArgs, environment: &Environment) -> Result<Place, Failure> {
    if args.standalone {
        if args.endpoint.is_some() {
            let message = "--standalone and --endpoint exclude each other: leave one out";
            return Err(Failure::Usage(message.into()));
        }
        return Ok(Place::Here);
    }
    match named(args, environment)? {
        Some(endpoint) => Ok(Place::Daemon(endpoint)),
        None if environment.socket.exists() => Ok(Place::Daemon(default(environment)?)),
        None => Ok(Place::Here),
    }
}

/// The daemon's address, for commands that only the daemon can carry out.
///
/// # Errors
/// As [`choose`], or --standalone is given.
pub fn daemon(
    args: &ConnectArgs,
    environment: &Environment,
    command: &'static str,
) -> Result<Endpoint, Failure> {
    match choose(args, environment)? {
        Place::Daemon(endpoint) => Ok(endpoint),
        Place::Here if args.standalone => {
            Err(Failure::Usage(format!("{command} needs the daemon: leave out --standalone")))
        }
        Place::Here => default(environment),
    }
}

fn default(environment: &Environment) -> Result<Endpoint, Failure> {
    let uri = format!("unix://{}", environment.socket.display());
    Endpoint::new(&uri, TlsFiles::default()).map_err(Failure::Usage)
}

/// The daemon that is named by an option, the environment or a configuration file, in this order.
fn named(args: &ConnectArgs, environment: &Environment) -> Result<Option<Endpoint>, Failure> {
    let settings = settings::read(&environment.files)?;
    let TlsSettings { ca, certificate, key } = settings.tls;
    let own = (args.tls_cert.clone(), args.tls_key.clone());
    let (certificate, key) = if own == (None, None) { (certificate, key) } else { own };
    let tls = TlsFiles { ca: args.tls_ca.clone().or(ca), certificate, key };
    let flag = args.endpoint.as_ref().map(|uri| (uri, "--endpoint"));
    let variable = environment.endpoint.as_ref().map(|uri| (uri, "NUMALOC_ENDPOINT"));
    let config = settings.endpoint.as_ref().map(|uri| (uri, "endpoint in numalocctl.toml"));
    let Some((uri, source)) = flag.or(variable).or(config) else { return Ok(None) };
    let refuse = |reason| Failure::Usage(format!("{source}: {reason}"));
    Endpoint::new(uri, tls).map(Some).map_err(refuse)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::Parser;
    use std::fs;

    fn place(line: &str, environment: &Environment) -> Result<Place, Failure> {
        let cli = Cli::try_parse_from(line.split(' ')).unwrap();
        choose(&cli.connect, environment)
    }

    fn uri(place: Result<Place, Failure>) -> String {
        match place.unwrap() {
            Place::Here => "here".to_owned(),
            Place::Daemon(endpoint) => endpoint.uri,
        }
    }

    #[test]
    fn flag_then_environment_then_configuration_then_socket() {
        let folder = tempfile::tempdir().unwrap();
        let [user, socket] = ["user.toml", "socket"].map(|name| folder.path().join(name));
        let mut environment =
            Environment { endpoint: None, files: vec![user.clone()], socket: socket.clone() };
        assert_eq!(uri(place("ctl topology", &environment)), "here");
        fs::write(&socket, "").unwrap();
        let by_socket = format!("unix://{}", socket.display());
        assert_eq!(uri(place("ctl topology", &environment)), by_socket);
        fs::write(&user, "endpoint = \"unix:///config\"").unwrap();
        assert_eq!(uri(place("ctl topology", &environment)), "unix:///config");
        environment.endpoint = Some("unix:///environment".into());
        assert_eq!(uri(place("ctl topology", &environment)), "unix:///environment");
        let line = "ctl topology --endpoint unix:///flag";
        assert_eq!(uri(place(line, &environment)), "unix:///flag");
        assert_eq!(uri(place("ctl topology --standalone", &environment)), "here");
        let both = place("ctl --standalone topology --endpoint unix:///flag", &environment);
        assert!(both.unwrap_err().to_string().contains("exclude each other"));
        environment.endpoint = Some("nonsense".into());
        let nonsense = place("ctl topology", &environment).unwrap_err().to_string();
        assert!(
            nonsense.starts_with("NUMALOC_ENDPOINT: 'nonsense' is not a valid address"),
            "{nonsense}"
        );
    }

    #[test]
    fn what_needs_the_daemon_goes_to_its_socket_even_if_it_is_not_there() {
        let environment =
            Environment { endpoint: None, files: Vec::new(), socket: "/no/such/socket".into() };
        let parse = |line: &str| Cli::try_parse_from(line.split(' ')).unwrap().connect;
        let endpoint = daemon(&parse("ctl status"), &environment, "status").unwrap();
        assert_eq!(endpoint.uri, "unix:///no/such/socket");
        let refused = daemon(&parse("ctl status --standalone"), &environment, "status");
        assert!(refused.unwrap_err().to_string().contains("leave out --standalone"));
    }
}
