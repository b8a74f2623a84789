//! Runs a candidate against a server that refuses, does not respond, or returns foreign content, second by second.

use std::{io, time::Duration};

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::*;
use lakh_model::Time;

/// The server's behavior for requests about the Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Server {
    Good,
    /// It refuses writes, dry runs included, with this code.
    RefusesWrites(u16),
    /// It accepts a request and does not respond.
    IsSilent,
    /// It responds with success and a page of a proxy.
    IsForeign,
}

struct World {
    candidate: Candidate,
    metrics: Arc<Metrics>,
    now: Now,
    lease: Value,
    log: Arc<Mutex<Vec<u8>>>,
    dry_runs: u32,
}

/// Writes to a log that can be read meanwhile.
struct LogWriter(Arc<Mutex<Vec<u8>>>);

impl io::Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl World {
    /// Creates a world in which `holder` holds the Lease; empty for a Lease without holder.
    fn new(holder: &str) -> Self {
        let metrics = Arc::new(Metrics::default());
        let election = LeaderElection {
            namespace: "lakh-system".to_owned(),
            name: "lakh".to_owned(),
            identity: "one".to_owned(),
            timings: LeaseTimings::default(),
            partition: None,
        };
        Self {
            candidate: Candidate::new(election, Arc::clone(&metrics)),
            metrics,
            now: Now::at(Time::from_secs(1_000_000)),
            lease: json!({
                "metadata": {"name": "lakh", "namespace": "lakh-system", "resourceVersion": "1",
                    "uid": "00000000-0000-0000-0000-000000000001"},
                "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15},
            }),
            log: Arc::default(),
            dry_runs: 0,
        }
    }

    /// Runs this many seconds against this server. Another holder renews the Lease every second.
    fn run(&mut self, seconds: u32, server: Server) {
        let log = Arc::clone(&self.log);
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || LogWriter(Arc::clone(&log)))
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            for _ in 0..seconds {
                self.second(server);
            }
        });
    }

    fn second(&mut self, server: Server) {
        if self.lease["spec"]["holderIdentity"] == "two" {
            self.change(|_| {});
        }
        while let Some(request) = self.candidate.poll_request(self.now) {
            if request.is_watch || server == Server::IsSilent {
                continue;
            }
            let answer = self.answer(&request.call, server);
            self.candidate
                .handle(Input::Answer(request.id, answer), self.now);
            let _ = self.candidate.poll_change(self.now);
        }
        let _ = self.candidate.poll_change(self.now);
        self.now = self.now + Duration::from_secs(1);
    }

    fn change(&mut self, change: impl FnOnce(&mut Value)) {
        change(&mut self.lease);
        let renewed = self.now.wall.to_rfc3339_micros();
        self.lease["spec"]["renewTime"] = json!(renewed);
        let version = &mut self.lease["metadata"]["resourceVersion"];
        let next: u64 = version
            .as_str()
            .and_then(|it| it.parse().ok())
            .expect("a number");
        *version = json!((next + 1).to_string());
    }

    fn answer(&mut self, call: &Call, server: Server) -> CallResult {
        let is_write = call.method != "GET";
        let is_dry = call.path.ends_with("?dryRun=All");
        self.dry_runs += u32::from(is_dry);
        match server {
            Server::IsForeign => return Ok(Bytes::from_static(b"<html>Sign in</html>")),
            Server::RefusesWrites(code) if is_write => {
                return Err(ApiError::from_response(code, b"no", None));
            }
            _ => {}
        }
        if is_write && !is_dry {
            let sent: Value = serde_json::from_slice(&call.body).expect("JSON");
            self.change(|lease| lease["spec"] = sent["spec"].clone());
        }
        Ok(Bytes::from(self.lease.to_string()))
    }

    /// Returns the times in seconds of the log lines with these words.
    fn lines(&self, words: &str) -> Vec<String> {
        let log = String::from_utf8(self.log.lock().clone()).expect("text");
        let lines = log.lines().filter(|line| line.contains(words));
        lines.map(str::to_owned).collect()
    }

    fn problem(&self) -> Option<String> {
        let grace = Duration::from_secs(30);
        self.metrics.lease_problem(grace, self.now.monotonic)
    }

    fn leads(&self) -> bool {
        matches!(self.candidate.role(), Role::Leader(_))
    }
}

