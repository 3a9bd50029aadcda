//! Patterns of `*` (any text) and `?` (any character), as in `--only 'fan_out=*'`.

/// A pattern that names are compared with.
#[derive(Debug)]
pub(super) struct Glob {
    pattern: Vec<char>,
}

impl Glob {
    pub(super) fn new(pattern: &str) -> Self {
        Self { pattern: pattern.chars().collect() }
    }

    /// True if the whole of `name` fits. Linear in practice: upon a mismatch only the last `*` takes one more.
    pub(super) fn matches(&self, name: &str) -> bool {
        let name: Vec<char> = name.chars().collect();
        let (mut at, mut next) = (0, 0);
        let mut last_star = None;
        while next < name.len() {
            match self.pattern.get(at) {
                Some('*') => {
                    last_star = Some((at, next));
                    at += 1;
                }
                Some(&expected) if expected == '?' || expected == name[next] => {
                    at += 1;
                    next += 1;
                }
                _ => {
                    let Some((star, taken)) = last_star else {
                        return false;
                    };
                    last_star = Some((star, taken + 1));
                    (at, next) = (star + 1, taken + 1);
                }
            }
        }
        self.pattern[at..].iter().all(|rest| *rest == '*')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_and_question_marks_stand_for_text_and_characters() {
        for (pattern, name, fits) in [
            ("fan_out=32", "fan_out=32", true),
            ("fan_out=3", "fan_out=32", false),
            ("fan_out=*", "fan_out=32", true),
            ("*", "", true),
            ("*32*", "fan_out=32", true),
            ("fan_out=??", "fan_out=64", true),
            ("fan_out=??", "fan_out=1", false),
            ("*=1*0", "fan_out=100", true),
            ("*a*b", "aab", true),
            ("", "x", false),
        ] {
            assert_eq!(Glob::new(pattern).matches(name), fits, "{pattern} {name}");
        }
    }
}
