//! Tracks whether the server answers and accepts the credentials.
//!
//! Must not: cost an answered call more than a clock read and an atomic store.

use std::{
    fmt,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use lakh_clock::instant;
use lakh_wire::ApiError;

/// The status code for invalid or expired credentials.
pub(super) const UNAUTHORIZED: u16 = 401;

/// A problem that all recent calls had.
#[derive(Clone, Debug)]
pub struct Trouble {
    /// 401, or 0 where there is no answer.
    pub code: u16,
    since: Instant,
    message: String,
}

impl Trouble {
    /// Returns its duration so far.
    pub fn lasts(&self) -> Duration {
        instant() - self.since
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.lasts().as_secs();
        write!(f, "{} (for {seconds} s)", self.message)
    }
}

/// The outcome of recent calls to a server.
#[derive(Debug)]
pub(super) struct ServerStatus {
    url: String,
    began: Instant,
    /// Time of the server's last answer, in milliseconds since `began`.
    answered: AtomicU64,
    is_troubled: AtomicBool,
    trouble: Mutex<Option<Trouble>>,
}

impl ServerStatus {
    pub(super) fn new(url: String) -> Self {
        Self {
            url,
            began: instant(),
            answered: AtomicU64::new(0),
            is_troubled: AtomicBool::new(false),
            trouble: Mutex::new(None),
        }
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn trouble(&self) -> Option<Trouble> {
        self.trouble.lock().clone()
    }

    /// Returns the time since the server's last answer.
    pub(super) fn silence(&self) -> Duration {
        let answered = Duration::from_millis(self.answered.load(Ordering::Relaxed));
        self.began.elapsed().saturating_sub(answered)
    }

    /// Records data from a watch.
    pub(super) fn record_sign_of_life(&self) {
        let millis = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.answered.store(millis, Ordering::Relaxed);
    }

    /// Records the outcome of a call: the answer's status code, or the error.
    pub(super) fn record(&self, answer: Result<u16, &ApiError>) {
        let code = answer.unwrap_or_else(|error| error.code);
        if code != 0 {
            self.record_sign_of_life();
        }
        let message = match answer {
            _ if code == UNAUTHORIZED => "it refuses the credentials",
            Err(error) if code == 0 => error.message.as_str(),
            Ok(_) | Err(_) => {
                if self.is_troubled.load(Ordering::Relaxed) {
                    let mut trouble = self.trouble.lock();
                    *trouble = None;
                    self.is_troubled.store(false, Ordering::Relaxed);
                }
                return;
            }
        };
        let mut trouble = self.trouble.lock();
        let before = trouble.as_ref().filter(|before| before.code == code);
        let since = before.map_or_else(instant, |before| before.since);
        *trouble = Some(Trouble {
            code,
            since,
            message: format!("API server {}: {message}", self.url),
        });
        self.is_troubled.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_lasts_until_an_answer_comes() {
        let server_status = ServerStatus::new("http://a".to_owned());
        assert!(server_status.trouble().is_none());
        let silence = ApiError::no_answer("refused");
        server_status.record(Err(&silence));
        let first = server_status.trouble().expect("there is no answer");
        assert_eq!(first.to_string(), "API server http://a: refused (for 0 s)");
        server_status.record(Err(&silence));
        let second = server_status.trouble().expect("still none");
        assert_eq!(first.since, second.since);
        server_status.record(Ok(UNAUTHORIZED));
        let refused = server_status.trouble().expect("not good");
        assert_eq!(refused.code, UNAUTHORIZED);
        assert!(refused.since >= second.since);
        // Any other error code means that the credentials are accepted.
        server_status.record(Ok(403));
        assert!(server_status.trouble().is_none());
    }
}
