//! Carries out `numalocctl topology`.

use super::{Surroundings, bench, chosen};
use crate::{
    args::{Cli, TopologyArgs},
    engine::Engine,
    exit::{Code, Failure},
    fields,
    output::{CommandResult, View, emit, render, stream},
    signals, text,
};
use numaloc_api::{timestamp, v1};
use std::{
    sync::atomic::Ordering::Relaxed,
    time::{Instant, SystemTime},
};

pub fn run(cli: &Cli, around: &Surroundings, args: TopologyArgs) -> Result<CommandResult, Failure> {
    let chosen = chosen(cli, around)?;
    let engine = chosen.open()?;
    let is_this_host = chosen.is_this_host();
    let table = |answer: &v1::GetTopologyResponse, view: View| {
        let topology = answer.topology.clone().unwrap_or_default();
        if args.numactl {
            return text::numactl(&topology);
        }
        let is_kept_shown = is_this_host && !view.rows_alone();
        let kept = is_kept_shown.then(|| bench::kept(&around.roots)).flatten();
        let kept = kept.map(|kept| text::kept(&kept, view)).unwrap_or_default();
        text::topology(&topology, view) + &kept
    };
    if args.watch {
        watch(cli, &*engine, &args, table)?;
        return Ok(CommandResult { text: String::new(), code: Code::Done });
    }
    let answer = engine.topology()?;
    let text = match args.numactl {
        true => table(&answer, View::of(cli)),
        false => render(&answer, cli.output, View::of(cli), table)?,
    };
    Ok(CommandResult { text, code: Code::Done })
}

/// Prints the nodes until Ctrl-C: a document a line, or tables with their times. CSV has its header once.
fn watch(
    cli: &Cli,
    engine: &dyn Engine,
    args: &TopologyArgs,
    table: impl Fn(&v1::GetTopologyResponse, View) -> String,
) -> Result<(), Failure> {
    let interrupted = signals::interrupted()?;
    let (mut view, mut is_first) = (View::of(cli), true);
    while !interrupted.load(Relaxed) {
        let due = Instant::now() + args.delay;
        let answer = engine.topology()?;
        let document = if args.numactl { None } else { stream(&answer, cli.output)? };
        let text = match document {
            Some(document) => document,
            None if view.rows_alone() => table(&answer, view),
            None => {
                let gap = if is_first { "" } else { "\n" };
                let time = fields::short(timestamp(SystemTime::now()));
                format!("{gap}{time}\n{}", table(&answer, view))
            }
        };
        emit(&text)?;
        // The next rows of CSV follow those before.
        view.headers &= !view.csv;
        is_first = false;
        signals::sleep(&interrupted, due);
    }
    Ok(())
}
