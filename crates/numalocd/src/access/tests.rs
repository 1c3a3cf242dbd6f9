//! Tests of access control, from the pure rules up to real connections.

mod audit;
mod calls;
mod ceilings;
mod grants;
mod lines;
mod rules;
mod server;
mod standing;
mod table;
mod untaken;
mod whole;

pub(crate) use audit::Log;

use crate::accounts::Client;
use crate::config::{Ceilings, Config, Grant, Grantee, Role};
use numaloc_engine::Authority;
use std::sync::Arc;

/// A grant that is bounded to no cgroups.
fn grant(to: Grantee, role: Role) -> Grant {
    Grant { to, role, cgroups: Vec::new(), files: Vec::new(), ceilings: Ceilings::default() }
}

/// A caller with a grant of its own.
fn client(name: &str) -> Client {
    Client { name: name.to_owned(), cohort: None }
}

/// A configuration with these grants.
fn config(grants: Vec<Grant>) -> Arc<Config> {
    Arc::new(Config { grants, ..Config::default() })
}

#[test]
fn subtrees_end_at_slashes() {
    let over = |top: &str, cgroup| {
        Authority::Of { uid: Some(1), cgroups: vec![top.to_owned()], files: Vec::new() }
            .is_over(cgroup)
    };
    for (top, cgroup) in [("/a", "/a"), ("/a", "/a/b/c"), ("/a/", "/a/b"), ("/", "/"), ("/", "/a")]
    {
        assert!(over(top, cgroup), "{cgroup} is not below {top}");
    }
    for (top, cgroup) in [("/a", "/ab"), ("/a", "/"), ("/a/b", "/a"), ("/a", "/b/a")] {
        assert!(!over(top, cgroup), "{cgroup} is below {top}");
    }
    assert!(Authority::All.is_over("/a"));
    assert!(!Authority::Of { uid: Some(0), cgroups: Vec::new(), files: Vec::new() }.is_over("/a"));
}

fn certificate(name: &str) -> Grantee {
    Grantee::Certificate(name.to_owned())
}
