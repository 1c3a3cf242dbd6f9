//! Colours, fonts, and the few shapes that pictures are made of.

use super::{DrawArea, DrawError};
use crate::clean::clean;
use numaloc_core::{NodeId, NodeSet};
use plotters::{
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

/// Addresses without a resident page.
pub const EMPTY: RGBColor = RGBColor(236, 236, 236);
pub const RULE: RGBColor = RGBColor(150, 150, 150);
/// Ticks of a scale, and marks.
pub const TICK: RGBColor = RGBColor(60, 60, 60);
/// Pages on no known node.
pub const UNPLACED: RGBColor = RGBColor(130, 130, 130);

const FAINT: RGBColor = RGBColor(95, 95, 95);

/// The palette of Okabe and Ito, made for people who see colours differently; neighbours differ in lightness, too.
const PALETTE: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(240, 173, 40),
    RGBColor(0, 138, 102),
    RGBColor(240, 228, 66),
    RGBColor(160, 60, 20),
    RGBColor(120, 195, 240),
    RGBColor(90, 70, 120),
    RGBColor(225, 150, 185),
];

/// Shades of each colour of the palette. A further one would be too dark to be told from the others.
const SHADES: usize = 3;

/// The colours of a picture's nodes.
#[derive(Clone, Debug)]
pub struct Colours {
    nodes: Vec<NodeId>,
}

impl Colours {
    /// Colours for these nodes. More than eight nodes have some of the colours again, darker, and more than 24 have some again with
    /// stripes: the first 96 look different. Beyond that, numbers say which is which.
    pub fn new(nodes: &NodeSet) -> Self {
        Self { nodes: nodes.iter().collect() }
    }

    /// The colour of a node.
    pub fn of(&self, node: NodeId) -> Colour {
        let place = self.nodes.iter().position(|of| *of == node).unwrap_or(0);
        let RGBColor(red, green, blue) = PALETTE[place % PALETTE.len()];
        let shade = place / PALETTE.len() % SHADES;
        let darker = |part: u8| (u32::from(part) * 2 / (2 + shade as u32)) as u8;
        let round = place / (PALETTE.len() * SHADES);
        let (across, down) = (round & 1 > 0, round & 2 > 0);
        Colour { color: RGBColor(darker(red), darker(green), darker(blue)), across, down }
    }
}

/// A colour with what is readable on it, and its stripes.
#[derive(Clone, Copy, Debug)]
pub struct Colour {
    color: RGBColor,
    /// Whether it has stripes from left to right.
    across: bool,
    /// Whether it has stripes from above to below.
    down: bool,
}

impl Colour {
    pub fn fill(
        self,
        area: &DrawArea<'_>,
        from: (i32, i32),
        to: (i32, i32),
    ) -> Result<(), DrawError> {
        /// Pixels from one stripe to the next.
        const STEP: usize = 4;
        fill(area, self.color, from, to)?;
        if self.across {
            for y in (from.1 + 1..to.1).step_by(STEP) {
                fill(area, self.contrast(), (from.0, y), (to.0, y + 1))?;
            }
        }
        if self.down {
            for x in (from.0 + 1..to.0).step_by(STEP) {
                fill(area, self.contrast(), (x, from.1), (x + 1, to.1))?;
            }
        }
        Ok(())
    }

    /// A text in the middle of a rectangle of this colour.
    pub fn write(self, area: &DrawArea<'_>, text: &str, at: (i32, i32)) -> Result<(), DrawError> {
        Style { color: self.contrast(), ..Style::small() }.middle().draw(area, text, at)
    }

    /// What is readable on it.
    fn contrast(self) -> RGBColor {
        let RGBColor(red, green, blue) = self.color;
        let light = u32::from(red) * 3 + u32::from(green) * 6 + u32::from(blue);
        if light > 1300 { BLACK } else { WHITE }
    }
}

