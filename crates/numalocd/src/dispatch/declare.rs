//! Schedules that files of the configuration declare: they are made, changed and removed with the files, at the start
//! and at each reload, in one commit. So a daemon that is killed meanwhile finds them as they were, or as they are to
//! be.

use super::{
    command::{DispatchWork, stopping},
    dispatcher::Dispatcher,
};
use crate::{
    access::Caller,
    config::{Ceilings, Config, Declared, Role},
    refusal::Refusal,
};
use numaloc_api::value::{CreateSchedule, Pins, Schedule, ScheduleId};
use numaloc_engine::Authority;
use std::{collections::BTreeMap, sync::Arc};
use tokio::sync::oneshot;

/// A step that makes the schedules match the declarations in the files.
#[derive(Debug)]
enum Step {
    Add(Declared),
    Change(Arc<Schedule>, Declared),
    Remove(Arc<Schedule>),
}

impl Dispatcher {
    /// Makes the schedules match the declarations in the configuration, if it may have changed. If they cannot be
    /// stored, nothing is changed and this is called again later.
    pub(super) fn declare(&mut self) -> Result<(), Refusal> {
        if !self.undeclared || self.stopping.is_some() {
            return Ok(());
        }
        let steps = self.steps(&self.config());
        let count = steps.len();
        let (reply, mut stored) = oneshot::channel();
        let all: DispatchWork<Self> = Box::new(move |dispatcher| {
            let done = steps.into_iter().try_for_each(|step| dispatcher.step(step));
            dispatcher.answer(reply, done);
        });
        if count > 0 {
            self.on_changes(vec![all]);
            stored.try_recv().unwrap_or_else(|_| Err(stopping()))?;
            tracing::info!(changes = count, "schedules match the configuration's files");
        }
        self.undeclared = false;
        Ok(())
    }

    fn steps(&self, config: &Config) -> Vec<Step> {
        let wanted: BTreeMap<&ScheduleId, &Declared> =
            config.schedules.iter().map(|declared| (&declared.id, declared)).collect();
        let known = self.records.schedules().values();
        let of_files = known.filter(|known| known.declared_in.is_some());
        let left = of_files.filter_map(|known| match wanted.get(&known.id) {
            None => Some(Step::Remove(known.clone())),
            Some(declared) if is_same(known, declared) => None,
            Some(&declared) => Some(Step::Change(known.clone(), declared.clone())),
        });
        let left: Vec<_> = left.collect();
        let new = wanted.values().filter(|declared| match self.records.schedule(&declared.id) {
            None => true,
            Some(known) => {
                if known.declared_in.is_none() {
                    tracing::warn!(
                        "{}: {} is not made, because {} has created a schedule of this name, which stays: delete that \
                         (numalocctl schedules delete {}), or choose another name in the file",
                        declared.file,
                        declared.id,
                        known.creator,
                        declared.id.id()
                    );
                }
                false
            }
        });
        let new = new.map(|&declared| Step::Add(declared.clone()));
        left.into_iter().chain(new).collect()
    }

    fn step(&mut self, step: Step) -> Result<(), Refusal> {
        let root = root();
        match step {
            Step::Add(Declared { id, spec, file }) => {
                let request = CreateSchedule { id: Some(id), spec, ..CreateSchedule::default() };
                self.add_schedule(&root, request, Pins::new(), Some(file)).map(drop)
            }
            Step::Change(known, Declared { spec, file, .. }) => {
                let wanted = Schedule { spec, declared_in: Some(file), ..(*known).clone() };
                self.change_schedule(&root, &known, wanted, false).map(drop)
            }
            Step::Remove(known) => {
                let file = known.declared_in.as_deref().unwrap_or_default();
                self.remove_schedule(&known, format!("{file} no longer declares it"))
            }
        }
    }
}

fn is_same(known: &Schedule, declared: &Declared) -> bool {
    known.spec == declared.spec && known.declared_in.as_ref() == Some(&declared.file)
}

/// The caller that stands for the files: anyone who can write the configuration can have all memory moved.
fn root() -> Caller {
    Caller {
        name: "uid:0".to_owned(),
        gid: None,
        role: Role::Admin,
        authority: Authority::All,
        ceilings: Ceilings::NONE,
    }
}
