//! A candidate for the lead: what its election asks for, as calls to the API server.
//!
//! It has one call under way at a time, beside a standby's watch on the Lease. An answer is awaited no longer than the
//! election waits.
//!
//! Must not: decide who leads, or know what a leader does.

use std::sync::Arc;

use crate::{
    election::{Election, LeaseAnswer, LeaseCall, LeaseTimings, Role},
    informer::{Contact, Tried},
    machine::{CallId, CallResult, Input, Request},
    metrics::Metrics,
    model::{Monotonic, Now, Timeout},
    wire::{ApiError, Call, decode_lease, lease_body, paths},
};

use super::lease_watch::LeaseWatch;

/// By this bit the requests of the candidate are told from those of shards; informers have another.
const OWN: CallId = 1 << 62;

/// Whether a request is the candidate's.
pub fn is_candidates(id: CallId) -> bool {
    id & OWN != 0
}

/// By what Lease it is known who leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderElection {
    /// Where the Lease is.
    pub namespace: String,
    /// What it is called.
    pub name: String,
    /// What this candidate is called, and no other.
    pub identity: String,
    /// How long things take.
    pub timings: LeaseTimings,
}

/// See the module's text.
#[derive(Debug)]
pub struct Candidate {
    election: Election,
    lease: LeaderElection,
    contact: Contact,
    metrics: Arc<Metrics>,
    last_id: CallId,
    /// The call, and whether it creates the Lease.
    under_way: Option<(CallId, bool)>,
    watch: LeaseWatch,
    /// The server has answered, or did not in time.
    has_tried: bool,
    told: Role,
}

impl Candidate {
    /// One that has yet to ask.
    pub fn new(lease: LeaderElection, metrics: Arc<Metrics>) -> Self {
        let namespace = Some(lease.namespace.as_str().into());
        // From the start: "nobody leads" must differ from "nobody tells".
        metrics.leads(&lease.name, false);
        Self {
            election: Election::new(lease.identity.clone(), lease.timings),
            contact: Contact::new(metrics.watch("leases", namespace)),
            watch: LeaseWatch::new(&lease.namespace, &lease.name),
            lease,
            metrics,
            last_id: OWN,
            under_way: None,
            has_tried: false,
            told: Role::Standby,
        }
    }

    /// Whether it is known if another leads, as far as that can be known.
    pub fn has_tried(&self) -> bool {
        self.has_tried
    }

    /// Takes in the answer to a call, or what the watch brings.
    pub fn handle(&mut self, input: Input, now: Now) {
        if self.watch.waits_for(input.id()) {
            if self.watch.handle(input, now.monotonic) {
                self.election.look(now.monotonic);
            }
            return;
        }
        let Input::Answer(id, result) = input else {
            return;
        };
        let Some((_, creates)) = self.under_way.take_if(|(waited_for, _)| *waited_for == id) else {
            return;
        };
        let answer = self.read(result, creates, now);
        self.election.answer(answer, now);
        self.has_tried = true;
    }

    fn read(&mut self, result: CallResult, creates: bool, now: Now) -> LeaseAnswer {
        let error = match result {
            Ok(body) => match decode_lease(&body) {
                Ok(lease) => {
                    self.contact.heard(now.monotonic);
                    return LeaseAnswer::Found(lease);
                }
                Err(error) => ApiError::no_answer(error.to_string()),
            },
            Err(error) => error,
        };
        match error.code {
            // Another was quicker: it says so in its own Lease.
            409 => self.contact.heard(now.monotonic),
            404 if !creates => {
                self.contact.heard(now.monotonic);
                return LeaseAnswer::NotFound;
            }
            _ => self.contact.failed(Tried::Lease, &error, now.monotonic),
        }
        LeaseAnswer::Failed
    }

    /// Gives the next call.
    pub fn poll_request(&mut self, now: Now) -> Option<Request> {
        self.poll_election(now).or_else(|| self.poll_watch(now))
    }

    fn poll_election(&mut self, now: Now) -> Option<Request> {
        let ask = self.election.poll_call(now)?;
        // What was under way did not come in time.
        self.has_tried |= self.under_way.is_some();
        let LeaderElection {
            namespace, name, ..
        } = &self.lease;
        let body = |record, version| lease_body(namespace, name, record, version);
        let call = match &ask {
            LeaseCall::Get => Call::get(paths::lease(namespace, name)),
            LeaseCall::Create(record) => {
                Call::create_whole(paths::leases(namespace), body(record, None))
            }
            LeaseCall::Update(lease) => {
                let version = Some(lease.version.as_str());
                Call::replace(paths::lease(namespace, name), body(&lease.record, version))
            }
        };
        self.last_id += 1;
        let creates = matches!(ask, LeaseCall::Create(_));
        self.under_way = Some((self.last_id, creates));
        Some(Request {
            id: self.last_id,
            call,
            is_watch: false,
        })
    }

    /// Who stands by watches the Lease, once the server has answered about it.
    fn poll_watch(&mut self, now: Now) -> Option<Request> {
        if !(self.has_tried && self.stands_by(now.monotonic)) {
            return None;
        }
        let call = self.watch.poll_call(self.last_id + 1, now.monotonic)?;
        self.last_id += 1;
        Some(Request {
            id: self.last_id,
            call,
            is_watch: true,
        })
    }

    fn stands_by(&self, now: Monotonic) -> bool {
        self.election.role(now) == Role::Standby
    }

    /// Gives a watch that nobody needs any more.
    pub fn poll_abandoned(&mut self) -> Option<CallId> {
        match self.told {
            Role::Standby => None,
            Role::Leader(_) | Role::Stopped => self.watch.close(),
        }
    }

    /// Gives when to ask for requests again though nothing was heard.
    pub fn poll_timeout(&self) -> Timeout {
        let watches = self.has_tried && self.told == Role::Standby;
        let watch = self.watch.due_at().filter(|_| watches);
        self.election.poll_timeout().or(watch.into())
    }

    /// What it is, as it was told last.
    pub fn role(&self) -> Role {
        self.told
    }

    /// What it was when this was asked last, if that is not what it is now.
    pub fn poll_change(&mut self, now: Now) -> Option<Role> {
        let role = self.election.role(now.monotonic);
        let before = std::mem::replace(&mut self.told, role);
        if before == role {
            return None;
        }
        let lease = format_args!("{}/{}", self.lease.namespace, self.lease.name);
        let leads = matches!(role, Role::Leader(_));
        match (leads, matches!(before, Role::Leader(_)), role) {
            (true, false, _) => {
                tracing::info!(lease, identity = self.lease.identity, "leading");
            }
            (false, true, Role::Standby) => tracing::warn!(
                lease,
                holder = self.election.holder(),
                "the lease was lost; standing by"
            ),
            _ => {}
        }
        self.metrics.leads(&self.lease.name, leads);
        Some(before)
    }

    /// Gives the Lease back.
    pub fn stop(&mut self, now: Now) {
        self.election.stop(now.monotonic);
    }

    /// Whether nothing is left to ask for.
    pub fn is_over(&self) -> bool {
        self.election.is_over()
    }
}
