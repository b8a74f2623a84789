//! Shortens a failing scenario to one that fails the same way.
//!
//! Must not: know the meaning of deeds.

use super::{casting::Scenario, play, world::Finding};

/// Removes deeds, many at once and then fewer, as long as the same judge finds fault.
pub(crate) fn shrink(scenario: &Scenario, finding: &Finding) -> (Scenario, Finding) {
    let (mut best, mut found) = (scenario.clone(), finding.clone());
    let mut size = best.deeds.len().div_ceil(2);
    while size > 0 {
        let mut from = 0;
        while from < best.deeds.len() {
            let mut fewer = best.clone();
            let to = (from + size).min(fewer.deeds.len());
            fewer.deeds.drain(from..to);
            match play(fewer.clone()) {
                Err(again) if again.judge == finding.judge => (best, found) = (fewer, again),
                _ => from += size,
            }
        }
        size /= 2;
    }
    (best, found)
}
