//! The engine that the command line, the environment and the configuration choose, for views that open it again and
//! again.

use super::{Engine, LocalEngine, OwnWork, ScanPace, ViewFeed, live};
use crate::{
    args::ConnectArgs,
    endpoint::{Address, Endpoint},
    exit::Failure,
    place::{self, Environment, Place},
    remote::{Daemon, Reconnecting},
};
use numaloc_host::{Roots, read};
use std::time::Duration;

/// An engine that is not open yet. Clones share the work that this process does itself.
#[derive(Clone, Debug)]
pub struct Chosen {
    place: Place,
    connect: ConnectArgs,
    roots: Roots,
    own: OwnWork,
}

impl Chosen {
    /// The engine for commands that work with and without a daemon.
    ///
    /// # Errors
    /// As [`place::choose`].
    pub fn new(
        connect: &ConnectArgs,
        environment: &Environment,
        roots: &Roots,
    ) -> Result<Self, Failure> {
        let place = place::choose(connect, environment)?;
        let (connect, roots, own) = (connect.clone(), roots.clone(), OwnWork::default());
        Ok(Self { place, connect, roots, own })
    }

    /// Opens it.
    ///
    /// # Errors
    /// The daemon cannot be reached.
    pub fn open(&self) -> Result<Box<dyn Engine>, Failure> {
        match self.place.daemon() {
            Some(endpoint) => Ok(Box::new(Daemon::connect(endpoint.clone(), &self.connect)?)),
            None => Ok(Box::new(LocalEngine::new(self.roots.clone()).with_work(self.own.clone()))),
        }
    }

    /// Begins to look at the whole host. Also returns a note for people.
    ///
    /// # Errors
    /// The daemon cannot be reached or refuses, and may be another host's; the host cannot be read.
    pub fn view(&self, pace: ScanPace) -> Result<(Box<dyn ViewFeed>, Option<String>), Failure> {
        let own = || live::OwnFeed::new(&self.roots, pace, self.own.clone());
        let Some(daemon) = self.daemon() else { return Ok((Box::new(own()?), None)) };
        match live::DaemonFeed::ask(daemon, pace.delay) {
            Ok(feed) => Ok((Box::new(feed), None)),
            Err(why) if self.is_this_host() => Ok((Box::new(own()?), Some(instead(&why)))),
            Err(why) => Err(why),
        }
    }

    /// A connection to the daemon, if it is one, for records that only a daemon has.
    pub fn daemon(&self) -> Option<Reconnecting> {
        let endpoint = self.place.daemon()?.clone();
        Some(Reconnecting::new(endpoint, self.connect.clone()))
    }

    /// The daemon, if it is one and answers within `patience`.
    pub fn daemon_within(&self, patience: Duration) -> Option<Daemon> {
        let endpoint = self.place.daemon()?.clone();
        Daemon::connect_within(endpoint, &self.connect, patience).ok()
    }

    /// Refuses a daemon that may be another host's.
    ///
    /// # Errors
    /// The message that `refusal` makes of its address.
    pub fn check_this_host(&self, refusal: impl FnOnce(&str) -> String) -> Result<(), Failure> {
        match self.place.daemon().filter(|_| !self.is_this_host()) {
            Some(endpoint) => Err(Failure::Usage(refusal(&endpoint.uri))),
            None => Ok(()),
        }
    }

    /// Whether it looks at this host.
    pub fn is_this_host(&self) -> bool {
        self.place.is_this_host()
    }

    /// Whether migrations end with this process.
    pub fn is_own(&self) -> bool {
        self.place.daemon().is_none()
    }

    /// The name of its host.
    pub fn host_name(&self) -> String {
        match self.place.daemon() {
            Some(Endpoint { address: Address::Https, uri, .. }) => {
                let rest = uri.trim_start_matches("https://").trim_end_matches('/');
                rest.rsplit_once(':').map_or(rest, |(host, _)| host).to_owned()
            }
            _ => read::host_name(&self.roots).unwrap_or_else(|_| "unknown host".to_owned()),
        }
    }
}

fn instead(why: &Failure) -> String {
    format!(
        "this program looks itself and shows no jobs, because the daemon does not answer: {why}"
    )
}
