//! Where people's questions about Jobs wait for the loops that can answer them.
//!
//! A loop answers when it comes to it, as it does all else; whoever asks waits for that, and not for ever.
//!
//! Must not: know what is asked or answered.

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

/// How long a loop is waited for: longer than one that is not stuck computes at a time, and less than a person waits.
const PATIENCE: Duration = Duration::from_secs(5);

/// A question, and where its answer goes.
#[derive(Debug)]
pub(super) struct Inquiry {
    question: Question,
    answer: oneshot::Sender<Vec<JobDescription>>,
}

/// Where a loop finds what it is asked.
pub(super) type Inquiries = UnboundedReceiver<Inquiry>;

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Desk(Mutex<Vec<UnboundedSender<Inquiry>>>);

/// A loop did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the controller is busy: it did not answer within {} s", PATIENCE.as_secs())]
pub(super) struct NoAnswer;

impl Desk {
    /// For one more loop.
    pub(super) fn open(&self) -> Inquiries {
        let (sender, inquiries) = unbounded_channel();
        self.0.lock().push(sender);
        inquiries
    }

    /// Asks all loops, and gives all that they say.
    pub(super) async fn ask(&self, question: &Question) -> Result<Vec<JobDescription>, NoAnswer> {
        let mut answers = Vec::new();
        for desk in self.0.lock().iter() {
            let (answer, answered) = oneshot::channel();
            let question = question.clone();
            // One that has ended has nothing to say: its answer is dropped.
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
    /// Answers it by this.
    pub(super) fn answer(self, know: impl FnOnce(&Question) -> Vec<JobDescription>) {
        let told = know(&self.question);
        // Whoever asked may be gone.
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
