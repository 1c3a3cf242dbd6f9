//! Containers, pods and virtual machines as people name them, without a registration.

use crate::{
    Error, Roots,
    processes::{
        containers::{self, Name, Sought},
        found::{Found, Meant, NamedKind},
        machines,
        runtime_files::RuntimeFiles,
        runtimes::{Listed, RuntimeLists},
        virtual_machines,
    },
};
use std::{collections::BTreeMap, fmt};

/// The shortest beginning of a container's id that names it: what `docker ps` and `podman ps` print.
const SHORT_ID: usize = 12;

/// Where each of these names is, in their order. The files of runtimes are read, and the cgroups are walked, once for all.
pub(crate) fn find(
    roots: &Roots,
    names: &[(NamedKind, &str)],
    stop: &dyn Fn() -> bool,
) -> Vec<Result<Found, Error>> {
    let files = RuntimeFiles::new(roots, stop);
    let lists = RuntimeLists::new(&files);
    let candidates: Vec<Vec<Candidate>> =
        names.iter().map(|&(kind, name)| candidates(&lists, kind, name)).collect();
    if files.is_stopped() {
        return names.iter().map(|_| Err(Error::Stopped)).collect();
    }
    let mut sought = Sought::default();
    sought.extend(candidates.iter().flatten().map(Candidate::name));
    // The caller's own containers go before those of other users.
    let found = if candidates.iter().all(Vec::is_empty) {
        Ok(BTreeMap::new())
    } else {
        containers::find(roots, &sought, roots.own_uid(), stop)
    };
    let places = names.iter().zip(&candidates).map(|(&(kind, name), candidates)| {
        let target = || format!("{kind} {name}");
        if kind == NamedKind::VirtualMachine {
            return virtual_machines::find(roots, name);
        }
        match &found {
            Ok(found) => {
                let chosen = choose(target(), kind, candidates, found, &files.left_out());
                match kind {
                    NamedKind::Container => {
                        with(target(), chosen, machines::containers(roots, name))
                    }
                    _ => chosen,
                }
            }
            Err(Error::ManyCgroups { root, most }) => {
                Err(Error::ManyCgroups { root: root.clone(), most: *most })
            }
            Err(_) => Err(Error::Stopped),
        }
    });
    places.collect()
}

/// A container or pod that a name may mean.
enum Candidate {
    Container(Listed),
    /// Digits that may be the id of one, or its beginning.
    Id(String),
    Pod(String),
}

impl Candidate {
    fn name(&self) -> Name<'_> {
        match self {
            Self::Container(Listed { id, .. }) | Self::Id(id) => Name::Container(id),
            Self::Pod(uid) => Name::Pod(uid),
        }
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Container(Listed { runtime, id }) => {
                let short = id.get(..SHORT_ID).filter(|_| containers::is_id(id));
                write!(f, "{runtime} {}", short.unwrap_or(id))
            }
            Self::Id(_) => f.write_str("by id"),
            Self::Pod(uid) => write!(f, "uid {uid}"),
        }
    }
}

fn candidates(lists: &RuntimeLists<'_>, kind: NamedKind, name: &str) -> Vec<Candidate> {
    match kind {
        NamedKind::Container => {
            let listed = lists.containers(name).into_iter().map(Candidate::Container);
            let is_hex = name.bytes().all(|byte| byte.is_ascii_hexdigit());
            let by_id = (is_hex && (SHORT_ID..=64).contains(&name.len()))
                .then(|| Candidate::Id(name.to_ascii_lowercase()));
            listed.chain(by_id).collect()
        }
        NamedKind::Pod => {
            let listed = lists.pods(name).into_iter().map(Candidate::Pod);
            let by_uid = (!name.contains('/')).then(|| Candidate::Pod(name.to_owned()));
            listed.chain(by_uid).collect()
        }
        NamedKind::VirtualMachine => Vec::new(),
    }
}

/// The only one of the things that runtimes list and of `others`, from managers without such a list.
fn with(target: String, listed: Result<Found, Error>, others: Vec<Found>) -> Result<Found, Error> {
    let error = match listed {
        Ok(found) => match others.into_iter().find(|other| other.at != found.at) {
            None => return Ok(found),
            Some(other) => return Err(several(target, [&found, &other])),
        },
        Err(error) => error,
    };
    match (error, &others[..]) {
        (Error::NotRunning { .. }, [only]) => Ok(only.clone()),
        (Error::NotRunning { .. }, [one, other, ..]) => Err(several(target, [one, other])),
        (error, _) => Err(error),
    }
}

fn several(target: String, both: [&Found; 2]) -> Error {
    Error::SeveralCgroups { target, cgroups: both.map(ToString::to_string) }
}

/// The only cgroup that the candidates have.
fn choose(
    target: String,
    kind: NamedKind,
    candidates: &[Candidate],
    found: &BTreeMap<Name<'_>, Vec<String>>,
    left_out: &str,
) -> Result<Found, Error> {
    let mut places: BTreeMap<&str, &Candidate> = BTreeMap::new();
    for candidate in candidates {
        for path in found.get(&candidate.name()).into_iter().flatten() {
            places.entry(path).or_insert(candidate);
        }
    }
    let mut all = places.iter();
    match (all.next(), all.next()) {
        (Some((path, candidate)), None) => {
            Ok(Found { at: Meant::Cgroup((*path).to_owned()), how: candidate.to_string() })
        }
        (Some((one, by)), Some((other, with))) => {
            let cgroups = [(one, by), (other, with)].map(|(path, by)| format!("{path} ({by})"));
            Err(Error::SeveralCgroups { target, cgroups })
        }
        (None, _) => {
            let listed = candidates.iter().find(|one| matches!(one, Candidate::Container(_)));
            let reason = match (listed, kind) {
                (Some(listed), _) => format!("it is listed ({listed}), but has no cgroup"),
                (None, NamedKind::Pod) => "no cgroup has its uid, and no directory in /var/log/pods its name; \
                     expected NAMESPACE/NAME, a name or a uid"
                    .to_owned(),
                (None, _) => "Docker, Podman, nerdctl, containerd (in /run/containerd, /run/k3s and /var/snap/microk8s), the kubelet (in \
                     /var/log/containers) and systemd-machined list no container of this name, no cgroup is lxc.payload.NAME or lxc/NAME, \
                     and none has this id; give the name or at least 12 digits of the id, or name its cgroup"
                    .to_owned(),
            };
            Err(Error::NotRunning { target, reason: reason + left_out })
        }
    }
}

#[cfg(test)]
mod tests;
