//! Selects the controllers that run, in kube-controller-manager's notation for `--controllers`.
//!
//! `*` turns all of them on, `NAME` one on, `-NAME` one off. Without `*`, controllers that are not named are off.

use super::Mode;

/// The controllers of this process that are enabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Controllers {
    /// Runs Jobs.
    pub job: bool,
    /// Runs CronJobs.
    pub cronjob: bool,
    /// Deletes finished Jobs when their `ttlSecondsAfterFinished` is over.
    pub ttl: bool,
}

/// Selects the field of a controller.
type Chosen = fn(&mut Controllers) -> &mut bool;

/// The controllers by name.
const NAMES: [(&str, Chosen); 3] = [
    ("job", |chosen| &mut chosen.job),
    ("cronjob", |chosen| &mut chosen.cronjob),
    ("ttl", |chosen| &mut chosen.ttl),
];

impl Default for Controllers {
    fn default() -> Self {
        Self {
            job: true,
            cronjob: true,
            ttl: true,
        }
    }
}

impl Controllers {
    /// Parses a list such as `job,ttl` or `*,-ttl`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split(',').map(str::trim).collect();
        let mut chosen = Self::default();
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

    /// Returns the controllers that run by default in a mode.
    pub fn of_mode(mode: &Mode) -> Self {
        match mode {
            Mode::Replace | Mode::Both => Self::default(),
            // CronJobs have no field that makes the built-in controller leave one alone.
            Mode::ManagedBy(_) => Self {
                cronjob: false,
                ..Self::default()
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_choose() {
        let chosen = |text: &str| {
            let chosen = Controllers::parse(text).expect("a good list");
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
            let why = Controllers::parse(text).expect_err(text);
            assert!(why.starts_with("unknown controller"), "{why}");
        }
    }
}
