//! Faults on demand: how the server mistreats requests and watches.
//!
//! Responsible for: which rule applies to what, how often and how long, drawn from a seed. Must not: wait,
//! close anything, or look at objects; the HTTP server carries out a [`Verdict`].
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

/// All rules, and what has come of them.
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
    /// When the rule ends, if it does.
    until: Option<Monotonic>,
}

/// What is to be done with a request.
#[derive(Debug, Default)]
pub struct Verdict {
    /// It waits this long first.
    pub latency: Duration,
    /// Reads are answered as of so many changes ago.
    pub stale: Option<u64>,
    /// What becomes of it.
    pub outcome: RequestOutcome,
}

/// What becomes of a request.
#[derive(Debug, Default)]
pub enum RequestOutcome {
    /// It is answered.
    #[default]
    Answered,
    /// It is answered so instead.
    Refused(Response),
    /// It is done or not, and after some time this is answered.
    TimedOut(When, Duration, Response),
    /// It is done or not, and the connection breaks.
    Dropped(When),
}

/// What is to be done with a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    /// It goes on; it is to be asked about again at this time, if at any.
    On(Option<Monotonic>),
    /// Nothing is sent before this time, or until the rules change.
    Held(Option<Monotonic>),
    /// It ends.
    Closed,
    /// It ends with an error event: the version is too old.
    Expired,
}

/// How events are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sending {
    /// So much later.
    pub delay: Duration,
    /// Each twice.
    pub twice: bool,
}

impl Faults {
    /// Rules that hold from now on. Equal seeds and questions give equal answers.
    ///
    /// # Errors
    ///
    /// The first rule that makes no sense.
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

    /// Reads what somebody wants: `{"seed": ..., "rules": [...]}`; the seed stays if none is given.
    ///
    /// # Errors
    ///
    /// The first field that makes no sense.
    pub fn read(&self, json: &[u8], now: Monotonic) -> Result<Self, RuleError> {
        let wanted = rule::Wanted::read(json)?;
        Self::new(wanted.seed.unwrap_or(self.seed), wanted.rules, now)
    }

    /// No rules, under the same seed.
    pub fn cleared(&self) -> Self {
        Self {
            seed: self.seed,
            rng: Rng::new(self.seed),
            rules: Vec::new(),
        }
    }

    /// Whether there is anything to ask about.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The rules and how often each was met.
    pub fn to_json(&self) -> Value {
        let rules = self.rules.iter().map(|active| {
            let mut rule = active.rule.to_json();
            rule["hits"] = active.hits.into();
            rule
        });
        json!({"seed": self.seed, "rules": rules.collect::<Vec<_>>()})
    }

    /// Until when a client is cut off; `Some(None)`: until the rules change.
    pub fn held(&self, request: &ObservedRequest, now: Monotonic) -> Option<Option<Monotonic>> {
        let cuts = self.rules.iter().filter(|active| {
            active.rule.fault == FaultKind::Partition
                && active.is_on(now)
                && active.rule.means(request)
        });
        let ends = cuts.map(|active| active.until);
        // For ever is longer than any time.
        ends.reduce(|longest, end| longest.zip(end).map(|(one, other)| one.max(other)))
    }

    /// Judges a request that is not held.
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

    /// Judges a watch that has been open since this time.
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

    /// How the events that are ready for a watch are sent.
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

    /// Whether the rule holds of this, and its chance picks it; counts it if so.
    fn meets(&mut self, request: &ObservedRequest, now: Monotonic, rng: &mut Rng) -> bool {
        let met = self.is_on(now) && self.rule.means(request) && rng.chance(self.rule.probability);
        self.hits += u64::from(met);
        met
    }
}

/// The error event of a watch whose version is too old.
pub fn expired_event() -> Vec<u8> {
    let mut out = Vec::new();
    encode::error_frame(&mut out, &expired());
    out
}

/// The answer to rules that make no sense.
pub fn bad_rules(error: &RuleError) -> Response {
    ApiError::bad_request(error.to_string()).into()
}

fn expired() -> ApiError {
    ApiError::expired("too old resource version: a fault was asked for")
}

fn timeout() -> Response {
    ApiError::new(504, "Timeout", rule::TIMEOUT).into()
}
