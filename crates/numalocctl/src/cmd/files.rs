//! Carries out `locality`, `plan` and `migrate` for the page cache of files. No daemon takes part: this program needs the rights of the
//! files' owner alone.

use super::{Surroundings, shown};
use crate::{
    args::{Cli, MigrateArgs, PlanArgs, refuse_for_files},
    doc::{FileDoc, FilesDoc, FilesMovedDoc, FlowDoc, LeftBytesDoc, LeftOutFileDoc, node_bytes},
    exit::{Code, Failure},
    inspect,
    output::CommandResult,
    progress::{ProgressDisplay, Wish},
    signals, text,
};
use numaloc_core::{
    Account, CacheGoal, CallStats, FileCache, FilePlan, Flows, NodeId, Options, Reason, Topology,
};
use numaloc_executor::{FileOutcome, FileRun, PlannedFile};
use numaloc_host::{
    CachedFile, Error, FileId, NodeMemoryReader, Roots, check_page_size, files_of, topology,
};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

/// Time between two looks at the run.
const TICK: Duration = Duration::from_millis(100);

/// A file of which something is cached.
#[derive(Debug)]
struct LookedFile {
    path: PathBuf,
    id: FileId,
    /// Its length.
    bytes: u64,
    cache: FileCache,
}

/// Files that have been looked at.
#[derive(Debug, Default)]
struct Looked {
    files: Vec<LookedFile>,
    count: u64,
    left_out: Vec<LeftOutFileDoc>,
}

/// Shows where the cache of files is.
pub fn locality(
    cli: &Cli,
    around: &Surroundings,
    paths: &[PathBuf],
    is_drawn: bool,
) -> Result<CommandResult, Failure> {
    refuse_for_files(&[("--draw", is_drawn)])?;
    check_here(cli, &around.roots)?;
    let interrupted = signals::interrupted()?;
    let looked = look(&around.roots, paths, &|| interrupted.load(Relaxed))?;
    shown(cli, &looked.document(None), text::files)
}

/// Shows what would move of the cache of files.
pub fn plan(cli: &Cli, around: &Surroundings, args: &PlanArgs) -> Result<CommandResult, Failure> {
    args.check_files()?;
    check_here(cli, &around.roots)?;
    let (_, _, goal) = goal(&around.roots, args)?;
    let interrupted = signals::interrupted()?;
    let looked = look(&around.roots, &args.files.files, &|| interrupted.load(Relaxed))?;
    shown(cli, &looked.document(Some(&goal)), text::files)
}

/// Moves the cache of files.
pub fn migrate(
    cli: &Cli,
    around: &Surroundings,
    args: &MigrateArgs,
) -> Result<CommandResult, Failure> {
    args.check_files()?;
    let (roots, paths) = (&around.roots, &args.plan.files.files);
    check_here(cli, roots)?;
    let (topology, options, goal) = goal(roots, &args.plan)?;
    let interrupted = signals::interrupted()?;
    let looked = look(roots, paths, &|| interrupted.load(Relaxed))?;
    let planned = |LookedFile { path, id, cache, .. }| {
        let plan = FilePlan::new(&goal, &cache);
        PlannedFile { path, id, cache, plan }
    };
    let files: Vec<PlannedFile> = looked.files.into_iter().map(planned).collect();
    let (memory, limits) = (NodeMemoryReader::new(roots)?, args.plan.limits.limits());
    let all = files.iter().map(|file| file.plan.bytes_to_move).sum();
    let mut progress = ProgressDisplay::new(Wish::from(args.plan.progress), all);
    let begin = Instant::now();
    let outcomes = inspect::watched(
        TICK,
        |control| {
            if interrupted.load(Relaxed) {
                control.cancel.store(true, Relaxed);
            }
            progress.update(control.settled_bytes.load(Relaxed), &control.held_back());
        },
        |control| {
            let (topology, memory, options, limits) = (&topology, &memory, &options, &limits);
            FileRun { roots, topology, memory, options, limits, control }.carry_out(&files)
        },
    );
    progress.finish();
    let elapsed = begin.elapsed();
    // Also after Ctrl-C: what has moved by then is reported.
    let after = look(roots, paths, &|| false)?.document(None);
    let (document, account) = moved(&outcomes, after, elapsed);
    let code = match account.is_partial() {
        _ if account.left_for(Reason::OutOfTime) > 0 => Code::TimedOut,
        true => Code::Partly,
        false => Code::Done,
    };
    Ok(CommandResult { code, ..shown(cli, &document, text::files_moved)? })
}

/// Refuses another host, and pages of another size.
fn check_here(cli: &Cli, roots: &Roots) -> Result<(), Failure> {
    if cli.connect.endpoint.is_some() {
        let message = "--file is carried out without a daemon: leave --endpoint out";
        return Err(Failure::Usage(message.into()));
    }
    Ok(check_page_size(roots)?)
}

