//! Jobs that move memory in a resctrl group. No machine here has resctrl: the files are those of [`numaloc_tests::resctrl`], mounted
//! where the kernel's would be. All else is real: the daemon, its threads, and the memory that moves.

use super::*;
use crate::scene::Scene;
use numaloc_tests::resctrl::{MOUNT_POINT, Machine, Resctrl, in_private_mounts, make_mount_point};

const GROUP: &str = "[resctrl]\ngroup = \"numaloc\"\nmemory_bandwidth = \"20\"\n";
/// The note of what has to be removed.
const NOTE: &str = "/run/numaloc/resctrl";

fn on(test: impl FnOnce(&Resctrl) + Send + 'static) {
    let is_run = in_private_mounts(|| {
        make_mount_point();
        let fs = Resctrl::new(Machine::amd());
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