/// Fills a rectangle; `to` is just outside.
pub fn fill(
    area: &DrawArea<'_>,
    color: RGBColor,
    from: (i32, i32),
    to: (i32, i32),
) -> Result<(), DrawError> {
    if from.0 < to.0 && from.1 < to.1 {
        area.draw(&Rectangle::new([from, to], color.filled()))?;
    }
    Ok(())
}

/// How a text looks. Its middle is at the height where it is drawn. Its size is what plotters calls it: the font's is
/// smaller by 1.24 (plotters-svg, `draw_text`).
#[derive(Clone, Copy, Debug)]
pub struct Style {
    size: i32,
    bold: bool,
    color: RGBColor,
    across: Across,
}

/// Where a text lies beside the place that it is drawn at.
#[derive(Clone, Copy, Debug)]
enum Across {
    Begins,
    Middle,
    Ends,
}

impl Style {
    const fn new(size: i32, bold: bool, color: RGBColor) -> Self {
        Self { size, bold, color, across: Across::Begins }
    }
    pub fn title() -> Self {
        Self::new(23, false, BLACK)
    }
    pub fn bold() -> Self {
        Self::new(19, true, BLACK)
    }
    pub fn label() -> Self {
        Self::new(15, false, BLACK)
    }
    pub fn small() -> Self {
        Self::new(14, false, BLACK)
    }
    pub fn faint() -> Self {
        Self::new(13, false, FAINT)
    }
    pub fn scale() -> Self {
        Self::new(12, false, FAINT)
    }
    /// Ending at the place instead of beginning there.
    pub fn right(self) -> Self {
        Self { across: Across::Ends, ..self }
    }
    /// With its middle at the place.
    pub fn middle(self) -> Self {
        Self { across: Across::Middle, ..self }
    }

    pub fn draw(self, area: &DrawArea<'_>, text: &str, at: (i32, i32)) -> Result<(), DrawError> {
        let weight = if self.bold { FontStyle::Bold } else { FontStyle::Normal };
        let font = FontDesc::new(FontFamily::SansSerif, f64::from(self.size), weight);
        let style = TextStyle::from(font).color(&self.color);
        let across = match self.across {
            Across::Begins => HPos::Left,
            Across::Middle => HPos::Center,
            Across::Ends => HPos::Right,
        };
        let style = style.pos(Pos::new(across, VPos::Center));
        area.draw(&Text::new(printable(text), at, style))?;
        Ok(())
    }
}

/// A text without what XML does not allow (Extensible Markup Language 1.0, `Char`). The backend escapes markup.
fn printable(text: &str) -> String {
    clean(text)
        .chars()
        .map(|c| if matches!(c, '\u{fffe}' | '\u{ffff}') { '?' } else { c })
        .collect()
}

/// About how wide a text of that font size is, in pixels.
pub fn width(text: &str, size: i32) -> i32 {
    text.chars().count() as i32 * size / 2
}

/// About how many characters of that font size have room.
pub fn characters(size: i32, room: i32) -> usize {
    (room * 2 / size).max(1) as usize
}

/// As much of a text as has room.
pub fn fitting(text: &str, size: i32, room: i32) -> String {
    crate::captions::shortened(text, characters(size, room))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn ninety_six_nodes_look_different_and_few_have_no_stripes() {
        let nodes: NodeSet = (0..96).map(|number| NodeId(number * 3)).collect();
        let colours = Colours::new(&nodes);
        let looks: Vec<_> = nodes
            .iter()
            .map(|node| {
                let Colour { color: RGBColor(red, green, blue), across, down } = colours.of(node);
                (red, green, blue, across, down)
            })
            .collect();
        assert_eq!(looks.iter().collect::<BTreeSet<_>>().len(), 96);
        let striped = looks.iter().map(|look| look.3 || look.4);
        assert_eq!(striped.take_while(|striped| !striped).count(), 24);
    }
}
