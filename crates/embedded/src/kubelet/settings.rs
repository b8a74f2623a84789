//! Reads a Pod's simulation settings from annotations of its template.
//!
//! Responsible for: reading those annotations, and deciding the result of a try of such a Pod.
//! Must not: guess. An annotation that cannot be read is an error in the Pod's status.

use std::time::Duration;

use super::{
    decode::Texts,
    output::{OUTPUT_FORM, OUTPUT_LIMIT},
    ranges::{RANGES_FORM, Ranges},
};
use crate::model::parse_go_duration;

/// Run time of the containers, as a Go duration.
pub const DURATION: &str = "sim.lakh.dev/duration";
/// Exit code of the first container, 0 to 255; with one of the next two, only where they apply.
pub const EXIT_CODE: &str = "sim.lakh.dev/exit-code";
/// The completion indexes that fail, such as `0-3,7`; the others succeed.
pub const FAIL_INDEXES: &str = "sim.lakh.dev/fail-indexes";
/// Number of tries that fail before one succeeds.
pub const FAIL_ATTEMPTS: &str = "sim.lakh.dev/fail-attempts";
/// Run times of init containers: a Go duration for each, in order; those beyond take no time.
pub const INIT_DURATION: &str = "sim.lakh.dev/init-duration";
/// Exit codes of init containers, in order; those beyond succeed.
pub const INIT_EXIT_CODE: &str = "sim.lakh.dev/init-exit-code";
/// Number of tries for which a failing init container fails before it succeeds.
pub const INIT_FAIL_ATTEMPTS: &str = "sim.lakh.dev/init-fail-attempts";
/// Output of the first container, with placeholders such as `{index}`.
pub const OUTPUT: &str = "sim.lakh.dev/output";
/// `status.reason` of a Pod whose annotations cannot be read; the message gives the annotation and the reason.
pub const INVALID_ANNOTATION_REASON: &str = "InvalidSimAnnotation";

/// Settings of one Pod template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) duration: Option<Duration>,
    pub(super) init_fail_attempts: Option<u32>,
    fail_attempts: Option<u32>,
    init_durations: Box<[Duration]>,
    init_exit_codes: Box<[u8]>,
    exit_code: Option<u8>,
    fail_indexes: Option<Ranges>,
}

/// Result of a try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Exits with this code, as the Pod says.
    Exit(u8),
    /// Follows the kubelet's own options.
    Unsaid,
}

impl Settings {
    /// Reads the annotations. The error names the first invalid annotation and its value.
    pub(super) fn read(annotations: &Texts<'_>, indexed: bool) -> Result<Self, String> {
        let given = Annotations(annotations);
        let codes = |text: &str| text.split(',').map(parse_code).collect();
        let durations = |text: &str| text.split(',').map(parse_go_duration).collect();
        let count = |text: &str| text.parse().ok();
        let exit_code = given.read(EXIT_CODE, CODE_FORM, parse_code)?;
        let init_durations = given.read(INIT_DURATION, DURATIONS_FORM, durations)?;
        let init_exit_codes = given.read(INIT_EXIT_CODE, CODES_FORM, codes)?;
        let settings = Self {
            duration: given.read(DURATION, DURATION_FORM, parse_go_duration)?,
            init_durations: init_durations.unwrap_or_default(),
            init_exit_codes: init_exit_codes.unwrap_or_default(),
            init_fail_attempts: given.read(INIT_FAIL_ATTEMPTS, COUNT_FORM, count)?,
            fail_attempts: given.read(FAIL_ATTEMPTS, COUNT_FORM, count)?,
            fail_indexes: given.read(FAIL_INDEXES, RANGES_FORM, Ranges::parse)?,
            exit_code,
        };
        given.read(OUTPUT, OUTPUT_FORM, |text| {
            (text.len() <= OUTPUT_LIMIT).then_some(())
        })?;
        let (indexes, attempts) = (given.get(FAIL_INDEXES), given.get(FAIL_ATTEMPTS));
        if let Some(value) = indexes.filter(|_| !indexed) {
            let problem = "needs a Pod with a completion index";
            return Err(complaint(FAIL_INDEXES, value, problem));
        }
        if exit_code == Some(0) && (indexes.is_some() || attempts.is_some()) {
            let problem = "must not be 0, because other annotations make the Pod fail";
            return Err(complaint(EXIT_CODE, "0", problem));
        }
        if let Some(count) = given.get(INIT_FAIL_ATTEMPTS)
            && settings.init_exit_codes.iter().all(|code| *code == 0)
        {
            let problem = "needs an init container that fails";
            return Err(complaint(INIT_FAIL_ATTEMPTS, count, problem));
        }
        Ok(settings)
    }

    /// Returns true if a result depends on earlier tries in other Pods.
    pub(super) fn counts_tries(&self) -> bool {
        self.fail_attempts.is_some() || self.init_fail_attempts.is_some()
    }

    /// Returns the run time of an init container's tries and the exit code of those that fail. `place` counts init
    /// containers without sidecars.
    pub(super) fn init(&self, place: usize) -> (Duration, u8) {
        let duration = self.init_durations.get(place).copied();
        let exit_code = self.init_exit_codes.get(place).copied();
        (duration.unwrap_or_default(), exit_code.unwrap_or_default())
    }

