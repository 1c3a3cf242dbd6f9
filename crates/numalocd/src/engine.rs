//! Looks at targets and moves their memory, in threads that may block.
//!
//! [`numaloc_engine`] decides what is looked at and moved. Here clients take turns, and each job has a thread.

mod live;
mod run;
mod turns;

use crate::{
    access::Caller,
    order::{EngineReport, JobOrder},
    refusal::Refusal,
};
pub use live::HostNow;
use live::Sampler;
use numaloc_api::value::{Pins, Target};
use numaloc_core::{Identity, NodeSet, NumaBalancing, Options, Topology, contents::NodeContents};
use numaloc_dma::{OffloadError, Offloading};
use numaloc_engine::{
    Advised, Aim, Authority, FoundTarget, Local, Look, LookedAt, MoverGroup, Offers, OffloadAccess,
    authority,
    balancing::{Balancing, BalancingError},
    pin,
};
use numaloc_executor::TierWays;
use numaloc_host::{Error, Policies, Roots, Source, boot_id, containers, cpusets, obstacles};
use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    sync::Arc,
    thread,
    time::Duration,
};
use tokio::{sync::mpsc, time::sleep};
use turns::Turns;

/// Pieces of work of each kind that run at a time. There are five kinds with turns of their own, so that none waits for
/// another: surveys of memory for clients; the same where the use of memory is watched first, which takes minutes; looks at the whole host, for
/// advice; short looks at processes, without their memory, for clients; and looks for the targets and cpusets of schedules.
pub(crate) const AT_ONCE: usize = 3;

/// The kinds of requests that have turns of their own.
pub(crate) const TURNS: usize = 5;

/// The caller's name for the daemon's own turns. No caller has such a name.
const ITSELF: &str = "daemon";

/// Looks at targets and moves their memory. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Engine {
    local: Local,
    finds: Turns,
    probes: Turns,
    looks: Turns,
    watches: Turns,
    advice: Turns,
    live: Sampler,
    /// Read at the start, so that a caller that asks for the daemon's status does not wait for a turn.
    boot_id: Result<Arc<str>, Refusal>,
    /// Why memory is moved without the resctrl group that the configuration asks for.
    groupless: Option<Arc<str>>,
}

impl Engine {
    /// An engine for these kernel file systems. `balancing` and `offloading` have to be about the same ones.
    pub fn new(roots: Roots, balancing: Balancing, offloading: Offloading) -> Self {
        let [finds, probes, looks, watches, advice] = [(); TURNS].map(|()| Turns::new(AT_ONCE));
        let boot_id = boot_id(&roots).map(Arc::from).map_err(Refusal::from);
        let live = Sampler::new(roots.clone());
        let local = Local {
            roots,
            balancing,
            offload: OffloadAccess::Switched(offloading),
            mover_group: MoverGroup::Disabled,
            words: |error| Refusal::from(error.clone()).to_string(),
            makes_no_room: |partner, why| tracing::info!(partner, why, "makes no room"),
            tier_ways: TierWays::default(),
        };
        Self { local, finds, probes, looks, watches, advice, live, boot_id, groupless: None }
    }

    /// Has jobs move memory in `group`. `groupless`: why there is none although the configuration asks for it.
    #[must_use]
    pub fn in_group(mut self, (group, groupless): (MoverGroup, Option<String>)) -> Self {
        self.local.mover_group = group;
        self.groupless = groupless.map(Arc::from);
        self
    }

    /// Obstacles that hide a part of the host from the daemon, with what to do about them.
    pub fn obstacles(&self) -> Vec<String> {
        let found = obstacles(&self.local.roots).into_iter();
        let found = found.map(|obstacle| format!("{obstacle}: {}", obstacle.remedy()));
        found.chain(self.groupless.as_deref().map(str::to_owned)).collect()
    }

