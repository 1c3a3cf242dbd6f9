//! Carries out `locality`, `plan`, `migrate` and `top` for the page cache of files. No daemon takes part: this program needs the rights of the
//! files' owner alone.

use super::{Surroundings, shown};
use crate::{
    args::{Cli, MigrateArgs, PlanArgs, TopArgs, refuse_for_files},
    doc::{FileDoc, FilesDoc, FilesMovedDoc, FlowDoc, LeftBytesDoc, LeftOutFileDoc, node_bytes},
    engine::watched,
    exit::{Code, Failure},
    output::{CommandResult, complain},
    progress::{ProgressDisplay, Wish},
    signals, text, top,
};
use numaloc_core::{Account, CacheGoal, FileCache, FilePlan, NodeId, Options, Reason, Topology};
use numaloc_executor::{Control, FileOutcome, FileRun, PlannedFile};
use numaloc_host::{
    CachedFile, Error, FileLook, LookedFile, NodeMemoryReader, Roots, cache_goal, check_page_size,
    topology,
};
use std::{
    cmp::Reverse,
    collections::BTreeMap,
    path::PathBuf,
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

/// Time between two looks at the run.
const TICK: Duration = Duration::from_millis(100);

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
    let stop = || interrupted.load(Relaxed);
    let looked = look_with(FileLook::new(roots, &|_| Ok(()), &stop), paths)?;
    let files = looked.files.into_iter().map(|file| PlannedFile::new(&goal, file));
    let files: Vec<PlannedFile> = files.collect();
    let (memory, limits) = (NodeMemoryReader::new(roots)?, args.plan.limits.limits());
    let all = files.iter().map(|file| file.plan.bytes_to_move).sum();
    let mut progress = ProgressDisplay::new(Wish::from(args.plan.progress), all);
    let begin = Instant::now();
    let control = &Control::default();
    let (outcome, ended_with) = watched(
        TICK,
        || {
            if interrupted.load(Relaxed) {
                control.cancel.store(true, Relaxed);
            }
            progress.update(control.settled_bytes.load(Relaxed), &control.held_back());
        },
        || {
            let (topology, memory, options, limits) = (&topology, &memory, &options, &limits);
            let admits = &|_: &CachedFile| true;
            let run = FileRun {
                roots,
                topology,
                memory,
                options,
                limits,
                control,
                admits,
                unmapped: None,
            };
            (run.carry_out(&[&files]).remove(0), control.ended_with())
        },
    );
    progress.finish();
    let elapsed = begin.elapsed();
    // Also after Ctrl-C: what has moved by then is reported.
    let after = match look(roots, paths, &signals::from_now_on(&interrupted)) {
        Err(Failure::Engine(error)) if error.is_stopped() => {
            complain("interrupted: where the files are now is not known");
            None
        }
        looked => Some(looked?.document(None)),
    };
    let (document, account) = moved(outcome, after, elapsed);
    ended_with.iter().for_each(|why| complain(&format!("failed: {why}")));
    let code = match account.is_partial() {
        _ if ended_with.is_some() => Code::Failure,
        _ if account.left_for(Reason::OutOfTime) > 0 => Code::TimedOut,
        true => Code::Partly,
        false => Code::Done,
    };
    Ok(CommandResult { code, ..shown(cli, &document, text::files_moved)? })
}

/// Shows it again and again.
pub fn top(cli: &Cli, around: &Surroundings, args: &TopArgs) -> Result<CommandResult, Failure> {
    refuse_for_files(&[
        ("--columns", args.columns.is_some()),
        ("--filter", args.filter.is_some()),
        ("--processes", args.processes),
    ])?;
    check_here(cli, &around.roots)?;
    top::files(cli, args, &|stop| Ok(look(&around.roots, &args.files, stop)?.document(None)))?;
    Ok(CommandResult { text: String::new(), code: Code::Done })
}

/// Refuses another host, and pages of another size.
fn check_here(cli: &Cli, roots: &Roots) -> Result<(), Failure> {
    if cli.connect.endpoint.is_some() {
        let message = "files are looked at without a daemon: leave --endpoint out";
        return Err(Failure::Usage(message.into()));
    }
    Ok(check_page_size(roots)?)
}

/// Where the request says that the cache belongs.
fn goal(roots: &Roots, args: &PlanArgs) -> Result<(Topology, Options, CacheGoal), Failure> {
    let topology = topology::topology(roots)?;
    let options = args.options.options(&topology.with_memory())?;
    match cache_goal(roots, &topology, &options) {
        Ok((options, goal)) => Ok((topology, options, goal)),
        Err(Error::BadGoal(bad)) => Err(Failure::Usage(format!(
            "{bad}, on the command line with --to, or --place and --nodes"
        ))),
        Err(error) => Err(error.into()),
    }
}

/// Looks at all files that the paths name, to show them.
fn look(roots: &Roots, paths: &[PathBuf], stop: &dyn Fn() -> bool) -> Result<Looked, Failure> {
    look_with(FileLook::new(roots, &|_| Ok(()), stop).counting_mapped(), paths)
}

fn look_with(mut look: FileLook<'_>, paths: &[PathBuf]) -> Result<Looked, Failure> {
    let mut looked = Looked::default();
    for path in paths {
        let found = look.at(path)?;
        looked.files.extend(found.files);
        looked.count += found.count;
        looked.left_out.extend(found.left_out.iter().map(left_out));
    }
    looked.files.sort_by_key(|file| Reverse(file.cache.bytes()));
    Ok(looked)
}

fn left_out((path, error): &(PathBuf, Error)) -> LeftOutFileDoc {
    LeftOutFileDoc { path: path.display().to_string(), reason: error.to_string() }
}

impl Looked {
    /// The document; with a goal it has what is to move.
    fn document(&self, goal: Option<&CacheGoal>) -> FilesDoc {
        let file = |file: &LookedFile| FileDoc {
            path: file.path.display().to_string(),
            bytes: file.bytes,
            cached: node_bytes(&file.cache.nodes()),
            mapped_bytes: file.mapped_bytes,
            bytes_to_move: goal.map(|goal| FilePlan::new(goal, &file.cache).bytes_to_move),
            mount_policy: file.mount_policy.clone(),
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

fn moved(
    outcome: FileOutcome,
    after: Option<FilesDoc>,
    elapsed: Duration,
) -> (FilesMovedDoc, Account) {
    let FileOutcome { account, flows, calls } = outcome;
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
        vanished_bytes: account.vanished_bytes(),
        left: left.collect(),
        flows: flows.iter().map(flow).collect(),
        elapsed_seconds: elapsed.as_secs_f64(),
        calls: calls.calls,
        longest_call_seconds: calls.longest.as_secs_f64(),
    };
    (document, account)
}
