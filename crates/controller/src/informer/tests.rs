//! Checks the informers' requests one by one while a server answers, disconnects, compacts its history and is restored.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use serde_json::{Value, json};

use super::*;
use lakh_model::{Division, Now, Partition, TRACKING_FINALIZER, Time};
use lakh_wire::{
    ApiError, Encoding,
    protobuf_writer::{bytes, object},
};

use crate::{
    machine::{CallId, Input},
    metrics::Metrics,
    rate_limiter::{Limiter, Rate},
};

/// Informers with a clock. They watch Jobs only, except in tests that name more kinds.
struct World {
    informers: Informers,
    now: Now,
}

fn job(version: u64) -> Value {
    json!({
        "metadata": {"name": "j", "namespace": "d", "resourceVersion": version.to_string(),
            "uid": "00000000-0000-0000-0000-000000000001"},
        "spec": {"template": {"spec": {}}},
    })
}

fn page(version: u64, items: &[Value]) -> Result<Bytes, ApiError> {
    let list = json!({"metadata": {"resourceVersion": version.to_string()}, "items": items});
    Ok(list.to_string().into())
}

fn refused(code: u16, reason: &str) -> ApiError {
    let status = json!({"kind": "Status", "code": code, "reason": reason});
    ApiError::from_response(code, status.to_string().as_bytes(), None)
}

impl World {
    fn new() -> Self {
        Self::of(vec![Kind::Job])
    }

    /// Returns a world in which the watch showed a Job at version 20 before a list as of version 15 arrived.
    fn with_an_older_list() -> Self {
        let mut world = Self::new();
        let watch = world.watch_from(10);
        world.event(watch, "ADDED", &job(20));
        world.hear(Input::Ended(watch, Some(refused(410, "Expired"))));
        world.notices();
        let list = world.asks("jobs?limit=500");
        world.answer(list, page(15, &[]));
        world
    }

