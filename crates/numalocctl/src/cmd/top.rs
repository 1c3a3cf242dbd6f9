//! Carries out `numalocctl top`, fed by the daemon or this program itself.

use super::{Surroundings, engine};
use crate::{
    args::{Cli, FileArgs, Format, TargetArgs, TopArgs, refuse_for_files},
    exit::{Code, Failure},
    output::{CommandResult, complain},
    place::{self, Place},
    top::{self, By, Flows, Host, ScanPace, Views},
};
use numaloc_host::check_page_size;

/// Shows the host live. The daemon, where one is reached, provides its view of the host and of its jobs, and carries
/// out migrations. Without one, this program reads the host itself.
pub fn run(cli: &Cli, around: &Surroundings, args: &TopArgs) -> Result<CommandResult, Failure> {
    check_page_size(&around.roots)?;
    if !args.batch && cli.output != Format::Table {
        let message = "-o is for what is printed: give -b, too";
        return Err(Failure::Usage(message.into()));
    }
    if !args.files.is_empty() {
        return files(cli, around, args);
    }
    let pace = ScanPace { delay: args.delay, cpu_budget: args.cpu_budget };
    let (by, host, note) = feed(cli, around, pace)?;
    match args.batch {
        true => {
            note.iter().for_each(|note| complain(note));
            top::batch(cli, args, host)?;
        }
        false => top::live(args, by, host, note)?,
    }
    Ok(CommandResult { text: String::new(), code: Code::Done })
}

/// Shows the page cache of files repeatedly.
fn files(cli: &Cli, around: &Surroundings, args: &TopArgs) -> Result<CommandResult, Failure> {
    refuse_for_files(&[
        ("--columns", args.columns.is_some()),
        ("--filter", args.filter.is_some()),
        ("--processes", args.processes),
    ])?;
    let files = FileArgs { files: args.files.clone() };
    let target = files.target(&TargetArgs::default())?;
    top::files(cli, args, &|stop| engine(cli, around)?.locality(&target, stop))?;
    Ok(CommandResult { text: String::new(), code: Code::Done })
}

/// The program that migrates, the host that is shown, and a note to show first.
pub(super) fn feed(
    cli: &Cli,
    around: &Surroundings,
    pace: ScanPace,
) -> Result<(By, Host, Option<String>), Failure> {
    let here = |flows| Host::here(&around.roots, pace, flows);
    let endpoint = match place::choose(&cli.connect, &around.environment)? {
        Place::Here => return Ok((By::Here(around.roots.clone()), here(None)?, None)),
        Place::Daemon(endpoint) => endpoint,
    };
    let connect = &cli.connect;
    let views = Views::ask(endpoint.clone(), connect.clone(), pace.delay);
    let flows = Flows::ask(endpoint.clone(), connect.clone(), pace.delay);
    let (host, note) = match views {
        Ok(views) => (Host::of_daemon(&around.roots, &endpoint, views, flows), None),
        Err(why) if endpoint.is_this_host() => (here(Some(flows))?, Some(own(&why))),
        Err(why) => return Err(why),
    };
    Ok((By::Daemon(endpoint, Box::new(connect.clone())), host, note))
}

fn own(why: &Failure) -> String {
    format!(
        "this program looks itself and shows no jobs, because the daemon does not answer: {why}"
    )
}
