//! Checks schedules against the rules (docs/rules/cronjobs.md, 3), as tables, and against a walk over every minute of a
//! year.

use super::*;
use crate::Time;

fn time(text: &str) -> Time {
    Time::parse_rfc3339(text).expect("a good time")
}

fn schedule(text: &str) -> Schedule {
    Schedule::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn errors_have_upstreams_text_and_a_position() {
    let table = include_str!("tests/errors.txt");
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let [text, part, character, message] = columns(line);
        let error = Schedule::parse(&text).expect_err(&text);
        let got = (
            error.to_string(),
            error.part(),
            error.character().to_string(),
        );
        assert_eq!(got, (message, part.as_str(), character), "{text}");
    }
}

#[test]
fn accepted_schedules_run_as_upstream() {
    let table = include_str!("tests/next.txt");
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let [text, from, next] = columns(line);
        let mut at = time(&from);
        let schedule = schedule(&text);
        for want in next.split_whitespace() {
            let got = schedule.next(at);
            if want == "never" {
                assert_eq!(got, None, "{text} after {from}");
                break;
            }
            at = got.unwrap_or_else(|| panic!("{text} after {from}: none"));
            assert_eq!(at, time(want), "{text} after {from}: {}", at.to_rfc3339());
        }
    }
}

#[test]
fn words_describe_the_runs() {
    let table = include_str!("tests/words.txt");
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let [text, words] = columns(line);
        assert_eq!(explain(&schedule(&text)), words, "{text}");
    }
}

#[test]
fn of_missed_runs_the_latest_is_due() {
    let table = include_str!("tests/due.txt");
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let [text, base, now, run, missed, delay] = columns(line);
        let (base, now) = (time(&base), time(&now));
        let schedule = schedule(&text);
        let (got, many) = match schedule.due(base, now) {
            Ok(due) => (
                due.run.map_or("-".to_owned(), Time::to_rfc3339),
                format!("{:?}", due.missed),
            ),
            Err(error) => (error.to_string(), "-".to_owned()),
        };
        assert_eq!((got, many), (run, missed), "{line}");
        let wait = schedule.next_delay(base, now);
        let wait = wait.map_or("-".to_owned(), |wait| {
            assert_eq!(wait.subsec_millis(), 100, "{line}");
            wait.as_secs().to_string()
        });
        assert_eq!(wait, delay, "{line}");
    }
}

/// Splits a table row at `|`. `\t` is a tab; backquotes keep trailing blanks.
fn columns<const N: usize>(line: &str) -> [String; N] {
    let columns: Vec<String> = line
        .split(" | ")
        .map(|column| {
            let column = column.trim();
            let quoted = column
                .strip_prefix('`')
                .and_then(|rest| rest.strip_suffix('`'));
            quoted.unwrap_or(column).replace("\\t", "\t")
        })
        .collect();
    columns.try_into().unwrap_or_else(|_| panic!("{line}"))
}

#[test]
fn zone_names_are_case_sensitive() {
    for good in [
        "UTC",
        "EST",
        "Etc/GMT+5",
        "Europe/London",
        "US/Eastern",
        "GMT",
        "Zulu",
    ] {
        assert!(Zone::load(good).is_ok(), "{good}");
    }
    let bad = [
        "local",
        "europe/london",
        "utc",
        "UTC/",
        "-x",
        "../etc/x",
        "A//B",
        "Etc/Unknown",
        "Mars/Base",
    ];
    for bad in bad {
        let error = Zone::load(bad).expect_err(bad);
        assert_eq!(error.to_string(), format!("unknown time zone {bad}"));
    }
}

#[test]
fn annotations_carry_the_offset_of_the_zone() {
    let at = time("2026-11-21T02:16:00Z");
    let written = |zone: &str| Zone::load(zone).expect("a zone").to_rfc3339(at);
    assert_eq!(written("America/New_York"), "2026-11-20T21:16:00-05:00");
    assert_eq!(written("Asia/Kolkata"), "2026-11-21T07:46:00+05:30");
    assert_eq!(written("Europe/London"), "2026-11-21T02:16:00Z");
    assert_eq!(Zone::utc().to_rfc3339(at), "2026-11-21T02:16:00Z");
}

mod by_minutes {
    //! Checks a year of each zone minute by minute, independently of the search, of jiff, and of the time zone
    //! database.

