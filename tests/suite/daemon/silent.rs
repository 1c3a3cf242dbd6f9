//! Processes whose memory cannot be read: one of their threads holds the mmap_lock, and waits for a file system that does not answer.
//! They may not hold up calls for other processes.

use super::*;
use crate::{
    app::{App, Layout},
    scene::Scene,
};
use nix::{
    libc::EIO,
    mount::{MntFlags, umount2},
};
use numaloc_api::v1::locality_service_client::LocalityServiceClient;
use numaloc_tests::fuse::{self, OneFile};
use parking_lot::{Condvar, Mutex};
use std::{
    io,
    os::unix::fs::FileExt,
    sync::{Arc, mpsc},
    thread,
};

/// Reads of a file that do not return until it is released. Then they fail.
#[derive(Clone, Default)]
struct Silent(Arc<(Mutex<bool>, Condvar)>);

impl Silent {
    fn read(&self) -> io::Result<String> {
        let mut released = self.0.0.lock();
        while !*released {
            self.0.1.wait(&mut released);
        }
        Err(io::Error::from_raw_os_error(EIO))
    }
}

/// Mounted somewhere. It answers, and is unmounted, when this value is dropped: before that, processes that wait for it cannot even
/// be killed.
struct Mounted {
    files: Silent,
    at: PathBuf,
}

impl Mounted {
    fn new(name: &str) -> Self {
        let (files, at) = (Silent::default(), PathBuf::from(format!("/run/{name}")));
        fs::create_dir_all(&at).expect("a directory");
        let silent = files.clone();
        fuse::serve(OneFile(move || silent.read()), &at);
        Self { files, at }
    }

    fn release(&self) {
        *self.files.0.0.lock() = true;
        self.files.0.1.notify_all();
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.release();
        umount2(&self.at, MntFlags::MNT_DETACH).expect("it is mounted");
    }
}

/// Whether the page map of a process cannot be read now. The threads that wait for it end when it can.
fn is_silent(pid: i32) -> bool {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let pagemap = fs::File::open(format!("/proc/{pid}/pagemap")).expect("it is there");
        let _ = tell.send(pagemap.read_at(&mut [0; 8], 0));
    });
    told.recv_timeout(Duration::from_millis(500)).is_err()
}

/// A process that does not answer for as long as the file does not. The file system is dropped first.
struct Holder {
    mounted: Mounted,
    app: App,
}

impl Holder {
    fn new(name: &str) -> Self {
        let mounted = Mounted::new(name);
        let app = Layout::remote(&["anon:8M"]).load("idle").start(name);
        let file = mounted.at.join("file");
        let mut holder = Self { mounted, app };
        let asked = format!("hold {}", file.display());
        assert_eq!(holder.app.ask(&asked), format!("holding by {}", file.display()));
        until("it does not answer", || is_silent(holder.app.pid()));
        holder
    }
}

fn names_it(message: &str, pid: i32) {
    let expected = format!("the memory of process {pid} (");
    assert!(message.contains(&expected) && message.contains("mmap_lock"), "{message}");
}

#[test]
fn processes_that_do_not_answer_hold_up_no_others_and_are_named() {
    let scene = Scene::remote(&["anon:16M"]);
    let holders = [Holder::new("silent-a"), Holder::new("silent-b")];
    let pids = holders.each_ref().map(|holder| holder.app.pid());
    let mut daemon = Daemon::start();
    let client = daemon.client();

    // The number that may be planned at a time, and one of another user.
    let jobs = pids.map(|pid| client.create(pid, v1::Limits::default()).name);
    let other = client.create(scene.app.pid(), v1::Limits::default()).name;
    client.reaches(&other, v1::JobState::Succeeded);
    scene.assert_on("anon", 0, 16 * MIB);
    for (job, pid) in jobs.iter().zip(pids) {
        names_it(&client.reaches(job, v1::JobState::Failed).state_message, pid);
    }

    // Looks of all kinds, more than there are turns for.
    for pid in [pids[0], pids[1], pids[0], pids[1]] {
        let looked = daemon.ctl(&["locality", "--pid", &pid.to_string()]);
        assert!(!looked.status.success(), "{looked:?}");
        names_it(&String::from_utf8_lossy(&looked.stderr), pid);
    }
    for arguments in [
        &["locality", "--pid", &scene.app.pid().to_string()][..],
        &["advise", "--seconds", "1", "--pid", &scene.app.pid().to_string()],
    ] {
        let looked = daemon.ctl(arguments);
        assert!(looked.status.success(), "{arguments:?}: {looked:?}");
    }
    let all = daemon.ctl(&["advise", "--seconds", "1"]);
    assert!(!String::from_utf8_lossy(&all.stdout).is_empty(), "{all:?}");
    let mut service = LocalityServiceClient::new(client.channel.clone());
    let (mut earlier, mut rounds) = (None, 0);
    until("the view is renewed", || {
        let request = v1::GetLiveViewRequest { process: None };
        let answer = client.runtime.block_on(service.get_live_view(request)).expect("a view");
        let view = answer.into_inner().view.expect("a view");
        let time = view.read_time.as_ref().map(|time| (time.seconds, time.nanos));
        rounds += usize::from(earlier.replace(time).is_some_and(|earlier| earlier != time));
        thread::sleep(Duration::from_millis(100));
        rounds > 3
    });

    // Without a daemon as well.
    let pid = pids[0].to_string();
    let alone = crate::cli::numalocctl(&["migrate", "--standalone", "--pid", &pid]);
    assert!(!alone.status.success(), "{alone:?}");
    names_it(&String::from_utf8_lossy(&alone.stderr), pids[0]);

    // The threads that wait do not keep the daemon from ending, and its state is free.
    daemon.kill();
    daemon.spawn();
    let client = daemon.client();
    let again = client.create(pids[0], v1::Limits::default()).name;
    names_it(&client.reaches(&again, v1::JobState::Failed).state_message, pids[0]);
    daemon.stop();
    daemon.spawn();
    let client = daemon.client();

    // Once they answer they are like all others.
    holders.iter().for_each(|holder| holder.mounted.release());
    for pid in pids {
        until("it answers", || !is_silent(pid));
        let job = client.create(pid, v1::Limits::default()).name;
        client.reaches(&job, v1::JobState::Succeeded);
    }
    drop(holders);
    scene.finish();
}
