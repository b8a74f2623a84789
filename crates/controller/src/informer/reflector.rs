//! Lists a kind and then watches it, and passes on each object as it arrives.
//!
//! A list comes in pages; objects that are missing from a complete list are gone. A watch continues from the last
//! version it received, also after a broken connection. If that version is too old (410), a new list starts. No event
//! is missed, and as objects carry versions, none has to be handled twice.
//!
//! Must not: keep objects, or decide in which order kinds are listed.

mod listing;

use std::time::Duration;

use lakh_model::Monotonic;
use lakh_wire::{
    ApiError, Call, Encoding, ErrorKind, Object, PodDecoder, PodEvent, Splitter, WatchEvent,
    decode_list_page, decode_watch_frame, decode_watch_line,
};

use crate::machine::{CallId, CallResult, Input, code_of};

use super::{
    contact::{Contact, Tried},
    news::{Change, Extent, Kind, News, Notice, Observed, TooLongObject},
    outside::Outside,
    page_size::{PageBounds, PageSize},
    read::{odd_event, read, tell_of},
    retry::{RETRY, wait_after},
    witness::{Testimony, Witness},
};

/// `timeoutSeconds` of watches: the server closes them after this time.
pub(crate) const WATCH_SECONDS: u64 = 290;

/// A watch that is silent for this long is considered dead: a server sends a bookmark about once a minute. To reopen it
/// from its version costs little.
const SILENCE: Duration = Duration::from_secs(90);

/// The log reports a watch at once that had no answer for this long.
const SLOW_OPEN: Duration = Duration::from_secs(10);

/// A watch that ends sooner, in order and without an event, has failed: client-go's `VeryShortWatchError`. A server
/// that closes watches under load causes this, or a proxy that does not support streams.
const SHORT_WATCH: Duration = Duration::from_secs(1);

/// Time for which lists must stay older than the cache before they count as another history. A server that only lags
/// catches up by then: it waits 3 s itself to reach the version it is asked for.
const OLDER_FOR: Duration = Duration::from_secs(5);