    /// Checks whether jobs that want `asked` done about the kernel's NUMA balancing can be carried out. The caller `of`
    /// asks.
    ///
    /// # Errors
    /// Daemon lacks rights.
    pub async fn check_balancing(&self, of: &str, asked: NumaBalancing) -> Result<(), Refusal> {
        if asked != NumaBalancing::Pause {
            return Ok(());
        }
        let balancing = self.local.balancing.clone();
        self.finds.take(of, move |_| Ok(balancing.check(asked)?)).await
    }

    /// Restores kernel.numa_balancing after jobs that will not come to their end. Blocks for a moment.
    ///
    /// # Errors
    /// It cannot be put back now.
    pub fn put_back(&self) -> Result<(), BalancingError> {
        self.local.balancing.put_back().map(drop)
    }

    /// Restores the kernel's settings of offload after jobs that will not come to their end. Blocks for a moment.
    ///
    /// # Errors
    /// They cannot be put back now.
    pub fn put_offload_back(&self) -> Result<(), OffloadError> {
        self.local.offload.put_back()
    }

    /// Removes the resctrl group in which memory is moved. Blocks for a moment.
    pub fn remove_group(&self) {
        self.local.mover_group.end();
    }

    /// The topology of the machine as it is now. The caller `of` asks.
    ///
    /// # Errors
    /// It cannot be read.
    pub async fn topology(&self, of: &str) -> Result<Topology, Refusal> {
        let local = self.local.clone();
        self.finds.take(of, move |_| Ok(local.topology()?)).await
    }

    /// What is on these nodes; on all with memory if there are none.
    ///
    /// # Errors
    /// A node does not exist, or cannot be read.
    pub async fn contents(&self, of: &str, nodes: NodeSet) -> Result<Vec<NodeContents>, Refusal> {
        let local = self.local.clone();
        self.finds.take(of, move |_| Ok(local.contents(&nodes)?)).await
    }

    /// The id of the present boot of the host.
    ///
    /// # Errors
    /// It could not be read at the start.
    pub fn boot_id(&self) -> Result<&str, Refusal> {
        self.boot_id.as_deref().map_err(Refusal::clone)
    }

