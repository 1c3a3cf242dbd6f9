//! Schedules as clients see them: created, read, changed, removed.

use super::{
    Made,
    agenda::RunRequest,
    command::{MadeSchedule, Reply, stopping},
    dispatcher::Dispatcher,
    owned::{check_etag, check_owner, etag},
    ticks::resting_due,
};
use crate::{
    access::Caller,
    refusal::Refusal,
    store::{Kept, Write},
};
use numaloc_api::value::{
    CreateSchedule, DeleteSchedule, EventType, Job, JobState, Pins, RunSchedule, Schedule,
    ScheduleId, ScheduleState, UpdateSchedule,
};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

impl Dispatcher {
    pub(super) fn find_schedule_request(
        &self,
        caller: &Caller,
        request: &CreateSchedule,
    ) -> Result<Option<Arc<Schedule>>, Refusal> {
        let CreateSchedule { id, spec, request_id, .. } = request;
        let Some(request_id) = request_id else { return Ok(None) };
        let differs = |known: &Schedule| match known.request_digest {
            // An earlier version has made it. If it was changed since, it is not known what it was created with.
            0 => known.created == known.updated && known.spec != *spec,
            digest => digest != spec.digest(),
        };
        let is_other =
            |known: &Schedule| id.as_ref().is_some_and(|id| *id != known.id) || differs(known);
        match self.records.schedules().of_request(&caller.name, request_id) {
            Some(known) if is_other(known) => Err(Refusal::AlreadyExists {
                request_id: request_id.clone(),
                name: known.id.to_string(),
            }),
            known => Ok(known.cloned()),
        }
    }

    pub(super) fn create_schedule(
        &mut self,
        caller: &Caller,
        request: CreateSchedule,
        pins: Pins,
    ) -> Result<MadeSchedule, Refusal> {
        self.add_schedule(caller, request, pins, None)
    }

    /// Creates a schedule of a client, or of a file (`declared_in`).
    pub(super) fn add_schedule(
        &mut self,
        caller: &Caller,
        request: CreateSchedule,
        pins: Pins,
        declared_in: Option<String>,
    ) -> Result<MadeSchedule, Refusal> {
        if let Some(known) = self.find_schedule_request(caller, &request)? {
            return Ok((known, true));
        }
        let CreateSchedule { id, spec, request_id, validate_only } = request;
        if let Some(taken) = id.as_ref().and_then(|id| self.records.schedule(id)) {
            return Err(Refusal::NameTaken { name: taken.id.to_string() });
        }
        if let Some(id) = &id {
            self.config().check_name(caller, id.id())?;
        }
        let number = self.records.last().schedule + 1;
        let id = match id {
            Some(id) => id.with_number(number),
            None => ScheduleId::numbered(number),
        };
        self.check_relief(&spec.migration, Some(&id))?;
        self.check_standing(&spec.migration, &id)?;
        let schedule = Arc::new(Schedule {
            request_digest: request_id.as_ref().map_or(0, |_| spec.digest()),
            creator_gid: caller.gid,
            pins,
            request_id,
            etag: etag(),
            declared_in,
            ..Schedule::new(id, spec, caller.name.clone(), self.wall())
        });
        self.records.check_schedule(&schedule, &self.config().quota)?;
        if validate_only {
            return Ok((schedule, false));
        }
        self.commit(vec![Write::Schedule(schedule.clone())])?;
        let (id, due) = (schedule.id.clone(), schedule.next_run.map(|_| Instant::now()));
        self.then(move |dispatcher| dispatcher.set_due(&id, due));
        Ok((schedule, false))
    }

    pub(super) fn get_schedule(&self, id: &ScheduleId) -> Result<Arc<Schedule>, Refusal> {
        self.records.schedules().known(id).cloned()
    }

    pub(super) fn update_schedule(
        &mut self,
        caller: &Caller,
        request: UpdateSchedule,
        pins: Pins,
    ) -> Result<Arc<Schedule>, Refusal> {
        let UpdateSchedule { id, etag: expected, update, validate_only } = request;
        let known = self.changeable(caller, &id, expected.as_deref())?;
        let pins = if update.target.is_some() { pins } else { known.pins.clone() };
        let asks = update.policy.is_some() || update.limits.is_some();
        let spec = update.apply(known.spec.clone())?;
        if asks {
            caller.ceilings.check(&spec.migration)?;
        }
        self.change_schedule(
            caller,
            &known,
            Schedule { spec, pins, ..(*known).clone() },
            validate_only,
        )
    }

