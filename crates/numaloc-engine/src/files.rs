//! Orders for files, whose page cache is planned and moved instead of the memory of processes.

use crate::{
    Aim, Ended, Error, FoundTarget, Local, Planned, RunOrder,
    authority::{self, Authority},
    members,
};
use numaloc_api::value::{
    self, CachedFiles, JobState, MemberResult, Missing, Outcome, PlanSummary, Target, first_few,
};
use numaloc_core::{CacheGoal, FilePlan, Locality, NodeSet, Options, Share, Topology, number};
use numaloc_executor::{Control, FileOutcome, FileRun, PlannedFile, RunLimits};
use numaloc_host::{
    CachedFile, Error as HostError, FileLook, LookedFile, LookedFiles, NodeMemoryReader, Roots,
    cache_goal, topology,
};
use std::{
    cell::Cell,
    cmp::Reverse,
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

/// Longest look at the files of a job. A look takes as long as what is cached, so this is for files of which the kernel
/// cannot tell that (before Linux 6.5: 14 s for each TiB of data).
const LONGEST_LOOK: Duration = Duration::from_secs(600);

/// Planned files, which are not kept open.
#[derive(Debug)]
pub struct PlannedFiles {
    topology: Topology,
    options: Options,
    goal: CacheGoal,
    paths: Vec<PlannedPath>,
}

/// A path of the target, and the files that it names or why it takes no part.
#[derive(Debug)]
struct PlannedPath {
    name: String,
    found: Result<Vec<PlannedFile>, Error>,
    /// Files below it that take no part, for people.
    left_out: Option<String>,
}

/// Checks whether anything can be done for files, without looking at their cache.
///
/// # Errors
/// The host has no such nodes, or only one; none of the files can be moved by `authority`.
pub fn find(
    local: &Local,
    aim: &Aim,
    options: &Options,
    authority: &Authority,
    stop: &dyn Fn() -> bool,
) -> Result<FoundTarget, Error> {
    let roots = &local.roots;
    let goal = cache_goal(roots, &topology::topology(roots)?, options)?.1;
    let paths = aim.files.iter().map(|name| {
        let path = Path::new(name);
        let owner = authority::check_path(roots, path, authority, stop);
        let found = owner.and_then(|()| match path.is_file() {
            true => Ok(CachedFile::open(roots, path).map(|_| Vec::new())?),
            // Files of a directory or a pattern that cannot be moved are left out.
            false => Ok(Vec::new()),
        });
        PlannedPath { name: name.clone(), found, left_out: None }
    });
    let paths: Vec<PlannedPath> = paths.collect();
    check(&paths)?;
    let nodes = goal.nodes();
    Ok(found_target(&paths, &nodes, local.words, |name, _| waiting_member(name, &nodes)))
}

impl PlannedFiles {
    /// Looks at the files and plans their move.
    ///
    /// # Errors
    /// As [`find`]; stopped if it was cancelled, [`Error::Late`] if the look takes too long.
    pub fn plan(local: &Local, order: &RunOrder) -> Result<(Self, Planned), Error> {
        let roots = &local.roots;
        let topology = topology::topology(roots)?;
        let (options, goal) = cache_goal(roots, &topology, &order.options)?;
        let paths = look_within(LONGEST_LOOK, &order.control, |stop| {
            look(roots, &order.aim.files, &goal, &order.authority, stop)
        })?;
        check(&paths)?;
        let run = Self { topology, options, goal, paths };
        let planned = run.planned(local.words);
        tracing::info!(
            files = files_of(&run.paths).count(),
            planned_bytes = planned.planned_bytes,
            local_percent = planned.local_percent,
            nothing = planned.nothing.as_ref().map(|(_, why)| why),
            "planned"
        );
        Ok((run, planned))
    }

    fn planned(&self, words: fn(&Error) -> String) -> Planned {
        let before = locality(files_of(&self.paths));
        let planned_bytes = before.movable.remote_bytes;
        let nothing = nothing_to_move(before);
        let mut found = planned_target(&self.paths, &self.goal, words);
        if nothing.is_some() {
            let settled = |member: MemberResult| {
                MemberResult { after: member.before, ..member }.settled(self.options.target_ratio)
            };
            found.members = found.members.into_iter().map(settled).collect();
        }
        let left_out = self.paths.iter().filter_map(|path| path.left_out.as_ref());
        let left_out: Vec<&String> = left_out.collect();
        Planned {
            summary: Arc::new(PlanSummary::of_files(before)),
            found,
            planned_bytes,
            local_percent: before.movable.percent(),
            nothing: nothing.map(|why| (JobState::Skipped, why.to_owned())),
            note: first_few(left_out.into_iter()),
            returned: None,
        }
    }

    /// Moves, and looks again. Files that the authority does not extend to by now are left where they are.
    ///
    /// # Errors
    /// The memory of nodes cannot be read.
    pub fn execute(
        &self,
        local: &Local,
        limits: &RunLimits,
        control: &Control,
        authority: &Authority,
    ) -> Result<Ended, Error> {
        let Local { roots, words, .. } = local;
        let Self { topology, options, goal, paths } = self;
        let memory = &NodeMemoryReader::new(roots)?;
        let admits = |file: &CachedFile| authority::includes_file(authority, file.owner());
        let run = FileRun {
            roots,
            topology,
            memory,
            options,
            limits,
            control,
            admits: &admits,
            unmapped: None,
        };
        let begin = Instant::now();
        let planned: Vec<&[PlannedFile]> =
            paths.iter().map(|path| path.found.as_deref().unwrap_or_default()).collect();
        let carry_out = || run.carry_out(&planned);
        let outcomes: Vec<FileOutcome> = local.mover_group.run(options.pacing.profile, carry_out);
        let elapsed = begin.elapsed();
        let names = paths.iter().map(|path| path.name.clone()).collect();
        let after =
            look_within(LONGEST_LOOK, control, |stop| look(roots, &names, goal, authority, stop));
        let after = after.inspect_err(|error| tracing::debug!(%error, "not scanned again"));
        let after = after.ok();
        let mut all = FileOutcome::default();
        outcomes.iter().for_each(|outcome| all.add(outcome));
        let members =
            planned_target(paths, goal, *words).members.into_iter().zip(&outcomes).enumerate();
        let members = members.map(|(index, (member, outcome))| {
            let after = after.as_ref().and_then(|paths| paths[index].found.as_ref().ok());
            let (account, flows) = (outcome.account.clone(), outcome.flows.clone());
            MemberResult { after: after.map(locality), account, flows, ..member }
                .settled(options.target_ratio)
        });
        let members = members.collect();
        tracing::info!(
            found_bytes = all.account.found_bytes(),
            moved_bytes = all.account.moved_bytes(),
            shortfall_bytes = all.account.shortfall_bytes(),
            calls = all.calls.calls,
            elapsed_ms = number::amount(elapsed.as_millis()),
            "ended"
        );
        let FileOutcome { account, flows, calls } = all;
        let outcome = Outcome {
            others: account,
            flows,
            calls,
            elapsed,
            before: locality(files_of(paths)),
            after: after.as_deref().map(|paths| locality(files_of(paths))),
            ended_with: control.ended_with(),
            ..Outcome::default()
        };
        Ok(Ended { outcome: Arc::new(outcome), members, trail: None })
    }
}

/// Carries out a look that ends after some time at the latest, or when the job is cancelled.
///
/// # Errors
/// Those of the look; [`Error::Late`] if it took longer than `longest`.
fn look_within<T>(
    longest: Duration,
    control: &Control,
    look: impl FnOnce(&dyn Fn() -> bool) -> Result<T, Error>,
) -> Result<T, Error> {
    let begin = Instant::now();
    let is_cancelled = || control.cancel.load(Relaxed);
    let is_late = Cell::new(false);
    let stop = || {
        is_late.set(begin.elapsed() >= longest);
        is_late.get() || is_cancelled()
    };
    look(&stop).map_err(|error| match error {
        error if error.is_stopped() && is_late.get() && !is_cancelled() => {
            let message = format!(
                "the scan of the files' page cache took {} s: name fewer or smaller files; from Linux 6.5 on, its time depends only \
                 on what is cached",
                longest.as_secs()
            );
            Error::Late { message }
        }
        error => error,
    })
}

/// Looks at the files that each path names.
fn look(
    roots: &Roots,
    names: &BTreeSet<String>,
    goal: &CacheGoal,
    authority: &Authority,
    stop: &dyn Fn() -> bool,
) -> Result<Vec<PlannedPath>, Error> {
    let mut paths = Vec::new();
    let admits = |file: &CachedFile| authority::check_file(authority, file);
    let look = FileLook::new(roots, &admits, stop);
    visit((roots, authority), look, names, stop, |name, found| {
        let left_out = found.as_ref().ok().and_then(|found| left_out_below(name, &found.left_out));
        let planned = |file| PlannedFile::new(goal, file);
        let found = found.map(|found| found.files.into_iter().map(planned).collect());
        paths.push(PlannedPath { name: name.to_owned(), found, left_out });
    })?;
    Ok(paths)
}

/// Looks at files for a client, with how much of their cache processes have mapped, and what would move of it to where
/// `goal` says. Also returns the names that name none.
///
/// # Errors
/// None of the names is that of a file; `stop` is true.
pub fn seen(
    local: &Local,
    names: &BTreeSet<String>,
    goal: Option<&CacheGoal>,
    authority: &Authority,
    stop: &dyn Fn() -> bool,
) -> Result<(CachedFiles, Vec<Missing>), Error> {
    let Local { roots, words, .. } = local;
    let (mut seen, mut missing, mut first) = (CachedFiles::default(), Vec::new(), None);
    let admits = |file: &CachedFile| authority::check_file(authority, file);
    let look = FileLook::new(roots, &admits, stop).counting_mapped();
    visit((roots, authority), look, names, stop, |name, found| match found {
        Ok(LookedFiles { files, count, left_out }) => {
            let cached = |file: LookedFile| value::CachedFile {
                path: file.path.display().to_string(),
                bytes: file.bytes,
                nodes: file.cache.nodes(),
                mapped_bytes: file.mapped_bytes,
                move_bytes: goal.map(|goal| FilePlan::new(goal, &file.cache).bytes_to_move),
                mount_policy: file.mount_policy,
            };
            let reason =
                |(path, why): (PathBuf, HostError)| (path.display().to_string(), why.to_string());
            seen.files.extend(files.into_iter().map(cached));
            seen.left_out.extend(left_out.into_iter().map(reason));
            seen.count += count;
        }
        Err(error) => {
            let reason = words(&error);
            missing.push(Missing { member: Target::file(name), reason, processes: 0 });
            first.get_or_insert(error);
        }
    })?;
    if let (true, Some(first)) = (missing.len() == names.len(), first) {
        return Err(first);
    }
    seen.files.sort_by_key(|file| Reverse(file.nodes.values().sum::<u64>()));
    Ok((seen, missing))
}

/// Looks at what each name means, for `each`. Files that `authority` does not extend to are as if they did not exist.
///
/// # Errors
/// `stop` is true.
fn visit(
    (roots, authority): (&Roots, &Authority),
    mut look: FileLook<'_>,
    names: &BTreeSet<String>,
    stop: &dyn Fn() -> bool,
    mut each: impl FnMut(&str, Result<LookedFiles, Error>),
) -> Result<(), Error> {
    for name in names {
        let path = Path::new(name);
        let found = authority::check_path(roots, path, authority, stop);
        match found.and_then(|()| Ok(look.at(path)?)) {
            Err(error) if error.is_stopped() => return Err(error),
            found => each(name, found),
        }
    }
    Ok(())
}

fn left_out_below(name: &str, left_out: &[(PathBuf, HostError)]) -> Option<String> {
    let (path, why) = left_out.first()?;
    let others = match left_out.len() - 1 {
        0 => String::new(),
        others => format!(", and {others} others"),
    };
    Some(format!("left out below {name}: {}: {why}{others}", path.display()))
}

/// The files of the paths that take part.
fn files_of(paths: &[PlannedPath]) -> impl Iterator<Item = &PlannedFile> {
    paths.iter().flat_map(|path| &path.found).flatten()
}

/// Fails if no path takes part.
fn check(paths: &[PlannedPath]) -> Result<(), Error> {
    let mut refused = paths.iter().map(|path| path.found.as_ref().err());
    match refused.clone().all(|error| error.is_some()) {
        true => refused.next().flatten().map_or(Ok(()), |error| Err(error.clone())),
        false => Ok(()),
    }
}

/// The files found and their plan, with each path as a member.
fn planned_target(
    paths: &[PlannedPath],
    goal: &CacheGoal,
    words: fn(&Error) -> String,
) -> FoundTarget {
    let nodes = goal.nodes();
    found_target(paths, &nodes, words, |name, files| planned_member(name, files, &nodes))
}

/// The files found, with each path as a member; `of` makes the members that take part.
fn found_target(
    paths: &[PlannedPath],
    nodes: &NodeSet,
    words: fn(&Error) -> String,
    of: impl Fn(&str, &[PlannedFile]) -> MemberResult,
) -> FoundTarget {
    let member = |PlannedPath { name, found, .. }: &PlannedPath| match found {
        Ok(files) => of(name, files),
        Err(error) => {
            MemberResult::left_out(Target::file(name), members::state(error), words(error))
        }
    };
    let taking = paths.iter().filter(|path| path.found.is_ok());
    FoundTarget {
        files: taking.map(|path| path.name.clone()).collect(),
        members: paths.iter().map(member).collect(),
        nodes: nodes.clone(),
        ..FoundTarget::default()
    }
}

/// A path whose cache has not been looked at.
fn waiting_member(name: &str, nodes: &NodeSet) -> MemberResult {
    MemberResult { member: Target::file(name), home: nodes.clone(), ..MemberResult::default() }
}

fn planned_member(name: &str, files: &[PlannedFile], nodes: &NodeSet) -> MemberResult {
    let before = locality(files);
    let mut member = MemberResult {
        reason: nothing_to_move(before).unwrap_or_default().to_owned(),
        before: Some(before),
        ..waiting_member(name, nodes)
    };
    for PlannedFile { cache, plan, .. } in files {
        for part in cache.pieces().flat_map(|parts| plan.elsewhere(parts)) {
            *member.remote.entry(part.node).or_default() += u64::from(part.bytes);
        }
    }
    member
}

/// The reason why no cache of this locality is moved, if none is.
fn nothing_to_move(Locality { movable, .. }: Locality) -> Option<&'static str> {
    match (movable.local_bytes, movable.remote_bytes) {
        (0, 0) => Some("nothing of it is cached"),
        (_, 0) => Some("all of its cache is where it belongs"),
        _ => None,
    }
}

/// Local and remote bytes of the cache.
fn locality<'a>(files: impl IntoIterator<Item = &'a PlannedFile>) -> Locality {
    let mut share = Share::default();
    for PlannedFile { cache, plan, .. } in files {
        let remote_bytes = plan.bytes_to_move;
        share.add(Share {
            local_bytes: cache.bytes() - remote_bytes,
            remote_bytes,
            ..Share::default()
        });
    }
    Locality { movable: share, overall: share }
}

#[cfg(test)]
mod tests;
