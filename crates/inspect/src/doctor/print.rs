//! Formats the diagnoses as text and as JSON.
//!
//! Must not: judge, or print anything itself.

use std::fmt::Write as _;

use serde::Serialize;

use super::{
    facts::{Facts, Unseen},
    fix::{FixedPods, PodFate},
    patient::{Patient, place},
    report::{Diagnosis, Finding, Level, Verdict},
};

/// An examination with its results.
#[derive(Clone, Copy, Debug)]
pub(super) struct Examination<'a> {
    pub(super) url: &'a str,
    pub(super) patient: &'a Patient,
    pub(super) facts: &'a Facts,
    pub(super) diagnoses: &'a [Diagnosis],
    /// The results of `--fix`, if it was given.
    pub(super) fixed: Option<&'a FixedPods>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ExaminationJson<'a> {
    server: &'a str,
    user: Option<&'a str>,
    mode: String,
    namespaces: &'a [String],
    checks: Vec<CheckJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fixed: Option<&'a FixedPods>,
}

#[derive(Serialize)]
struct CheckJson<'a> {
    check: &'static str,
    verdict: Verdict,
    summary: &'a str,
    findings: &'a [Finding],
    unseen: &'a [Unseen],
}

/// Formats one JSON object.
pub(super) fn json(examination: Examination<'_>) -> String {
    let checks = examination.diagnoses.iter().map(|diagnosis| CheckJson {
        check: diagnosis.check,
        verdict: diagnosis.verdict(),
        summary: &diagnosis.summary,
        findings: &diagnosis.findings,
        unseen: &diagnosis.unseen,
    });
    let object = ExaminationJson {
        server: examination.url,
        user: examination.facts.server.user.as_deref(),
        mode: examination.patient.mode_words(),
        namespaces: &examination.patient.namespaces,
        checks: checks.collect(),
        fixed: examination.fixed,
    };
    serde_json::to_string_pretty(&object).expect("text and lists are JSON")
}

/// Formats text, with colours or without.
pub(super) fn text(examination: Examination<'_>, is_colourful: bool) -> String {
    let Examination {
        url,
        patient,
        facts,
        diagnoses,
        fixed,
    } = examination;
    let user = facts.server.user.as_deref().unwrap_or("the current user");
    let places: Vec<String> = patient.scopes().into_iter().map(place).collect();
    let (mode, places) = (patient.mode_words(), places.join(", "));
    let mut text = format!("{url} as {user}: lakh of mode {mode}, {places}\n\n");
    for diagnosis in diagnoses {
        write_diagnosis(&mut text, diagnosis, is_colourful);
    }
    if let Some(fixed) = fixed {
        write_fixed(&mut text, fixed);
    }
    text.push('\n');
    text.push_str(&sum(diagnoses));
    text
}

fn write_diagnosis(text: &mut String, diagnosis: &Diagnosis, is_colourful: bool) {
    let verdict = diagnosis.verdict();
    let (sign, colour) = match verdict {
        Verdict::Ok => ("ok", 32),
        Verdict::Unseen => ("not seen", 36),
        Verdict::Warning => ("warning", 33),
        Verdict::Failed => ("failed", 31),
    };
    let sign = format!("{sign:<8}");
    let sign = match is_colourful {
        true => format!("\x1b[{colour}m{sign}\x1b[0m"),
        false => sign,
    };
    let (check, summary) = (diagnosis.check, &diagnosis.summary);
    let between = if summary.is_empty() { "" } else { ": " };
    let _ = writeln!(text, "{sign}  {check}{between}{summary}");
    for finding in &diagnosis.findings {
        let Finding {
            level,
            what,
            cause,
            remedy,
        } = finding;
        let mark = match level {
            Level::Failed => '!',
            Level::Warning => '-',
        };
        let _ = writeln!(text, "          {mark} {what}");
        let _ = writeln!(text, "            why: {cause}");
        let _ = writeln!(text, "            do:  {remedy}");
    }
    for unseen in &diagnosis.unseen {
        let _ = writeln!(text, "          ? not seen: {unseen}");
    }
}

fn write_fixed(text: &mut String, fixed: &FixedPods) {
    text.push('\n');
    for fixed in &fixed.pods {
        let pod = &fixed.pod;
        let _ = match &fixed.fate {
            PodFate::Freed { finalizer } => {
                writeln!(text, "freed       {pod}: removed {finalizer}")
            }
            PodFate::FreeAlready => writeln!(text, "already free {pod}"),
            PodFate::LeftAlone { why } => writeln!(text, "left alone  {pod}: {why}"),
        };
    }
    if fixed.pods.is_empty() {
        text.push_str("nothing to free\n");
    }
}

/// Formats the last line.
fn sum(diagnoses: &[Diagnosis]) -> String {
    let findings = diagnoses.iter().flat_map(|diagnosis| &diagnosis.findings);
    let of = |level: Level| findings.clone().filter(|it| it.level == level).count();
    let unseen: usize = diagnoses
        .iter()
        .map(|diagnosis| diagnosis.unseen.len())
        .sum();
    let (failed, warnings) = (of(Level::Failed), of(Level::Warning));
    let mut words = match (failed, warnings) {
        (0, 0) => "nothing found".to_owned(),
        (_, 1) => format!("found: {failed} failed, 1 warning"),
        _ => format!("found: {failed} failed, {warnings} warnings"),
    };
    if unseen > 0 {
        let _ = write!(words, "; not seen: {unseen}");
    }
    words
}
