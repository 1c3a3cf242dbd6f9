//! A daemon as the engine.

use super::{Engine, Migrated, Next, VIEW_TICK};
use crate::{
    args::{MigrateArgs, OptionArgs, PlanArgs},
    exit::Failure,
    follow,
    job::is_end,
    progress::Wish,
    remote::{Daemon, OnCtrlC},
};
use numaloc_api::{
    v1,
    value::{CreateJob, JobId, MigrationSpec, OnConflict, Target, WorkloadFilter},
};
use numaloc_core::NodeSet;
use std::{thread, time::Duration};

/// The result of a migration for which there is no job, because no process of its target has a node to go to. Without
/// the daemon such a migration is skipped as well.
fn nowhere(why: String) -> v1::Job {
    v1::Job { state: v1::JobState::Skipped.into(), state_message: why, ..v1::Job::default() }
}

impl Engine for Daemon {
    fn via(&self) -> String {
        format!("numalocd at {}", self.endpoint())
    }

    fn topology(&self) -> Result<v1::GetTopologyResponse, Failure> {
        self.topology()
    }

    fn contents(&self, nodes: &NodeSet) -> Result<v1::GetNodeContentsResponse, Failure> {
        self.contents(nodes)
    }

    fn best_effort(&self) -> Result<Vec<String>, Failure> {
        let answer = self.list_workloads(&WorkloadFilter::default())?;
        let fitting = answer.workloads.into_iter();
        let fitting = fitting.filter(|each| each.qos_class() == v1::QosClass::Be);
        let cgroups: Vec<String> = fitting.map(|each| each.cgroup).collect();
        match cgroups.is_empty() {
            true => Err(Failure::Usage(
                "no target: no workload of class BE is registered: register best-effort work, or name it, for example with --cgroup".into(),
            )),
            false => Ok(cgroups),
        }
    }

    fn boot_id(&self) -> Result<String, Failure> {
        Ok(self.status()?.boot_id)
    }

    fn with_memory_for(&self, options: &OptionArgs) -> Result<NodeSet, Failure> {
        self.with_memory_for(options)
    }

    fn check(&self, args: &PlanArgs) -> Result<(), Failure> {
        args.exchange.check_daemon()
    }

    fn locality(
        &self,
        target: &Target,
        _stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<v1::GetLocalityResponse, Failure> {
        self.locality(target)
    }

    fn plan(
        &self,
        spec: &MigrationSpec,
        _exchange_with: &[Target],
    ) -> Result<v1::PlanMigrationResponse, Failure> {
        self.plan(spec)
    }

    fn advice(
        &self,
        target: Option<&Target>,
        interval: Duration,
        min_bytes: u64,
    ) -> Result<v1::GetAdviceResponse, Failure> {
        self.advice(target, interval, min_bytes)
    }

    fn migrate(&self, args: &MigrateArgs) -> Result<Migrated, Failure> {
        self.check(&args.plan)?;
        let job = &args.plan.job;
        let request = CreateJob {
            spec: args.plan.spec(&self.with_memory_for(&args.plan.options)?)?,
            request_id: job.request_id.clone(),
            on_conflict: if job.join { OnConflict::Join } else { OnConflict::Refuse },
            id: job.id.clone(),
            labels: job.label.iter().cloned().collect(),
            validate_only: args.validate_only,
        };
        let is_followed = !job.detach && !args.validate_only;
        let mut interrupts = self.interrupts()?;
        let (job, existing) = match self.create_job(&request, &mut interrupts) {
            // There is nothing to follow. A command that only requests a job still fails.
            Err(Failure::NoTargetNode(why)) if is_followed => {
                return Ok(Migrated::Ended(Box::new(nowhere(why))));
            }
            made => made?,
        };
        if !is_followed {
            let job = Box::new(job);
            return Ok(if args.validate_only {
                Migrated::Checked(job)
            } else {
                Migrated::Created(job)
            });
        }
        let on_interrupt = match existing {
            true => OnCtrlC::Leave(&mut interrupts),
            false => OnCtrlC::Cancel(&mut interrupts),
        };
        let wish = Wish::from(args.plan.progress);
        let ended = follow::follow(self, &follow::job_id(&job)?, on_interrupt, wish, |_| Ok(()))?;
        Ok(Migrated::Ended(Box::new(ended)))
    }

    fn run(
        &self,
        spec: &MigrationSpec,
        look: &mut dyn FnMut(&v1::Job) -> Next,
    ) -> Result<Option<v1::Job>, Failure> {
        let request = CreateJob { spec: spec.clone(), ..CreateJob::default() };
        let (job, _) = self.create_job(&request, &mut self.interrupts()?)?;
        let (id, mut is_cancelled) = (follow::job_id(&job)?, false);
        loop {
            let job = self.get_job(&id)?;
            if is_end(job.state()) {
                return Ok(Some(job));
            }
            match look(&job) {
                Next::Leave => return Ok(None),
                Next::Cancel if !is_cancelled => {
                    self.cancel_job(&id)?;
                    is_cancelled = true;
                }
                Next::Cancel | Next::Continue => {}
            }
            thread::sleep(VIEW_TICK);
        }
    }

    fn job(&self, id: &JobId) -> Result<v1::Job, Failure> {
        self.get_job(id)
    }

    fn cancel_job(&self, id: &JobId) -> Result<(), Failure> {
        self.cancel_job(id).map(|_| ())
    }
}
