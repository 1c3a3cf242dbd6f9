//! Carries out `numalocctl completions`, for which no daemon is needed.

use crate::{
    args::{Cli, Shell},
    exit::{Code, Failure},
    output::CommandResult,
};
use clap_complete::{generate, shells};

pub fn run(shell: Shell) -> Result<CommandResult, Failure> {
    const NAME: &str = "numalocctl";
    let (mut command, mut script) = (Cli::whole(), Vec::new());
    match shell {
        Shell::Bash => generate(shells::Bash, &mut command, NAME, &mut script),
        Shell::Zsh => generate(shells::Zsh, &mut command, NAME, &mut script),
        Shell::Fish => generate(shells::Fish, &mut command, NAME, &mut script),
    }
    Ok(CommandResult { text: String::from_utf8_lossy(&script).into_owned(), code: Code::Done })
}
