//! The looks of nodes: colours, textures, and the hatch that marks remote memory.

use super::page::{Anchor, Page};
use numaloc_core::{NodeId, NodeSet};
use std::fmt::Write;

/// The palette of Okabe and Ito, made for people who see colours differently; neighbours differ in lightness, too.
const PALETTE: [[u8; 3]; 8] = [
    [0, 114, 178],
    [240, 173, 40],
    [0, 138, 102],
    [240, 228, 66],
    [160, 60, 20],
    [120, 195, 240],
    [90, 70, 120],
    [225, 150, 185],
];

/// The texture over the colour of the 9th node and later ones, in a square of eight pixels.
const TEXTURES: [&str; 4] = [
    "",
    "M1 1h2v2h-2zM5 5h2v2h-2z", // dots
    "M0 3h8v1.5h-8z",           // lines from left to right
    "M3 0v8h1.5v-8z",           // lines from above to below
];

/// Shades of each colour. A further one would be too dark to be distinguished from the others.
const SHADES: usize = 3;

/// The looks of a picture's nodes.
#[derive(Clone, Debug)]
pub struct Colours {
    nodes: Vec<NodeId>,
}

impl Colours {
    /// Looks for these nodes. The first eight are plain, the next 24 have the same colours with textures, and after
    /// these come darker ones: the first 96 look different. Beyond that, numbers say which is which.
    pub fn new(nodes: &NodeSet) -> Self {
        Self { nodes: nodes.iter().collect() }
    }

    /// The look of a node.
    pub fn of(&self, node: NodeId) -> Look {
        let place = self.nodes.iter().position(|of| *of == node).unwrap_or(0);
        let round = place / PALETTE.len();
        let shade = (round / TEXTURES.len() % SHADES) as u32;
        let darker = |part: u8| (u32::from(part) * 2 / (2 + shade)) as u8;
        let color = PALETTE[place % PALETTE.len()].map(darker);
        Look { place, color, texture: round % TEXTURES.len() }
    }

    /// The patterns of nodes: those with a texture, and those of remote memory (`is_remote`).
    pub fn patterns(&self, is_remote: impl Fn(NodeId) -> bool) -> String {
        let mut text = String::new();
        for &node in &self.nodes {
            let look = self.of(node);
            if look.texture > 0 {
                text += &look.pattern(false);
            }
            if is_remote(node) {
                text += &look.pattern(true);
            }
        }
        text
    }
}

/// A colour, with a texture or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Index of the node in the picture.
    place: usize,
    color: [u8; 3],
    texture: usize,
}

impl Look {
    /// The attribute that fills a shape with it, hatched or not.
    pub fn paint(self, is_remote: bool) -> String {
        match (is_remote, self.texture) {
            (false, 0) => format!("fill=\"{}\"", self.code()),
            (false, _) => format!("fill=\"url(#numaloc-{})\"", self.place),
            (true, _) => format!("fill=\"url(#numaloc-{}-remote)\"", self.place),
        }
    }

    fn code(self) -> String {
        let [red, green, blue] = self.color;
        format!("#{red:02x}{green:02x}{blue:02x}")
    }

    fn pattern(self, is_remote: bool) -> String {
        let (code, over) = (self.code(), if self.is_light() { "#000" } else { "#fff" });
        let name = if is_remote { "-remote" } else { "" };
        let mut text = format!(
            "<pattern id=\"numaloc-{}{name}\" width=\"8\" height=\"8\" patternUnits=\"userSpaceOnUse\">\
             <path fill=\"{code}\" d=\"M0 0h8v8h-8z\"/>",
            self.place
        );
        let texture = TEXTURES[self.texture];
        if !texture.is_empty() {
            let _ = write!(text, "<path fill=\"{over}\" fill-opacity=\".75\" d=\"{texture}\"/>");
        }
        if is_remote {
            let _ = write!(
                text,
                "<path stroke=\"{over}\" stroke-opacity=\".7\" stroke-width=\"1.6\" d=\"M-2 2l4-4M-1 9l10-10M6 10l4-4\"/>"
            );
        }
        text + "</pattern>\n"
    }

    /// A text in the middle of a rectangle of this look, on a patch without textures.
    pub fn write(self, page: &mut Page, text: &str, (x, y): (i32, i32), is_remote: bool) {
        let wide = super::page::width(text, 12) + 4;
        if is_remote || self.texture > 0 {
            let paint = format!("fill=\"{}\"", self.code());
            page.rect(paint, (x - wide / 2, y - 8), (wide, 16));
        }
        let class = if self.is_light() { "on-light" } else { "on-dark" };
        page.text(class, text, (x, y + 4), Anchor::Middle);
    }

    /// Whether black is readable on it, and white is not.
    fn is_light(self) -> bool {
        let [red, green, blue] = self.color.map(u32::from);
        red * 3 + green * 6 + blue > 1300
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn ninety_six_nodes_look_different_and_a_texture_comes_before_a_darker_colour() {
        let nodes: NodeSet = (0..96).map(|number| NodeId(number * 3)).collect();
        let colours = Colours::new(&nodes);
        let looks: Vec<Look> = nodes.iter().map(|node| colours.of(node)).collect();
        let shown: BTreeSet<_> = looks.iter().map(|look| (look.color, look.texture)).collect();
        assert_eq!(shown.len(), 96);
        assert!(looks[..8].iter().all(|look| look.texture == 0));
        for (place, look) in looks[8..32].iter().enumerate() {
            assert!(look.texture > 0 && look.color == PALETTE[place % 8], "{look:?}");
        }
    }

    #[test]
    fn remote_memory_does_not_look_like_local_memory() {
        let nodes: NodeSet = (0..20).map(NodeId).collect();
        let colours = Colours::new(&nodes);
        let patterns = colours.patterns(|node| node != NodeId(3));
        for node in nodes.iter() {
            let (local, remote) = (colours.of(node).paint(false), colours.of(node).paint(true));
            assert_ne!(local, remote);
            let id = |paint: &str| paint.split(['#', ')']).nth(1).unwrap_or_default().to_owned();
            let is_defined = |paint: &str| patterns.contains(&format!("id=\"{}\"", id(paint)));
            assert_eq!(is_defined(&remote), node != NodeId(3));
            assert_eq!(is_defined(&local), local.contains("url("));
        }
    }
}
