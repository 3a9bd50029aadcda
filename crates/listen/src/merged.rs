//! The metrics of several parts as one text: each family once, its samples labelled by the part that they are of.

use std::collections::HashMap;

/// Texts in the OpenMetrics format as one. Each is of a part of this name, which its samples get as the first of their
/// labels.
#[must_use]
pub fn merged<'a>(label: &str, texts: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut families: Vec<Family> = Vec::new();
    let mut places = HashMap::new();
    for (part, text) in texts {
        let mut place = None;
        for line in text.lines() {
            match line.strip_prefix("# ").map(|comment| comment.split(' ').collect::<Vec<_>>()) {
                Some(words) if words.len() > 1 => {
                    let found = *places.entry(words[1].to_owned()).or_insert(families.len());
                    if found == families.len() {
                        families.push(Family::default());
                    }
                    let family = &mut families[found];
                    // The comments of the first part are those of all.
                    if !family.comments.contains(line) {
                        family.comments.push_str(&format!("{line}\n"));
                    }
                    place = Some(found);
                }
                Some(_) => {}
                None => {
                    // A sample follows the comments of its family.
                    if let Some(family) = place.and_then(|place| families.get_mut(place)) {
                        add(&mut family.samples, line, label, part);
                    }
                }
            }
        }
    }
    let mut text: String =
        families.into_iter().flat_map(|Family { comments, samples }| [comments, samples]).collect();
    text.push_str("# EOF\n");
    text
}

/// Metrics of one name.
#[derive(Debug, Default)]
struct Family {
    comments: String,
    samples: String,
}

/// Adds a sample with another label in front of its own.
fn add(samples: &mut String, sample: &str, label: &str, part: &str) {
    let part = part.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let name = sample.find(['{', ' ']).unwrap_or(sample.len());
    let (name, rest) = sample.split_at(name);
    let line = match rest.strip_prefix('{') {
        Some(labels) => format!("{name}{{{label}=\"{part}\",{labels}\n"),
        None => format!("{name}{{{label}=\"{part}\"}}{rest}\n"),
    };
    samples.push_str(&line);
}
