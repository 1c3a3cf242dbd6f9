//! The identity of a plugin, and how a runtime that launches it passes it on.

use crate::Error;

/// Where runtimes listen for plugins, unless configured otherwise (`DefaultSocketPath` in pkg/api/plugin.go).
pub const SOCKET: &str = "/var/run/nri/nri.sock";

const NAME: &str = "NRI_PLUGIN_NAME";
const INDEX: &str = "NRI_PLUGIN_IDX";
const SOCKET_FD: &str = "NRI_PLUGIN_SOCKET";

/// A plugin's name and index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    name: String,
    index: String,
}

impl Identity {
    /// Checks a name and an index as runtimes do (`CheckPluginName`, `CheckPluginIndex` in pkg/api/plugin.go).
    ///
    /// # Errors
    /// [`Error::Identity`].
    pub fn new(name: &str, index: &str) -> Result<Self, Error> {
        let of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._+-".contains(&byte);
        let is_name = !name.is_empty() && name.bytes().all(of_name);
        let is_index = index.len() == 2 && index.bytes().all(|byte| byte.is_ascii_digit());
        let (name, index) = (name.to_owned(), index.to_owned());
        match is_name && is_index {
            true => Ok(Self { name, index }),
            false => Err(Error::Identity { name, index }),
        }
    }

    /// The name without the index, for example `numaloc`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The index: two digits. Runtimes call plugins in this order.
    pub fn index(&self) -> &str {
        &self.index
    }
}

/// The data that the environment gives a plugin that a runtime has launched: it is connected already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launched {
    /// The plugin's name and index, from the name of its file.
    pub identity: Identity,
    /// The file descriptor of the connection.
    pub socket: i32,
}

impl Launched {
    /// Reads the environment by `variable`. `None`: no runtime has launched this process.
    ///
    /// # Errors
    /// [`Error::Socket`], [`Error::Identity`].
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, Error> {
        let Some(value) = variable(SOCKET_FD).filter(|value| !value.is_empty()) else {
            return Ok(None);
        };
        // 0 to 2 are the standard streams.
        let socket = match value.parse() {
            Ok(socket) if socket > 2 => socket,
            _ => return Err(Error::Socket { variable: SOCKET_FD, value }),
        };
        let text = |name| variable(name).unwrap_or_default();
        Ok(Some(Self { identity: Identity::new(&text(NAME), &text(INDEX))?, socket }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_indexes_are_checked() {
        let known = Identity::new("numaloc-nri_1.0+x", "07").expect("both are valid");
        assert_eq!((known.name(), known.index()), ("numaloc-nri_1.0+x", "07"));
        for (name, index) in
            [("", "10"), ("a b", "10"), ("ä", "10"), ("a", "1"), ("a", "1x"), ("a", "100")]
        {
            assert!(
                matches!(Identity::new(name, index), Err(Error::Identity { .. })),
                "{name} {index}"
            );
        }
    }

    fn read(variables: &[(&str, &str)]) -> Result<Option<Launched>, Error> {
        Launched::read(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_environment_says_whether_a_runtime_has_launched_it() {
        let launched =
            [("NRI_PLUGIN_NAME", "x"), ("NRI_PLUGIN_IDX", "10"), ("NRI_PLUGIN_SOCKET", "3")];
        let identity = Identity::new("x", "10").expect("valid");
        assert_eq!(read(&launched).expect("valid"), Some(Launched { identity, socket: 3 }));
        assert_eq!(read(&launched[..2]).expect("valid"), None);
        assert!(matches!(read(&launched[1..]), Err(Error::Identity { .. })));
        for value in ["x", "-1", "0", "99999999999"] {
            assert!(
                matches!(read(&[("NRI_PLUGIN_SOCKET", value)]), Err(Error::Socket { .. })),
                "{value}"
            );
        }
    }
}
