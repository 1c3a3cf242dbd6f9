//! Carries out `numalocctl top`, fed by the daemon or this program itself.

use super::{Surroundings, chosen};
use crate::{
    args::{Cli, FileArgs, Format, TargetArgs, TopArgs, refuse_for_files},
    engine::ScanPace,
    exit::{Code, Failure},
    output::{CommandResult, complain},
    top,
};

/// Shows the host live. The daemon, where one is reached, provides its view of the host and of its jobs, and carries
/// out migrations. Without one, this program reads the host itself.
pub fn run(cli: &Cli, around: &Surroundings, args: &TopArgs) -> Result<CommandResult, Failure> {
    if !args.batch && cli.output != Format::Table {
        let message = "-o is for what is printed: give -b, too";
        return Err(Failure::Usage(message.into()));
    }
    if !args.files.is_empty() {
        return files(cli, around, args);
    }
    let pace = ScanPace { delay: args.delay, cpu_budget: args.cpu_budget };
    let engine = chosen(cli, around)?;
    let (feed, note) = engine.view(pace)?;
    match args.batch {
        true => {
            note.iter().for_each(|note| complain(note));
            top::batch(cli, args, feed)?;
        }
        false => top::live(args, engine, feed, note)?,
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
    top::files(cli, args, &|stop| chosen(cli, around)?.open()?.locality(&target, stop))?;
    Ok(CommandResult { text: String::new(), code: Code::Done })
}
