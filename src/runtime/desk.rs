//! Passes questions about Jobs to the loops that can answer them.
//!
//! A loop answers between its other work, and the client waits with a timeout.
//!
//! Must not: interpret questions or answers.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::{
    sync::{
        mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
        oneshot,
    },
    time::timeout,
};

use crate::shard::{JobDescription, Question};

/// Timeout for the loops' answers: longer than one computation of a loop that is not stuck, and shorter than a user
/// waits.
const PATIENCE: Duration = Duration::from_secs(5);

/// A question, and the channel for its answer.
#[derive(Debug)]
pub(super) struct Inquiry {
    question: Question,
    answer: oneshot::Sender<Vec<JobDescription>>,
}

/// A loop's end of its channel.
pub(super) type Inquiries = UnboundedReceiver<Inquiry>;

/// The channels to all loops, which each receive every question.
#[derive(Debug, Default)]
pub(super) struct Desk(Mutex<Vec<UnboundedSender<Inquiry>>>);

/// A loop did not answer in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the controller is busy: it did not answer within {} s", PATIENCE.as_secs())]
pub(super) struct NoAnswer;

impl Desk {
    /// Adds a loop; returns its end of the channel.
    pub(super) fn open(&self) -> Inquiries {
        let (sender, inquiries) = unbounded_channel();
        self.0.lock().push(sender);
        inquiries
    }

    /// Asks all loops, and returns all their answers.
    pub(super) async fn ask(&self, question: &Question) -> Result<Vec<JobDescription>, NoAnswer> {
        let mut answers = Vec::new();
        for desk in self.0.lock().iter() {
            let (answer, answered) = oneshot::channel();
            let question = question.clone();
            // A loop that has ended has no answer: its sender is dropped.
            let _ = desk.send(Inquiry { question, answer });
            answers.push(answered);
        }
        let all = async {
            let mut told = Vec::new();
            for answer in answers {
                told.append(&mut answer.await.unwrap_or_default());
            }
            told
        };
        timeout(PATIENCE, all).await.map_err(|_| NoAnswer)
    }
}

impl Inquiry {
    /// Answers the question by `know`.
    pub(super) fn answer(self, know: impl FnOnce(&Question) -> Vec<JobDescription>) {
        let told = know(&self.question);
        // The client may be gone.
        let _ = self.answer.send(told);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn all_loops_are_asked_and_one_that_is_stuck_is_not_waited_for() {
        let desk = Desk::default();
        let (mut one, mut two) = (desk.open(), desk.open());
        drop(desk.open());
        let asking = desk.ask(&Question::Jobs);
        let answering = async {
            for (loop_, said) in [(&mut one, "a"), (&mut two, "b")] {
                let inquiry = loop_.recv().await.expect("it is asked");
                inquiry.answer(|_| vec![Value::from(said).into()]);
            }
        };
        let (told, ()) = futures::join!(asking, answering);
        let said = ["a", "b"].map(|said| Value::from(said).into());
        assert_eq!(told, Ok(said.to_vec()));
        assert_eq!(desk.ask(&Question::Jobs).await, Err(NoAnswer));
    }
}
