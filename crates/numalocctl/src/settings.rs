//! The configuration files, so that the daemon's address need not be on each command line.

use crate::{exit::Failure, output::complain};
use numaloc_config::{Document, FileError, Mistake, Resctrl, Tiers, load};
use numaloc_core::{MoverGroup, NodeSet};
use serde::Deserialize;
use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

/// The daemon's file. Its table `[tiers]` is about the host, so it also counts without the daemon.
pub const DAEMON_FILE: &str = "/etc/numaloc/numalocd.toml";

/// The memory tiers that the operator has set in the daemon's file, the fastest first; none if it cannot be read.
pub fn tiers(path: &str) -> Vec<NodeSet> {
    fs::read_to_string(path).map(|text| Tiers::alone(&text).order).unwrap_or_default()
}

/// The resctrl group that the operator has set in a file of the daemon, the last one of them if there are several; `None` also if they
/// cannot be read. `etc` is where programs are configured.
pub fn mover_group(etc: &Path) -> Option<MoverGroup> {
    let directory = etc.join("numaloc");
    let drop_ins = fs::read_dir(directory.join("conf.d")).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = drop_ins.map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    files.insert(0, directory.join("numalocd.toml"));
    let mut texts = files.into_iter().rev().filter_map(|path| fs::read_to_string(path).ok());
    texts.find_map(|text| Resctrl::alone(&text).mover_group())
}

/// The contents of a configuration file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct Settings {
    /// Address of the daemon: `unix:///PATH` or `https://HOST:PORT`.
    pub endpoint: Option<String>,
    /// Certificates and key, which an https endpoint needs.
    pub tls: TlsSettings,
}

/// Files of certificates, PEM; relative to the folder of the configuration file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct TlsSettings {
    /// Authorities for checking the daemon's certificate.
    pub ca: Option<PathBuf>,
    /// The certificate to show to the daemon.
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
}

/// Reads the files. Each value comes from the first file that has it. Files that do not exist are ignored. Files that
/// this user may not read are ignored with a warning: HOME may still be root's after a change of users.
///
/// # Errors
/// A file cannot be read for another reason, or has an unknown key.
pub fn read(files: &[PathBuf]) -> Result<Settings, Failure> {
    let mut settings = Settings::default();
    for path in files {
        let found = match load(path, false, |text| parse(text, path)) {
            Ok(found) => found,
            Err(FileError::Unreadable { source, .. })
                if source.kind() == ErrorKind::NotADirectory =>
            {
                continue;
            }
            Err(FileError::Unreadable { source, .. })
                if source.kind() == ErrorKind::PermissionDenied =>
            {
                let path = path.display();
                complain(&format!(
                    "warning: {path} is left out, because it cannot be read: {source}"
                ));
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let TlsSettings { ca, certificate, key } = found.tls;
        let tls = &mut settings.tls;
        settings.endpoint = settings.endpoint.or(found.endpoint);
        tls.ca = tls.ca.take().or(ca);
        // A certificate and its key come from the same file.
        if tls.certificate.is_none() && tls.key.is_none() {
            (tls.certificate, tls.key) = (certificate, key);
        }
    }
    Ok(settings)
}

fn parse(text: &str, path: &Path) -> Result<Settings, Vec<Mistake>> {
    let (mut settings, document) = Document::read::<Settings>(text);
    let folder = path.parent().unwrap_or(Path::new("/"));
    let TlsSettings { ca, certificate, key } = &mut settings.tls;
    for file in [ca, certificate, key].into_iter().flatten() {
        *file = folder.join(&file);
    }
    document.conclude(settings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_first_file_wins_value_by_value() {
        let folder = tempfile::tempdir().unwrap();
        let [user, system] = ["user.toml", "system.toml"].map(|name| folder.path().join(name));
        let missing = folder.path().join("user.toml/none.toml");
        fs::write(&user, "endpoint = \"unix:///u\"\n[tls]\nkey = \"mine.key\"\n").unwrap();
        fs::write(
            &system,
            "endpoint = \"unix:///s\"\n[tls]\nca = \"/ca\"\nkey = \"k\"\ncertificate = \"c\"\n",
        )
        .unwrap();
        let settings = read(&[missing, user, system]).unwrap();
        assert_eq!(settings.endpoint.as_deref(), Some("unix:///u"));
        let tls = settings.tls;
        assert_eq!(tls.ca, Some("/ca".into()));
        assert_eq!((tls.certificate, tls.key), (None, Some(folder.path().join("mine.key"))));
    }

    #[test]
    fn unknown_keys_are_named_with_their_line() {
        for (text, words) in [
            ("endpoint = \"unix:///u\"\nserver = 1\n", "2: server: unknown field `server`"),
            ("[tls]\ncert = \"x\"\n", "2: tls.cert: unknown field `cert`"),
            ("endpoint = 5\n", "1: endpoint: expected "),
            ("endpoint\n", "1: not TOML: "),
        ] {
            let problems = parse(text, Path::new("/etc/x.toml")).unwrap_err();
            assert!(problems.len() == 1, "{problems:?}");
            assert!(problems[0].to_string().starts_with(words), "{problems:?}");
        }
    }
}