/// Where the request says that the cache belongs.
fn goal(roots: &Roots, args: &PlanArgs) -> Result<(Topology, Options, CacheGoal), Failure> {
    let topology = topology::topology(roots)?;
    let options = args.options.options(&topology.with_memory())?;
    topology::check_options(roots, &topology, &options)?;
    topology::check_several(&topology)?;
    let options = options.on(&topology);
    let options = options.map_err(|unknown| Error::NoBandwidth { nodes: unknown.0.to_string() })?;
    let all = topology.with_memory().minus(&topology.other_tiers());
    let goal = CacheGoal::new(options.to.as_ref(), &options.placement, &all);
    let goal = goal.map_err(|bad| {
        Failure::Usage(format!("{bad}, on the command line with --to, or --place and --nodes"))
    })?;
    Ok((topology, options, goal))
}

/// Looks at all files that the paths name. One that is named itself has to be one that can be looked at; of a directory others are left
/// out.
fn look(roots: &Roots, paths: &[PathBuf], stop: &dyn Fn() -> bool) -> Result<Looked, Failure> {
    let mut looked = Looked::default();
    let mut seen = BTreeSet::new();
    for path in paths {
        let named = files_of(path)?;
        let unread = named.unread.iter().map(|error| left_out(path, error));
        looked.left_out.extend(unread);
        for name in named.files {
            let found = CachedFile::open(roots, &name).and_then(|file| {
                // It may have several names.
                let is_new = seen.insert(file.id());
                is_new.then(|| Ok((file.look(stop)?, file))).transpose()
            });
            match found {
                Ok(None) => {}
                Ok(Some((cache, file))) => {
                    looked.count += 1;
                    if cache.bytes() > 0 {
                        let (id, bytes) = (file.id(), file.bytes());
                        looked.files.push(LookedFile { path: name, id, bytes, cache });
                    }
                }
                Err(error @ Error::Stopped) => return Err(error.into()),
                Err(error) if name == *path => return Err(error.into()),
                Err(error) => looked.left_out.push(left_out(&name, &error)),
            }
        }
    }
    looked.files.sort_by_key(|file| Reverse(file.cache.bytes()));
    Ok(looked)
}

fn left_out(path: &Path, error: &Error) -> LeftOutFileDoc {
    LeftOutFileDoc { path: path.display().to_string(), reason: error.to_string() }
}

impl Looked {
    /// The document; with a goal it has what is to move.
    fn document(&self, goal: Option<&CacheGoal>) -> FilesDoc {
        let file = |file: &LookedFile| FileDoc {
            path: file.path.display().to_string(),
            bytes: file.bytes,
            cached: node_bytes(&file.cache.nodes()),
            bytes_to_move: goal.map(|goal| FilePlan::new(goal, &file.cache).bytes_to_move),
        };
        let caches = self.files.iter().map(|file| &file.cache);
        FilesDoc {
            files: self.files.iter().map(file).collect(),
            file_count: self.count,
            cached: node_bytes(&sum(caches)),
            left_out: self.left_out.clone(),
        }
    }
}

fn sum<'a>(caches: impl Iterator<Item = &'a FileCache>) -> BTreeMap<NodeId, u64> {
    let mut sum = BTreeMap::new();
    for (node, bytes) in caches.flat_map(FileCache::nodes) {
        *sum.entry(node).or_default() += bytes;
    }
    sum
}

fn moved(outcomes: &[FileOutcome], after: FilesDoc, elapsed: Duration) -> (FilesMovedDoc, Account) {
    let (mut account, mut flows) = (Account::default(), Flows::new());
    let mut calls = CallStats::default();
    for outcome in outcomes {
        account.add(&outcome.account);
        for (nodes, bytes) in &outcome.flows {
            *flows.entry(*nodes).or_default() += bytes;
        }
        calls.add(&outcome.calls);
    }
    let left = account.left_bytes().iter();
    let left = left.map(|(reason, &bytes)| LeftBytesDoc { reason: reason.name(), bytes });
    let flow = |((from, to), bytes): (&(NodeId, NodeId), &u64)| FlowDoc {
        from_node: from.0,
        to_node: to.0,
        bytes: *bytes,
    };
    let document = FilesMovedDoc {
        after,
        found_bytes: account.found_bytes(),
        moved_bytes: account.moved_bytes(),
        left: left.collect(),
        flows: flows.iter().map(flow).collect(),
        elapsed_seconds: elapsed.as_secs_f64(),
        calls: calls.calls,
        longest_call_seconds: calls.longest.as_secs_f64(),
    };
    (document, account)
}
