//! Describes a schedule in English.

use jiff::civil::date;

use super::{
    field::{DAY_OF_MONTH, DAY_OF_WEEK, Field, FieldBounds, HOUR, MINUTE, MONTH},
    parse::{Fields, Rule, Schedule},
};

/// The maximum number of times of a day that are listed. More are described by hours and minutes.
const TIMES_MAX: u32 = 4;

/// Describes when a schedule runs, in English.
pub fn explain(schedule: &Schedule) -> String {
    let when = match &schedule.rule {
        Rule::Every(delay) => {
            return format!("every {} after the last time", seconds(delay.as_secs()));
        }
        Rule::Fields(fields) => words(fields),
    };
    match schedule.zone.name() {
        Some(zone) => format!("{when}, in time zone {zone}"),
        None => when,
    }
}

fn seconds(secs: u64) -> String {
    let parts = [(secs / 3600, "h"), (secs / 60 % 60, "m"), (secs % 60, "s")];
    let parts = parts.into_iter().filter(|(count, _)| *count > 0);
    parts
        .map(|(count, unit)| format!("{count}{unit}"))
        .collect()
}

fn words(fields: &Fields) -> String {
    let Fields {
        minute,
        hour,
        day_of_month,
        month,
        day_of_week,
    } = fields;
    let days_empty = match day_of_month.star || day_of_week.star {
        true => day_of_month.bits == 0 || day_of_week.bits == 0,
        false => day_of_month.bits == 0 && day_of_week.bits == 0,
    };
    if days_empty || [minute, hour, month].iter().any(|field| field.bits == 0) {
        return "never: a field means nothing".to_owned();
    }
    let mut text = times(*minute, *hour);
    let of_month = (!all(*day_of_month, 1, 31))
        .then(|| format!("on day {} of the month", list(*day_of_month, &DAY_OF_MONTH)));
    let of_week = (!all(*day_of_week, 0, 6))
        .then(|| format!("on {}", names(*day_of_week, &DAY_OF_WEEK, weekday)));
    let either = !day_of_month.star && !day_of_week.star;
    let days = match (of_month, of_week) {
        // Either field suffices, and one of them matches every day.
        (None, _) | (_, None) if either => None,
        (Some(of_month), Some(of_week)) => {
            // A star field would match all; here neither does.
            Some(format!("{of_month} and {of_week} as well"))
        }
        (of_month, of_week) => of_month.or(of_week),
    };
    text.push_str(", ");
    text.push_str(days.as_deref().unwrap_or("every day"));
    if !all(*month, 1, 12) {
        text.push_str(" in ");
        text.push_str(&names(*month, &MONTH, month_name));
    }
    text
}

fn times(minute: Field, hour: Field) -> String {
    if minute.bits.count_ones() * hour.bits.count_ones() <= TIMES_MAX {
        let minutes = || numbers(minute, &MINUTE);
        let times = numbers(hour, &HOUR)
            .flat_map(|hour| minutes().map(move |minute| format!("{hour:02}:{minute:02}")));
        return format!("at {}", join(times.collect()));
    }
    let minutes = match minute {
        minute if all(minute, 0, 59) => "every minute".to_owned(),
        minute => format!("at minute {}", list(minute, &MINUTE)),
    };
    match hour {
        hour if all(hour, 0, 23) && all(minute, 0, 59) => minutes,
        hour if all(hour, 0, 23) => format!("{minutes} of every hour"),
        hour => format!("{minutes} of hour {}", list(hour, &HOUR)),
    }
}

fn all(field: Field, min: u32, max: u32) -> bool {
    (min..=max).all(|number| field.has(number))
}

fn numbers(field: Field, bounds: &FieldBounds) -> impl Iterator<Item = u32> {
    (bounds.min..=bounds.max).filter(move |number| field.has(*number))
}

/// Formats numbers, with their step if it is even: `0 to 55 in steps of 5`.
fn list(field: Field, bounds: &FieldBounds) -> String {
    let numbers: Vec<u32> = numbers(field, bounds).collect();
    let step = numbers.get(1).map_or(1, |second| second - numbers[0]);
    let even = numbers.windows(2).all(|pair| pair[1] - pair[0] == step);
    match numbers[..] {
        [first, _, _, .., last] if even && step == 1 => format!("{first} to {last}"),
        [first, _, _, _, .., last] if even => format!("{first} to {last} in steps of {step}"),
        _ => join(runs(&numbers, |number| number.to_string())),
    }
}

fn names(field: Field, bounds: &FieldBounds, name: fn(u32) -> String) -> String {
    let numbers: Vec<u32> = numbers(field, bounds).collect();
    join(runs(&numbers, name))
}

fn month_name(number: u32) -> String {
    date(2000, number as i8, 1).strftime("%B").to_string()
}

/// The name of a day of the week. Day 0 is `Sunday`, as 2 January 2000 was a Sunday.
fn weekday(number: u32) -> String {
    date(2000, 1, 2 + number as i8).strftime("%A").to_string()
}

/// Formats runs of three or more as `A to B`, other numbers one by one.
fn runs(numbers: &[u32], name: impl Fn(u32) -> String) -> Vec<String> {
    let runs = numbers.chunk_by(|before, after| after - before == 1);
    let words = |run: &[u32]| match *run {
        [first, _, .., last] if run.len() > 2 => vec![format!("{} to {}", name(first), name(last))],
        _ => run.iter().map(|number| name(*number)).collect(),
    };
    runs.flat_map(words).collect()
}

fn join(words: Vec<String>) -> String {
    match &words[..] {
        [] => String::new(),
        [one] => one.clone(),
        [before @ .., last] => format!("{} and {last}", before.join(", ")),
    }
}
