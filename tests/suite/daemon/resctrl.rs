//! Jobs that move memory in a resctrl group. No machine here has resctrl: the files are those of [`numaloc_tests::resctrl`], mounted
//! where the kernel's would be. All else is real: the daemon, its threads, and the memory that moves.

use super::*;
use crate::{scene::Scene, truth::on as on_node};
use numaloc_tests::resctrl::{MOUNT_POINT, Machine, Resctrl, in_private_mounts, make_mount_point};
use std::{
    sync::{Arc, atomic::AtomicBool},
    thread::{self, JoinHandle},
};

const GROUP: &str = "[resctrl]\ngroup = \"numaloc\"\nmemory_bandwidth = \"20\"\n";
/// The L3 caches of the two nodes: QEMU gives each CPU a number of its own for the cache that it shares, and the first of a node counts.
const CACHES: [u32; 2] = [0, 2];
/// The note of what has to be removed.
const NOTE: &str = "/run/numaloc/resctrl";

fn on(test: impl FnOnce(&Resctrl) + Send + 'static) {
    let is_run = in_private_mounts(|| {
        make_mount_point();
        let fs = Resctrl::new(Machine::amd().with_caches(&CACHES));
        fs.mount(Path::new(MOUNT_POINT)).expect("a file system");
        test(&fs);
    });
    assert!(is_run, "it takes root and the module fuse");
}

/// The threads of the group that live.
fn tasks() -> Vec<i32> {
    let text = fs::read_to_string(format!("{MOUNT_POINT}/numaloc/tasks")).expect("a group");
    text.lines().map(|line| line.parse().expect("a number")).collect()
}

/// Waits until a daemon has started. It listens before.
fn answers(daemon: &Daemon) {
    let client = daemon.client();
    let asked = client.runtime.block_on(client.daemon().get_status(v1::GetStatusRequest {}));
    asked.expect("an answer");
}

/// Creates a job with a profile.
fn create(client: &Client, scene: &Scene, profile: v1::Profile, limits: v1::Limits) -> String {
    let mut request = request(scene.app.pid(), limits);
    let policy = v1::Policy { profile: profile.into(), ..v1::Policy::default() };
    request.spec.as_mut().expect("a spec").policy = Some(policy);
    client.try_create(request).expect("it is taken").name
}

#[test]
fn jobs_move_in_the_group_unless_they_are_gentle() {
    on(|fs| {
        let mut daemon = Daemon::with(GROUP);
        let client = daemon.client();
        answers(&daemon);
        assert_eq!(fs.groups(), ["numaloc"], "{}", daemon.log());
        assert_eq!(tasks(), [0; 0], "no job moves");
        let scene = Scene::remote(&["anon:64M"]);
        let job = create(&client, &scene, v1::Profile::Fast, slow(16 * MIB));
        client.moves(&job);
        let moving = tasks();
        let [tid] = moving[..] else { panic!("{moving:?}: {}", daemon.log()) };
        let is_daemons = Path::new(&format!("/proc/{}/task/{tid}", daemon.pid())).exists();
        assert!(is_daemons && tid != daemon.pid() as i32, "{tid}");
        client.reaches(&job, v1::JobState::Succeeded);
        scene.assert_on("anon", 0, 64 * MIB);
        assert_eq!((tasks(), fs.entered("numaloc")), (Vec::new(), vec![tid]));
        scene.finish();

        let scene = Scene::remote(&["anon:8M"]);
        let job = create(&client, &scene, v1::Profile::Gentle, v1::Limits::default());
        client.reaches(&job, v1::JobState::Succeeded);
        scene.assert_on("anon", 0, 8 * MIB);
        assert_eq!(fs.entered("numaloc"), [tid], "gentle never uses it");
        scene.finish();

        // A daemon that is killed while a job moves.
        let scene = Scene::remote(&["anon:64M"]);
        let job = create(&client, &scene, v1::Profile::Fast, slow(8 * MIB));
        client.moves(&job);
        assert_eq!(tasks().len(), 1);
        daemon.kill();
        assert_eq!((fs.groups(), tasks()), (vec!["numaloc".to_owned()], Vec::new()));
        daemon.config = String::new();
        daemon.spawn();
        answers(&daemon);
        assert_eq!(fs.groups(), [""; 0], "{}", daemon.log());
        assert_eq!(fs::read_to_string(NOTE).expect("a note"), "");
        daemon.stop();
        scene.finish();
    });
}

