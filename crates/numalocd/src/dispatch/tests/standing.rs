//! Schedules that place memory by its use.

use super::{
    schedules::{MINUTE, spec},
    *,
};
use numaloc_api::value::{CreateSchedule, DeleteSchedule, Schedule, ScheduleSpec};
use numaloc_core::{Placement, Tiers};

fn by_use(cgroup: &str) -> ScheduleSpec {
    let mut spec = spec(MINUTE);
    spec.migration.target = Target::cgroup(cgroup);
    spec.migration.policy.options.placement = Placement::Tiers(Tiers::default());
    spec
}

async fn create(rig: &Rig, spec: ScheduleSpec) -> Result<Arc<Schedule>, Refusal> {
    let request = CreateSchedule { spec, ..CreateSchedule::default() };
    rig.handle.create_schedule(admin(), request, Default::default()).await
}

#[tokio::test(start_paused = true)]
async fn a_target_has_one_at_most() {
    let dir = dir();
    let rig = Rig::at(&dir);
    let first = create(&rig, by_use("/batch")).await.expect("it is taken");
    create(&rig, by_use("/batcher")).await.expect("another cgroup");
    let home = ScheduleSpec { migration: spec(MINUTE).migration, ..by_use("/batch") };
    create(&rig, home).await.expect("another placement");
    for taken in ["/batch", "/batch/a", "/"] {
        let message = create(&rig, by_use(taken)).await.expect_err(taken).to_string();
        assert!(message.contains(" places the memory of cgroup "), "{message}");
    }
    let delete = DeleteSchedule::new(first.id.clone());
    rig.handle.delete_schedule(admin(), delete).await.expect("it is deleted");
    create(&rig, by_use("/batch/a")).await.expect("it is free");
}
