//! "Did you mean": the known word nearest to a misspelt one.

/// The candidate that `word` was most likely meant to be, if any is near enough.
///
/// Letter case and the separators `_`, `-` and space do not count. Near enough is one slip (a letter too many, too few,
/// wrong, or swapped with its neighbour) per three letters.
#[must_use]
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = folded(word);
    let allowed = (word.len() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (slips(&word, &folded(candidate)), candidate))
        .filter(|(slips, _)| *slips <= allowed)
        .min_by_key(|(slips, _)| *slips)
        .map(|(_, candidate)| candidate)
}

fn folded(word: &str) -> Vec<char> {
    let letters = word.chars().filter(|letter| !matches!(letter, '_' | '-' | ' '));
    // Nobody misspells a longer word by one slip, and the comparison is quadratic.
    letters.flat_map(char::to_lowercase).take(LONGEST_WORD).collect()
}

/// The optimal string alignment distance, one row at a time.
fn slips(left: &[char], right: &[char]) -> usize {
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in right.iter().enumerate() {
            let replaced = last[j] + usize::from(a != b);
            let mut best = replaced.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == right[j - 1] && left[i - 1] == *b {
                best = best.min(before_last[j - 1] + 1);
            }
            row.push(best);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[right.len()]
}

const LONGEST_WORD: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: [&str; 5] = ["fan_out", "failure_ratio", "prefetch", "batch", "in_flight"];

    #[test]
    fn slips_are_understood() {
        for (word, meant) in [
            ("fanout", "fan_out"),
            ("fan-out", "fan_out"),
            ("Fan_Out", "fan_out"),
            ("prefech", "prefetch"),
            ("bacth", "batch"),
            ("failure_rate", "failure_ratio"),
            ("inflight", "in_flight"),
        ] {
            assert_eq!(nearest(word, KEYS), Some(meant), "{word}");
        }
    }

    #[test]
    fn words_of_their_own_are_not_twisted_into_others() {
        for word in ["", "route", "checkpoint", "x", &"fan_out".repeat(1000)] {
            assert_eq!(nearest(word, KEYS), None, "{word}");
        }
    }
}