    /// Returns the result of the try with this number (from 0).
    pub(super) fn fate(&self, index: Option<u32>, try_number: u32) -> Fate {
        if self.fail_indexes.is_none() && self.fail_attempts.is_none() {
            return self.exit_code.map_or(Fate::Unsaid, Fate::Exit);
        }
        let is_in = |ranges: &Ranges| index.is_some_and(|index| ranges.contains(index));
        let index_fails = self.fail_indexes.as_ref().is_none_or(is_in);
        let try_fails = self.fail_attempts.is_none_or(|count| try_number < count);
        Fate::Exit(match index_fails && try_fails {
            true => self.exit_code.unwrap_or(1),
            false => 0,
        })
    }
}

/// The annotations of a Pod, for typed access.
#[derive(Clone, Copy)]
struct Annotations<'a>(&'a Texts<'a>);

impl<'a> Annotations<'a> {
    fn get(self, annotation: &str) -> Option<&'a str> {
        Some(self.0.get(annotation)?)
    }

    fn read<T>(
        self,
        annotation: &str,
        form: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, String> {
        let Some(value) = self.get(annotation) else {
            return Ok(None);
        };
        let read = parse(value).map(Some);
        read.ok_or_else(|| complaint(annotation, value, form))
    }
}

fn complaint(annotation: &str, value: &str, what: &str) -> String {
    format!("annotation {annotation}: {value:?} {what}")
}

fn parse_code(text: &str) -> Option<u8> {
    text.parse().ok()
}

const DURATION_FORM: &str = "must be a duration such as 200ms or 1m30s";
const DURATIONS_FORM: &str = "must be durations such as 200ms,1m30s";
const CODES_FORM: &str = "must be exit codes from 0 to 255 such as 0,3";
const COUNT_FORM: &str = "must be a count";
const CODE_FORM: &str = "must be an exit code from 0 to 255";

#[cfg(test)]
mod tests {
    use super::{super::decode::BorrowedText, *};

    fn annotations(text: &str) -> Texts<'_> {
        let fields = text.split_whitespace().map(|pair| {
            let (key, value) = pair.split_once('=').expect("test cases say key=value");
            let key = format!("sim.lakh.dev/{key}");
            (BorrowedText(key.into()), BorrowedText(value.into()))
        });
        fields.collect()
    }

    #[test]
    fn annotations_decide_how_tries_end() {
        // Annotations, then "index/try" and the exit code that follows ("?" is unsaid).
        let cases = [
            ("", "0/0=? 7/3=?"),
            ("exit-code=42", "0/0=42 7/3=42"),
            ("exit-code=0", "0/0=0"),
            ("fail-indexes=0-3,7", "0/0=1 3/9=1 4/0=0 7/0=1 8/0=0"),
            ("fail-indexes=5 exit-code=42", "5/0=42 4/0=0"),
            ("fail-attempts=2", "0/0=1 9/1=1 0/2=0"),
            ("fail-attempts=0", "0/0=0"),
            (
                "fail-attempts=1 fail-indexes=2,4-4 exit-code=3",
                "2/0=3 2/1=0 3/0=0 4/0=3",
            ),
        ];
        for (text, want) in cases {
            let settings = Settings::read(&annotations(text), true).expect(text);
            let got: Vec<String> = want
                .split_whitespace()
                .map(|case| {
                    let (key, _) = case.split_once('=').expect("cases say index/try=code");
                    let (index, try_number) = key.split_once('/').expect("index/try");
                    let (index, try_number) = (
                        index.parse().expect("index"),
                        try_number.parse().expect("try"),
                    );
                    match settings.fate(Some(index), try_number) {
                        Fate::Exit(code) => format!("{key}={code}"),
                        Fate::Unsaid => format!("{key}=?"),
                    }
                })
                .collect();
            assert_eq!(got.join(" "), want, "{text}");
        }
    }

    #[test]
    fn unreadable_annotations_are_named() {
        let cases = [
            (
                true,
                "duration=5",
                r#"/duration: "5" must be a duration such as 200ms or 1m30s"#,
            ),
            (
                true,
                "exit-code=256",
                r#"/exit-code: "256" must be an exit code from 0 to 255"#,
            ),
            (
                true,
                "init-exit-code=x",
                r#"/init-exit-code: "x" must be exit codes from 0 to 255 such as 0,3"#,
            ),
            (
                true,
                "init-duration=1s,2",
                r#"/init-duration: "1s,2" must be durations such as 200ms,1m30s"#,
            ),
            (
                true,
                "init-fail-attempts=1 init-exit-code=0,0",
                r#"/init-fail-attempts: "1" needs an init container that fails"#,
            ),
            (
                true,
                "fail-attempts=-1",
                r#"/fail-attempts: "-1" must be a count"#,
            ),
            (
                true,
                "fail-indexes=3-1",
                r#"/fail-indexes: "3-1" must be a list of indexes and ranges such as 0-3,7"#,
            ),
            (
                true,
                "fail-indexes=1,,2",
                r#"/fail-indexes: "1,,2" must be a list of indexes and ranges such as 0-3,7"#,
            ),
            (
                false,
                "fail-indexes=1",
                r#"/fail-indexes: "1" needs a Pod with a completion index"#,
            ),
            (
                true,
                "fail-attempts=1 exit-code=0",
                r#"/exit-code: "0" must not be 0, because other annotations make the Pod fail"#,
            ),
        ];
        for (indexed, text, want) in cases {
            let got = Settings::read(&annotations(text), indexed).expect_err(text);
            assert_eq!(got, format!("annotation sim.lakh.dev{want}"), "{text}");
        }
    }
}