    /// Memory that cannot be seen because page frames are hidden from this process, and what to do about it; `None`:
    /// they are not.
    pub fn hidden(&self) -> Option<&'static str> {
        const HIDDEN: &str = "page frames are hidden, so memory that several processes map stays where it is: enable the drop-in frames (dpkg-reconfigure numaloc), see Rights in /usr/share/doc/numaloc/daemon.md";
        (Source::probe(&self.local.roots) == Source::Query).then_some(HIDDEN)
    }

    /// The processes that the pids of `target` name now. The caller `of` asks.
    ///
    /// # Errors
    /// Daemon lacks rights; the host cannot be read.
    pub async fn pin(&self, of: &str, target: &Target) -> Result<Pins, Refusal> {
        if target.pids.is_empty() {
            return Ok(Pins::new());
        }
        let (roots, pids) = (self.local.roots.clone(), target.pids.clone());
        let boot_id = self.boot_id.clone()?;
        self.finds.take(of, move |_| Ok(pin(&roots, &boot_id, pids)?)).await
    }

    /// Finds the cgroups of containers by their full ids, whatever cgroup driver and runtime have made them. For each
    /// id: its cgroup, or why there is none, or not only one.
    ///
    /// # Errors
    /// Host cannot: there are too many cgroups to look through.
    pub async fn containers(
        &self,
        caller: &Caller,
        ids: BTreeSet<String>,
    ) -> Result<BTreeMap<String, Result<String, Refusal>>, Refusal> {
        let roots = self.local.roots.clone();
        let own = match caller.authority {
            Authority::Of { uid, .. } => uid,
            Authority::All => None,
        };
        let find = move |stop: &(dyn Fn() -> bool + Sync)| Ok(containers(&roots, &ids, own, stop)?);
        let found = self.finds.take(&caller.name, find).await?;
        Ok(found.into_iter().map(|(id, path)| (id, path.map_err(Refusal::from))).collect())
    }

    /// The effective cpusets of cgroups, in the order of `cgroups`; see [`cpusets`]. The daemon itself asks, for
    /// schedules: clients do not wait for this, and this does not wait for clients.
    ///
    /// # Errors
    /// Internal: a bug.
    pub async fn cpusets(&self, cgroups: Vec<String>) -> Result<Vec<Option<String>>, Refusal> {
        let roots = self.local.roots.clone();
        let read = move |_: &(dyn Fn() -> bool + Sync)| {
            Ok(cpusets(&roots, cgroups.iter().map(String::as_str)))
        };
        self.probes.take(ITSELF, read).await
    }

    /// Finds what a new record of `caller` is about. From now on the pids of `aim` mean the processes that have them
    /// now. The inner result says whether these may be moved by the caller and have a node to go to, and whether the
    /// kernel's NUMA balancing can be dealt with as `asked`.
    ///
    /// # Errors
    /// Daemon lacks rights; the host cannot be read. The inner result: as [`Self::find`] and [`Self::check_balancing`].
    pub async fn pin_and_find(
        &self,
        caller: &Caller,
        aim: Aim,
        options: Options,
        asked: NumaBalancing,
    ) -> Result<(Pins, Result<FoundTarget, Refusal>), Refusal> {
        let (local, authority) = (self.local.clone(), caller.authority.clone());
        let boot_id = self.boot_id.clone()?;
        let look = move |stop: &(dyn Fn() -> bool + Sync)| {
            let pins = pin(&local.roots, &boot_id, aim.pids())?;
            let aim = aim.pinned(&pins, |pid| Error::NoProcess { pid }.to_string());
            let found = local.find(&aim, &options, &authority, stop);
            let found = found.and_then(|found| Ok(local.balancing.check(asked).map(|()| found)?));
            Ok((pins, found.map_err(Refusal::from)))
        };
        self.finds.take(&caller.name, look).await
    }

    /// The processes of a target: whether they are there, may be moved by `caller`, and have a node to go to.
    ///
    /// # Errors
    /// Target not found, empty, without target node; not permitted; daemon lacks rights.
    pub async fn find(
        &self,
        caller: &Caller,
        aim: Aim,
        options: Options,
    ) -> Result<FoundTarget, Refusal> {
        let (local, authority) = (self.local.clone(), caller.authority.clone());
        let find = move |stop: &(dyn Fn() -> bool + Sync)| {
            Ok(local.find(&aim, &options, &authority, stop)?)
        };
        self.finds.take(&caller.name, find).await
    }

    /// As [`Self::find`], for a record that `caller` has created; see [`Local::probe`]. The daemon itself asks: clients do not wait for this,
    /// and this does not wait for clients.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub async fn probe(
        &self,
        caller: &Caller,
        aim: Aim,
        options: Options,
    ) -> Result<FoundTarget, Refusal> {
        let (local, authority) = (self.local.clone(), caller.authority.clone());
        let find = move |stop: &(dyn Fn() -> bool + Sync)| {
            Ok(local.probe(&aim, &options, &authority, stop)?)
        };
        self.probes.take(&caller.name, find).await
    }

    /// Surveys the memory of a target. Returns the plan of the moves, and the members that take no part. `policies`
    /// says how far memory policies are asked for. Only a few looks run at a time; others wait. The caller `of` asks.
    ///
    /// # Errors
    /// As [`Self::find`]. But a missing target node is not an error, unless a node was named that does not exist.
    pub async fn look(
        &self,
        caller: &Caller,
        aim: Aim,
        options: Options,
        policies: Policies<'static>,
    ) -> Result<LookedAt, Refusal> {
        let (local, authority) = (self.local.clone(), caller.authority.clone());
        let turns = self.turns_for(&options);
        let look = move |stop: &(dyn Fn() -> bool + Sync)| {
            let (aim, options, authority) = (&aim, &options, &authority);
            Ok(Look { local: &local, aim, options, authority, policies }.locality(stop)?)
        };
        turns.take(&caller.name, look).await
    }

    /// Looks at the processes that `aim` means, or at all, and decides what would help. CPU times are read twice,
    /// `interval` apart; in between it has no turn. Only a few looks run at a time; others wait. The caller `of` asks.
    ///
    /// # Errors
    /// Target not found or empty; the host cannot be read.
    pub async fn advise(
        &self,
        of: &str,
        aim: Option<Aim>,
        interval: Duration,
        min_bytes: u64,
    ) -> Result<Advised, Refusal> {
        let local = self.local.clone();
        let begin = move |stop: &(dyn Fn() -> bool + Sync)| {
            Ok(local.begin_advice(aim, interval, min_bytes, stop)?)
        };
        let begun = self.advice.take(of, begin).await?;
        sleep(interval).await;
        let roots = self.local.roots.clone();
        let end = move |stop: &(dyn Fn() -> bool + Sync)| Ok(begun.end(stop, &roots)?);
        self.advice.take(of, end).await
    }

    /// The present snapshot of the whole host, for a caller that watches it live, and `process` closely. Also returns
    /// whether the caller may see the mappings of the process: callers that may have it moved may.
    ///
    /// # Errors
    /// The host cannot be read.
    pub async fn live(
        &self,
        caller: &Caller,
        process: Option<Identity>,
    ) -> Result<(Arc<HostNow>, bool), Refusal> {
        let now = self.live.ask(&caller.name, process).await?;
        let Some(process) = process else { return Ok((now, false)) };
        let (roots, authority) = (self.local.roots.clone(), caller.authority.clone());
        let includes = move |_: &(dyn Fn() -> bool + Sync)| {
            Ok(authority::includes(&roots, process, &authority))
        };
        Ok((now, self.finds.take(&caller.name, includes).await?))
    }

    /// Has the live view look at processes whose memory jobs have moved since it began ([`Sampler::moved`]).
    pub fn moved(&self, moved: BTreeMap<Identity, u64>) {
        self.live.moved(moved);
    }

    /// As [`Self::look`], for a job of `caller` for which others may make room.
    ///
    /// # Errors
    /// As [`Self::look`], and on a machine with only one node.
    pub async fn plan(
        &self,
        caller: &Caller,
        aim: Aim,
        options: Options,
        policies: Policies<'static>,
        offers: Offers,
    ) -> Result<LookedAt, Refusal> {
        let (local, authority) = (self.local.clone(), caller.authority.clone());
        let turns = self.turns_for(&options);
        let look = move |stop: &(dyn Fn() -> bool + Sync)| {
            let (aim, options, authority) = (&aim, &options, &authority);
            Ok(Look { local: &local, aim, options, authority, policies }.plan(&offers, stop)?)
        };
        turns.take(&caller.name, look).await
    }

    /// The turns of a look with these options.
    fn turns_for(&self, options: &Options) -> &Turns {
        match options.placement.by_use() {
            Some(_) => &self.watches,
            None => &self.looks,
        }
    }

    /// Carries out orders as they come, each in a thread of its own, and reports. Ends when no order can come any more
    /// and all threads have reported.
    pub async fn serve(
        self,
        mut orders: mpsc::UnboundedReceiver<JobOrder>,
        reports: mpsc::UnboundedSender<EngineReport>,
    ) {
        // Each thread holds a sender. The receiver below waits until the last one is dropped, which is when all threads
        // have ended.
        let (running, mut ended) = mpsc::channel::<Infallible>(1);
        while let Some(order) = orders.recv().await {
            let local = self.local.clone();
            let (to, running) = (reports.clone(), running.clone());
            let job = order.job.clone();
            let body = move || {
                run::carry_out(&local, order, &to);
                drop(running);
            };
            let thread = thread::Builder::new().name(format!("job-{}", job.id())).spawn(body);
            if let Err(error) = thread {
                let message = format!("cannot start a thread for {job}: {error}");
                run::report(
                    &reports,
                    EngineReport::Planned(job, Err(Refusal::Internal { message })),
                );
            }
        }
        drop(running);
        ended.recv().await;
    }
}

#[cfg(test)]
mod tests;
