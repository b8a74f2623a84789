//! `--controllers`: selects the controllers to run, in kube-controller-manager's notation.
//!
//! `*` turns all of them on, `NAME` one on, `-NAME` one off. Without `*`, controllers that are not named are off.

use crate::runtime::Controllers;

/// Selects the field of a controller.
type Chosen = fn(&mut Controllers) -> &mut bool;

/// The controllers by name.
const NAMES: [(&str, Chosen); 3] = [
    ("job", |chosen| &mut chosen.job),
    ("cronjob", |chosen| &mut chosen.cronjob),
    ("ttl", |chosen| &mut chosen.ttl),
];

/// Parses a list such as `job,ttl` or `*,-ttl`.
pub(super) fn parse(text: &str) -> Result<Controllers, String> {
    let words: Vec<&str> = text.split(',').map(str::trim).collect();
    let mut chosen = Controllers::default();
    for (name, field) in NAMES {
        // The first word about a controller counts, as upstream.
        let about = |word: &&&str| word.trim_start_matches('-') == name;
        let named = words.iter().find(about);
        *field(&mut chosen) = named.map_or(words.contains(&"*"), |word| *word == name);
    }
    for word in words {
        let name = word.strip_prefix('-').unwrap_or(word);
        if word != "*" && !NAMES.iter().any(|(known, _)| *known == name) {
            let known = NAMES.map(|(name, _)| name).join(", ");
            return Err(format!("unknown controller {word:?}; there are {known}"));
        }
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_choose() {
        let chosen = |text: &str| {
            let chosen = parse(text).expect("a good list");
            let mut on = NAMES.to_vec();
            on.retain(|(_, field)| *field(&mut chosen.clone()));
            on.iter()
                .map(|(name, _)| *name)
                .collect::<Vec<_>>()
                .join(",")
        };
        let all = NAMES.map(|(name, _)| name).join(",");
        assert_eq!(chosen("*"), all);
        assert_eq!(chosen(&all), all);
        assert_eq!(chosen("ttl"), "ttl");
        assert_eq!(chosen("job"), "job");
        assert_eq!(chosen("*,-job"), all.replacen("job,", "", 1));
        assert_eq!(chosen("-ttl,*"), all.replace(",ttl", ""));
    }

    #[test]
    fn unknown_names_are_named() {
        for text in ["pod", "*,-pod", "", "job,,ttl"] {
            let why = parse(text).expect_err(text);
            assert!(why.starts_with("unknown controller"), "{why}");
        }
    }
}
