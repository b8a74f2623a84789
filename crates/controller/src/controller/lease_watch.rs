//! Watches the Lease. A standby notices at once that the Lease was released. A replica that shares ranges notices other
//! replicas and the ranges that they give up. client-go has no such watch.
//!
//! The watch only reduces latency: the regular reads of the Lease continue. If it is refused, late or silent, nothing
//! else is lost.
//!
//! Must not: decide which replica leads.

use lakh_core::election::LeaseRecord;
use lakh_model::Monotonic;
use lakh_wire::{
    Call, Object, Splitter, TooLong, WatchEvent, decode_lease, decode_watch_line, paths,
};

use crate::{
    informer::{RETRY, WATCH_SECONDS},
    machine::{CallId, Input},
};

/// The watch on one Lease. It is reopened with backoff after it ends.
#[derive(Debug)]
pub(super) struct LeaseWatch {
    path: String,
    open: Option<Open>,
    /// Consecutive watches that ended without an event.
    failures: u32,
    not_before: Monotonic,
}

/// A watch that was requested.
#[derive(Debug)]
struct Open {
    id: CallId,
    events: Option<Splitter>,
}

impl LeaseWatch {
    pub(super) fn new(namespace: &str, name: &str) -> Self {
        Self {
            // Without a resourceVersion, so that it starts with the current Lease.
            path: format!(
                "{}?watch=true&fieldSelector=metadata.name%3D{name}&timeoutSeconds={WATCH_SECONDS}",
                paths::leases(namespace)
            ),
            open: None,
            failures: 0,
            not_before: Monotonic::default(),
        }
    }

    /// Returns the request that opens the watch, if it is not open.
    pub(super) fn poll_call(&mut self, id: CallId, now: Monotonic) -> Option<Call> {
        if self.open.is_some() || self.not_before > now {
            return None;
        }
        self.open = Some(Open { id, events: None });
        Some(Call::get(self.path.clone()))
    }

    /// Returns when the next request is due, if none is open.
    pub(super) fn due_at(&self) -> Option<Monotonic> {
        self.open.is_none().then_some(self.not_before)
    }

    /// Returns true if the input is for this watch.
    pub(super) fn waits_for(&self, id: CallId) -> bool {
        self.open.as_ref().is_some_and(|open| open.id == id)
    }

    /// Handles an input. Returns the new Lease, or that it was deleted, if there is an event.
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
        // The last of several events counts.
        let taken_in = events.push(piece, |event| {
            heard = lease_of(event).or(heard.take());
            Ok::<_, TooLong>(())
        });
        if taken_in.is_ok() {
            self.failures = 0;
        }
        heard
    }

    /// Closes the watch.
    pub(super) fn close(&mut self) -> Option<CallId> {
        self.open.take().map(|open| open.id)
    }
}

/// Decodes the Lease of an event, or its deletion; none for other events.
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
    use lakh_wire::{ApiError, Encoding};

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

    fn event(kind: &str, holder: &str) -> String {
        let line = format!(
            r#"{{"type":"{kind}","object":{{"metadata":{{"resourceVersion":"5"}},"spec":{{"holderIdentity":"{holder}"}}}}}}"#
        );
        format!("{line}\n")
    }

    fn piece(events: String) -> Input {
        Input::Piece(7, Bytes::from(events))
    }

    #[test]
    fn it_reports_a_released_or_deleted_lease() {
        let mut watch = open();
        let now = Monotonic::default();
        let mut holder = |event| {
            let heard = watch.handle(piece(event), now).expect("there is news");
            heard.map(|record| record.holder)
        };
        assert_eq!(holder(event("ADDED", "one")).as_deref(), Some("one"));
        assert_eq!(holder(event("MODIFIED", "")).as_deref(), Some(""));
        assert_eq!(holder(event("DELETED", "one")), None);
    }

    #[test]
    fn of_several_events_in_one_piece_the_last_one_counts() {
        let both = event("MODIFIED", "one") + &event("MODIFIED", "");
        let heard = open().handle(piece(both), Monotonic::default());
        let record = heard.flatten().expect("the Lease is there");
        assert_eq!(record.holder, "", "it is released");
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