    fn of(kinds: Vec<Kind>) -> Self {
        let watched = Watched {
            kinds,
            namespaces: Vec::new(),
            finalizer: TRACKING_FINALIZER,
            api: None,
            summarizes_all: false,
            pages: PageBounds::default(),
        };
        let limiter = Arc::new(Limiter::new(Rate { qps: 0, burst: 0 }));
        Self {
            informers: Informers::new(&watched, &limiter, Arc::new(Metrics::default())),
            now: Now::at(Time::from_secs(1_000_000)),
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
    }

    /// Returns the next request, its path without the common prefix.
    fn asked(&mut self) -> Option<(CallId, String)> {
        let request = self.informers.poll_request(self.now)?;
        let path = request.call.path;
        let short = path.strip_prefix("/apis/batch/v1/").unwrap_or(&path);
        Some((request.id, short.to_owned()))
    }

    /// Returns the next request; its path must start with `start`.
    fn asks(&mut self, start: &str) -> CallId {
        let (id, path) = self.asked().expect("a request");
        assert!(path.starts_with(start), "{path}");
        id
    }

    fn hear(&mut self, input: Input) {
        self.informers.handle(input, self.now, &mut |_| {});
    }

    fn answer(&mut self, id: CallId, answer: Result<Bytes, ApiError>) {
        self.hear(Input::Answer(id, answer));
    }

    fn notices(&mut self) -> Vec<Notice> {
        std::iter::from_fn(|| self.informers.poll_notice()).collect()
    }

    /// Answers the list as of a version and opens the watch.
    fn watch_from(&mut self, version: u64) -> CallId {
        let list = self.asks("jobs?limit=500");
        self.answer(list, page(version, &[]));
        let watch = self.asks("jobs?watch=true");
        self.hear(Input::Opened(watch, Encoding::Json));
        watch
    }

    fn event(&mut self, watch: CallId, kind: &str, object: &Value) {
        let event = json!({"type": kind, "object": object});
        self.hear(Input::Piece(watch, format!("{event}\n").into()));
    }
}

/// A notice that all kinds but these are known in a history.
fn history(number: u64, unknown: &[Kind]) -> Notice {
    let known = unknown.iter();
    let known = known.fold(Kinds::ALL, |known, kind| known.without(*kind));
    Notice::History {
        number,
        known,
        is_heard: true,
        round: 0,
        listed: known,
    }
}

/// A notice that the connection broke in the first history and no comparison was made since.
fn unheard() -> Notice {
    Notice::History {
        number: 0,
        known: Kinds::ALL,
        is_heard: false,
        round: 0,
        listed: Kinds::ALL,
    }
}

#[test]
fn a_watch_begins_where_its_list_ends_and_goes_on_from_what_it_told() {
    let mut world = World::new();
    let list = world.asks("jobs?limit=500");
    world.answer(list, page(10, &[job(7)]));
    let watch = world.asks("jobs?watch=true&allowWatchBookmarks=true&resourceVersion=10&");
    world.hear(Input::Opened(watch, Encoding::Json));
    world.event(watch, "MODIFIED", &job(12));
    world.pass(Duration::from_secs(1));
    world.hear(Input::Ended(watch, None));
    world.asks("jobs?watch=true&allowWatchBookmarks=true&resourceVersion=12&");
}

#[test]
fn a_page_that_is_no_list_ends_no_list() {
    for foreign in [
        "",
        "{}",
        "<html>Sign in</html>",
        r#"{"metadata":{"resourceVersion":"9"}}"#,
    ] {
        let mut world = World::new();
        let first = world.asks("jobs?limit=500");
        world.answer(first, Ok(Bytes::from(foreign)));
        assert_eq!(world.informers.missing(), ["jobs"], "{foreign}");
        world.pass(Duration::from_secs(1));
        let list = world.asks("jobs?limit=500");
        let page =
            json!({"metadata": {"resourceVersion": "10", "continue": "t"}, "items": [job(7)]});
        world.answer(list, Ok(page.to_string().into()));
        let second = world.asks("jobs?limit=500&continue=t");
        world.answer(second, Ok(Bytes::from(foreign)));
        assert_eq!(world.informers.missing(), ["jobs"], "{foreign}");
        let is_complete = |notice: &Notice| matches!(notice, Notice::Complete(..));
        assert!(!world.notices().iter().any(is_complete), "{foreign}");
    }
}

#[test]
fn a_watch_that_ends_at_once_is_opened_ever_more_rarely() {
    let mut world = World::new();
    let mut watch = world.watch_from(10);
    let mut waits = Vec::new();
    for _ in 0..10 {
        world.hear(Input::Ended(watch, None));
        let due = world.informers.poll_timeout().left(world.now);
        let wait = due.expect("it waits");
        assert!(world.asked().is_none());
        waits.push(wait.as_millis());
        world.pass(wait);
        watch = world.asks("jobs?watch=true");
        world.hear(Input::Opened(watch, Encoding::Json));
    }
    assert_eq!(
        waits,
        [
            200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000
        ]
    );
    // A watch that brings an event or stays open resets the backoff.
    world.event(watch, "ADDED", &job(20));
    world.hear(Input::Ended(watch, None));
    assert_eq!(
        world.informers.poll_timeout().left(world.now),
        Some(Duration::from_millis(200))
    );
    world.pass(Duration::from_millis(200));
    let watch = world.asks("jobs?watch=true");
    world.hear(Input::Opened(watch, Encoding::Json));
    world.pass(Duration::from_secs(2));
    world.hear(Input::Ended(watch, None));
    world.asks("jobs?watch=true");
}

#[test]
fn retry_after_zero_leaves_the_backoff_on() {
    let mut world = World::new();
    let mut lists = 0;
    for _ in 0..800 {
        while let Some((list, _)) = world.asked() {
            lists += 1;
            let busy = ApiError::from_response(429, b"", Some(Duration::ZERO));
            world.answer(list, Err(busy));
        }
        world.pass(Duration::from_millis(10));
    }
    assert!(lists <= 6, "{lists} lists in 8 s");
}

#[test]
fn how_far_a_watch_has_come_is_told() {
    let mut world = World::new();
    let watch = world.watch_from(10);
    world.notices();
    let jobs = || Extent {
        kind: Kind::Job,
        namespace: None,
    };
    world.event(watch, "MODIFIED", &job(12));
    assert_eq!(world.notices(), [Notice::Seen(jobs(), 12)]);
    let bookmark = json!({"metadata": {"resourceVersion": "15"}});
    world.event(watch, "BOOKMARK", &bookmark);
    assert_eq!(world.notices(), [Notice::Seen(jobs(), 15)]);
    world.event(watch, "BOOKMARK", &bookmark);
    assert_eq!(world.notices(), [], "it has told that already");
}

#[test]
fn what_the_server_remembers_no_more_is_listed() {
    for is_event in [true, false] {
        let mut world = World::new();
        let watch = world.watch_from(10);
        world.event(watch, "ADDED", &job(12));
        if is_event {
            let status = json!({"kind": "Status", "code": 410, "reason": "Expired"});
            world.event(watch, "ERROR", &status);
        } else {
            world.hear(Input::Ended(watch, Some(refused(410, "Expired"))));
        }
        // The server is healthy and the watch has advanced since the last list: no backoff is needed.
        world.asks("jobs?limit=500");
    }
}

#[test]
fn a_kind_whose_watch_is_refused_right_after_each_list_is_listed_ever_more_rarely() {
    let mut world = World::new();
    let mut waits = Vec::new();
    for _ in 0..3 {
        let watch = world.watch_from(10);
        world.hear(Input::Ended(watch, Some(refused(410, "Expired"))));
        assert_eq!(world.asked(), None, "in a moment");
        let due = world.informers.poll_timeout().left(world.now);
        let wait = due.expect("it waits");
        waits.push(wait.as_millis());
        world.pass(wait);
    }
    assert_eq!(waits, [200, 400, 800]);
}

#[test]
fn a_watch_that_says_nothing_is_given_up() {
    let mut world = World::new();
    let watch = world.watch_from(10);
    let silence = Duration::from_secs(90);
    assert_eq!(
        world.informers.poll_timeout().left(world.now),
        Some(silence)
    );
    world.pass(silence - Duration::from_millis(1));
    assert_eq!(world.asked(), None);
    assert_eq!(world.informers.poll_abandoned(), None);
    // Any data shows that the watch is alive, bookmarks included.
    world.event(
        watch,
        "BOOKMARK",
        &json!({"metadata": {"resourceVersion": "11"}}),
    );
    world.pass(silence - Duration::from_millis(1));
    assert_eq!(world.asked(), None);
    assert_eq!(world.informers.poll_abandoned(), None);
    world.pass(Duration::from_millis(1));
    assert_eq!(world.asked(), None, "in a moment");
    assert_eq!(world.informers.poll_abandoned(), Some(watch));
    world.pass(Duration::from_secs(1));
    world.asks("jobs?limit=1");
}

#[test]
fn a_server_that_was_away_is_asked_how_far_it_has_come() {
    for (found, then, is_heard) in [
        // It has the last object.
        (page(12, &[job(12)]), "jobs?watch=true", true),
        // It has not reached our version: it may lag, or be restored.
        (page(11, &[]), "jobs?limit=500", false),
        // The last object is missing: it may be deleted, or the data may be others.
        (page(13, &[]), "jobs?limit=500", false),
    ] {
        let mut world = World::new();
        let watch = world.watch_from(10);
        world.event(watch, "ADDED", &job(12));
        let broken = ApiError::no_answer("connection reset");
        world.notices();
        world.hear(Input::Ended(watch, Some(broken)));
        assert_eq!(world.notices(), [unheard()]);
        assert_eq!(world.asked(), None, "in a moment");
        world.pass(Duration::from_secs(1));
        let look = world.asks("namespaces/d/jobs?fieldSelector=metadata.name%3Dj");
        world.answer(look, found);
        world.pass(Duration::from_secs(1));
        let next = world.asks(then);
        let told: &[Notice] = if is_heard { &[history(0, &[])] } else { &[] };
        assert_eq!(world.notices(), told);
        if !is_heard {
            world.answer(next, page(13, &[job(12)]));
            assert!(world.notices().contains(&history(0, &[])));
        }
    }
}

#[test]
fn a_server_that_has_less_than_it_told_tells_another_history() {
    let mut world = World::new();
    let watch = world.watch_from(10);
    world.event(watch, "ADDED", &job(12));
    assert!(world.notices().contains(&history(0, &[])));
    let broken = ApiError::no_answer("connection reset");
    world.hear(Input::Ended(watch, Some(broken)));
    world.pass(Duration::from_secs(1));
    let look = world.asks("namespaces/d/jobs?fieldSelector=");
    // It is past our version, but without that version of the object.
    world.answer(look, page(15, &[job(11)]));
    assert_eq!(world.notices(), [unheard(), history(1, &[Kind::Job])]);
    world.asks("jobs?limit=500");
}

#[test]
fn what_a_list_has_told_of_last_is_asked_for_as_well() {
    let mut world = World::new();
    // The newest object is on neither the first page nor the last, and not at the end of a page.
    for (token, first) in [("x", 3), ("y", 8), ("", 5)] {
        let list = world.asks("jobs?limit=500");
        let others = [1, 0].map(|less| {
            let mut other = job(first - less);
            other["metadata"]["name"] = json!(format!("j-{}", first - less));
            other
        });
        let metadata = json!({"resourceVersion": "10", "continue": token});
        let body = json!({"metadata": metadata, "items": [others[1], others[0]]});
        world.answer(list, Ok(body.to_string().into()));
    }
    let watch = world.asks("jobs?watch=true");
    let broken = ApiError::no_answer("connection reset");
    world.hear(Input::Ended(watch, Some(broken)));
    world.notices();
    world.pass(Duration::from_secs(1));
    let look = world.asks("namespaces/d/jobs?fieldSelector=metadata.name%3Dj-8");
    world.answer(look, page(11, &[job(7)]));
    assert!(world.notices().contains(&history(1, &[Kind::Job])));
}

#[test]
fn lists_are_not_believed_that_are_older_unless_they_stay_so() {
    let mut world = World::with_an_older_list();
    assert_eq!(
        world.notices(),
        [history(0, &[Kind::Job])],
        "somebody doubts"
    );
    // The server only lagged.
    world.pass(Duration::from_secs(3));
    let list = world.asks("jobs?limit=500");
    world.answer(list, page(20, &[job(20)]));
    let look = world.asks("namespaces/d/jobs?fieldSelector=metadata.name%3Dj");
    assert!(!world.notices().contains(&history(0, &[])));
    world.answer(look, page(20, &[job(20)]));
    assert!(world.notices().contains(&history(0, &[])));
    let watch = world.asks("jobs?watch=true");
    world.hear(Input::Opened(watch, Encoding::Json));
    world.hear(Input::Ended(watch, Some(refused(410, "Expired"))));
    for (wait, told) in [(1, history(0, &[Kind::Job])), (5, history(1, &[Kind::Job]))] {
        world.pass(Duration::from_secs(wait));
        let list = world.asks("jobs?limit=500");
        world.answer(list, page(15, &[]));
        assert_eq!(world.notices(), [told]);
    }
}

#[test]
fn a_server_that_was_older_and_lacks_what_it_told_last_tells_another_history() {
    let mut world = World::with_an_older_list();
    // Other clients have written since the restore.
    world.pass(Duration::from_secs(3));
    let list = world.asks("jobs?limit=500");
    world.answer(list, page(25, &[]));
    let look = world.asks("namespaces/d/jobs?fieldSelector=metadata.name%3Dj");
    world.answer(look, page(25, &[]));
    let notices = world.notices();
    assert!(!notices.contains(&history(0, &[])), "{notices:?}");
    assert!(notices.contains(&history(1, &[Kind::Job])), "{notices:?}");
}

#[test]
fn what_a_watch_tells_late_may_be_gone() {
    let mut world = World::new();
    let watch = world.watch_from(10);
    world.event(watch, "ADDED", &job(12));
    world.event(watch, "DELETED", &job(14));
    world.event(watch, "DELETED", &job(14));
    assert_eq!(world.asked(), None, "that changes nothing");
    world.event(watch, "ADDED", &job(12));
    world.asks("jobs?limit=500");
}

#[test]
fn who_finds_out_that_a_history_ended_waits_for_those_before_it_and_asks_for_no_turn() {
    let mut world = World::of(vec![Kind::Job, Kind::Pod]);
    world.watch_from(10);
    let list = world.asks("/api/v1/pods?limit=500");
    world.answer(list, page(10, &[]));
    let watch = world.asks("/api/v1/pods?watch=true");
    world.hear(Input::Ended(watch, Some(refused(410, "Expired"))));
    world.pass(Duration::from_secs(1));
    for wait in [0, 6] {
        world.pass(Duration::from_secs(wait));
        let list = world.asks("/api/v1/pods?limit=500");
        world.answer(list, page(5, &[]));
    }
    assert!(
        world
            .notices()
            .contains(&history(1, &[Kind::Job, Kind::Pod]))
    );
    let jobs = world.asks("jobs?limit=500");
    assert_eq!(world.asked(), None, "Jobs come first");
    world.pass(Duration::from_secs(20));
    assert_eq!(world.asked(), None);
    assert_eq!(world.informers.poll_timeout().left(world.now), None);
    world.answer(jobs, page(5, &[]));
    world.asks("jobs?watch=true");
    world.asks("/api/v1/pods?limit=500");
}

#[test]
fn a_history_is_whole_once_all_have_listed_it_and_ends_once() {
    let mut world = World::of(vec![Kind::Job, Kind::Pod]);
    world.watch_from(10);
    assert!(!world.notices().contains(&history(0, &[])));
    let list = world.asks("/api/v1/pods?limit=500");
    world.answer(list, page(10, &[]));
    assert!(world.notices().contains(&history(0, &[])));
    let watch = world.asks("/api/v1/pods?watch=true");
    world.hear(Input::Opened(watch, Encoding::Json));
    world.event(watch, "ERROR", &json!({"kind": "Status", "code": 410}));
    world.pass(Duration::from_secs(1));
    let begun_before = world.asks("/api/v1/pods?limit=500");
    // Two shards report it.
    world.informers.history_ends(0);
    world.informers.history_ends(0);
    assert_eq!(world.notices(), [history(1, &[Kind::Job, Kind::Pod])]);
    world.answer(begun_before, page(11, &[]));
    let told = |world: &mut World| {
        let notices = world.notices().into_iter();
        let told = notices.filter(|notice| matches!(notice, Notice::History { .. }));
        told.collect::<Vec<_>>()
    };
    assert_eq!(told(&mut world), []);
    world.watch_from(5);
    assert_eq!(told(&mut world), [history(1, &[Kind::Pod])]);
    let list = world.asks("/api/v1/pods?limit=500");
    world.answer(list, page(5, &[]));
    assert_eq!(told(&mut world), [history(1, &[])]);
}

#[test]
fn a_kind_that_may_not_be_listed_holds_up_no_other() {
    let mut world = World::of(vec![Kind::Job, Kind::CronJob, Kind::Pod]);
    let jobs = world.asks("jobs?limit=500");
    world.answer(jobs, page(10, &[]));
    world.asks("jobs?watch=true");
    world.asks("cronjobs?limit=500");
    let pods = world.asks("/api/v1/pods?limit=500");
    world.answer(pods, page(10, &[]));
    let told = world.notices();
    assert!(told.contains(&history(0, &[Kind::CronJob])), "{told:?}");
}

#[test]
fn an_object_that_cannot_be_read_stops_nobody_else() {
    let mut world = World::new();
    let list = world.asks("jobs?limit=500");
    let mut odd = job(5);
    odd["spec"] = json!("no object");
    let mut seen = Vec::new();
    let answer = Input::Answer(list, page(10, &[odd.clone(), job(7)]));
    let mut tell = |news: News<'_>| seen.push(news.object.identity().2);
    world.informers.handle(answer, world.now, &mut tell);
    let watch = world.asks("jobs?watch=true");
    world.hear(Input::Opened(watch, Encoding::Json));
    for (version, object) in [(11, &odd), (12, &job(12))] {
        let mut object = object.clone();
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        let event = json!({"type": "MODIFIED", "object": object});
        let piece = Input::Piece(watch, format!("{event}\n").into());
        let mut tell = |news: News<'_>| seen.push(news.object.identity().2);
        world.informers.handle(piece, world.now, &mut tell);
    }
    assert_eq!(seen, [7, 12]);
    assert!(world.asked().is_none(), "nothing is listed anew");
}

#[test]
fn who_needs_what_is_new_has_all_listed_once_more_and_nothing_forgotten() {
    let mut world = World::of(vec![Kind::Job, Kind::Pod]);
    let jobs_watch = world.watch_from(10);
    let pods = world.asks("/api/v1/pods?limit=500");
    world.answer(pods, page(10, &[]));
    world.asks("/api/v1/pods?watch=true");
    world.event(jobs_watch, "ADDED", &job(20));
    world.notices();

    let round = world.informers.list_anew();
    let first = world.asks("jobs?limit=500");
    assert_eq!(world.informers.poll_abandoned(), Some(jobs_watch));
    // Requested again meanwhile: the list in flight was sent too early.
    let second = world.informers.list_anew();
    assert!(second > round);
    let list = world.asks("jobs?limit=500");
    assert!(world.asked().is_none(), "Pods wait for their Jobs");
    let told = |known: Kinds, round| Notice::History {
        number: 0,
        known: Kinds::ALL,
        is_heard: true,
        round,
        listed: known,
    };
    let none = Kinds::ALL.without(Kind::Job).without(Kind::Pod);
    assert_eq!(world.notices(), [told(none, second)]);
    world.answer(first, page(30, &[job(20)]));
    assert_eq!(world.notices(), []);
    world.answer(list, page(31, &[job(20)]));
    let but_pods = Kinds::ALL.without(Kind::Pod);
    assert_eq!(
        world.notices().last(),
        Some(&told(but_pods, second)),
        "all stays known meanwhile"
    );
    world.asks("jobs?watch=true&allowWatchBookmarks=true&resourceVersion=31&");
    let list = world.asks("/api/v1/pods?limit=500");
    world.answer(list, page(32, &[]));
    assert_eq!(world.notices().last(), Some(&told(Kinds::ALL, second)));
    world.asks("/api/v1/pods?watch=true&allowWatchBookmarks=true&resourceVersion=32&");
    assert!(world.asked().is_none());
}

#[test]
fn a_list_that_is_wanted_waits_until_the_history_is_in_doubt_no_more() {
    let mut world = World::new();
    let watch = world.watch_from(10);
    world.event(watch, "ADDED", &job(20));
    world.hear(Input::Ended(
        watch,
        Some(ApiError::no_answer("connection reset")),
    ));
    world.informers.list_anew();
    world.pass(Duration::from_secs(1));
    let look = world.asks("namespaces/d/jobs?fieldSelector");
    world.answer(look, page(21, &[job(20)]));
    world.asks("jobs?limit=500");
}

/// A Pod of a namespace in protobuf, as of a version.
fn pod(namespace: &str, version: &str) -> Vec<u8> {
    let metadata = [
        bytes(1, "p"),
        bytes(3, namespace),
        bytes(5, "00000000-0000-0000-0000-000000000001"),
        bytes(6, version),
    ];
    bytes(1, metadata.concat())
}

#[test]
fn who_shares_asks_for_its_own_ranges_and_passes_over_what_comes_nevertheless() {
    for by in [Division::Remainder, Division::Interval] {
        let partition = Partition { ranges: 2, by };
        let namespace = |range| {
            let mut names = (0..).map(|number| format!("{number}-team"));
            names.find(|name| partition.range_of(name) == range)
        };
        let (ours, theirs) = (namespace(0).expect("one"), namespace(1).expect("one"));
        let mut world = World::of(vec![Kind::Pod]);
        let share = ReadRanges::new(partition, vec![true, false]);
        world.informers.read_only(share);
        let mut told = Vec::new();
        let mut hear = |world: &mut World, input| {
            world.informers.handle(input, world.now, &mut |news| {
                told.push(news.object.identity().2);
            });
        };
        let selects = |path: &str| {
            let range = "shardRange%28object.metadata.namespace%2C%20%270x0000000000000000%27%2C%20%270x8000000000000000%27%29";
            assert_eq!(
                path.ends_with(&format!("&shardSelector={range}")),
                by == Division::Interval,
                "{path}"
            );
        };
        let (list, path) = world.asked().expect("a list");
        selects(&path);
        let metadata = bytes(1, bytes(2, "9"));
        let items = [bytes(2, pod(&ours, "5")), bytes(2, pod(&theirs, "6"))].concat();
        let page = object(&[metadata, items].concat());
        hear(&mut world, Input::Answer(list, Ok(page.into())));
        let (watch, path) = world.asked().expect("a watch");
        selects(&path);
        hear(&mut world, Input::Opened(watch, Encoding::Protobuf));
        for (namespace, version) in [(&ours, "20"), (&theirs, "30")] {
            let whole = bytes(1, object(&pod(namespace, version)));
            let event = [bytes(1, "MODIFIED"), bytes(2, whole)].concat();
            let length = u32::try_from(event.len()).expect("it is short");
            let frame = [&length.to_be_bytes()[..], &event].concat();
            hear(&mut world, Input::Piece(watch, frame.into()));
        }
        assert_eq!(told, [5, 20]);
        // The watch has advanced past skipped objects, too. A smaller selection is requested at once.
        world
            .informers
            .read_only(ReadRanges::new(partition, vec![false, false]));
        if by == Division::Interval {
            assert_eq!(world.informers.poll_abandoned(), Some(watch));
        } else {
            assert_eq!(world.informers.poll_abandoned(), None);
            world.pass(Duration::from_secs(1));
            world.hear(Input::Ended(watch, None));
        }
        let (_, path) = world.asked().expect("a watch");
        assert!(path.contains("resourceVersion=30&"), "{path}");
    }
}

#[test]
fn a_page_that_is_too_long_is_asked_for_again_with_fewer_objects() {
    let mut world = World::new();
    let list = world.asks("jobs?limit=500&continue=");
    world.answer(list, token_page(10, "a", &[job(3)]));
    // The token stays valid: the first page is not listed again.
    for limit in [500, 62, 7] {
        let list = world.asks(&format!("jobs?limit={limit}&continue=a"));
        world.answer(list, Err(ApiError::too_long(32 << 20)));
    }
    let list = world.asks("jobs?limit=1&continue=a");
    world.answer(list, token_page(10, "b", &[job(4)]));
    // The page was short: pages grow again.
    let list = world.asks("jobs?limit=4&continue=b");
    world.answer(list, page(10, &[job(5)]));
    world.asks("jobs?watch=true&allowWatchBookmarks=true&resourceVersion=10&");
}

#[test]
fn a_server_that_cannot_make_a_page_in_time_is_asked_for_a_smaller_one() {
    for answer in [
        refused(504, "Timeout"),
        ApiError::no_answer("no answer within 60 s"),
    ] {
        let mut world = World::new();
        let list = world.asks("jobs?limit=500");
        world.pass(Duration::from_secs(60));
        world.answer(list, Err(answer));
        assert_eq!(world.asked(), None, "in a moment");
        world.pass(Duration::from_secs(1));
        world.asks("jobs?limit=62&continue=");
    }
    let mut world = World::new();
    let list = world.asks("jobs?limit=500");
    world.answer(list, Err(refused(413, "RequestEntityTooLarge")));
    world.pass(Duration::from_secs(1));
    world.asks("jobs?limit=62&continue=");
}

#[test]
fn pages_stay_short_where_objects_are_large() {
    let mut world = World::new();
    let mut large = job(3);
    large["spec"]["template"]["spec"]["x"] = json!("x".repeat(1 << 20));
    let list = world.asks("jobs?limit=500");
    world.answer(list, token_page(10, "a", &vec![large; 16]));
    // About 4 MiB.
    world.asks("jobs?limit=3&continue=a");
}

#[test]
fn an_object_longer_than_an_answer_may_be_stops_no_other() {
    let mut world = World::new();
    let mut told = Vec::new();
    let list = world.asks("jobs?limit=500&continue=");
    world.answer(list, token_page(10, "a", &[job(3)]));
    for limit in [500, 62, 7, 1] {
        let list = world.asks(&format!("jobs?limit={limit}&continue=a"));
        world.answer(list, Err(ApiError::too_long(32 << 20)));
    }
    let request = world.informers.poll_request(world.now).expect("a request");
    assert!(request.call.path.ends_with("jobs?limit=1&continue=a"));
    assert!(request.call.accept.contains("as=PartialObjectMetadataList"));
    let mut hidden = job(5);
    hidden["metadata"]["name"] = json!("large");
    hidden.as_object_mut().expect("an object").remove("spec");
    let answer = Input::Answer(request.id, token_page(10, "b", &[hidden]));
    world.informers.handle(answer, world.now, &mut |news| {
        let Observed::TooLong(found) = news.object else {
            panic!("{news:?}");
        };
        told.push((news.change, found.object.key.name.to_string()));
    });
    assert_eq!(told, [(Change::Listed(10), "large".to_owned())]);
    let list = world.asks("jobs?limit=1&continue=b");
    world.answer(list, page(10, &[job(7)]));
    assert!(world.notices().contains(&Notice::Complete(
        Extent {
            kind: Kind::Job,
            namespace: None
        },
        10
    )));
    world.asks("jobs?watch=true");
}

#[test]
fn an_event_longer_than_any_may_be_is_no_reason_to_watch_again_from_there() {
    let mut world = World::new();
    let watch = world.watch_from(10);
    world.event(watch, "ADDED", &job(12));
    world.hear(Input::Piece(watch, vec![b'x'; 33 << 20].into()));
    // A watch from there would bring the same event.
    world.asks("jobs?limit=500");
}

/// A page with more behind it.
fn token_page(version: u64, token: &str, items: &[Value]) -> Result<Bytes, ApiError> {
    let metadata = json!({"resourceVersion": version.to_string(), "continue": token});
    let list = json!({"metadata": metadata, "items": items});
    Ok(list.to_string().into())
}

#[test]
fn all_pages_of_a_list_have_the_version_of_the_first() {
    let mut world = World::new();
    let list = world.asks("jobs?limit=500");
    let first =
        json!({"metadata": {"resourceVersion": "10", "continue": "next"}, "items": [job(5)]});
    world.answer(list, Ok(first.to_string().into()));
    let list = world.asks("jobs?limit=500");
    let last = page(12, &[]);
    let mut changes = Vec::new();
    world
        .informers
        .handle(Input::Answer(list, last), world.now, &mut |news| {
            changes.push(news.change);
        });
    let extent = Extent {
        kind: Kind::Job,
        namespace: None,
    };
    assert!(world.notices().contains(&Notice::Complete(extent, 10)));
    let (_, watch) = world.asked().expect("a watch");
    assert!(watch.contains("resourceVersion=10"), "{watch}");
}

#[test]
fn a_watch_that_fails_again_and_again_is_opened_less_and_less_often() {
    let mut world = World::new();
    let mut watch = world.watch_from(10);
    let mut pauses = Vec::new();
    for _ in 0..5 {
        world.hear(Input::Ended(watch, Some(refused(500, "InternalError"))));
        let failed_at = world.now.monotonic;
        watch = loop {
            if let Some((id, path)) = world.asked() {
                if path.starts_with("jobs?watch=true") {
                    break id;
                }
                world.answer(id, page(10, &[]));
                continue;
            }
            let left = world.informers.poll_timeout().left(world.now);
            world.pass(left.expect("the watch is opened again"));
        };
        pauses.push(world.now.monotonic.since(failed_at));
    }
    assert!(pauses[4] > pauses[0] * 4, "{pauses:?}");
    // A watch that brings an event before it fails resets the backoff.
    world.hear(Input::Opened(watch, Encoding::Json));
    world.event(watch, "ADDED", &job(20));
    world.hear(Input::Ended(watch, Some(refused(500, "InternalError"))));
    assert_eq!(
        world.informers.poll_timeout().left(world.now),
        Some(Duration::from_millis(200))
    );
}
