//! Injects faults into requests and watches.
//!
//! Responsible for: the effect of the rules on each request and watch, drawn from a seed. Must not: wait, close
//! anything, or access objects; the HTTP server executes a [`Verdict`].
//! Read first: [`Rule`], then [`Faults`].

mod go_duration;
mod observed_request;
mod rule;
mod spec;
#[cfg(test)]
mod tests;

use std::time::Duration;

use serde_json::{Value, json};

pub use observed_request::ObservedRequest;
pub use rule::{FaultKind, Rule, RuleError, When};

use crate::{
    apiserver::{
        object::ApiError,
        print::{Response, encode},
    },
    model::Monotonic,
    rng::Rng,
};

/// The rules and their hit counts.
#[derive(Clone, Debug)]
pub struct Faults {
    seed: u64,
    rng: Rng,
    rules: Vec<Active>,
}

#[derive(Clone, Debug)]
struct Active {
    rule: Rule,
    hits: u64,
    /// The end of the rule, if it has one.
    until: Option<Monotonic>,
}

/// The faults of a request.
#[derive(Debug, Default)]
pub struct Verdict {
    /// The delay before the request is handled.
    pub latency: Duration,
    /// Reads are answered as of this number of changes ago.
    pub stale: Option<u64>,
    /// The outcome of the request.
    pub outcome: RequestOutcome,
}

/// The outcome of a request.
#[derive(Debug, Default)]
pub enum RequestOutcome {
    /// The request is answered.
    #[default]
    Answered,
    /// The request is not executed and gets this response.
    Refused(Response),
    /// The request is executed or not, and gets this response after the delay.
    TimedOut(When, Duration, Response),
    /// The request is executed or not, and the connection is closed.
    Dropped(When),
}

/// The faults of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    /// The watch continues; it must be judged again at this time, if any.
    On(Option<Monotonic>),
    /// Nothing is sent before this time, or until the rules change.
    Held(Option<Monotonic>),
    /// The watch ends.
    Closed,
    /// The watch ends with an error event: its version is too old.
    Expired,
}

/// The faults of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sending {
    /// The delay of the events.
    pub delay: Duration,
    /// Each event is sent twice.
    pub twice: bool,
}

impl Faults {
    /// Activates rules from `now` on. The same seed and the same calls give the same results.
    ///
    /// # Errors
    ///
    /// The first invalid rule.
    pub fn new(seed: u64, rules: Vec<Rule>, now: Monotonic) -> Result<Self, RuleError> {
        for (nth, rule) in rules.iter().enumerate() {
            rule.check().map_err(|error| error.of_rule(nth))?;
        }
        let activate = |rule: Rule| Active {
            until: rule.lasts.map(|lasts| now + lasts),
            hits: 0,
            rule,
        };
        Ok(Self {
            seed,
            rng: Rng::new(seed),
            rules: rules.into_iter().map(activate).collect(),
        })
    }

    /// Parses `{"seed": ..., "rules": [...]}` and activates the rules. The current seed is used if none is given.
    ///
    /// # Errors
    ///
    /// The first invalid field.
    pub fn read(&self, json: &[u8], now: Monotonic) -> Result<Self, RuleError> {
        let wanted = rule::Wanted::read(json)?;
        Self::new(wanted.seed.unwrap_or(self.seed), wanted.rules, now)
    }

    /// Returns no rules with the same seed.
    pub fn cleared(&self) -> Self {
        Self {
            seed: self.seed,
            rng: Rng::new(self.seed),
            rules: Vec::new(),
        }
    }

    /// Returns true if there are no rules.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The rules with their hit counts.
    pub fn to_json(&self) -> Value {
        let rules = self.rules.iter().map(|active| {
            let mut rule = active.rule.to_json();
            rule["hits"] = active.hits.into();
            rule
        });
        json!({"seed": self.seed, "rules": rules.collect::<Vec<_>>()})
    }

    /// The end of the partition that holds the request, if any; `Some(None)` means until the rules change.
    pub fn held(&self, request: &ObservedRequest, now: Monotonic) -> Option<Option<Monotonic>> {
        let cuts = self.rules.iter().filter(|active| {
            active.rule.fault == FaultKind::Partition
                && active.is_on(now)
                && active.rule.means(request)
        });
        let ends = cuts.map(|active| active.until);
        // A partition without an end is the longest.
        ends.reduce(|longest, end| longest.zip(end).map(|(one, other)| one.max(other)))
    }

