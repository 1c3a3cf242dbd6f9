//! A state directory on a full disk.

use super::*;
use crate::scene::Scene;
use nix::mount::{MsFlags, mount, umount};

/// A small file system. It is unmounted when this value is dropped.
struct Small(PathBuf);

impl Small {
    fn new(name: &str) -> Self {
        let dir = PathBuf::from("/tmp").join(name);
        fs::create_dir_all(&dir).expect("a directory");
        let none = None::<&str>;
        mount(Some("none"), &dir, Some("tmpfs"), MsFlags::empty(), Some("size=3m")).expect("tmpfs");
        let _ = none;
        Self(dir)
    }

    /// Fills the file system. Removing the returned file makes room again.
    fn fill(&self) -> PathBuf {
        let path = self.0.join("ballast");
        let mut size = 4 << 20;
        let mut ballast = Vec::new();
        while size >= 1 {
            ballast.resize(ballast.len() + size, 1);
            if fs::write(&path, &ballast).is_err() {
                ballast.truncate(ballast.len() - size);
                size /= 2;
            }
        }
        // The failed attempt may have left room: this write fills it.
        fs::write(&path, &ballast).ok();
        path
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        umount(&self.0).ok();
        fs::remove_dir(&self.0).ok();
    }
}

#[test]
fn without_room_writes_are_refused_and_jobs_continue() {
    let small = Small::new("numaloc-small");
    let daemon = Daemon::on(&small.0);
    let client = daemon.client();
    let scene = Scene::remote(&["anon:32M"]);
    let name = client.create(scene.app.pid(), slow(8 * MIB)).name;
    client.moves(&name);
    let ballast = small.fill();
    let other = Scene::remote(&["anon:8M"]);
    let mut refused = None;
    // The store's file has some free room inside, so a number of records still fits.
    until("the disk is full", || {
        let mut paused = request(other.app.pid(), slow(4096));
        paused.on_conflict = v1::ConflictAction::Refuse.into();
        match client.try_create(paused) {
            Ok(job) => {
                client.cancel(&job.name).ok();
                false
            }
            Err(status) if status.code() == Code::Aborted => false,
            Err(status) => {
                refused = Some(status);
                true
            }
        }
    });
    let (code, reason) = super::reason(Err::<(), _>(refused.unwrap()));
    assert_eq!((code, reason.as_str()), (Code::ResourceExhausted, "STORE_FULL"));
    let status = client.runtime.block_on(client.daemon().get_status(v1::GetStatusRequest {}));
    let problems = status.expect("reads continue").into_inner().problems;
    assert!(!problems.is_empty(), "nothing is stated about it");
    until("the running job is unharmed", || scene.nodes("anon").get(&0).copied() == Some(32 * MIB));
    fs::remove_file(ballast).expect("room");
    client.reaches(&name, v1::JobState::Succeeded);
    let job = client.create(other.app.pid(), v1::Limits::default());
    client.reaches(&job.name, v1::JobState::Succeeded);
    other.assert_on("anon", 0, 8 * MIB);
    scene.finish();
    other.finish();
    drop(daemon);
}
