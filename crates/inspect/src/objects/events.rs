//! Reads the time of an Event.

use k8s_openapi::{api::core::v1::Event, jiff::Timestamp};

use lakh_model::Time;

/// Returns the last time at which it happened. Old and new clients store that in different fields.
pub(crate) fn event_time(event: &Event) -> Time {
    let time = |at: &Timestamp| Time::from_millis(at.as_millisecond());
    let series = event
        .series
        .as_ref()
        .and_then(|it| it.last_observed_time.as_ref());
    let times = [
        series.map(|at| time(&at.0)),
        event.last_timestamp.as_ref().map(|at| time(&at.0)),
        event.event_time.as_ref().map(|at| time(&at.0)),
    ];
    times.into_iter().flatten().max().unwrap_or_default()
}
