//! Options of pictures, on the terminal and as SVG.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// In which order a picture has the mappings of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum DrawSort {
    /// Most resident memory first.
    #[default]
    Size,
    Address,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "Picture (without the daemon only)")]
pub struct DrawArgs {
    /// Draw where the memory is, by address, instead of the table: into FILE.svg, or as text without a file.
    #[arg(long, value_name = "FILE.svg", num_args = 0..=1, value_parser = parse)]
    pub draw: Option<Option<PathBuf>>,
    /// Read the whole page map. Otherwise very large mappings are sampled, and the picture states that.
    #[arg(long, requires = "draw")]
    pub draw_exact: bool,
    /// Order of the mappings in it: the largest first, or by address.
    #[arg(long, value_name = "ORDER", requires = "draw", default_value = "size")]
    pub sort: DrawSort,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "Picture (without the daemon only)")]
pub struct DrawMoveArgs {
    /// Draw where the memory was and where it is afterwards, by address, into FILE.svg.
    #[arg(long, value_name = "FILE.svg", value_parser = parse)]
    pub draw: Option<PathBuf>,
    /// Read the whole page map. Otherwise very large mappings are sampled, and the picture states that.
    #[arg(long, requires = "draw")]
    pub draw_exact: bool,
    /// Order of the mappings in it: the largest first, or by address.
    #[arg(long, value_name = "ORDER", requires = "draw", default_value = "size")]
    pub sort: DrawSort,
}

/// Reads the name of a picture's file.
fn parse(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match path.extension() {
        Some(extension) if extension.eq_ignore_ascii_case("svg") => Ok(path),
        _ => Err(format!(
            "'{text}' is not a valid name for a picture: expected an SVG file, for example before.svg"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_svg() {
        for name in ["a.svg", "/tmp/b.c.SVG", "-.svg"] {
            assert_eq!(parse(name), Ok(PathBuf::from(name)));
        }
        for name in ["", "a.png", "a", ".svg", "a.svg/", "a.svgz", "--pid"] {
            assert_eq!(parse(name).is_ok(), name == "a.svg/", "{name}");
        }
    }
}
