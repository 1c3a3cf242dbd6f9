//! The sources of containers that this host has, and the one that the daemon's containers come from.

use super::Findings;
use crate::{container_runtime::RuntimeAnswer, doc::Check};
use containerd::WITH_MEMORY_POLICIES;
use numaloc_host::UnixSocket;

/// The first version of containerd that has NRI, and the first that has it switched on.
const WITH_NRI: (u32, u32) = (1, 7);
const BY_DEFAULT: (u32, u32) = (2, 0);
const OTHER_WAY: &str = "until then numaloc-nri can use containerd's own events, if its drop-in numaloc-nri-containerd.conf lets it in (see /usr/share/doc/numaloc/containerd.md)";

/// The state of container support.
#[derive(Clone, Debug)]
pub struct ContainersState {
    /// The runtime's socket for plugins, in its usual place.
    pub nri: UnixSocket,
    /// containerd, in its usual place.
    pub containerd: RuntimeAnswer,
    /// Whether its runc sets memory policies, if that is known.
    pub runc_sets_policies: Option<bool>,
    /// The source of the containers that the daemon knows, as numaloc-nri names it; `None`: it knows none, or was not
    /// asked.
    pub told_by: Option<String>,
}

/// Whether NRI can be used, and the source in use.
pub fn containers(found: &Findings) -> Check {
    const NAME: &str = "containers";
    let ContainersState { nri, containerd, runc_sets_policies, told_by } = &found.containers;
    let in_use = match told_by.as_deref() {
        None => "",
        Some("nri") => "; reported to the daemon by NRI",
        Some("containerd") => "; reported to the daemon by containerd's events",
        Some(_) => "; reported to the daemon",
    };
    let known = match containerd {
        RuntimeAnswer::Version(known) => format!("containerd {}", known.trim_start_matches('v')),
        RuntimeAnswer::Absent => "no containerd in its usual place".to_owned(),
        RuntimeAnswer::Denied => "a containerd that you may not ask".to_owned(),
        RuntimeAnswer::Silent(why) => format!("a containerd that does not answer ({why})"),
    };
    let version = match containerd {
        RuntimeAnswer::Version(known) => containerd::version(known),
        _ => None,
    };
    if *nri == UnixSocket::Listens {
        let without = match (version, runc_sets_policies) {
            (Some(version), _) if version < WITH_MEMORY_POLICIES => {
                ", which sets no memory policies for new containers (2.4 and later do)"
            }
            (_, Some(false)) => {
                ", a runc that sets no memory policies for new containers (1.4 and later do)"
            }
            _ => "",
        };
        let text = format!("NRI listens, {known}{without}{in_use}");
        return match told_by.as_deref() {
            Some("containerd") => Check::warning(
                NAME,
                text,
                "NRI is available and not used: see the log of numaloc-nri (journalctl -u numaloc-nri), and `source` in /etc/numaloc/nri.toml",
            ),
            _ => Check::ok(NAME, text),
        };
    }
    let nri = match nri {
        UnixSocket::Dead => "nothing listens at the socket of NRI",
        _ => "no socket of NRI",
    };
    let text = format!("{known}, {nri}{in_use}");
    let advice = match containerd {
        // Neither: there are no containers, or the runtime is another one.
        RuntimeAnswer::Absent => return Check::ok(NAME, text),
        RuntimeAnswer::Denied => "run as root to see its version".to_owned(),
        RuntimeAnswer::Silent(_) => "see its log (journalctl -u containerd)".to_owned(),
        RuntimeAnswer::Version(_) => match version {
            Some(version) if version < WITH_NRI => {
                format!("containerd has NRI from 1.7 on; {OTHER_WAY}")
            }
            Some(version) if version < BY_DEFAULT => format!(
                "switch NRI on: in /etc/containerd/config.toml, in the table [plugins.\"io.containerd.nri.v1.nri\"], write disable = false, and restart containerd; {OTHER_WAY}"
            ),
            _ => format!(
                "NRI is on by default from 2.0 on: in /etc/containerd/config.toml, in the table [plugins.\"io.containerd.nri.v1.nri\"], take disable = true out, and restart containerd; {OTHER_WAY}"
            ),
        },
    };
    Check::warning(NAME, text, &advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(
        nri: UnixSocket,
        containerd: RuntimeAnswer,
        told_by: Option<&str>,
    ) -> (&'static str, String, String) {
        let told_by = told_by.map(str::to_owned);
        checked(ContainersState { nri, containerd, runc_sets_policies: Some(true), told_by })
    }

    fn checked(containers: ContainersState) -> (&'static str, String, String) {
        let check = super::containers(&Findings { containers, ..crate::check::tests::good() });
        (check.level.name(), check.found, check.advice.unwrap_or_default())
    }

    fn version(known: &str) -> RuntimeAnswer {
        RuntimeAnswer::Version(known.to_owned())
    }

    #[test]
    fn what_is_missing_depends_on_the_version() {
        for (known, what) in [
            ("1.6.20~ds1", "from 1.7 on"),
            ("1.7.24", "write disable = false"),
            ("v2.1.9", "take disable = true out"),
            ("nonsense", "take disable = true out"),
        ] {
            let (level, found, advice) = said(UnixSocket::Absent, version(known), None);
            let shown = known.trim_start_matches('v');
            assert_eq!(level, "warning");
            assert_eq!(found, format!("containerd {shown}, no socket of NRI"));
            assert!(advice.contains(what) && advice.contains("drop-in"), "{known}: {advice}");
        }
        let (level, found, advice) = said(UnixSocket::Dead, RuntimeAnswer::Denied, None);
        assert_eq!(level, "warning");
        assert!(found.contains("nothing listens") && advice.contains("root"), "{found} {advice}");
        let (level, found, _) =
            said(UnixSocket::Absent, RuntimeAnswer::Silent("no room".into()), None);
        assert!(level == "warning" && found.contains("no room"), "{found}");
        let (level, found, _) = said(UnixSocket::Absent, RuntimeAnswer::Absent, None);
        assert_eq!((level, &*found), ("ok", "no containerd in its usual place, no socket of NRI"));
    }

    #[test]
    fn the_way_in_use_is_said() {
        let (level, found, _) = said(UnixSocket::Listens, version("v2.1.9"), Some("nri"));
        assert_eq!(
            (level, &*found),
            (
                "ok",
                "NRI listens, containerd 2.1.9, which sets no memory policies for new containers (2.4 and later do); reported to the daemon by NRI"
            )
        );
        let (_, found, _) = said(UnixSocket::Listens, version("v2.4.2"), Some("nri"));
        assert_eq!(found, "NRI listens, containerd 2.4.2; reported to the daemon by NRI");
        let (nri, containerd) = (UnixSocket::Listens, version("v2.4.2"));
        let told_by = Some("nri".to_owned());
        let old_runc =
            ContainersState { nri, containerd, runc_sets_policies: Some(false), told_by };
        let (level, found, _) = checked(old_runc);
        let expected = "NRI listens, containerd 2.4.2, a runc that sets no memory policies for new containers (1.4 and later do); reported to the daemon by NRI";
        assert_eq!((level, &*found), ("ok", expected));
        let by_events = Some("containerd");
        let (level, found, advice) = said(UnixSocket::Listens, version("v2.1.9"), by_events);
        assert_eq!(level, "warning");
        assert!(
            found.ends_with("by containerd's events") && advice.contains("not used"),
            "{found}"
        );
        let (level, found, _) = said(UnixSocket::Absent, version("1.6.20"), by_events);
        assert_eq!(level, "warning");
        assert!(found.ends_with("by containerd's events"), "{found}");
        // CRI-O.
        let (level, _, _) = said(UnixSocket::Listens, RuntimeAnswer::Absent, None);
        assert_eq!(level, "ok");
    }
}
