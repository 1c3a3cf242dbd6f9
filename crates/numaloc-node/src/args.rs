//! The arguments that each client has.

use crate::config::{self, Configuration};
use numaloc_config::FileError;
use std::{
    marker::PhantomData,
    path::{Path, PathBuf},
};

/// Arguments about numalocd and the configuration `C`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct NodeArgs<C: Configuration> {
    /// Address of numalocd [default: endpoint in the configuration, or unix:///run/numaloc/numalocd.sock].
    #[arg(long, value_name = "URI")]
    pub endpoint: Option<String>,
    /// The configuration file, which has to exist.
    #[arg(long, value_name = "FILE", help = format!("Configuration file, which has to exist [default: {}, if it exists]", C::PATH))]
    pub config: Option<PathBuf>,
    /// Check the configuration, print what is wrong, and exit.
    #[arg(long)]
    pub check_config: bool,
    #[arg(skip)]
    of: PhantomData<C>,
}

impl<C: Configuration> NodeArgs<C> {
    /// The configuration, with what the command line says instead.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn configuration(&self) -> Result<C, FileError> {
        let mut config: C = match &self.config {
            Some(path) => config::read(path, true)?,
            None => config::read(Path::new(C::PATH), false)?,
        };
        self.endpoint.iter().for_each(|endpoint| config.endpoint().clone_from(endpoint));
        Ok(config)
    }
}
