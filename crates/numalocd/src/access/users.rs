//! The groups of users, from the host's user database.

use nix::unistd::{Uid, User, getgrouplist};
use std::{
    collections::HashMap,
    ffi::CString,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use tokio::{sync::Semaphore, task::spawn_blocking};

/// As long an answer is taken for true.
const FRESH: Duration = Duration::from_secs(5);

/// As many answers are kept.
const KEPT: usize = 1024;

/// As many questions are asked at once, since a database in the network may block.
const ASKED: usize = 4;

type Lookup = dyn Fn(u32) -> Vec<u32> + Send + Sync;
type Answers = HashMap<u32, (Instant, Arc<[u32]>)>;

/// The user database, whose answers it keeps for some seconds. Cheap to clone.
#[derive(Clone)]
pub struct Users {
    lookup: Arc<Lookup>,
    answers: Arc<Mutex<Answers>>,
    asking: Arc<Semaphore>,
}

impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Users").finish_non_exhaustive()
    }
}

impl Users {
    /// That of the host.
    pub fn of_host() -> Self {
        Self::new(host_groups)
    }

    /// One that `lookup` answers: the group ids of a user id. It may block.
    pub fn new(lookup: impl Fn(u32) -> Vec<u32> + Send + Sync + 'static) -> Self {
        Self {
            lookup: Arc::new(lookup),
            answers: Arc::default(),
            asking: Arc::new(Semaphore::new(ASKED)),
        }
    }

    /// The group ids of a user, none if it is not known. May block on the database.
    pub fn groups(&self, uid: u32, now: Instant) -> Arc<[u32]> {
        if let Some(groups) = self.known(uid, now) {
            return groups;
        }
        let groups: Arc<[u32]> = (self.lookup)(uid).into();
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if answers.len() >= KEPT {
            answers.clear();
        }
        answers.insert(uid, (now, Arc::clone(&groups)));
        groups
    }

    /// As [`Self::groups`], for tasks, which must not block.
    pub async fn find(&self, uid: u32, now: Instant) -> Arc<[u32]> {
        if let Some(groups) = self.known(uid, now) {
            return groups;
        }
        let _turn = self.asking.acquire().await;
        let users = self.clone();
        spawn_blocking(move || users.groups(uid, now)).await.unwrap_or_default()
    }

    fn known(&self, uid: u32, now: Instant) -> Option<Arc<[u32]>> {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let (asked, groups) = answers.get(&uid)?;
        (now.saturating_duration_since(*asked) < FRESH).then(|| Arc::clone(groups))
    }
}

fn host_groups(uid: u32) -> Vec<u32> {
    let Ok(Some(user)) = User::from_uid(Uid::from_raw(uid)) else { return Vec::new() };
    let Ok(name) = CString::new(user.name) else { return Vec::new() };
    // Without a list, membership of the user's own group is still certain.
    let groups = getgrouplist(&name, user.gid).unwrap_or_else(|_| vec![user.gid]);
    groups.into_iter().map(nix::unistd::Gid::as_raw).collect()
}
