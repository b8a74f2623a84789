//! Serves watches: a cursor into a kind's event log, and the encoded events of one client.
//!
//! Responsible for: the events of one watch, in order. Must not: wait, or use sockets.
//!
//! The caller pulls events under the server's lock ([`ApiServer::pull`]), then encodes them without it
//! ([`WatchCursor::encode`]). Stored bytes are shared and never encoded per watch.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use super::state::ApiServer;
use crate::{
    apiserver::{
        http::{Selector, Target, resource_version},
        object::{ApiError, Kind, Result, Stored},
        print::{Form, TableHead, encode},
        store::{Event, EventType},
    },
    model::Time,
};

/// The position and the options of one watch.
#[derive(Debug)]
#[doc(alias = "cacheWatcher")]
pub struct WatchCursor {
    kind: Kind,
    namespace: String,
    selector: Selector,
    form: Form,
    /// Objects that existed at the start and are still to be sent as ADDED.
    initial: VecDeque<Arc<Stored>>,
    /// A bookmark is still to mark the end of the initial objects.
    announce_initial_end: bool,
    /// Version of the initial objects.
    initial_version: u64,
    position: u64,
    /// Version up to which this watch has read all events.
    seen_version: u64,
    /// Version in the last bookmark.
    bookmarked_version: u64,
    bookmarks: bool,
    timeout: Option<Duration>,
    head: TableHead,
    /// An error to send as the only event or the last one.
    failure: Option<ApiError>,
    ended: bool,
}

/// The result of [`ApiServer::pull`] for one watch.
#[derive(Debug, Default)]
pub struct Pulled {
    initial: Vec<Arc<Stored>>,
    events: Vec<Event>,
    initial_end: bool,
    expired: Option<ApiError>,
}

impl Pulled {
    /// Returns true if there is nothing to send; the watch then waits for the next change.
    pub const fn is_empty(&self) -> bool {
        self.initial.is_empty()
            && self.events.is_empty()
            && !self.initial_end
            && self.expired.is_none()
    }
}

impl ApiServer {
    /// Opens a watch.
    pub(crate) fn watch(&self, target: &Target) -> Result<WatchCursor> {
        let query = &target.query;
        let selector = Selector::read(query, target.kind)?;
        let streaming = check_initial_events(target)?;
        let text = query.text("resourceVersion");
        let version = resource_version::parse(text).map_err(|why| ApiError::new(500, "", why))?;
        let wants_objects = streaming.unwrap_or(version == 0);
        let timeout = query.text("timeoutSeconds").parse();
        let log = self.store.log(target.kind);
        let mut cursor = WatchCursor {
            kind: target.kind,
            namespace: target.namespace.clone(),
            form: target.form,
            initial: VecDeque::new(),
            announce_initial_end: false,
            initial_version: self.store.version(),
            position: log.end(),
            seen_version: match wants_objects {
                true => version.max(self.store.version()),
                false => version,
            },
            bookmarked_version: version,
            bookmarks: query.flag("allowWatchBookmarks"),
            timeout: timeout.ok().map(Duration::from_secs),
            head: TableHead::Due,
            failure: None,
            ended: false,
            selector,
        };
        if wants_objects {
            cursor.announce_initial_end = streaming == Some(true) && cursor.bookmarks;
            let objects = self.store.range(target.kind, &target.namespace, None);
            let selected = objects.filter(|object| cursor.selector.matches(object));
            cursor.initial = selected.cloned().collect();
        } else if version != 0 {
            match log.after_version(version) {
                Ok(position) => cursor.position = position,
                Err(oldest) => cursor.failure = Some(too_old(version, oldest)),
            }
        }
        Ok(cursor)
    }