/// Callback that receives each object.
pub(super) type Tell<'a> = &'a mut dyn FnMut(News<'_>);

/// Lists and watches one kind in one namespace, or in all. At most one request is in flight. It asks for requests when
/// [`is_due`](Self::is_due), and handles their results in [`handle`](Self::handle).
#[derive(Debug)]
pub(super) struct Reflector {
    pub(super) extent: Extent,
    path: String,
    decoder: PodDecoder,
    step: ReflectorStep,
    /// The size of the next page.
    page_size: PageSize,
    /// Time of the last request.
    asked_at: Monotonic,
    /// The request in flight.
    call: Option<CallId>,
    /// The stream of the open watch.
    stream: WatchStream,
    /// Backoff: no request before this time.
    pause: Option<Monotonic>,
    /// Progress of the lists and watches in the current history.
    told: Told,
    /// The history in which the last complete list was made.
    pub(super) synced: Option<u64>,
    /// Round of the list in flight, or of the last list.
    round: u64,
    /// Round of the last complete list.
    pub(super) listed: Option<u64>,
    /// Number of consecutive failed lists.
    failures: u32,
    /// Number of consecutive failed watches.
    watch_failures: u32,
    contact: Contact,
}

/// Versions that the server has shown of a kind in one history.
#[derive(Debug, Default)]
struct Told {
    /// Number of the history.
    history: u64,
    /// The newest version that the server has shown before the current list; an older list is rejected.
    newest: u64,
    /// Version of the list in progress.
    listing: u64,
    /// Version of the last complete list.
    listed: u64,
    /// Version of the watch; after a list, that of the list.
    version: u64,
    /// Time since which the server's lists are older than `newest`.
    older_since: Option<Monotonic>,
    /// The object with the latest event, to compare with the server.
    witness: Option<Witness>,
    /// The newest object of the list in progress.
    listed_last: Option<Witness>,
    /// The connection broke, and the server's data have not been compared since.
    is_lost: bool,
}

/// The current or next request.
#[derive(Debug)]
enum ReflectorStep {
    /// The next page of a list; the first if the continue token is empty.
    List(String),
    /// The metadata of the next object of a list, which alone exceeds the longest page, and the continue token after
    /// it.
    PassOver(String),
    Watch,
    /// Checks after a lost connection whether the server has reached our version and still has the last object. A watch
    /// from a future version would be open and stay silent. One on other data would send events that do not fit the
    /// cache.
    Compare,
}

/// The stream of a watch.
#[derive(Debug, Default)]
struct WatchStream {
    /// Set once the stream is open.
    splitter: Option<(Encoding, Splitter)>,
    /// The version that the watch started from.
    from: u64,
    opened: Monotonic,
    heard: Monotonic,
    /// Something came that is no event.
    is_odd: bool,
}

impl Reflector {
    pub(super) fn new(
        extent: Extent,
        path: String,
        decoder: PodDecoder,
        pages: PageBounds,
        contact: Contact,
    ) -> Self {
        Self {
            extent,
            path,
            decoder,
            step: ReflectorStep::List(String::new()),
            page_size: PageSize::new(pages),
            asked_at: Monotonic::default(),
            call: None,
            stream: WatchStream::default(),
            pause: None,
            told: Told::default(),
            synced: None,
            round: 0,
            listed: None,
            failures: 0,
            watch_failures: 0,
            contact,
        }
    }

    /// Adopts the current history if it has changed: forgets all objects and lists anew. Otherwise lists anew if that
    /// is requested and `may_list_anew`.
    pub(super) fn follow(&mut self, may_list_anew: bool, outside: &mut Outside) {
        let history = outside.history;
        if history == self.told.history {
            if may_list_anew {
                self.begin_round(outside);
            }
            return;
        }
        (self.round, self.listed) = (outside.round, None);
        self.told = Told {
            history,
            ..Told::default()
        };
        outside
            .notices
            .push_back(Notice::Forget(self.extent.clone()));
        self.pause = None;
        outside.abandoned.extend(self.watch());
        self.turn_to(ReflectorStep::List(String::new()));
    }

    /// Lists anew if that was requested since the last list began. The cache stays. A pending comparison with the
    /// server comes first.
    fn begin_round(&mut self, outside: &mut Outside) {
        if self.round == outside.round || matches!(self.step, ReflectorStep::Compare) {
            return;
        }
        self.round = outside.round;
        self.told.newest = self.told.newest.max(self.told.version);
        outside.abandoned.extend(self.watch());
        self.turn_to(ReflectorStep::List(String::new()));
    }

    fn turn_to(&mut self, step: ReflectorStep) {
        self.step = step;
        self.call = None;
        self.stream.splitter = None;
    }

    /// Returns the watch that is open or being opened.
    fn watch(&self) -> Option<CallId> {
        self.call
            .filter(|_| matches!(self.step, ReflectorStep::Watch))
    }

    /// Reopens the watch at its version, because its query has changed.
    pub(super) fn watch_anew(&mut self, outside: &mut Outside) {
        if let Some(watch) = self.watch() {
            outside.abandoned.push_back(watch);
            self.turn_to(ReflectorStep::Watch);
        }
    }

    /// Returns true if it has a request to send now.
    pub(super) fn is_due(&self, now: Monotonic) -> bool {
        self.call.is_none() && self.pause.is_none_or(|until| until <= now)
    }

    /// Returns the time at which it is due if no input arrives.
    pub(super) fn due_at(&self) -> Option<Monotonic> {
        match (self.call, self.watch()) {
            (None, _) => self.pause,
            (_, Some(_)) => Some(self.stream.heard + SILENCE),
            (Some(_), None) => None,
        }
    }

    /// Returns true if its next request starts a list. The first lists of other kinds wait for that of Jobs.
    pub(super) fn begins(&self) -> bool {
        let is_first = matches!(&self.step, ReflectorStep::List(token) if token.is_empty());
        is_first && self.call.is_none()
    }

    /// Returns the request, and true if it is a stream. Call it only if it is due.
    pub(super) fn request(&mut self, id: CallId, outside: &Outside) -> (Call, bool) {
        self.pause = None;
        self.call = Some(id);
        self.asked_at = outside.now;
        let only = outside.query();
        match &self.step {
            ReflectorStep::List(token) => {
                let limit = self.page_size.limit();
                let path = format!("{}?limit={limit}&continue={token}{only}", self.path);
                let longest = self.page_size.longest();
                (self.get(path).with_answer_max(longest), false)
            }
            ReflectorStep::PassOver(token) => {
                let path = format!("{}?limit=1&continue={token}{only}", self.path);
                let longest = self.page_size.longest();
                (Call::list_metadata(path).with_answer_max(longest), false)
            }
            ReflectorStep::Compare => {
                let witness = self.told.witness.as_ref();
                let path = witness.map_or_else(
                    || format!("{}?limit=1", self.path),
                    |witness| witness.path(self.extent.kind),
                );
                (Call::get(path), false)
            }
            ReflectorStep::Watch => {
                outside.metrics.watch_opened(self.label());
                let from = self.told.version;
                self.stream = WatchStream {
                    splitter: None,
                    from,
                    opened: outside.now,
                    heard: outside.now,
                    is_odd: false,
                };
                let path = format!(
                    "{}?watch=true&allowWatchBookmarks=true&resourceVersion={from}&timeoutSeconds={WATCH_SECONDS}{only}",
                    self.path
                );
                (self.get(path), true)
            }
        }
    }

    fn get(&self, path: String) -> Call {
        // Pods make nearly all the traffic: only they are worth a second encoding.
        match self.extent.kind {
            Kind::Pod => Call::get_compact(path),
            _ => Call::get(path),
        }
    }

    /// Returns true if this request is in flight.
    pub(super) fn waits_for(&self, id: CallId) -> bool {
        self.call == Some(id)
    }

    /// Gives up a watch that has been silent for too long.
    pub(super) fn give_up_silent(&mut self, outside: &mut Outside) {
        if let Some(call) = self.watch()
            && self.stream.heard + SILENCE <= outside.now
        {
            outside.abandoned.push_back(call);
            self.watch_failed(
                ApiError::no_answer(format!(
                    "no event and no bookmark for {} s",
                    SILENCE.as_secs()
                )),
                outside,
            );
        }
    }

    /// Handles the result of its request.
    pub(super) fn handle(&mut self, input: Input, outside: &mut Outside, tell: Tell<'_>) {
        match input {
            Input::Answer(_, answer) => match self.step {
                ReflectorStep::Compare => self.compared(&answer, outside),
                _ => self.listed(answer, outside, tell),
            },
            Input::Opened(_, encoding) => {
                self.stream.splitter = Some((encoding, Splitter::new(encoding)));
                (self.stream.opened, self.stream.heard) = (outside.now, outside.now);
                self.contact.opened(outside.now);
            }
            Input::Piece(id, piece) => {
                if let Err(error) = self.piece(&piece, outside, tell) {
                    self.stream.is_odd = error.code == 0 && error.kind == ErrorKind::Failed;
                    self.watch_failed(error, outside);
                    outside.abandoned.push_back(id);
                }
            }
            Input::Ended(_, None) => self.watch_ended(outside),
            Input::Ended(_, Some(error)) => self.watch_failed(error, outside),
        }
    }

    /// Handles a watch that ended in order. A short one is reopened after a backoff.
    fn watch_ended(&mut self, outside: &Outside) {
        let now = outside.now;
        let lasted = now.since(self.stream.opened);
        let is_short = lasted < SHORT_WATCH;
        let has_moved = self.told.version > self.stream.from;
        if is_short && !has_moved {
            let millis = lasted.as_millis();
            let error = format!("the watch ended after {millis} ms without an event");
            self.contact
                .failed(Tried::ShortWatch, &ApiError::no_answer(error), now);
            self.watch_failures += 1;
        } else {
            self.contact.heard(now);
            self.watch_failures = u32::from(is_short);
        }
        self.pause = Some(now + RETRY.delay(self.watch_failures)).filter(|until| *until > now);
        self.turn_to(ReflectorStep::Watch);
    }

    /// Handles a list that is older than the cache. After [`OLDER_FOR`] the history ends.
    fn told_older(&mut self, outside: &mut Outside) {
        let since = *self.told.older_since.get_or_insert(outside.now);
        if outside.now.since(since) >= OLDER_FOR {
            self.history_ends(outside);
        }
    }

    /// Returns true if the kind is listed in this history, and no list since was older.
    pub(super) fn knows(&self, history: u64) -> bool {
        self.synced == Some(history) && self.told.older_since.is_none()
    }

    /// Returns true if the connection broke in this history and the data have not been compared since. Only writes for
    /// Jobs and Pods are irreversible, so other kinds do not count.
    pub(super) fn has_lost(&self, history: u64) -> bool {
        let matters = matches!(self.extent.kind, Kind::Job | Kind::Pod);
        matters && self.told.is_lost && self.told.history == history
    }

    fn history_ends(&self, outside: &mut Outside) {
        tracing::warn!(
            kind = self.label(),
            "the API server's data is older than before, as after a restored backup; relisting everything"
        );
        outside.end_history(self.told.history);
    }

    fn list_anew(&mut self, error: &ApiError, outside: &Outside) {
        self.failures += 1;
        self.pause = Some(outside.now + wait_after(error, self.failures));
        self.turn_to(ReflectorStep::List(String::new()));
    }

    fn watch_failed(&mut self, error: ApiError, outside: &mut Outside) {
        let is_over = matches!(
            error.kind,
            ErrorKind::Expired | ErrorKind::Refused | ErrorKind::Ahead | ErrorKind::TooLong
        );
        self.told.newest = self.told.newest.max(self.told.version);
        if is_over {
            if error.kind == ErrorKind::Refused {
                let now = outside.now;
                self.contact.failed(Tried::RefusedWatch, &error, now);
            }
            tracing::debug!(kind = self.label(), %error, "relisting");
            if self.told.version > self.told.listed {
                self.failures = 0;
                self.pause = None;
                self.turn_to(ReflectorStep::List(String::new()));
            } else {
                self.list_anew(&error, outside);
            }
            return;
        }
        let tried = match self.step {
            ReflectorStep::Watch if outside.now.since(self.stream.heard) >= SILENCE => {
                Tried::SilentWatch
            }
            ReflectorStep::Watch if self.stream.is_odd => Tried::OddWatch,
            ReflectorStep::Watch if self.stream.splitter.is_none() => {
                match outside.now.since(self.stream.opened) >= SLOW_OPEN {
                    true => Tried::RefusedWatch,
                    false => Tried::UnopenedWatch,
                }
            }
            ReflectorStep::Watch => Tried::Watch,
            ReflectorStep::List(_) | ReflectorStep::PassOver(_) | ReflectorStep::Compare => {
                Tried::List
            }
        };
        self.contact.failed(tried, &error, outside.now);
        let moved = self.watch().is_some() && self.told.version > self.stream.from;
        self.watch_failures = if moved { 1 } else { self.watch_failures + 1 };
        self.pause = Some(outside.now + wait_after(&error, self.watch_failures));
        let knows_nothing = error.code == 0 || matches!(self.step, ReflectorStep::Compare);
        if knows_nothing {
            self.told.is_lost = true;
        }
        self.turn_to(match knows_nothing {
            true => ReflectorStep::Compare,
            false => ReflectorStep::Watch,
        });
    }

    fn compared(&mut self, answer: &CallResult, outside: &mut Outside) {
        outside.metrics.call("list", self.label(), code_of(answer));
        let page = match answer {
            Ok(body) => {
                self.contact.compared(outside.now);
                decode_list_page(body).ok()
            }
            Err(error) => return self.watch_failed(error.clone(), outside),
        };
        self.turn_to(ReflectorStep::Watch);
        let page = page.and_then(|page| Some((page.resource_version.parse::<u64>().ok()?, page)));
        let Some((at, page)) = page else {
            return self.watch_failed(ApiError::no_answer("odd list"), outside);
        };
        if at < self.told.version {
            self.watch_failed(ApiError::behind(), outside);
            return;
        }
        let found = page.items.first();
        let found = found.and_then(|object| read(self.extent.kind, &self.decoder, *object).ok());
        let found = found.map(|object| object.identity().2);
        let witness = self.told.witness.as_ref();
        match witness.map_or(Testimony::Same, |witness| witness.speaks(found)) {
            Testimony::Same => {
                self.told.is_lost = false;
                self.told.older_since = None;
            }
            Testimony::Unknown if self.told.older_since.is_none() => {
                self.failures = 0;
                self.turn_to(ReflectorStep::List(String::new()));
            }
            Testimony::Unknown | Testimony::Other => self.history_ends(outside),
        }
    }

    fn piece(
        &mut self,
        piece: &[u8],
        outside: &mut Outside,
        tell: Tell<'_>,
    ) -> Result<(), ApiError> {
        self.stream.heard = outside.now;
        let Some((encoding, mut splitter)) = self.stream.splitter.take() else {
            return Ok(());
        };
        let before = self.told.version;
        // Bytes that are no event show nothing: a proxy may send its own page.
        let mut has_event = false;
        let taken_in = splitter.push(piece, |event| {
            let mut witness = None;
            let told = self.event(encoding, event, outside, &mut |news| {
                witness = Witness::of(&news);
                tell(news);
            });
            let told = told?;
            has_event |= !event.is_empty();
            let Some(seen) = told else {
                return Ok(());
            };
            if seen < self.told.version {
                // The server's data are older than they were, the server lags, or a proxy repeats or delays events. A
                // deleted object may have been sent once more.
                return Err(ApiError::behind());
            }
            if witness.is_some() {
                self.told.witness = witness;
            }
            self.told.version = seen;
            Ok(())
        });
        self.stream.splitter = Some((encoding, splitter));
        if has_event {
            self.contact.heard(outside.now);
        }
        if self.told.version > before {
            let notice = Notice::Seen(self.extent.clone(), self.told.version);
            outside.notices.push_back(notice);
        }
        taken_in
    }

    /// Handles an event; returns the version that it shows.
    fn event(
        &self,
        encoding: Encoding,
        event: &[u8],
        outside: &mut Outside,
        tell: Tell<'_>,
    ) -> Result<Option<u64>, ApiError> {
        if event.is_empty() {
            return Ok(None);
        }
        // Without protobuf, nearly all events are lines of Pods: they are parsed once.
        if (encoding, self.extent.kind) == (Encoding::Json, Kind::Pod)
            && let Some(read) = self.decoder.decode_line(event)
        {
            let (change, mut pod) = match read {
                PodEvent::Applied(pod) => (Change::Applied, pod),
                PodEvent::Deleted(pod) => (Change::Deleted, pod),
            };
            outside.asked.look_at_line(&mut pod, event, change);
            return Ok(Some(tell_of(change, Observed::Pod(pod), tell)));
        }
        let event = match encoding {
            Encoding::Json => decode_watch_line(event).map_err(odd_event),
            Encoding::Protobuf => decode_watch_frame(event).map_err(odd_event),
        };
        Ok(match event? {
            WatchEvent::Applied(object) => self.object(object, Change::Applied, outside, tell),
            WatchEvent::Deleted(object) => self.object(object, Change::Deleted, outside, tell),
            WatchEvent::Bookmark(seen) => seen.parse().ok(),
            WatchEvent::Error(error) => return Err(error),
        })
    }

    /// Passes an object on; returns its version. One that cannot be decoded is skipped: it must not stop the others.
    fn object(
        &self,
        object: Object<'_>,
        change: Change,
        outside: &mut Outside,
        tell: Tell<'_>,
    ) -> Option<u64> {
        let ranges = outside.ranges.as_ref();
        if let Some(version) = ranges.and_then(|all| all.passes_over(self.extent.kind, object)) {
            return Some(version);
        }
        match read(self.extent.kind, &self.decoder, object) {
            Ok(mut read) => {
                let extent = (&self.extent, self.told.listed);
                outside.asked.look(&mut read, object, change, extent);
                Some(tell_of(change, read, tell))
            }
            Err(error) => {
                let (kind, start) = (self.label(), object.start());
                tracing::error!(kind, %error, object = start, "could not decode an object; skipped");
                outside.metrics.unreadable_object(kind);
                None
            }
        }
    }

    fn label(&self) -> &'static str {
        self.extent.kind.plural()
    }
}