    /// Changes a schedule to what `wanted` has of settings, pins and the file that declares it.
    pub(super) fn change_schedule(
        &mut self,
        caller: &Caller,
        known: &Arc<Schedule>,
        wanted: Schedule,
        validate_only: bool,
    ) -> Result<Arc<Schedule>, Refusal> {
        let Schedule { spec, pins, declared_in, .. } = wanted;
        // Of another target, or of another node, nothing is known.
        let (relieved, relieved_at) = match spec.migration == known.spec.migration {
            true => (known.relieved.clone(), known.relieved_at),
            false => Default::default(),
        };
        self.check_relief(&spec.migration, Some(&known.id))?;
        self.check_standing(&spec.migration, &known.id)?;
        let is_active = known.state == ScheduleState::Active;
        let over = known.state == ScheduleState::Completed && spec.interval.is_zero();
        let state = match () {
            () if is_active => ScheduleState::Active,
            () if spec.paused => ScheduleState::Paused,
            () if over => ScheduleState::Completed,
            () => ScheduleState::Waiting,
        };
        // The time when it is due stays, unless the new interval makes it earlier. A schedule that was paused is due at
        // once.
        let due = known.id.number().and_then(|number| self.agenda.due(number));
        let now = Instant::now();
        let latest = if known.last_run.is_some() { now + spec.interval } else { now };
        let due = (state == ScheduleState::Waiting).then(|| due.unwrap_or(now).min(latest));
        let schedule = Arc::new(Schedule {
            spec,
            state,
            state_message: String::new(),
            next_run: due.map(|due| self.wall() + due.saturating_duration_since(now)),
            gone: None,
            updated: self.wall().max(known.created + Duration::from_nanos(1)),
            etag: etag(),
            pins,
            // If its creator makes the change, the creator's present group is stored: an old record may lack the group.
            creator_gid: if caller.name == known.creator { caller.gid } else { known.creator_gid },
            declared_in,
            relieved,
            relieved_at,
            ..(**known).clone()
        });
        self.records.check_schedule(&schedule, &self.config().quota)?;
        if validate_only {
            return Ok(schedule);
        }
        let by = &caller.name;
        let event = match (known.spec.paused, schedule.spec.paused) {
            (false, true) => Some((EventType::Paused, format!("paused by {by}"))),
            (true, false) => Some((EventType::Resumed, format!("resumed by {by}"))),
            _ => None,
        };
        let event = event.map(|(kind, message)| self.of_schedule(&schedule, kind, message));
        let writes = [Write::Schedule(schedule.clone())].into_iter().chain(self.tell(event));
        self.commit(writes.collect())?;
        let changed = schedule.id.clone();
        self.then(move |dispatcher| dispatcher.begin_anew(&changed, due));
        Ok(schedule)
    }

    pub(super) fn delete_schedule(
        &mut self,
        caller: &Caller,
        request: DeleteSchedule,
    ) -> Result<(), Refusal> {
        let DeleteSchedule { id, etag, allow_missing, validate_only } = request;
        let known = match self.changeable(caller, &id, etag.as_deref()) {
            Err(Refusal::NotFound { .. }) if allow_missing => return Ok(()),
            known => known?,
        };
        if validate_only {
            return Ok(());
        }
        self.remove_schedule(&known, format!("removed by {}", caller.name))?;
        // A file may declare one of this name, which has waited for that.
        self.then(|dispatcher| dispatcher.undeclared = true);
        Ok(())
    }

    /// Removes a schedule. A run under way continues.
    pub(super) fn remove_schedule(
        &mut self,
        known: &Arc<Schedule>,
        why: String,
    ) -> Result<(), Refusal> {
        let id = known.id.clone();
        let last = known.last_job.as_ref().and_then(|job| self.records.job(job)).cloned();
        let is_under_way =
            |job: &&Arc<Job>| matches!(job.state, JobState::Planning | JobState::Running);
        // A run under way continues as a job of the schedule's owner. So it has an owner, and can be cancelled and
        // paused.
        let own = last.as_ref().filter(is_under_way).map(|job| Job {
            schedule: None,
            creator: known.creator.clone(),
            creator_gid: known.creator_gid,
            ..(**job).clone()
        });
        let own = own.map(|job| Write::Job(Arc::new(job)));
        let event = self.of_schedule(known, EventType::ScheduleRemoved, why);
        let writes = [Write::DropSchedule(id.clone())].into_iter().chain(own);
        self.commit(writes.chain(self.tell([event])).collect())?;
        self.then(move |dispatcher| dispatcher.begin_anew(&id, None));
        let waits = |job: &Arc<Job>| matches!(job.state, JobState::Queued | JobState::Paused);
        if let Some(job) = last.filter(waits) {
            // The schedule is removed even if this cannot be stored now. The job then ends at its turn, because its
            // schedule is missing.
            let message = "its schedule was removed".to_owned();
            let _ = self.end_job(&job, JobState::Cancelled, message, None);
        }
        Ok(())
    }

