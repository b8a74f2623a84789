//! Informers and one shard, as one machine: the whole controller where there is one shard.
//!
//! What the informers tell goes straight to the shard, without a copy. It is what the command line runs unless
//! it is asked for more shards, and what simulations run.
//!
//! Must not: decide anything; it passes on.

use std::{sync::Arc, time::Duration};

use crate::{
    informer::{Informers, Watched, is_informers},
    machine::{CallId, Input, Machine, Request},
    metrics::Metrics,
    model::{Now, Timeout},
    shard::{Limiter, Settings, Shard},
};

use super::Part;

/// See the module's text.
#[derive(Debug)]
pub struct Replica {
    informers: Informers,
    shard: Shard,
}

impl Replica {
    /// One that knows nothing yet.
    pub fn new(
        watched: &Watched,
        settings: Settings,
        limiter: &Arc<Limiter>,
        metrics: &Arc<Metrics>,
    ) -> Self {
        Self {
            informers: Informers::new(watched, limiter, Arc::clone(metrics)),
            shard: Shard::new(settings, limiter, Arc::clone(metrics)),
        }
    }

    /// Passes on what concerns everything that is known.
    fn pass_on(&mut self) {
        loop {
            while let Some(notice) = self.informers.poll_notice() {
                self.shard.notice(&notice);
            }
            let Some(number) = self.shard.poll_report() else {
                return;
            };
            self.informers.history_ends(number);
        }
    }
}

impl Machine for Replica {
    fn handle(&mut self, input: Input, now: Now) {
        if is_informers(input.id()) {
            let shard = &mut self.shard;
            self.informers
                .handle(input, now, &mut |news| shard.hear(news, now));
        } else {
            self.shard.handle(input, now);
        }
        self.pass_on();
    }

    fn poll_request(&mut self, now: Now) -> Option<Request> {
        let request = self.informers.poll_request(now);
        self.pass_on();
        request.or_else(|| {
            let request = self.shard.poll_request(now);
            self.pass_on();
            request
        })
    }

    fn poll_timeout(&self) -> Timeout {
        self.informers.poll_timeout().or(self.shard.poll_timeout())
    }

    fn poll_abandoned(&mut self) -> Option<CallId> {
        self.informers.poll_abandoned()
    }

    fn close(&mut self, now: Now) {
        self.shard.close(now);
    }

    fn is_idle(&self) -> bool {
        self.shard.is_idle()
    }

    fn has_events(&self) -> bool {
        self.shard.has_events()
    }

    fn coalescing_delay(&self) -> Duration {
        self.shard.coalescing_delay()
    }

    fn gathers(&self, id: CallId) -> bool {
        match is_informers(id) {
            true => self.informers.gathers(id),
            false => self.shard.gathers(id),
        }
    }
}

impl Part for Replica {
    fn missing(&self) -> Option<Vec<&'static str>> {
        Some(self.informers.missing())
    }
}
