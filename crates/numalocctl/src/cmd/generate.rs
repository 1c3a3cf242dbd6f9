//! Carries out `numalocctl generate`, which is for packagers.

use crate::{
    args::{Cli, GenerateCommand},
    exit::{Code, Failure},
    man,
    output::CommandResult,
};
use std::{fs, path::Path};

pub fn run(command: &GenerateCommand) -> Result<CommandResult, Failure> {
    match command {
        GenerateCommand::Man { directory } => write(directory)?,
    }
    Ok(CommandResult { text: String::new(), code: Code::Done })
}

fn write(directory: &Path) -> Result<(), Failure> {
    for (name, page) in man::pages(Cli::whole()) {
        let path = directory.join(name);
        fs::write(&path, page).map_err(|source| Failure::Write { path, source })?;
    }
    Ok(())
}