    /// Runs a schedule now. The caller gets the job once the target has been found. If a run is queued or under way
    /// is given back, and so is the one that an earlier request with the same request_id has made.
    pub(super) fn run_now(&mut self, caller: &Caller, request: RunSchedule, reply: Reply<Made>) {
        if self.stopping.is_some() {
            return drop(reply.send(Err(stopping())));
        }
        let known = match self.find_run(caller, &request) {
            Ok(None) => self.owned(caller, &request.id),
            Ok(Some(job)) => return drop(reply.send(Ok((job, true)))),
            Err(refusal) => Err(refusal),
        };
        let known = match known {
            Ok(known) => known,
            Err(refusal) => return drop(reply.send(Err(refusal))),
        };
        if known.state == ScheduleState::Active {
            return drop(reply.send(self.last_run(&known)));
        }
        let asked = RunRequest { who: caller.name.clone(), request_id: request.request_id, reply };
        self.agenda.ask(known.id.number().unwrap_or_default(), asked);
        // The answer to the probe sets it again.
        self.set_due(&known.id, None);
        self.probe(&known);
    }

    /// The run that an earlier request of the caller with this request_id has made.
    fn find_run(
        &mut self,
        caller: &Caller,
        request: &RunSchedule,
    ) -> Result<Option<Arc<Job>>, Refusal> {
        let RunSchedule { id, request_id } = request;
        let Some(request_id) = request_id else { return Ok(None) };
        let Some(Kept { job, .. }) = self.records.jobs().of_request(&caller.name, request_id)
        else {
            return Ok(None);
        };
        // One that was under way when its schedule was removed has none any more.
        let is_of_schedule = job.schedule.as_ref().is_none_or(|schedule| schedule == id);
        if job.requester.is_some() && is_of_schedule {
            let id = job.id.clone();
            self.get_job(&id).map(Some)
        } else {
            Err(Refusal::AlreadyExists { request_id: request_id.clone(), name: job.id.to_string() })
        }
    }

    /// The run of a schedule that is queued or under way.
    pub(super) fn last_run(&self, known: &Schedule) -> Result<Made, Refusal> {
        let name = || Refusal::NotFound { name: known.id.to_string() };
        let job = self.known(known.last_job.as_ref().ok_or_else(name)?)?;
        Ok((self.with_progress(job), true))
    }

    /// Answers the callers that have asked for a run of a schedule.
    pub(super) fn answer_runs(&mut self, id: &ScheduleId, answer: &Result<Made, Refusal>) {
        for asked in self.agenda.take_asked(id.number().unwrap_or_default()) {
            // This fails only if the caller has gone.
            let _ = asked.reply.send(answer.clone());
        }
    }

    fn changeable(
        &self,
        caller: &Caller,
        id: &ScheduleId,
        etag: Option<&str>,
    ) -> Result<Arc<Schedule>, Refusal> {
        let known = self.owned(caller, id)?;
        if let Some(file) = &known.declared_in {
            let message = format!(
                "{id} is declared in {file}: change it there, and have numalocd read its configuration again (systemctl reload numalocd)"
            );
            return Err(Refusal::NotPermitted { message });
        }
        check_etag(id, etag, &known.etag)?;
        Ok(known)
    }

    fn owned(&self, caller: &Caller, id: &ScheduleId) -> Result<Arc<Schedule>, Refusal> {
        let known = self.get_schedule(id)?;
        check_owner(caller, id, &known.creator)?;
        Ok(known)
    }

    /// Forgets what was learnt of a schedule that was changed or removed, and sets when it is due.
    fn begin_anew(&mut self, id: &ScheduleId, due: Option<Instant>) {
        let number = id.number().unwrap_or_default();
        self.agenda.forget(number);
        self.recall_relief(number);
        let present = self.records.schedule(id).map(|known| known.etag.clone()).unwrap_or_default();
        self.answer_runs(id, &Err(Refusal::Etag { name: id.to_string(), present }));
        self.set_due(id, due);
    }

    /// Sets when a schedule is due; `None`: it is not, but for a look at whether it is to be removed.
    pub(super) fn set_due(&mut self, id: &ScheduleId, due: Option<Instant>) {
        let resting = |known: &Arc<Schedule>| resting_due(known, Instant::now());
        let due = due.or_else(|| self.records.schedule(id).and_then(resting));
        if let Some(number) = id.number() {
            self.agenda.set_due(number, due);
        }
    }
}
