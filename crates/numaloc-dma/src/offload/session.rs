//! The state that jobs share: the settings while offload is on, and the look at the engines.

use super::{HostAccess, OffloadError, changes::ChangedSettings};
use crate::kernel::{Counters, EngineStates, Interface, Settings, condition};
use numaloc_host::{Roots, journal};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::{io, sync::Arc, thread};

/// The name of the journal.
pub(super) const NAME: &str = "offload";

pub(super) type OffloadJournal = journal::Journal<ChangedSettings>;

/// The part that all clones and jobs share.
#[derive(Debug)]
pub struct SharedOffload {
    pub(super) roots: Roots,
    /// The right to change the settings, and what was found; held while they are changed.
    journal: Mutex<Option<OffloadJournal>>,
    host: HostAccess,
    /// The lock is held while settings are changed, so that no job moves before offload is on.
    session: Mutex<OffloadSession>,
    /// Told when the last job has left.
    left: Condvar,
}

/// The jobs that use it now.
#[derive(Debug, Default)]
pub struct OffloadSession {
    pub(super) jobs: usize,
    /// Number of jobs that have ever joined: shows a job whether another one came while it moved.
    pub(super) joined: u64,
    /// Set while there are any.
    on: Option<On>,
}

/// Offload while it is on.
#[derive(Debug)]
struct On {
    interface: Box<dyn Interface>,
    /// The number of the job that switched it on, by which the thread that looks knows its own session.
    first: u64,
    /// The counts when it was switched on.
    counters: Option<Counters>,
    /// The states of the engines then.
    condition: EngineStates,
    /// Why it was given up.
    trouble: Option<String>,
}

impl OffloadSession {
    /// Why offload was given up for the jobs that share it; `None`: it was not.
    pub(super) fn trouble(&self) -> Option<&str> {
        self.on.as_ref()?.trouble.as_deref()
    }

    /// The interface that is in use.
    pub(super) fn interface(&self) -> Option<&dyn Interface> {
        Some(self.on.as_ref()?.interface.as_ref())
    }

    /// The kernel's counts now.
    pub(super) fn counters(&self) -> Option<Counters> {
        self.interface()?.counters().ok().flatten()
    }
}

impl On {
    /// The first failure since it was switched on.
    fn look(&self, roots: &Roots) -> Option<String> {
        let counted = match self.interface.counters() {
            Ok(counted) => counted,
            Err(error) => return Some(format!("the kernel's interface is gone: {error}")),
        };
        let failed = self.counters.zip(counted);
        let failed = failed.map_or(0, |(before, now)| now.failed.saturating_sub(before.failed));
        if failed > 0 {
            return Some(format!(
                "an engine could not copy {failed} folios, which CPUs have copied; see the kernel's log"
            ));
        }
        if let Ok(false) = self.interface.is_on() {
            return Some("another program has switched it off".to_owned());
        }
        condition(roots).worse_than(&self.condition)
    }
}

impl SharedOffload {
    pub(super) fn new(roots: Roots, host: HostAccess) -> Self {
        Self {
            roots,
            journal: Mutex::default(),
            host,
            session: Mutex::default(),
            left: Condvar::new(),
        }
    }