#[test]
fn a_lease_that_cannot_be_written_is_reported_ever_more_rarely_and_fails_the_probe() {
    for code in [403, 422, 500] {
        let mut world = World::new("");
        world.run(120, Server::RefusesWrites(code));
        let lines = world.lines("could not write the Lease");
        assert_eq!(lines.len(), 4, "after 0, 10, 30 and 70 s: {lines:?}");
        assert!(lines[0].contains("what=\"update\""), "{lines:?}");
        assert_eq!(world.lines("the Lease can be written again").len(), 0);
        assert!(
            world
                .problem()
                .is_some_and(|it| it.contains("could not be written for"))
        );
        world.run(3, Server::Good);
        assert!(world.leads());
        assert_eq!(world.problem(), None);
        assert_eq!(world.lines("the Lease can be written again").len(), 1);
    }
}

#[test]
fn a_standby_learns_that_it_could_not_lead() {
    let mut world = World::new("two");
    world.run(1, Server::RefusesWrites(403));
    let problem = world.problem().expect("it has never written");
    assert!(
        problem.contains("dry run of an update: HTTP 403 no"),
        "{problem}"
    );
    world.run(12, Server::Good);
    assert_eq!(world.problem(), None);
    // Once a minute is enough, and a short failure does not count.
    let before = world.dry_runs;
    world.run(300, Server::Good);
    assert!((4..=6).contains(&(world.dry_runs - before)));
    world.run(62, Server::RefusesWrites(403));
    world.run(12, Server::Good);
    assert_eq!(world.problem(), None);
    world.run(120, Server::RefusesWrites(403));
    assert!(world.problem().is_some());
    assert!(!world.leads(), "a dry run is no write");
    assert_eq!(world.lease["spec"]["holderIdentity"], "two");
}

#[test]
fn a_webhook_without_dry_runs_says_nothing_about_writes() {
    let mut world = World::new("two");
    world.run(1, Server::Good);
    let refused = br#"{"message":"admission webhook \"w\" does not support dry run"}"#;
    let error = ApiError::from_response(400, refused, None);
    let now = world.now;
    world.candidate.read(Err(error), LeaseVerb::DryRun, now);
    assert_eq!(world.problem(), None);
}

#[test]
fn a_silent_server_is_named_as_the_reason_why_the_lease_was_lost() {
    let mut world = World::new("");
    world.run(5, Server::Good);
    assert!(world.leads());
    world.run(30, Server::IsSilent);
    assert!(!world.leads());
    let lines = world.lines("could not write the Lease");
    assert!(lines[0].contains("no answer within 5 s"), "{lines:?}");
    let lost = world.lines("lost the Lease").join("\n");
    assert!(lost.contains("not renewed for 10 s"), "{lost}");
    assert!(lost.contains("no answer within 5 s"), "{lost}");
    assert!(!lost.contains("holder="), "it is no one else's: {lost}");
    let reads = world.lines("what=\"lease\"").join("\n");
    assert!(reads.contains("no answer within 5 s"), "{reads}");
}

#[test]
fn a_lease_that_another_took_is_lost_to_that_one() {
    let mut world = World::new("");
    world.run(5, Server::Good);
    world.change(|lease| lease["spec"]["holderIdentity"] = json!("two"));
    let now = world.now;
    // Its next renewal is refused, because it is on top of an older version.
    let conflict = Err(ApiError::from_response(409, b"", None));
    let request = loop {
        match world.candidate.poll_request(world.now) {
            Some(request) => break request,
            None => world.now = world.now + Duration::from_secs(1),
        }
    };
    world
        .candidate
        .handle(Input::Answer(request.id, conflict), now);
    world.run(3, Server::Good);
    let lost = world.lines("lost the Lease").join("\n");
    assert!(lost.contains(r#"holder="two""#), "{lost}");
    assert!(lost.contains("another replica holds the Lease"), "{lost}");
}

#[test]
fn a_success_response_without_a_lease_does_not_make_a_leader() {
    let mut world = World::new("");
    world.run(30, Server::IsForeign);
    assert!(!world.leads());
    let lines = world.lines("what=\"lease\"");
    assert!(lines[0].contains("Sign in"), "{lines:?}");
    world.run(3, Server::Good);
    world.run(12, Server::IsForeign);
    assert!(!world.leads(), "a renewal without an answer is none");
}
