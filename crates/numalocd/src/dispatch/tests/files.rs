//! Schedules that files of the configuration declare.

use super::{
    schedules::{MINUTE, get, spec},
    *,
};
use crate::config::Declared;
use numaloc_api::value::{
    CreateSchedule, DeleteSchedule, ListSchedules, RunSchedule, Schedule, ScheduleFilter,
    ScheduleId, ScheduleSpec, ScheduleState, ScheduleUpdate, UpdateSchedule,
};

const FILE: &str = "/etc/numaloc/conf.d/50-a.toml";

fn id(name: &str) -> ScheduleId {
    ScheduleId::new(name).expect("an id")
}

fn of_cgroup(cgroup: &str) -> ScheduleSpec {
    let target = Target { cgroups: [cgroup.to_owned()].into(), ..Target::default() };
    let migration = MigrationSpec { target, ..MigrationSpec::default() };
    ScheduleSpec { migration, ..spec(MINUTE) }
}

fn declared(name: &str, cgroup: &str) -> Declared {
    Declared { id: id(name), spec: of_cgroup(cgroup), file: FILE.to_owned() }
}

fn with(schedules: &[Declared]) -> Config {
    Config { schedules: schedules.to_vec(), grants: grants(), ..Config::default() }
}

async fn all(rig: &Rig) -> Vec<Arc<Schedule>> {
    let page = Page { size: 100, token: None };
    let asked = ListSchedules { filter: ScheduleFilter::default(), page };
    let mut all = rig.handle.list::<Schedule>(asked).await.expect("a list").entries;
    all.sort_by_key(|schedule| schedule.id.clone());
    all
}

async fn names(rig: &Rig) -> Vec<String> {
    all(rig).await.iter().map(|schedule| schedule.id.id().to_owned()).collect()
}

async fn reload(rig: &Rig, schedules: &[Declared]) {
    rig.config.send_replace(Arc::new(with(schedules)));
    // The clock of these tests moves only when the dispatcher has done all.
    tokio::time::sleep(Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn they_come_change_and_go_with_their_files() {
    let dir = dir();
    let rig = Rig::with(&dir, with(&[declared("a", "/a"), declared("b", "/b")]));
    assert_eq!(names(&rig).await, ["a", "b"]);
    let [a, b] = [get(&rig, &id("a")).await, get(&rig, &id("b")).await];
    assert_eq!((a.declared_in.as_deref(), a.creator.as_str()), (Some(FILE), "uid:0"));
    let commits = rig.commits.load(Relaxed);
    reload(&rig, &[declared("a", "/a"), declared("b", "/b")]).await;
    assert_eq!(rig.commits.load(Relaxed), commits, "nothing has changed");

    reload(&rig, &[declared("b", "/other"), declared("c", "/c")]).await;
    assert_eq!(rig.commits.load(Relaxed), commits + 1, "in one commit");
    assert_eq!(names(&rig).await, ["b", "c"]);
    let changed = get(&rig, &id("b")).await;
    assert_eq!((changed.spec.clone(), changed.id.number()), (of_cgroup("/other"), b.id.number()));
    assert!(changed.etag != b.etag && changed.created == b.created);

    let moved =
        Declared { file: "/etc/numaloc/conf.d/60-b.toml".into(), ..declared("b", "/other") };
    reload(&rig, std::slice::from_ref(&moved)).await;
    assert_eq!(get(&rig, &id("b")).await.declared_in.as_ref(), Some(&moved.file));
    rig.stop().await;

    // The files have changed while the daemon was down.
    let rig = Rig::with(&dir, with(&[declared("d", "/d")]));
    assert_eq!(names(&rig).await, ["d"]);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn clients_cannot_change_them_and_can_run_them() {
    let dir = dir();
    let mut rig = Rig::with(&dir, with(&[declared("a", "/a")]));
    let update = ScheduleUpdate { paused: Some(true), ..ScheduleUpdate::default() };
    let request = UpdateSchedule { id: id("a"), etag: None, update, validate_only: false };
    let refused = rig.handle.update_schedule(admin(), request, Pins::new()).await;
    assert_refused!(refused, Refusal::NotPermitted { message } if message.contains(FILE));
    let request =
        DeleteSchedule { id: id("a"), etag: None, allow_missing: true, validate_only: false };
    let refused = rig.handle.delete_schedule(admin(), request).await;
    assert_refused!(refused, Refusal::NotPermitted { message } if message.contains(FILE));
    assert_eq!(get(&rig, &id("a")).await.state, ScheduleState::Waiting);

    let job = rig.run(outcome(4096, None)).await;
    rig.reaches(&job, JobState::Succeeded).await;
    let handle = rig.handle.clone();
    let asked = RunSchedule { id: id("a"), request_id: None };
    let run = tokio::spawn(async move { handle.run_schedule(admin(), asked).await });
    let again = rig.run(outcome(4096, None)).await;
    assert_eq!(run.await.expect("an answer").expect("a job").0.id, again);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn that_of_a_client_stays_and_the_files_comes_when_it_goes() {
    let dir = dir();
    let rig = Rig::at(&dir);
    let request =
        CreateSchedule { id: Some(id("a")), spec: of_cgroup("/client"), ..Default::default() };
    rig.handle.create_schedule(operator(), request, Pins::new()).await.expect("it is made");
    reload(&rig, &[declared("a", "/file"), declared("b", "/b")]).await;
    let kept = get(&rig, &id("a")).await;
    assert_eq!((kept.declared_in.as_ref(), &kept.spec), (None, &of_cgroup("/client")));
    assert_eq!(names(&rig).await, ["a", "b"]);
    reload(&rig, &[]).await;
    assert_eq!(names(&rig).await, ["a"], "it is not the files'");
    reload(&rig, &[declared("a", "/file")]).await;
    let request =
        DeleteSchedule { id: id("a"), etag: None, allow_missing: false, validate_only: false };
    rig.handle.delete_schedule(operator(), request).await.expect("it is removed");
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(get(&rig, &id("a")).await.declared_in.as_deref(), Some(FILE));
    rig.stop().await;
}

/// Whatever operation on the disk fails, the schedules are those of before or those of after, and after the next start
/// those of the files.
#[tokio::test(start_paused = true)]
async fn a_change_that_is_cut_short_is_made_as_a_whole_or_not_at_all() {
    let before = [declared("a", "/a"), declared("b", "/b")];
    let after = [declared("b", "/other"), declared("c", "/c"), declared("d", "/d")];
    let faults = (0..12).flat_map(|after| [false, true].map(|takes_effect| (after, takes_effect)));
    for (after_operations, takes_effect) in faults {
        let fault = DiskFault { after: after_operations, takes_effect, errno: nix::libc::EIO };
        let dir = dir();
        let rig = Rig::with(&dir, with(&before));
        assert_eq!(names(&rig).await, ["a", "b"]);
        (rig.fail)(fault);
        reload(&rig, &after).await;
        let found = names(&rig).await;
        assert!(found == ["a", "b"] || found == ["b", "c", "d"], "{found:?}");
        rig.kill().await;
        let rig = Rig::with(&dir, with(&after));
        assert_eq!(names(&rig).await, ["b", "c", "d"]);
        assert_eq!(get(&rig, &id("b")).await.spec, of_cgroup("/other"));
        rig.kill().await;
        let rig = Rig::with(&dir, with(&after));
        assert_eq!(names(&rig).await, ["b", "c", "d"]);
        rig.stop().await;
    }
}
