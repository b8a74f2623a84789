//! Runs `lakh cron` as a command.

use crate::support::run;

fn cron(args: &[&str]) -> (Option<i32>, String, String) {
    let args: Vec<&str> = ["cron"].iter().chain(args).copied().collect();
    let output = run(&args);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

#[test]
fn the_next_times_are_those_of_the_zone() {
    let (code, out, _) = cron(&[
        "next",
        "30 7 * * *",
        "--time-zone",
        "Asia/Kolkata",
        "--count",
        "3",
    ]);
    assert_eq!(code, Some(0));
    assert_eq!(out.lines().count(), 3, "{out}");
    assert!(
        out.lines().all(|line| line.ends_with("T07:30:00+05:30")),
        "{out}"
    );
    let (code, out, err) = cron(&["next", "0 0 31 2 *"]);
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert!(err.contains("no run in the next five years"), "{err}");
}

#[test]
fn a_schedule_is_said_in_words() {
    let (code, out, _) = cron(&["explain", "0 7 * * mon-fri"]);
    assert_eq!(
        (code, out.as_str()),
        (Some(0), "at 07:00, on Monday to Friday\n")
    );
}

#[test]
fn schedule_errors_name_field_and_character() {
    let (code, _, err) = cron(&["explain", "0 25 * * *"]);
    assert_eq!(code, Some(2));
    let want = "\"0 25 * * *\": hour, character 3: end of range (25) above maximum (23): 25";
    assert!(err.contains(want), "{err}");
    let (code, _, err) = cron(&["next", "@daily", "--time-zone", "Mars/Base"]);
    assert_eq!(code, Some(2));
    assert!(
        err.contains("--time-zone: unknown time zone Mars/Base"),
        "{err}"
    );
}
