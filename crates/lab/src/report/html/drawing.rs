//! A small SVG writer: shapes and texts with classes; the colours are the style sheet's, so that one drawing
//! serves light pages, dark pages and paper.

use std::fmt::Write as _;

/// A drawing under way.
#[derive(Debug)]
pub(super) struct Drawing {
    svg: String,
}

/// Where the anchor of a text lies in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// An axis-parallel rectangle.
#[derive(Debug, Clone, Copy)]
pub(super) struct Area {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// An entry of a legend: the class that colours it, and its name.
#[derive(Debug, Clone)]
pub(super) struct LegendEntry {
    pub(super) class: String,
    pub(super) name: String,
}

impl Drawing {
    /// An empty drawing that scales to the width it is given. Title and description are for those who hear it.
    pub(super) fn new(width: f64, height: f64, title: &str, description: &str) -> Self {
        let mut drawing = Self { svg: String::new() };
        drawing.put(format_args!(
            "<svg viewBox=\"0 0 {width} {height}\" role=\"img\"><title>{}</title><desc>{}</desc>",
            escaped(title),
            escaped(description)
        ));
        drawing
    }

    pub(super) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        self.put(format_args!(
            "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
            from.0, from.1, to.0, to.1
        ));
    }

    pub(super) fn polyline(&mut self, class: &str, points: &[(f64, f64)]) {
        self.put(format_args!("<polyline class=\"{class}\" points=\""));
        for (x, y) in points {
            self.put(format_args!("{x:.1},{y:.1} "));
        }
        self.svg.push_str("\"/>");
    }

    pub(super) fn circle(&mut self, class: &str, centre: (f64, f64), radius: f64) {
        self.put(format_args!(
            "<circle class=\"{class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"{radius}\"/>",
            centre.0, centre.1
        ));
    }

    /// A rectangle; `hint` appears when the pointer rests on it, if it is not empty.
    pub(super) fn rectangle(&mut self, class: &str, area: Area, hint: &str) {
        self.put(format_args!(
            "<rect class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"",
            area.x, area.y, area.width, area.height
        ));
        match hint {
            "" => self.svg.push_str("/>"),
            hint => self.put(format_args!("><title>{}</title></rect>", escaped(hint))),
        }
    }

    pub(super) fn text(&mut self, class: &str, at: (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        self.put(format_args!(
            "<text class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
            at.0,
            at.1,
            escaped(text)
        ));
    }

    /// The drawing with its caption and legend as an HTML figure. `unit` says what the axis counts.
    pub(super) fn figure(mut self, caption: &str, unit: &str, legend: &[LegendEntry]) -> String {
        self.svg.push_str("</svg>");
        let mut figure = format!(
            "<figure><figcaption>{} <span class=\"unit\">{}</span></figcaption>",
            escaped(caption),
            escaped(unit)
        );
        if !legend.is_empty() {
            figure.push_str("<ul class=\"legend\">");
            for entry in legend {
                let name = escaped(&entry.name);
                write!(figure, "<li class=\"{}\"><i></i>{name}</li>", entry.class)
                    .expect("writing to a String cannot fail");
            }
            figure.push_str("</ul>");
        }
        figure.push_str(&self.svg);
        figure.push_str("</figure>");
        figure
    }

    fn put(&mut self, arguments: std::fmt::Arguments<'_>) {
        self.svg.write_fmt(arguments).expect("writing to a String cannot fail");
    }
}

/// Text that is text wherever HTML or SVG could see markup.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // XML forbids these even as references.
            control if control.is_control() => escaped.push(' '),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_users_stay_texts() {
        let mut drawing = Drawing::new(10.0, 10.0, "<script>", "a & b");
        drawing.text("label", (0.0, 0.0), Anchor::Middle, "\"</text><script>'");
        drawing.rectangle("bar", Area { x: 0.0, y: 0.0, width: 1.0, height: 1.0 }, "<b>\u{1b}");
        let entry = LegendEntry { class: "s1".to_owned(), name: "<i>".to_owned() };
        let figure = drawing.figure("<caption>", "<unit>", &[entry]);
        for markup in ["<script>", "<b>", "<caption>", "<unit>", "\u{1b}", "</i><i>"] {
            assert!(!figure.contains(markup), "{markup} in {figure}");
        }
    }
}
