//! An SVG file while it is written: shapes and texts one after the other, with the style of all pictures.
//!
//! Colours that differ between light and dark surroundings are classes; those of nodes are the same in both. All class
//! names are below the class of the picture, and ids begin with its name, so that a page may hold the picture as it is.

use crate::{captions::shortened, clean::clean};
use std::fmt::{Display, Write};

/// The width of all pictures in pixels: that of a README on GitHub, so that texts have the sizes that are given here.
pub const WIDTH: i32 = 830;

const STYLE: &str = "\
.numaloc-map text{font-family:Helvetica,Arial,sans-serif;font-size:12px;fill:#1f2328}
.numaloc-map .title{font-size:18px}
.numaloc-map .name{font-size:15px;font-weight:bold}
.numaloc-map .row{font-size:13px;font-weight:bold}
.numaloc-map .faint{fill:#59636e}
.numaloc-map .on-dark{fill:#fff}
.numaloc-map .on-light{fill:#000}
.numaloc-map .paper{fill:#fff}
.numaloc-map .empty{fill:#e4e8ec}
.numaloc-map .rule{fill:#afb8c1}
.numaloc-map .mark{fill:#3c4146}
.numaloc-map .unplaced{fill:#818b98}
.numaloc-map .line-mark{stroke:#3c4146;stroke-width:1.6}
@media (prefers-color-scheme:dark){
.numaloc-map text{fill:#e6edf3}
.numaloc-map .faint{fill:#9198a1}
.numaloc-map .on-dark{fill:#fff}
.numaloc-map .on-light{fill:#000}
.numaloc-map .paper{fill:#0d1117}
.numaloc-map .empty{fill:#2a313c}
.numaloc-map .rule{fill:#3d444d}
.numaloc-map .mark{fill:#c9d1d9}
.numaloc-map .unplaced{fill:#6e7681}
.numaloc-map .line-mark{stroke:#c9d1d9}
}
";

/// Position of a text relative to its coordinates.
#[derive(Clone, Copy, Debug)]
pub enum Anchor {
    Begins,
    Middle,
    Ends,
}

/// The page written so far.
#[derive(Clone, Debug, Default)]
pub struct Page {
    body: String,
}

impl Page {
    pub fn new() -> Self {
        Self::default()
    }

    /// A rectangle. `paint` is an attribute such as `class="empty"`, or `fill="#000"`.
    pub fn rect(&mut self, paint: impl Display, (x, y): (i32, i32), (width, height): (i32, i32)) {
        if width > 0 && height > 0 {
            self.line(format_args!(
                "<rect {paint} x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"/>"
            ));
        }
    }

    /// Rectangles of one paint as one shape.
    pub fn shape(&mut self, paint: impl Display, shape: &Shape) {
        if !shape.0.is_empty() {
            self.line(format_args!("<path {paint} d=\"{}\"/>", shape.0));
        }
    }

    /// Lines, in a class of the style.
    pub fn stroke(&mut self, class: &str, path: &str) {
        self.line(format_args!("<path class=\"line-{class}\" d=\"{path}\"/>"));
    }

    /// A text on its base line, in a class of the style.
    pub fn text(&mut self, class: &str, text: &str, (x, y): (i32, i32), anchor: Anchor) {
        let anchor = match anchor {
            Anchor::Begins => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::Ends => " text-anchor=\"end\"",
        };
        let text = escaped(text);
        self.line(format_args!(
            "<text class=\"{class}\" x=\"{x}\" y=\"{y}\"{anchor}>{text}</text>"
        ));
    }

    /// Groups the output of `draw`, for which pointers show `title`.
    pub fn group(&mut self, title: &str, draw: impl FnOnce(&mut Self)) {
        self.line(format_args!("<g><title>{}</title>", escaped(title)));
        draw(self);
        self.body += "</g>\n";
    }

    fn line(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing into memory does not fail.
        let _ = writeln!(self.body, "{element}");
    }

    /// The file, with a title and a description for readers who do not see it, and the patterns that shapes are filled
    /// with.
    pub fn file(self, height: i32, title: &str, description: &str, patterns: &str) -> String {
        let (title, description) = (escaped(title), escaped(description));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"numaloc-map\" role=\"img\" \
             aria-labelledby=\"numaloc-title numaloc-desc\" width=\"{WIDTH}\" height=\"{height}\" \
             viewBox=\"0 0 {WIDTH} {height}\">\n\
             <title id=\"numaloc-title\">{title}</title>\n\
             <desc id=\"numaloc-desc\">{description}</desc>\n\
             <style>\n{STYLE}</style>\n\
             <defs>\n{patterns}</defs>\n\
             <rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\"/>\n\
             {}</svg>\n",
            self.body
        )
    }
}

/// Rectangles that become one path.
#[derive(Clone, Debug, Default)]
pub struct Shape(String);

impl Shape {
    /// Adds a rectangle; `to` is just outside.
    pub fn add(&mut self, from: (i32, i32), to: (i32, i32)) {
        let (width, height) = (to.0 - from.0, to.1 - from.1);
        if width > 0 && height > 0 {
            let _ = write!(self.0, "M{} {}h{width}v{height}h-{width}z", from.0, from.1);
        }
    }
}

/// A text as XML has it, without the characters that it does not allow (Extensible Markup Language 1.0, `Char`).
fn escaped(text: &str) -> String {
    let mut safe = String::new();
    for c in clean(text).chars() {
        match c {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            '\u{fffe}' | '\u{ffff}' => safe.push('?'),
            c => safe.push(c),
        }
    }
    safe
}

/// Approximate width of a text of this font size, in pixels, in a wide font.
pub fn width(text: &str, size: i32) -> i32 {
    text.chars().count() as i32 * size * 3 / 5
}

/// The part of a text that fits; if it is too long, its end is kept.
pub fn fitting(text: &str, size: i32, room: i32) -> String {
    shortened(text, (room * 5 / (size * 3)).max(1) as usize)
}

/// A text in lines that have room. Sentences are narrower than numbers and names.
pub fn wrapped(text: &str, size: i32, room: i32) -> Vec<String> {
    crate::wrap::wrapped(text, (room * 15 / (size * 8)).max(1) as usize)
}
