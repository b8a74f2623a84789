//! Runs the informers and each shard as separate parts, for shards on threads of their own.
//!
//! Must not: decide anything; it passes on.

use std::collections::VecDeque;

use lakh_model::{Division, Monotonic, Now, Partition, Timeout};

use crate::{
    informer::News,
    machine::{CallId, Input, Machine, Request},
    shard::{JobDescription, Question, Shard},
};

use super::{Message, Part, Recipient, common::Common};

/// Informers and candidate as a part of their own. It sends events and notices to the shards.
#[derive(Debug)]
pub struct Feed {
    common: Common,
    partition: Partition,
    outbox: VecDeque<(Recipient, Message)>,
}

impl Feed {
    /// Creates it for this many shards.
    pub fn new(common: Common, shards: usize) -> Self {
        let partition = Partition {
            ranges: u32::try_from(shards).unwrap_or(u32::MAX),
            by: Division::Remainder,
        };
        Self {
            common,
            partition,
            outbox: VecDeque::new(),
        }
    }

    fn pass_on(&mut self) {
        while let Some(notice) = self.common.poll_notice() {
            for shard in 0..self.partition.ranges as usize {
                let message = Message::Notice(notice.clone());
                self.outbox.push_back((Recipient::Shard(shard), message));
            }
        }
    }
}

impl Machine for Feed {
    fn handle(&mut self, input: Input, now: Now) {
        let (partition, outbox) = (self.partition, &mut self.outbox);
        let mut tell = |news: News<'_>| {
            let shard = partition.range_of(news.object.namespace());
            let message = Message::News(Box::new(news.into_owned()));
            outbox.push_back((Recipient::Shard(shard), message));
        };
        self.common.handle(input, now, &mut tell);
        self.pass_on();
    }

    fn poll_request(&mut self, now: Now) -> Option<Request> {
        let request = self.common.poll_request(now);
        self.pass_on();
        request
    }

    fn poll_timeout(&self) -> Timeout {
        self.common.poll_timeout()
    }

    fn poll_abandoned(&mut self) -> Option<CallId> {
        self.common.poll_abandoned()
    }

    /// The shards have stopped before.
    fn close(&mut self, now: Now) {
        self.common.stop(now);
    }

    fn is_idle(&self) -> bool {
        !self.common.is_stopped() || self.common.is_over()
    }
}

impl Part for Feed {
    fn receive(&mut self, message: Message, _now: Now) {
        match message {
            Message::HistoryEnded(number) => self.common.history_ends(number),
            Message::News(_) | Message::Notice(_) => {}
        }
        self.pass_on();
    }

    fn poll_message(&mut self) -> Option<(Recipient, Message)> {
        self.outbox.pop_front()
    }

    fn missing(&self) -> Option<Vec<&'static str>> {
        Some(self.common.missing())
    }

    fn leads_until(&self, shard: usize) -> Option<Monotonic> {
        self.common.leads_until(shard)
    }
}

/// A shard that receives its events and notices as messages.
impl Part for Shard {
    fn receive(&mut self, message: Message, now: Now) {
        match message {
            Message::News(news) => self.hear(*news, now),
            Message::Notice(notice) => self.notice(&notice),
            Message::HistoryEnded(_) => {}
        }
    }

    fn poll_message(&mut self) -> Option<(Recipient, Message)> {
        let number = self.poll_report()?;
        Some((Recipient::Feed, Message::HistoryEnded(number)))
    }

    fn answer_question(&self, question: &Question, now: Now) -> Vec<JobDescription> {
        Self::answer_question(self, question, now)
    }
}
