//! Schedules against the tables of the rules, and against a walk over every minute of a year.

use super::*;
use crate::model::Time;

fn time(text: &str) -> Time {
    Time::parse_rfc3339(text).expect("a good time")
}

fn schedule(text: &str) -> Schedule {
    Schedule::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn what_is_wrong_is_said_in_upstreams_words_and_where() {
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
fn what_is_accepted_runs_when_upstream_runs_it() {
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
fn words_say_what_runs() {
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

/// Columns of a table, with `|` between them; `\t` is a tab, and blanks at the end count in `"`.
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
fn zones_are_told_apart_by_case() {
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
    //! A year of each zone, minute by minute: independent of how the search goes, and of jiff's
    //! civil arithmetic but for the offset at an instant.

    use jiff::{Timestamp, tz::TimeZone};

    use super::*;

    const ZONES: [&str; 4] = [
        "America/New_York",
        "Europe/London",
        LORD_HOWE,
        "Asia/Kolkata",
    ];

    const LORD_HOWE: &str = "Australia/Lord_Howe";

    /// A schedule, and what it means of minute, hour, day, month and day of the week.
    type Meaning = (&'static str, fn(i64, i64, i64, i64, i64) -> bool);

    const SCHEDULES: [Meaning; 11] = [
        ("*/15 * * * *", |m, _, _, _, _| m % 15 == 0),
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

    /// Where upstream's search differs from what the text means: an hour that a change by thirty
    /// minutes leaves unfinished is stepped over, or left with the minute of the next one.
    const DIFFERENT: [(&str, &str, &[&str], &[&str]); 4] = [
        (LORD_HOWE, "30 1 * * *", &[], &["2026-10-03T15:30:00Z"]),
        (LORD_HOWE, "45 1 * * *", &[], &["2026-10-03T15:45:00Z"]),
        (LORD_HOWE, "0 2 * * *", &["2026-04-04T15:30:00Z"], &[]),
        (LORD_HOWE, "15 2 * * *", &["2026-04-04T15:45:00Z"], &[]),
    ];

    /// Civil date from days since the epoch, by the calendar's arithmetic.
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

    #[test]
    fn a_year_in_each_zone_is_as_a_walk_over_its_minutes_says() {
        let (start, end) = (time("2026-01-01T00:00:00Z"), time("2027-01-01T00:00:00Z"));
        for name in ZONES {
            let zone = TimeZone::get(name).expect("a zone");
            let mut today = (i64::MIN, (0, 0, 0));
            let minutes: Vec<(i64, [i64; 5])> = (start.as_secs()..end.as_secs())
                .step_by(60)
                .map(|secs| {
                    let at = Timestamp::from_second(secs).expect("in range");
                    let local = secs + i64::from(zone.to_offset(at).seconds());
                    let days = local.div_euclid(86_400);
                    if today.0 != days {
                        today = (days, civil(days));
                    }
                    let (_, month, day) = today.1;
                    let minute = local.rem_euclid(86_400) / 60;
                    let week = (days + 4).rem_euclid(7);
                    (secs, [minute % 60, minute / 60, day, month, week])
                })
                .collect();
            for (text, means) in SCHEDULES {
                let want = minutes
                    .iter()
                    .filter(|(_, [m, h, d, o, w])| means(*m, *h, *d, *o, *w))
                    .map(|(secs, _)| Time::from_secs(*secs).to_rfc3339());
                let schedule = schedule(&format!("TZ={name} {text}"));
                let before = Time::from_millis(start.as_millis() - 1);
                let got = std::iter::successors(schedule.next(before), |at| schedule.next(*at))
                    .take_while(|at| *at < end)
                    .map(Time::to_rfc3339);
                let (want, got): (Vec<_>, Vec<_>) = (want.collect(), got.collect());
                let missing: Vec<&String> = want
                    .iter()
                    .filter(|at| got.binary_search(at).is_err())
                    .collect();
                let surplus: Vec<&String> = got
                    .iter()
                    .filter(|at| want.binary_search(at).is_err())
                    .collect();
                let known = DIFFERENT.iter().find(|row| row.0 == name && row.1 == text);
                let (passed_over, added) = known.map_or((&[][..], &[][..]), |row| (row.2, row.3));
                assert_eq!(missing, passed_over, "{name} {text}");
                assert_eq!(surplus, added, "{name} {text}");
            }
        }
    }
}
