//! `numalocctl top`.

use super::Surroundings;
use crate::{
    args::{Cli, Format, TopArgs},
    exit::{Code, Failure},
    output::Report,
    place::{self, Place},
    top::{self, By, Host, Jobs},
};
use numaloc_host::check_page_size;

/// Shows the host live. The host is read by this program in any case; the daemon, where there is one, tells of its jobs and carries
/// out migrations.
pub fn run(cli: &Cli, around: &Surroundings, args: &TopArgs) -> Result<Report, Failure> {
    check_page_size(&around.roots)?;
    if !args.batch && cli.output != Format::Table {
        let message = "-o is for what is printed: give -b, too";
        return Err(Failure::Usage(message.into()));
    }
    let (by, jobs) = match place::choose(&cli.connect, &around.environment)? {
        Place::Here => (By::Here(around.roots.clone()), None),
        Place::Daemon(endpoint) => {
            let jobs = Jobs::ask(endpoint.clone(), cli.connect.clone(), args.delay);
            (By::Daemon(endpoint, Box::new(cli.connect.clone())), Some(jobs))
        }
    };
    match args.batch {
        true => top::batch(cli, args, Host::new(&around.roots, args, jobs)?)?,
        false => top::live(args, by, jobs, &around.roots)?,
    }
    Ok(Report { text: String::new(), code: Code::Done })
}