    pub(super) fn session(&self) -> MutexGuard<'_, OffloadSession> {
        self.session.lock()
    }

    /// Lets a job use it. The first one switches it on.
    pub(super) fn join(
        self: &Arc<Self>,
        session: &mut OffloadSession,
        settings: Settings,
    ) -> Result<(), OffloadError> {
        if session.jobs == 0 {
            let interface = self.switch_on(&settings)?;
            let counters = interface.counters().ok().flatten();
            let condition = condition(&self.roots);
            let first = session.joined + 1;
            session.on = Some(On { interface, first, counters, condition, trouble: None });
            self.watch(first);
        }
        session.jobs += 1;
        session.joined += 1;
        Ok(())
    }

    /// A job has ended. The last one puts back what was found.
    pub(super) fn leave(&self, session: &mut OffloadSession) {
        session.jobs -= 1;
        if session.jobs == 0 {
            self.put_back_or_say_so();
            session.on = None;
            self.left.notify_all();
        }
    }

    /// Looks at the counters and engines. Puts the settings back if anything is wrong.
    pub(super) fn look(&self, session: &mut OffloadSession) {
        let Some(on) = session.on.as_mut().filter(|on| on.trouble.is_none()) else { return };
        let Some(trouble) = on.look(&self.roots) else { return };
        tracing::error!(trouble, "offload is given up for the jobs that use it now");
        on.trouble = Some(trouble);
        self.put_back_or_say_so();
    }

    /// Looks again and again, until the session that the job with the number `first` began has ended.
    fn watch(self: &Arc<Self>, first: u64) {
        let shared = self.clone();
        let watch = move || {
            let mut session = shared.session();
            while session.on.as_ref().is_some_and(|on| on.first == first) {
                shared.left.wait_for(&mut session, shared.host.look);
                if session.on.as_ref().is_some_and(|on| on.first == first) {
                    shared.look(&mut session);
                }
            }
        };
        if let Err(error) = thread::Builder::new().name("offload".into()).spawn(watch) {
            tracing::warn!(%error, "errors of offload are noticed only when a job ends");
        }
    }

    /// Saves what is found and switches it on. If a step fails, all is put back.
    fn switch_on(&self, settings: &Settings) -> Result<Box<dyn Interface>, OffloadError> {
        // A daemon that died may have left something.
        self.put_back()?;
        let interface = (self.host.find)(&self.roots).ok_or_else(|| self.gone())?;
        if interface.is_on()? {
            return Ok(interface);
        }
        if let Err(error) = self.change(interface.as_ref(), settings) {
            self.put_back_or_say_so();
            return Err(error);
        }
        tracing::info!(interface = interface.name(), ?settings, "offload is switched on");
        Ok(interface)
    }

    /// Notes what is found, switches it on, and notes the values that the kernel shows by then.
    fn change(&self, interface: &dyn Interface, settings: &Settings) -> Result<(), OffloadError> {
        let wanted = interface.wanted(settings);
        let found = wanted.iter().map(|knob| interface.read(knob.name));
        let found = found.collect::<Result<Vec<String>, _>>()?;
        let changes = ChangedSettings::to_switch_on(interface.name(), &wanted, &found);
        let mut changes = changes.ok_or_else(|| {
            let path = interface.directory().to_owned();
            let reason = "a value is not one word of letters, digits and commas".into();
            numaloc_host::Error::Parse { path, reason }
        })?;
        let mut held = self.journal();
        let journal = self.take(&mut held)?.ok_or(OffloadError::InUse)?;
        journal.note(&changes).map_err(OffloadError::Journal)?;
        for knob in &mut changes.knobs {
            interface.write(&knob.name, &knob.set)?;
        }
        changes.is_complete = true;
        for knob in &mut changes.knobs {
            knob.set = interface.read(&knob.name)?;
        }
        journal.note(&changes).map_err(OffloadError::Journal)
    }

    fn journal(&self) -> MutexGuard<'_, Option<OffloadJournal>> {
        self.journal.lock()
    }

    /// The journal; `None` while another process has it.
    fn take<'j>(
        &self,
        held: &'j mut Option<OffloadJournal>,
    ) -> Result<Option<&'j mut OffloadJournal>, OffloadError> {
        if held.is_none() {
            *held = OffloadJournal::take(&self.roots, NAME).map_err(OffloadError::Journal)?;
        }
        Ok(held.as_mut())
    }

    /// Puts back what was found. Another process that has the journal puts back what it changes.
    pub(super) fn put_back(&self) -> Result<Vec<String>, OffloadError> {
        let mut held = self.journal();
        if held.is_none() && !journal::is_noted(&self.roots, NAME) {
            return Ok(Vec::new());
        }
        let done = match self.take(&mut held)? {
            Some(journal) => self.put_back_noted(journal),
            None => Ok(Vec::new()),
        };
        *held = None;
        done
    }

    fn put_back_noted(&self, journal: &mut OffloadJournal) -> Result<Vec<String>, OffloadError> {
        let Some(changes) = journal.noted().map_err(OffloadError::Journal)? else {
            return Ok(Vec::new());
        };
        let mut changed = Vec::new();
        let interface = (self.host.find)(&self.roots);
        match interface.filter(|interface| interface.name() == changes.interface) {
            Some(interface) => {
                let known = |name: &str| interface.knobs().contains(&name);
                let now = |name: &str| interface.read(name).ok().filter(|_| known(name));
                for change in changes.to_put_back(now) {
                    interface.write(&change.name, &change.found)?;
                    changed.push(format!("{} = {}", change.name, change.found));
                }
                tracing::info!(?changed, "the kernel's settings of offload are put back");
            }
            None => {
                tracing::info!(
                    "the kernel's interface of offload is gone: there is nothing to restore"
                );
            }
        }
        journal.forget().map_err(OffloadError::Journal)?;
        Ok(changed)
    }

    /// For callers that cannot report the error: it is logged.
    fn put_back_or_say_so(&self) {
        if let Err(error) = self.put_back() {
            tracing::error!(%error, "offload is not put back: tried again after the next job, and at the next start");
        }
    }

    /// The interface was there a moment ago.
    fn gone(&self) -> OffloadError {
        let (path, source) = (self.roots.sys.clone(), io::ErrorKind::NotFound.into());
        numaloc_host::Error::Setting { path, source }.into()
    }
}
