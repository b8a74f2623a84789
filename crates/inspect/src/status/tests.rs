//! Golden cases of the output about a Job: a file of `tests/` is a form.

use lakh_model::Time;

use crate::{
    formats::yaml,
    golden,
    one_job::{JobPace, seen::SeenJob},
};

use super::{print, report::StatusReport};

#[test]
fn cases() {
    golden::check("src/status/tests", 10, |form, input| {
        let sight = SeenJob::read(input);
        let report = StatusReport::of(&sight, JobPace::of(&sight.job, sight.now));
        match form {
            "text" => print::text(&report, sight.now),
            "wide" => print::wide(&report, sight.now),
            "line" => print::line(&report),
            "yaml" => yaml(&report),
            other => panic!("no form {other}"),
        }
    });
}

#[test]
fn the_most_frequent_causes_are_shown() {
    let pods: Vec<String> = (1..=7)
        .map(|code| {
            format!(
                "- {{count: {code}, status: {{phase: Failed, containerStatuses: [{{name: c, state: {{terminated: \
                 {{exitCode: {code}, finishedAt: 2026-11-26T02:59:00Z}}}}}}]}}}}"
            )
        })
        .collect();
    let sight = SeenJob::read(&format!("job: {{}}\npods:\n{}\n", pods.join("\n")));
    let report = StatusReport::of(&sight, JobPace::default());
    let text = print::text(&report, sight.now);
    assert!(
        text.contains("  failure    7 Pods: exit code 7; last Pod j-6, 02:59:00 UTC\n"),
        "{text}"
    );
    assert!(text.contains("and 2 more causes"), "{text}");
    assert_eq!(report.causes.len(), 7);
    assert_eq!(report.failures.len(), 28);
    assert!(Time::parse_rfc3339(&report.at).is_some());
}
