//! Changes of jobs, schedules and workloads, for `ls --watch`.

use crate::{
    args::{Cli, Format},
    clean::clean,
    exit::{Code, Failure},
    output::{CommandResult, View, emit, json_line},
    remote::WatchAnswer,
};
use serde::Serialize;

/// Shows what `watch` tells, forever. JSON is a line per change, text a row of `line`, which without a record is the header.
pub fn follow<A: WatchAnswer + Serialize>(
    cli: &Cli,
    line: impl Fn(Option<&A::Record>, View) -> String,
    watch: impl FnOnce(&mut dyn FnMut(&A) -> Result<(), Failure>) -> Result<(), Failure>,
) -> Result<CommandResult, Failure> {
    let (is_json, wide) = (cli.output == Format::Json, cli.output == Format::Wide);
    if !is_json && !cli.no_headers {
        emit(&line(None, View { wide, headers: true }))?;
    }
    watch(&mut |answer| {
        let shown = match (answer.present(), answer.removed()) {
            _ if is_json => json_line(answer)?,
            (Some(record), _) => line(Some(record), View { wide, headers: false }),
            (None, Some(name)) => format!("{} removed\n", clean(name)),
            // That all there is has been told: people see that it pauses.
            (None, None) => return Ok(()),
        };
        emit(&shown)
    })?;
    Ok(CommandResult { text: String::new(), code: Code::Done })
}
