//! Carries out `numalocctl events` with events that the daemon has stored.

use super::shown_list;
use crate::{
    args::{Cli, EventsArgs, Format},
    exit::{Code, Failure},
    output::{CommandResult, View, complain, emit, stream},
    remote::Daemon,
    text,
};

pub fn run(cli: &Cli, daemon: &Daemon, args: &EventsArgs) -> Result<CommandResult, Failure> {
    args.old_names().for_each(|note| complain(&note));
    match args.watch {
        true => watch(cli, daemon, args),
        false => {
            let answer = daemon.list_events(&args.filter(), args.after)?;
            shown_list(cli, &answer, (answer.events.len(), "events"), text::events)
        }
    }
}

/// Shows stored events first, then events as they happen.
fn watch(cli: &Cli, daemon: &Daemon, args: &EventsArgs) -> Result<CommandResult, Failure> {
    let view = View::of(cli);
    if matches!(cli.output, Format::Table | Format::Wide | Format::Csv) && view.headers {
        emit(&text::event_header(view))?;
    }
    daemon.watch_events(&args.filter(), args.after.unwrap_or(0), |event| {
        let document = stream(event, cli.output)?;
        emit(&document.unwrap_or_else(|| text::event_line(event, view)))
    })?;
    Ok(CommandResult { text: String::new(), code: Code::Done })
}
