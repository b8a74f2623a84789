//! `lakh cron`: evaluates and explains schedules of CronJobs, without a cluster.

use crate::{
    clock::Clock,
    cron::{Schedule, ScheduleError, Zone, explain},
};

use super::{FAILED, OK, OutputError, Problem, args::CronCommand, complain, print};

/// Runs the command, or returns the error of its arguments.
pub(super) fn run(command: CronCommand) -> Result<u8, Problem> {
    match command {
        CronCommand::Next {
            expression,
            time_zone,
            count,
        } => {
            let zone = time_zone.map(|name| match name.as_str() {
                // The API accepts neither: a zone must be named.
                "" | "Local" => Err(format!(
                    "--time-zone {name:?}: must be a zone of the IANA database"
                )),
                name => Zone::load(name).map_err(|error| format!("--time-zone: {error}")),
            });
            let zone = zone.transpose()?;
            let schedule = Schedule::of_cron_job(&expression, zone.as_ref());
            let schedule = schedule.map_err(|error| in_place(&expression, &error))?;
            Ok(next(&schedule, count)?)
        }
        CronCommand::Explain { expression } => {
            let schedule = Schedule::parse(&expression);
            let schedule = schedule.map_err(|error| in_place(&expression, &error))?;
            print(&explain(&schedule))?;
            Ok(OK)
        }
    }
}

/// Prints the next times; there may be none.
fn next(schedule: &Schedule, count: usize) -> Result<u8, OutputError> {
    let now = Clock::default().now().wall;
    let times = std::iter::successors(schedule.next(now), |at| schedule.next(*at));
    let mut printed = 0;
    for time in times.take(count) {
        print(&schedule.zone().to_rfc3339(time))?;
        printed += 1;
    }
    if printed == 0 && count > 0 {
        complain("the schedule has no run in the next five years");
        return Ok(FAILED);
    }
    Ok(OK)
}

/// Returns an error of a schedule with its position.
fn in_place(expression: &str, error: &ScheduleError) -> String {
    let (part, character) = (error.part(), error.character());
    format!("{expression:?}: {part}, character {character}: {error}")
}