    /// Takes up to `limit` entries of a watch and advances it. It is cheap, because objects are shared.
    pub fn pull(&self, cursor: &mut WatchCursor, limit: usize) -> Pulled {
        let mut pulled = Pulled::default();
        if cursor.ended {
            return pulled;
        }
        if let Some(failure) = cursor.failure.take() {
            // Send nothing else: later events would seem to follow the client's last state without a gap.
            pulled.expired = Some(failure);
            return pulled;
        }
        if !cursor.initial.is_empty() {
            let some = limit.min(cursor.initial.len());
            pulled.initial = cursor.initial.drain(..some).collect();
            return pulled;
        }
        pulled.initial_end = std::mem::take(&mut cursor.announce_initial_end);
        let log = self.store.log(cursor.kind);
        match log.read(cursor.position, limit) {
            Some(events) => {
                cursor.position += events.len() as u64;
                cursor.seen_version = match events.last() {
                    Some(event) if cursor.position < log.end() => event.object.version,
                    _ => cursor.seen_version.max(self.store.version()),
                };
                pulled.events = events;
            }
            None => {
                let oldest = log.dropped_version();
                pulled.expired = Some(too_old(cursor.seen_version, oldest));
            }
        }
        pulled
    }
}

impl WatchCursor {
    /// The kind that is watched.
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// The client's `timeoutSeconds`, if given.
    pub const fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// Returns true if the stream ends after the events encoded so far.
    pub const fn ended(&self) -> bool {
        self.ended
    }

    /// Appends the encoded form of the pulled events.
    pub fn encode(&mut self, pulled: Pulled, now: Time, out: &mut Vec<u8>) {
        for object in &pulled.initial {
            self.frame(out, "ADDED", object, now);
        }
        if pulled.initial_end {
            encode::bookmark(out, self.kind, self.form, self.initial_version, true);
            self.bookmarked_version = self.initial_version;
        }
        for event in &pulled.events {
            if let Some((kind, object)) = self.seen_as(event) {
                self.frame(out, kind, &object, now);
            }
        }
        if let Some(error) = pulled.expired {
            encode::error_frame(out, &error);
            self.ended = true;
        }
    }

    /// Appends a bookmark if the client requested them and the version has increased.
    pub fn encode_bookmark(&mut self, out: &mut Vec<u8>) {
        let due = self.bookmarks && self.initial.is_empty() && !self.announce_initial_end;
        if due && self.seen_version > self.bookmarked_version {
            encode::bookmark(out, self.kind, self.form, self.seen_version, false);
            self.bookmarked_version = self.seen_version;
        }
    }

    fn frame(&mut self, out: &mut Vec<u8>, event_type: &str, object: &Stored, now: Time) {
        encode::event_frame(out, event_type, object, self.form, &mut self.head, now);
    }

    /// The event as this watch's selector sees it: objects start and stop matching.
    fn seen_as(&self, event: &Event) -> Option<(&'static str, Arc<Stored>)> {
        let object = &event.object;
        if !self.namespace.is_empty() && object.namespace != self.namespace {
            return None;
        }
        let same = || Arc::clone(object);
        let before = event
            .previous
            .as_ref()
            .filter(|previous| self.selector.matches(previous));
        let now_selected = event.event_type != EventType::Deleted && self.selector.matches(object);
        match (before, now_selected) {
            (None, false) => None,
            (None, true) => Some(("ADDED", same())),
            (Some(_), true) => Some(("MODIFIED", same())),
            (Some(_), false) if event.event_type == EventType::Deleted => Some(("DELETED", same())),
            (Some(previous), false) => {
                Some(("DELETED", Arc::new(previous.at_version(object.version))))
            }
        }
    }
}

fn too_old(version: u64, oldest: u64) -> ApiError {
    ApiError::expired(format!("too old resource version: {version} ({oldest})"))
}

/// Parses `sendInitialEvents`; `None` if it is missing.
fn check_initial_events(target: &Target) -> Result<Option<bool>> {
    let query = &target.query;
    let is_given = !query.text("sendInitialEvents").is_empty();
    let error = match (is_given, query.text("resourceVersionMatch")) {
        (false, "") => return Ok(None),
        (true, "NotOlderThan") => return Ok(Some(query.flag("sendInitialEvents"))),
        (false, _) => {
            "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is \
             provided"
        }
        (true, _) => {
            "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        }
    };
    let field = "resourceVersionMatch";
    Err(ApiError::invalid_option("ListOptions", field, error))
}