    /// Judges a request that no partition holds.
    pub fn judge(&mut self, request: &ObservedRequest, now: Monotonic) -> Verdict {
        let mut verdict = Verdict::default();
        for active in &mut self.rules {
            let kind = active.rule.fault;
            let comes_too_late =
                kind.is_outcome() && !matches!(verdict.outcome, RequestOutcome::Answered);
            if kind.is_for_watches() || comes_too_late || !active.rule.applies_to(request) {
                continue;
            }
            if !active.meets(request, now, &mut self.rng) {
                continue;
            }
            let rule = &active.rule;
            let delay = rule.delay.unwrap_or_default();
            match kind {
                FaultKind::Latency => verdict.latency += delay,
                FaultKind::Stale => verdict.stale = rule.changes,
                FaultKind::Refuse => verdict.outcome = RequestOutcome::Refused(rule.refusal()),
                FaultKind::Expire => verdict.outcome = RequestOutcome::Refused(expired().into()),
                FaultKind::TimeoutBefore | FaultKind::TimeoutAfter => {
                    verdict.outcome = RequestOutcome::TimedOut(kind.when(), delay, timeout());
                }
                FaultKind::DropBefore | FaultKind::DropAfter => {
                    verdict.outcome = RequestOutcome::Dropped(kind.when());
                }
                FaultKind::CloseWatch
                | FaultKind::DuplicateEvents
                | FaultKind::DelayEvents
                | FaultKind::Partition => {}
            }
        }
        verdict
    }

    /// Judges a watch that was opened at `opened`.
    pub fn judge_watch(
        &mut self,
        request: &ObservedRequest,
        opened: Monotonic,
        now: Monotonic,
    ) -> Course {
        if let Some(until) = self.held(request, now) {
            return Course::Held(until);
        }
        let mut next: Option<Monotonic> = None;
        for active in &mut self.rules {
            let kind = active.rule.fault;
            if !matches!(kind, FaultKind::CloseWatch | FaultKind::Expire)
                || !active.rule.means(request)
            {
                continue;
            }
            let due = opened + active.rule.delay.unwrap_or_default();
            if due > now {
                next = Some(next.map_or(due, |next| next.min(due)));
            } else if active.meets(request, now, &mut self.rng) {
                return match kind {
                    FaultKind::Expire => Course::Expired,
                    _ => Course::Closed,
                };
            }
        }
        Course::On(next)
    }

    /// Judges the events that are ready for a watch.
    pub fn judge_events(&mut self, request: &ObservedRequest, now: Monotonic) -> Sending {
        let mut sending = Sending::default();
        for active in &mut self.rules {
            let kind = active.rule.fault;
            if !matches!(kind, FaultKind::DuplicateEvents | FaultKind::DelayEvents)
                || !active.meets(request, now, &mut self.rng)
            {
                continue;
            }
            sending.delay += active.rule.delay.unwrap_or_default();
            sending.twice |= kind == FaultKind::DuplicateEvents;
        }
        sending
    }
}

impl Active {
    fn is_on(&self, now: Monotonic) -> bool {
        self.until.is_none_or(|until| now < until)
            && self.rule.times.is_none_or(|times| self.hits < times)
    }

    /// Returns true and counts a hit if the rule is active, matches the request, and is drawn by its probability.
    fn meets(&mut self, request: &ObservedRequest, now: Monotonic, rng: &mut Rng) -> bool {
        let met = self.is_on(now) && self.rule.means(request) && rng.chance(self.rule.probability);
        self.hits += u64::from(met);
        met
    }
}

/// The error event of a watch with a version that is too old.
pub fn expired_event() -> Vec<u8> {
    let mut out = Vec::new();
    encode::error_frame(&mut out, &expired());
    out
}

/// The response to invalid rules.
pub fn bad_rules(error: &RuleError) -> Response {
    ApiError::bad_request(error.to_string()).into()
}

fn expired() -> ApiError {
    ApiError::expired("too old resource version: a fault was asked for")
}

fn timeout() -> Response {
    ApiError::new(504, "Timeout", rule::TIMEOUT).into()
}
