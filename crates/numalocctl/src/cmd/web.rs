//! Carries out `numalocctl web`: serves the page, or writes it into a file.

use super::{Surroundings, advise, chosen};
use crate::{
    args::{AdviseArgs, Cli, WebArgs},
    engine::ScanPace,
    exit::{Code, Failure},
    output::{CommandResult, emit},
    picture,
    web::{self, Desk, Gate, HostDoc, Listening, Looks, Records},
    whole_file::WholeFile,
};
use clap::Parser;
use std::sync::mpsc;
use tokio::sync::watch;

/// Share of a CPU that a report may use: it looks once.
const REPORT_BUDGET: f64 = 100.0;

/// Shows the host in a browser until Ctrl-C, as `top` does in a terminal.
pub fn run(cli: &Cli, around: &Surroundings, args: &WebArgs) -> Result<CommandResult, Failure> {
    // A file that cannot be written is an error before the host is scanned.
    let before = args.before.as_deref().map(web::before).transpose()?;
    let file = args.report.as_deref().map(WholeFile::create).transpose()?;
    let cpu_budget = if file.is_some() { REPORT_BUDGET } else { args.cpu_budget };
    let engine = chosen(cli, around)?;
    let (feed, note) = engine.view(ScanPace { delay: args.delay, cpu_budget })?;
    let records = engine.daemon().map(|daemon| Records::ask(daemon, args.delay));
    let about = HostDoc {
        name: engine.host_name(),
        version: env!("CARGO_PKG_VERSION"),
        has_pictures: engine.is_this_host(),
        has_jobs: records.is_some(),
        is_read_only: args.read_only,
    };
    let (for_advice, surroundings) = (cli.clone(), around.clone());
    let Defaults { advise } = Defaults::parse_from(["advise"]);
    let looks = Looks {
        engine: engine.clone(),
        host: about.name.clone(),
        roots: about.has_pictures.then(|| around.roots.clone()),
        advise: Box::new(move || advise::answer(&for_advice, &surroundings, &advise)),
    };
    let desk = Desk { feed, engine, records, about, note, delay: args.delay };
    let text = match file {
        Some(file) => {
            let page = web::report(desk, &looks, picture::command(), before)?;
            format!("{}\n", file.write(&page)?.display())
        }
        None => serve(args, desk, looks)?,
    };
    Ok(CommandResult { text, code: Code::Done })
}

fn serve(args: &WebArgs, desk: Desk, looks: Looks) -> Result<String, Failure> {
    let (listening, gate) = (Listening::open(&args.listen)?, Gate::new(args.read_only)?);
    let address = listening.address(gate.printed())?;
    let ((orders, ordered), (views, published)) =
        (mpsc::channel(), watch::channel(Default::default()));
    let _serving = web::start(listening, gate, looks, orders, published)?;
    emit(&address)?;
    web::run(desk, &ordered, &views)?;
    Ok(String::new())
}

/// `advise` without an option.
#[derive(Parser)]
struct Defaults {
    #[command(flatten)]
    advise: AdviseArgs,
}
