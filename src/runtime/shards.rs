//! What the loops run: informers and one shard together, or each of several shards on a thread of its own, told by the
//! informers' loop.
//!
//! Must not: decide anything; it passes on.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    thread,
    time::Duration,
};

use tokio::sync::{
    mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    oneshot,
};

use crate::{
    controller::Replica,
    informer::{Informers, News},
    machine::{CallId, Input, Machine, Request},
    model::{Now, Timeout},
    shard::Shard,
};

use super::shell::{Mail, Runs};

/// To the loops of all shards.
type Mailboxes = Vec<UnboundedSender<Mail>>;

impl Runs for Replica {
    fn mail(&mut self, _: Mail, _: Now) {
        // Nobody else is there to write.
    }

    fn missing(&self) -> Option<Vec<&'static str>> {
        Some(self.missing())
    }

    fn close(&mut self, now: Now) {
        self.close(now);
    }

    fn is_idle(&self) -> bool {
        self.is_idle()
    }

    fn has_events(&self) -> bool {
        self.has_events()
    }

    fn rest(&self) -> Duration {
        self.rest()
    }
}

/// The informers of several shards.
#[derive(Debug)]
pub(super) struct Told {
    informers: Informers,
    shards: Mailboxes,
    closed: bool,
}

impl Told {
    pub(super) fn new(informers: Informers, shards: Mailboxes) -> Self {
        Self {
            informers,
            shards,
            closed: false,
        }
    }

    /// A shard's loop that has ended hears nothing any more, and the controller ends with it.
    fn pass_on(&mut self) {
        while let Some(notice) = self.informers.poll_notice() {
            for shard in &self.shards {
                let _ = shard.send(Mail::Notice(notice.clone()));
            }
        }
    }
}

impl Machine for Told {
    fn handle(&mut self, input: Input, now: Now) {
        let shards = &self.shards;
        let mut tell = |news: News<'_>| {
            let shard = &shards[shard_of(news.namespace(), shards.len())];
            let _ = shard.send(Mail::News(Box::new(news.into_owned())));
        };
        self.informers.handle(input, now, &mut tell);
        self.pass_on();
    }

    fn poll_request(&mut self, now: Now) -> Option<Request> {
        if self.closed {
            return None;
        }
        let request = self.informers.poll_request(now);
        self.pass_on();
        request
    }

    fn poll_timeout(&self) -> Timeout {
        self.informers.poll_timeout()
    }

    fn poll_abandoned(&mut self) -> Option<CallId> {
        self.informers.poll_abandoned()
    }
}

impl Runs for Told {
    fn mail(&mut self, mail: Mail, _: Now) {
        if let Mail::HistoryEnded(number) = mail {
            self.informers.history_ends(number);
            self.pass_on();
        }
    }

    fn missing(&self) -> Option<Vec<&'static str>> {
        Some(self.informers.missing())
    }

    fn close(&mut self, _: Now) {
        self.closed = true;
    }

    fn is_idle(&self) -> bool {
        true
    }

    fn has_events(&self) -> bool {
        false
    }

    fn rest(&self) -> Duration {
        Duration::ZERO
    }
}

/// A shard that hears by mail.
#[derive(Debug)]
pub(super) struct Remote {
    shard: Shard,
    informers: UnboundedSender<Mail>,
}

impl Remote {
    pub(super) fn new(shard: Shard, informers: UnboundedSender<Mail>) -> Self {
        Self { shard, informers }
    }

    fn report(&mut self) {
        if let Some(number) = self.shard.poll_report() {
            let _ = self.informers.send(Mail::HistoryEnded(number));
        }
    }
}

impl Machine for Remote {
    fn handle(&mut self, input: Input, now: Now) {
        self.shard.handle(input, now);
        self.report();
    }

    fn poll_request(&mut self, now: Now) -> Option<Request> {
        let request = self.shard.poll_request(now);
        self.report();
        request
    }

    fn poll_timeout(&self) -> Timeout {
        self.shard.poll_timeout()
    }
}

impl Runs for Remote {
    fn mail(&mut self, mail: Mail, now: Now) {
        match mail {
            Mail::News(news) => self.shard.hear(*news, now),
            Mail::Notice(notice) => self.shard.notice(&notice),
            Mail::HistoryEnded(_) => {}
        }
        self.report();
    }

    fn missing(&self) -> Option<Vec<&'static str>> {
        None
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

    fn rest(&self) -> Duration {
        self.shard.rest()
    }
}

/// Which of so many shards a namespace belongs to: by FNV-1a, which is the same in every process.
fn shard_of(namespace: &str, shards: usize) -> usize {
    let hash = namespace.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    (hash % shards.max(1) as u64) as usize
}

/// Mailboxes of so many loops.
pub(super) fn mailboxes(count: usize) -> (Mailboxes, Vec<UnboundedReceiver<Mail>>) {
    (0..count).map(|_| unbounded_channel()).unzip()
}

/// Runs a loop on a thread of its own; what is given back ends, or panics, as it does.
pub(super) fn on_thread<F: FnOnce() + Send + 'static>(
    name: String,
    run: F,
) -> std::io::Result<impl Future<Output = ()> + Send + use<F>> {
    let (done, ended) = oneshot::channel::<Result<(), Box<dyn Any + Send>>>();
    thread::Builder::new().name(name).spawn(move || {
        let result = catch_unwind(AssertUnwindSafe(run));
        // Whoever waited for it may be gone.
        let _ = done.send(result);
    })?;
    Ok(async move {
        if let Ok(Err(panic)) = ended.await {
            resume_unwind(panic);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_are_shared_out_and_stay_where_they_are() {
        let mut counts = [0; 4];
        for number in 0..400 {
            let shard = shard_of(&format!("team-{number}"), 4);
            counts[shard] += 1;
        }
        assert!(counts.iter().all(|count| *count > 50), "{counts:?}");
        assert_eq!(shard_of("default", 1), 0);
        assert_eq!(shard_of("default", 4), shard_of("default", 4));
    }
}
