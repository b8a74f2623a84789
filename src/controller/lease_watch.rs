//! A watch on the Lease: a standby hears at once that the Lease was given back, and does not have to wait until it
//! looks the next time; a replica that shares hears of others and of what they give up. client-go has no such watch.
//!
//! It is a help and no more: everybody looks as often as ever, so a watch that is refused, late or silent costs
//! nothing but the wait.
//!
//! Must not: decide who leads.

use crate::{
    election::LeaseRecord,
    informer::{RETRY, WATCH_SECONDS},
    machine::{CallId, Input},
    model::Monotonic,
    wire::{Call, Object, Splitter, TooLong, WatchEvent, decode_lease, decode_watch_line, paths},
};

/// See the module's text.
#[derive(Debug)]
pub(super) struct LeaseWatch {
    path: String,
    open: Option<Open>,
    /// How many have ended in a row without a word.
    failures: u32,
    not_before: Monotonic,
}

/// A watch that was asked for.
#[derive(Debug)]
struct Open {
    id: CallId,
    events: Option<Splitter>,
}

impl LeaseWatch {
    pub(super) fn new(namespace: &str, name: &str) -> Self {
        Self {
            // From what the Lease is now.
            path: format!(
                "{}?watch=true&fieldSelector=metadata.name%3D{name}&timeoutSeconds={WATCH_SECONDS}",
                paths::leases(namespace)
            ),
            open: None,
            failures: 0,
            not_before: Monotonic::default(),
        }
    }

    /// Gives the call that opens it, if it is not open.
    pub(super) fn poll_call(&mut self, id: CallId, now: Monotonic) -> Option<Call> {
        if self.open.is_some() || self.not_before > now {
            return None;
        }
        self.open = Some(Open { id, events: None });
        Some(Call::get(self.path.clone()))
    }

    /// When it has a call to make, if only time must pass.
    pub(super) fn due_at(&self) -> Option<Monotonic> {
        self.open.is_none().then_some(self.not_before)
    }

    /// Whether what comes is for it.
    pub(super) fn waits_for(&self, id: CallId) -> bool {
        self.open.as_ref().is_some_and(|open| open.id == id)
    }

    /// Takes in what the watch brings; gives what the Lease has become, or that it is gone, if there is news.
    pub(super) fn handle(&mut self, input: Input, now: Monotonic) -> Option<Option<LeaseRecord>> {
        match input {
            Input::Opened(_, encoding) => {
                if let Some(open) = &mut self.open {
                    open.events = Some(Splitter::new(encoding));
                }
                None
            }
            Input::Piece(_, piece) => self.piece(&piece),
            Input::Answer(..) | Input::Ended(..) => {
                self.open = None;
                self.failures += 1;
                self.not_before = now + RETRY.delay(self.failures);
                None
            }
        }
    }

    fn piece(&mut self, piece: &[u8]) -> Option<Option<LeaseRecord>> {
        let events = self.open.as_mut().and_then(|open| open.events.as_mut())?;
        let mut heard = None;
        // Of more than one the last counts.
        let taken_in = events.push(piece, |event| {
            heard = lease_of(event).or(heard.take());
            Ok::<_, TooLong>(())
        });
        if taken_in.is_ok() {
            self.failures = 0;
        }
        heard
    }

    /// Gives up the watch: nobody waits for the Lease any more.
    pub(super) fn close(&mut self) -> Option<CallId> {
        self.open.take().map(|open| open.id)
    }
}

/// What an event says the Lease has become, or that it is gone; none if it says nothing of that.
fn lease_of(event: &[u8]) -> Option<Option<LeaseRecord>> {
    match decode_watch_line(event).ok()? {
        WatchEvent::Applied(Object::Json(lease)) => {
            let lease = decode_lease(lease.as_bytes()).ok()?;
            Some(Some(lease.record))
        }
        WatchEvent::Deleted(_) => Some(None),
        WatchEvent::Applied(Object::Protobuf(_))
        | WatchEvent::Bookmark(_)
        | WatchEvent::Error(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::wire::{ApiError, Encoding};

    fn open() -> LeaseWatch {
        let mut watch = LeaseWatch::new("kube-system", "lakh-replace");
        let call = watch.poll_call(7, Monotonic::default());
        let path = call.map(|call| call.path).unwrap_or_default();
        assert!(
            path.contains("fieldSelector=metadata.name%3Dlakh-replace"),
            "{path}"
        );
        watch.handle(Input::Opened(7, Encoding::Json), Monotonic::default());
        watch
    }

    fn event(kind: &str, holder: &str) -> Input {
        let line = format!(
            r#"{{"type":"{kind}","object":{{"metadata":{{"resourceVersion":"5"}},"spec":{{"holderIdentity":"{holder}"}}}}}}"#
        );
        Input::Piece(7, Bytes::from(format!("{line}\n")))
    }

    #[test]
    fn it_hears_when_the_lease_is_given_back_or_gone() {
        let mut watch = open();
        let now = Monotonic::default();
        let mut holder = |event| {
            let heard = watch.handle(event, now).expect("there is news");
            heard.map(|record| record.holder)
        };
        assert_eq!(holder(event("ADDED", "one")).as_deref(), Some("one"));
        assert_eq!(holder(event("MODIFIED", "")).as_deref(), Some(""));
        assert_eq!(holder(event("DELETED", "one")), None);
    }

    #[test]
    fn one_that_is_refused_is_tried_again_less_and_less_often() {
        let (mut watch, mut now) = (open(), Monotonic::default());
        let mut waits = Vec::new();
        for _ in 0..12 {
            let refused = ApiError::from_response(403, b"{}", None);
            watch.handle(Input::Ended(7, Some(refused)), now);
            let due = watch.due_at().expect("it is closed");
            waits.push(due.since(now));
            assert!(watch.poll_call(7, now).is_none());
            now = due;
            assert!(watch.poll_call(7, now).is_some() && watch.due_at().is_none());
        }
        assert!(
            waits.is_sorted() && waits.last() == Some(&RETRY.max),
            "{waits:?}"
        );
    }
}