    use super::*;

    /// A zone: its offset in minutes at the start of the year, and the times and new offsets of clock changes.
    type ZoneYear = (&'static str, i64, &'static [(&'static str, i64)]);

    const ZONES: [ZoneYear; 4] = [
        (
            "America/New_York",
            -300,
            &[
                ("2026-03-08T07:00:00Z", -240),
                ("2026-11-01T06:00:00Z", -300),
            ],
        ),
        (
            "Europe/London",
            0,
            &[("2026-03-29T01:00:00Z", 60), ("2026-10-25T01:00:00Z", 0)],
        ),
        (
            LORD_HOWE,
            660,
            &[("2026-04-04T15:00:00Z", 630), ("2026-10-03T15:30:00Z", 660)],
        ),
        ("Asia/Kolkata", 330, &[]),
    ];

    const LORD_HOWE: &str = "Australia/Lord_Howe";

    /// A schedule, and its predicate on minute, hour, day, month and day of the week.
    type Meaning = (&'static str, fn(i64, i64, i64, i64, i64) -> bool);

    const SCHEDULES: [Meaning; 14] = [
        ("*/15 * * * *", |m, _, _, _, _| m % 15 == 0),
        ("@daily", |m, h, _, _, _| m == 0 && h == 0),
        ("7 */5 * * sun", |m, h, _, _, w| {
            m == 7 && h % 5 == 0 && w == 0
        }),
        ("0-59/20 0-3 1,8-14 * *", |m, h, d, _, _| {
            m % 20 == 0 && h <= 3 && (d == 1 || (8..=14).contains(&d))
        }),
        ("0 * * * *", |m, _, _, _, _| m == 0),
        ("30 1 * * *", |m, h, _, _, _| m == 30 && h == 1),
        ("45 1 * * *", |m, h, _, _, _| m == 45 && h == 1),
        ("0 2 * * *", |m, h, _, _, _| m == 0 && h == 2),
        ("30 2 * * *", |m, h, _, _, _| m == 30 && h == 2),
        ("15 2 * * *", |m, h, _, _, _| m == 15 && h == 2),
        ("0 0 13 * 5", |m, h, d, _, w| {
            m == 0 && h == 0 && (d == 13 || w == 5)
        }),
        ("30 6-16/4 * * 1-5", |m, h, _, _, w| {
            m == 30 && matches!(h, 6 | 10 | 14) && (1..=5).contains(&w)
        }),
        ("59 23 28-31 2,4,12 *", |m, h, d, o, _| {
            m == 59 && h == 23 && d >= 28 && matches!(o, 2 | 4 | 12)
        }),
        ("5 3 1 */3 ?", |m, h, d, o, _| {
            m == 5 && h == 3 && d == 1 && o % 3 == 1
        }),
    ];

    /// The differences between upstream's search and the plain meaning. After a change by thirty minutes the search
    /// proceeds from half hour to half hour. It steps over the beginning of an hour up to the next day, or uses the
    /// minute of the hour before.
    const DIFFERENT: [(&str, &str, &[&str], &[&str]); 6] = [
        (
            LORD_HOWE,
            "@daily",
            &["2026-04-05T13:30:00Z", "2026-10-04T13:00:00Z"],
            &[],
        ),
        (
            LORD_HOWE,
            "7 */5 * * sun",
            &["2026-04-04T18:37:00Z", "2026-10-03T18:07:00Z"],
            &[],
        ),
        (LORD_HOWE, "30 1 * * *", &[], &["2026-10-03T15:30:00Z"]),
        (LORD_HOWE, "45 1 * * *", &[], &["2026-10-03T15:45:00Z"]),
        (LORD_HOWE, "0 2 * * *", &["2026-04-04T15:30:00Z"], &[]),
        (LORD_HOWE, "15 2 * * *", &["2026-04-04T15:45:00Z"], &[]),
    ];

    /// Civil date from days since the epoch, by calendar arithmetic.
    fn civil(days: i64) -> (i64, i64, i64) {
        let mut day = days;
        let mut year = 1970;
        let leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        while day >= if leap(year) { 366 } else { 365 } {
            day -= if leap(year) { 366 } else { 365 };
            year += 1;
        }
        let february = if leap(year) { 29 } else { 28 };
        let mut month = 1;
        for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
            if day < length {
                break;
            }
            day -= length;
            month += 1;
        }
        (year, month, day + 1)
    }

    fn start() -> Time {
        time("2026-01-01T00:00:00Z")
    }

    fn end() -> Time {
        time("2027-01-01T00:00:00Z")
    }

    /// Every minute of a zone's year, with minute, hour, day, month and day of the week in the zone.
    fn minutes((_, offset, changes): &ZoneYear) -> Vec<(i64, [i64; 5])> {
        let changes: Vec<(i64, i64)> = changes
            .iter()
            .map(|(when, offset)| (time(when).as_secs(), *offset))
            .collect();
        let mut today = (i64::MIN, (0, 0, 0));
        let minute = |secs: i64| {
            let past = changes.iter().rev().find(|(when, _)| *when <= secs);
            let local = secs + 60 * past.map_or(*offset, |(_, offset)| *offset);
            let days = local.div_euclid(86_400);
            if today.0 != days {
                today = (days, civil(days));
            }
            let (_, month, day) = today.1;
            let minute = local.rem_euclid(86_400) / 60;
            let week = (days + 4).rem_euclid(7);
            (secs, [minute % 60, minute / 60, day, month, week])
        };
        let all = (start().as_secs()..end().as_secs()).step_by(60);
        all.map(minute).collect()
    }

    /// The runs of a schedule by its predicate.
    fn runs(minutes: &[(i64, [i64; 5])], (_, means): &Meaning) -> Vec<i64> {
        let meant = minutes
            .iter()
            .filter(|(_, [m, h, d, o, w])| means(*m, *h, *d, *o, *w));
        meant.map(|(secs, _)| *secs).collect()
    }

    fn said(secs: &[i64]) -> Vec<String> {
        let said = secs.iter().map(|secs| Time::from_secs(*secs).to_rfc3339());
        said.collect()
    }

    #[test]
    #[cfg_attr(debug_assertions, ignore = "slow without optimization")]
    fn a_year_in_each_zone_is_as_a_walk_over_its_minutes_says() {
        for zone in &ZONES {
            let (name, minutes) = (zone.0, minutes(zone));
            for meaning in &SCHEDULES {
                let text = meaning.0;
                let want = runs(&minutes, meaning);
                let schedule = schedule(&format!("TZ={name} {text}"));
                let before = Time::from_millis(start().as_millis() - 1);
                let got = std::iter::successors(schedule.next(before), |at| schedule.next(*at))
                    .take_while(|at| *at < end())
                    .map(Time::as_secs);
                let got: Vec<i64> = got.collect();
                let without = |all: &[i64], others: &[i64]| -> Vec<i64> {
                    let only = all.iter().filter(|at| others.binary_search(at).is_err());
                    only.copied().collect()
                };
                let known = DIFFERENT.iter().find(|row| row.0 == name && row.1 == text);
                let (passed_over, added) = known.map_or((&[][..], &[][..]), |row| (row.2, row.3));
                assert_eq!(said(&without(&want, &got)), passed_over, "{name} {text}");
                assert_eq!(said(&without(&got, &want)), added, "{name} {text}");
                assert!(got.is_sorted_by(|a, b| a < b), "{name} {text}");
            }
        }
    }

    /// A search finds the same run, wherever around a clock change it begins.
    #[test]
    fn a_search_may_begin_at_any_time_around_a_change() {
        const AROUND: i64 = 3 * 3600;
        let whole_hours = ZONES.iter().filter(|zone| zone.0 != LORD_HOWE);
        for zone in whole_hours {
            let (name, minutes) = (zone.0, minutes(zone));
            for meaning in &SCHEDULES {
                let text = meaning.0;
                let want = runs(&minutes, meaning);
                let schedule = schedule(&format!("TZ={name} {text}"));
                for change in zone.2.iter().map(|(when, _)| time(when).as_secs()) {
                    for from in (change - AROUND..change + AROUND).step_by(97) {
                        let next = want.partition_point(|at| *at <= from);
                        let got = schedule
                            .next(Time::from_secs(from))
                            .map(Time::as_secs)
                            .filter(|at| *at < end().as_secs());
                        let from = Time::from_secs(from).to_rfc3339();
                        assert_eq!(got, want.get(next).copied(), "{name} {text} after {from}");
                    }
                }
            }
        }
    }
}
