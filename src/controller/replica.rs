//! Informers, candidate and one shard, as one machine: the whole controller where there is one shard.
//!
//! What the informers tell goes straight to the shard, without a copy. It is what the command line runs unless
//! it is asked for more shards, and what simulations run.
//!
//! Must not: decide anything; it passes on.

use std::{sync::Arc, time::Duration};

use crate::{
    informer::{Informers, Watched},
    machine::{CallId, Input, Machine, Request},
    metrics::Metrics,
    model::{Monotonic, Now, Timeout},
    shard::{JobDescription, Limiter, Question, Settings, Shard},
};

use super::{
    Part,
    candidate::{Candidate, LeaderElection},
    common::{Common, is_common},
};

/// See the module's text.
#[derive(Debug)]
pub struct Replica {
    common: Common,
    shard: Shard,
    is_closed: bool,
}

impl Replica {
    /// One that knows nothing yet; it leads if it is elected, or if there is no election.
    pub fn new(
        watched: &Watched,
        settings: Settings,
        election: Option<LeaderElection>,
        limiter: &Arc<Limiter>,
        metrics: &Arc<Metrics>,
    ) -> Self {
        let candidate = election.map(|election| Candidate::new(election, Arc::clone(metrics)));
        let informers = Informers::new(watched, limiter, Arc::clone(metrics));
        Self {
            common: Common::new(informers, candidate),
            shard: Shard::new(settings, limiter, Arc::clone(metrics)),
            is_closed: false,
        }
    }

    /// Passes on what concerns everything that is known.
    fn pass_on(&mut self) {
        loop {
            while let Some(notice) = self.common.poll_notice() {
                self.shard.notice(&notice);
            }
            let Some(number) = self.shard.poll_report() else {
                return;
            };
            self.common.history_ends(number);
        }
    }
}

impl Machine for Replica {
    fn handle(&mut self, input: Input, now: Now) {
        if is_common(input.id()) {
            let shard = &mut self.shard;
            self.common
                .handle(input, now, &mut |news| shard.hear(news, now));
        } else {
            self.shard.handle(input, now);
        }
        self.pass_on();
    }

    fn poll_request(&mut self, now: Now) -> Option<Request> {
        if self.is_closed && self.shard.is_idle() {
            self.common.stop(now);
        }
        let request = self.common.poll_request(now);
        self.pass_on();
        request.or_else(|| {
            let request = self.shard.poll_request(now);
            self.pass_on();
            request
        })
    }

    fn poll_timeout(&self) -> Timeout {
        self.common.poll_timeout().or(self.shard.poll_timeout())
    }

    fn poll_abandoned(&mut self) -> Option<CallId> {
        self.common.poll_abandoned()
    }

    fn close(&mut self, now: Now) {
        self.is_closed = true;
        self.shard.close(now);
    }

    fn is_idle(&self) -> bool {
        self.shard.is_idle() && (!self.is_closed || self.common.is_over())
    }

    fn has_events(&self) -> bool {
        self.shard.has_events()
    }

    fn coalescing_delay(&self) -> Duration {
        self.shard.coalescing_delay()
    }

    fn gathers(&self, id: CallId) -> bool {
        match is_common(id) {
            true => self.common.gathers(id),
            false => self.shard.gathers(id),
        }
    }
}

impl Part for Replica {
    fn missing(&self) -> Option<Vec<&'static str>> {
        Some(self.common.missing())
    }

    fn answer_question(&self, question: &Question, now: Now) -> Vec<JobDescription> {
        self.shard.answer_question(question, now)
    }

    fn leads_until(&self, shard: usize) -> Option<Monotonic> {
        self.common.leads_until(shard)
    }
}
