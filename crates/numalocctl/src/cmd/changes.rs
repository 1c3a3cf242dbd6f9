//! Changes of jobs, schedules and workloads, for `ls --watch`.

use crate::{
    args::{Cli, Format},
    clean::clean,
    exit::{Code, Failure},
    output::{CommandResult, View, emit, render, stream},
    remote::WatchAnswer,
};
use serde::Serialize;

/// Shows the changes that `watch` reports, forever. JSON is a line per change, YAML a document, text a row of `line`,
/// which without a record is the header.
pub fn follow<A: WatchAnswer + Serialize>(
    cli: &Cli,
    line: impl Fn(Option<&A::Record>, View) -> String,
    watch: impl FnOnce(&mut dyn FnMut(&A) -> Result<(), Failure>) -> Result<(), Failure>,
) -> Result<CommandResult, Failure> {
    let view = View { width: None, ..View::of(cli) };
    let is_text = matches!(cli.output, Format::Table | Format::Wide | Format::Csv);
    if is_text && view.headers {
        emit(&line(None, view))?;
    }
    watch(&mut |answer| {
        let document = stream(answer, cli.output)?;
        let shown = match (document, answer.present(), answer.removed()) {
            (Some(document), ..) => document,
            (_, Some(_), _) if !is_text => render(answer, cli.output, view, |_, _| String::new())?,
            (_, Some(record), _) => line(Some(record), View { headers: false, ..view }),
            (_, None, Some(name)) if is_text && !view.csv => format!("{} removed\n", clean(name)),
            // All existing records have been listed: people see that it pauses.
            _ => return Ok(()),
        };
        emit(&shown)
    })?;
    Ok(CommandResult { text: String::new(), code: Code::Done })
}
