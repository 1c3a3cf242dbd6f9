//! Names that are kept for one grant. Jobs, schedules and workloads of all clients have their names in common, so
//! without this the first client has a name that another client counts on.

use super::Caller;
use crate::{
    config::{Config, Grantee, Role},
    refusal::Refusal,
};

impl Config {
    /// Checks whether `caller` may take this name: its prefix is not reserved, or is reserved for a grant of the
    /// caller's. Admins may take any name. A record that has the name already keeps it.
    ///
    /// # Errors
    /// [`Refusal::NotPermitted`].
    pub fn check_name(&self, caller: &Caller, id: &str) -> Result<(), Refusal> {
        let mut kept = self.reserved.iter().filter(|kept| id.starts_with(&kept.prefix)).peekable();
        let Some(first) = kept.peek().map(|first| first.prefix.clone()) else { return Ok(()) };
        if caller.role == Role::Admin || kept.any(|kept| is_for(&kept.to, caller)) {
            return Ok(());
        }
        let message = format!(
            "names that begin with {first} are kept for another client (grants.names in the daemon's configuration): take \
             another name than {id}"
        );
        Err(Refusal::NotPermitted { message })
    }
}

fn is_for(to: &Grantee, caller: &Caller) -> bool {
    match to {
        Grantee::Uid(uid) => caller.name == format!("uid:{uid}"),
        Grantee::Gid(gid) => caller.gid == Some(*gid),
        Grantee::Certificate(name) => caller.name == format!("cert:{name}"),
        Grantee::Spiffe(id) => caller.name == *id,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Ceilings, Reserved};
    use numaloc_engine::Authority;

    fn caller(name: &str, gid: Option<u32>, role: Role) -> Caller {
        let authority = Authority::NONE;
        Caller { name: name.to_owned(), gid, role, authority, ceilings: Ceilings::default() }
    }

    #[test]
    fn a_name_is_kept_for_whom_a_grant_names() {
        let spiffe = "spiffe://example.org/agent";
        let kept = |prefix: &str, to| Reserved { prefix: prefix.to_owned(), to };
        let reserved = vec![
            kept("nri-", Grantee::Uid(990)),
            kept("team-", Grantee::Gid(500)),
            kept("node-", Grantee::Certificate("agent".to_owned())),
            kept("node-", Grantee::Spiffe(spiffe.to_owned())),
        ];
        let config = Config { reserved, ..Config::default() };
        let clients = [
            (caller("uid:990", None, Role::Operator), "nri-"),
            (caller("uid:1000", Some(500), Role::Operator), "team-"),
            (caller("cert:agent", None, Role::Operator), "node-"),
            (caller(spiffe, None, Role::Operator), "node-"),
            // At an additional socket it is another client.
            (caller("uid:990@/run/a/n.sock", None, Role::Operator), ""),
            (caller("uid:99", Some(990), Role::Operator), ""),
        ];
        for (client, own) in &clients {
            for prefix in ["nri-", "team-", "node-"] {
                let taken = config.check_name(client, &format!("{prefix}1"));
                assert_eq!(taken.is_ok(), prefix == *own, "{client:?} {prefix}: {taken:?}");
            }
            assert_eq!(config.check_name(client, "nri"), Ok(()));
            assert_eq!(config.check_name(client, "1"), Ok(()));
        }
        assert_eq!(config.check_name(&caller("uid:0", None, Role::Admin), "nri-1"), Ok(()));
    }
}