/// Has the counters of a node's cache rise by 10 GiB a second until this value is dropped.
struct NodeIsUsed(Arc<AtomicBool>, Option<JoinHandle<()>>);

impl NodeIsUsed {
    fn new(fs: &Resctrl, cache: u32) -> Self {
        let (over, begin, fs) = (Arc::new(AtomicBool::new(false)), Instant::now(), fs.clone());
        let is_over = over.clone();
        let counting = move || {
            while !is_over.load(Ordering::Relaxed) {
                let bytes = begin.elapsed().as_micros() as u64 * (10 << 30) / 1_000_000;
                fs.count("", cache, &bytes.to_string(), &bytes.to_string());
                thread::sleep(Duration::from_millis(10));
            }
        };
        Self(over, Some(thread::spawn(counting)))
    }
}

impl Drop for NodeIsUsed {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        self.1.take().map(JoinHandle::join);
    }
}

#[test]
fn memory_stays_while_the_home_node_is_saturated() {
    on(|fs| {
        let daemon = Daemon::start();
        let client = daemon.client();
        let scene = Scene::remote(&["anon:32M"]);
        let create = |most: i64| {
            let mut request = request(scene.app.pid(), v1::Limits::default());
            let node_bandwidth_max_bytes_per_second = Some(most);
            let policy = v1::Policy { node_bandwidth_max_bytes_per_second, ..Default::default() };
            request.spec.as_mut().expect("a spec").policy = Some(policy);
            client.try_create(request).expect("it is taken").name
        };
        let used = NodeIsUsed::new(fs, CACHES[0]);
        let pid = scene.app.pid().to_string();
        let plan = ["plan", "--pid", &pid, "--node-bandwidth-max", "1G/s"];
        let output = daemon.ctl(&plan);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("target node saturated"), "{output:?}");
        let job = client.reaches(&create(1 << 30), v1::JobState::Partial);
        // Nothing could move, so there is a plan alone.
        let left = job.plan.expect("a plan").left;
        let saturated = i32::from(v1::LeftReason::TargetSaturated);
        let stays = left.iter().find(|left| left.reason == saturated);
        assert!(stays.is_some_and(|stays| stays.bytes >= 32 << 20), "{left:?}");
        assert!(job.state_message.contains("target node saturated"), "{}", job.state_message);
        scene.assert_on("anon", 1, 32 * MIB);
        client.reaches(&create(100 << 30), v1::JobState::Succeeded);
        scene.assert_on("anon", 0, 32 * MIB);
        drop(used);
        scene.finish();
    });
}

#[test]
fn memory_leaves_a_node_that_is_used_too_much_and_comes_back() {
    on(|fs| {
        let daemon = Daemon::start();
        let scene = Scene::remote(&["anon:64M"]);
        let pid = scene.app.pid().to_string();
        let left = || 64 * MIB - on_node(&scene.nodes("anon"), 1);
        let relieve = ["relieve", "1", "--bandwidth", "5G/s", "--pid", &pid];
        let within = daemon.ctl(&relieve);
        let text = String::from_utf8_lossy(&within.stdout);
        assert!(text.contains("memory of node 1 is used at 5.0 GiB/s at most"), "{within:?}");
        assert_eq!(left(), 0);

        let used = NodeIsUsed::new(fs, CACHES[1]);
        let output = daemon.ctl(&relieve);
        // Half of what CPUs do with the node's memory is too much, so half of the memory leaves: less where the thread that counts waits
        // for a CPU.
        let first = left();
        assert!((4 * MIB..=40 * MIB).contains(&first), "{first}: {output:?}");
        let schedule = [
            &["schedules", "create", "--id", "relief", "--relieve", "1"][..],
            &["--bandwidth-above", "5G/s", "--return-after", "5s"],
            &["--interval", "1s", "--pid", &pid],
        ];
        let created = daemon.ctl(&schedule.concat());
        assert!(created.status.success(), "{created:?}");
        until("more of it leaves", || left() > first + 8 * MIB);
        drop(used);
        until("what has left by the schedule comes back", || left() < first + 4 * MIB);
        assert!(left() + 4 * MIB > first, "{} of {first}", left());
        scene.finish();
    });
}
