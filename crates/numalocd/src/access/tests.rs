//! Who may what, from the pure rules up to real connections.

mod audit;
mod calls;
mod grants;
mod quota;
mod rules;
mod server;

pub(crate) use audit::Log;

use super::Role;
use crate::config::{Config, Grant, Grantee};
use std::sync::Arc;

/// A grant without cgroups.
fn grant(to: Grantee, role: Role) -> Grant {
    Grant { to, role, cgroups: Vec::new() }
}

/// A configuration with these grants.
fn config(grants: Vec<Grant>) -> Arc<Config> {
    Arc::new(Config { grants, ..Config::default() })
}

fn certificate(name: &str) -> Grantee {
    Grantee::Certificate(name.to_owned())
}
