//! Tests of an election against a server with one Lease, step by step and at random.

use super::*;
use crate::model::Time;

const SECOND: Duration = Duration::from_secs(1);

/// A server with one Lease.
#[derive(Default)]
pub(super) struct Server {
    pub(super) lease: Option<Lease>,
    writes: u64,
}

impl Server {
    pub(super) fn take(&mut self, call: LeaseCall) -> LeaseAnswer {
        match (call, &self.lease) {
            (LeaseCall::Get, None) | (LeaseCall::Update(_), None) => return LeaseAnswer::NotFound,
            (LeaseCall::Get, Some(lease)) => return LeaseAnswer::Found(lease.clone()),
            (LeaseCall::Create(record), None) => self.write(record),
            (LeaseCall::Create(_), Some(_)) => return LeaseAnswer::Failed,
            (LeaseCall::Update(update), Some(lease)) if update.version == lease.version => {
                self.write(update.record);
            }
            (LeaseCall::Update(_), Some(_)) => return LeaseAnswer::Failed,
        }
        LeaseAnswer::Found(self.lease.clone().expect("it was written"))
    }

    pub(super) fn write(&mut self, record: LeaseRecord) {
        self.writes += 1;
        let version = self.writes.to_string();
        self.lease = Some(Lease { record, version });
    }

    /// Answers all requests that are due.
    pub(super) fn serve(&mut self, election: &mut Election, now: Now) {
        while let Some(call) = election.poll_call(now) {
            election.answer(self.take(call), now);
        }
    }

    fn holder(&self) -> &str {
        let lease = self.lease.as_ref();
        lease.map_or("", |lease| lease.record.holder.as_str())
    }
}

fn election(name: &str) -> Election {
    Election::new(name.to_owned(), LeaseTimings::default())
}

pub(super) fn at(secs: u64) -> Now {
    Now::at(Time::from_secs(1_000)) + SECOND * u32::try_from(secs).expect("few")
}

fn leads(election: &Election, now: Now) -> bool {
    matches!(election.role(now.monotonic), Role::Leader(_))
}

#[test]
fn the_first_leads_and_renews_and_the_second_waits_for_the_leases_end() {
    let (mut server, mut one, mut two) = (Server::default(), election("one"), election("two"));
    server.serve(&mut one, at(0));
    for secs in 0..60 {
        server.serve(&mut one, at(secs));
        server.serve(&mut two, at(secs));
        assert!(leads(&one, at(secs)) && !leads(&two, at(secs)));
    }
    assert_eq!((server.writes, two.holder()), (30, Some("one")));
    let record = server.lease.clone().expect("a Lease").record;
    assert_eq!(
        record,
        LeaseRecord {
            holder: "one".to_owned(),
            seconds: 15,
            acquired: Some(at(0).wall),
            renewed: Some(at(58).wall),
            transitions: 0,
            roster: None,
        }
    );
    // Its last renewal was seen at 58 s or later.
    let ends = (59..100).find(|secs| {
        server.serve(&mut two, at(*secs));
        leads(&two, at(*secs))
    });
    assert!(
        (73..=78).contains(&ends.expect("it takes over")),
        "{ends:?}"
    );
    let record = server.lease.clone().expect("a Lease").record;
    assert_eq!((record.holder.as_str(), record.transitions), ("two", 1));
    assert_eq!(record.acquired, record.renewed);
}

#[test]
fn a_leader_that_cannot_renew_stops_before_another_may_start() {
    let (mut server, mut one) = (Server::default(), election("one"));
    server.serve(&mut one, at(0));
    // The first renewal is sent after 2 s and fails at once, and so do all further requests.
    for secs in 1..10 {
        while one.poll_call(at(secs)).is_some() {
            one.answer(LeaseAnswer::Failed, at(secs));
        }
        assert!(leads(&one, at(secs)));
    }
    assert_eq!(one.role(at(10).monotonic), Role::Standby);
    // No replica took the Lease: the old leader leads again as soon as it can write.
    server.serve(&mut one, at(11));
    assert_eq!(one.role(at(11).monotonic), Role::Leader(at(21).monotonic));
}

#[test]
fn a_candidate_without_write_access_pauses_between_attempts() {
    let (mut server, mut one) = (Server::default(), election("one"));
    server.serve(&mut one, at(0));
    for secs in 1..30 {
        let mut calls = 0;
        while let Some(call) = one.poll_call(at(secs)) {
            calls += 1;
            assert!(calls <= 3, "{calls} calls at once after {secs} s");
            let answer = match call {
                LeaseCall::Update(_) => LeaseAnswer::Failed,
                call => server.take(call),
            };
            one.answer(answer, at(secs));
        }
        assert_eq!(leads(&one, at(secs)), secs < 10);
    }
    server.serve(&mut one, at(40));
    assert!(leads(&one, at(40)));
}

#[test]
fn the_deadline_counts_from_when_a_renewal_was_sent() {
    let (mut server, mut one) = (Server::default(), election("one"));
    server.serve(&mut one, at(0));
    let call = one.poll_call(at(2)).expect("it is renewed");
    one.answer(server.take(call), at(6));
    assert_eq!(one.role(at(6).monotonic), Role::Leader(at(12).monotonic));
}

#[test]
fn an_answer_that_does_not_come_is_not_waited_for() {
    let (mut server, mut one) = (Server::default(), election("one"));
    server.serve(&mut one, at(0));
    let lost = one.poll_call(at(2)).expect("it is renewed");
    // The renewal took effect, but its response is lost.
    server.take(lost);
    assert_eq!(one.poll_call(at(6)), None);
    assert_eq!(one.poll_timeout(), at(7).monotonic.into());
    assert_eq!(one.poll_call(at(7)), Some(LeaseCall::Get));
    one.answer(server.take(LeaseCall::Get), at(7));
    server.serve(&mut one, at(7));
    assert_eq!(one.role(at(7).monotonic), Role::Leader(at(17).monotonic));
}

#[test]
fn a_candidate_takes_a_released_lease_at_once() {
    let (mut server, mut one, mut two) = (Server::default(), election("one"), election("two"));
    server.serve(&mut one, at(0));
    server.serve(&mut two, at(1));
    // Events for a held Lease change nothing.
    let heard = |server: &Server| server.lease.clone().map(|lease| lease.record);
    two.hear(heard(&server).as_ref(), at(1).monotonic);
    assert_eq!(two.poll_call(at(1)), None);
    one.stop(at(1).monotonic);
    server.serve(&mut one, at(1));
    two.hear(heard(&server).as_ref(), at(1).monotonic);
    assert_eq!(two.poll_timeout(), at(1).monotonic.into());
    server.serve(&mut two, at(1));
    assert!(leads(&two, at(1)));
    // A leader does not react to it.
    two.hear(None, at(1).monotonic);
    assert_eq!(two.poll_call(at(1)), None);
}

#[test]
fn a_leader_that_reads_another_holder_stops() {
    let (mut server, mut one) = (Server::default(), election("one"));
    server.serve(&mut one, at(0));
    server.write(LeaseRecord {
        holder: "two".to_owned(),
        ..LeaseRecord::default()
    });
    server.serve(&mut one, at(2));
    assert_eq!(one.role(at(2).monotonic), Role::Standby);
    assert_eq!(server.holder(), "two");
}

#[test]
fn a_lease_that_is_given_back_is_taken_at_the_next_try() {
    let (mut server, mut one, mut two) = (Server::default(), election("one"), election("two"));
    server.serve(&mut one, at(0));
    server.serve(&mut two, at(1));
    // Asked to stop while a renewal is in flight.
    let renewal = one.poll_call(at(2)).expect("it is renewed");
    one.stop(at(2).monotonic);
    assert_eq!(one.poll_call(at(2)), None);
    one.answer(server.take(renewal), at(3));
    server.serve(&mut one, at(3));
    assert_eq!(
        (server.holder(), one.role(at(3).monotonic)),
        ("", Role::Stopped)
    );
    assert_eq!(
        server.lease.as_ref().map(|lease| lease.record.seconds),
        Some(1)
    );
    let due = two.poll_timeout().monotonic.expect("it tries again");
    assert!(due <= at(6).monotonic);
    server.serve(&mut two, at(6));
    assert!(leads(&two, at(6)));
    // A replica that never led has nothing to release.
    let mut three = election("three");
    three.stop(at(6).monotonic);
    assert_eq!((three.poll_call(at(6)), server.holder()), (None, "two"));
}

#[test]
fn a_longer_lease_of_another_is_left_alone_for_longer() {
    let (mut server, mut two) = (Server::default(), election("two"));
    server.write(LeaseRecord {
        holder: "one".to_owned(),
        seconds: 60,
        ..LeaseRecord::default()
    });
    for secs in 0..60 {
        server.serve(&mut two, at(secs));
        assert!(!leads(&two, at(secs)));
    }
    server.serve(&mut two, at(65));
    assert!(leads(&two, at(65)));
}

#[test]
fn a_deleted_lease_is_created_again() {
    let (mut server, mut one) = (Server::default(), election("one"));
    server.serve(&mut one, at(0));
    server.lease = None;
    server.serve(&mut one, at(2));
    assert!(leads(&one, at(2)) && server.holder() == "one");
}

/// Requests are lost, delayed or succeed without a response, and processes are suspended. Two replicas never lead at
/// once, and one leads when all faults are over.
#[test]
fn never_two_and_in_the_end_one() {
    for seed in 0..500_u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut below = |bound: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % bound
        };
        let mut server = Server::default();
        let mut all: Vec<_> = ["one", "two", "three"].map(election).into();
        let mut names = 3;
        let mut frozen = [0_u64; 3];
        let mut issued = [0_u64; 3];
        // The requests in flight: sender, number, request, and arrival time.
        let mut calls: Vec<(usize, u64, LeaseCall, u64)> = Vec::new();
        let mut answers: Vec<(usize, u64, LeaseAnswer, u64)> = Vec::new();
        let now = |tenth: u64| at(0) + Duration::from_millis(tenth * 100);
        for tenth in 0..3_000 {
            let (is_calm, time) = (tenth > 2_000, now(tenth));
            for who in 0..3 {
                if !is_calm && below(600) == 0 {
                    frozen[who] = tenth + below(300);
                }
                if frozen[who] > tenth {
                    continue;
                }
                if all[who].is_over() {
                    names += 1;
                    all[who] = election(&names.to_string());
                    issued[who] += 1;
                }
                if !is_calm && below(2_000) == 0 {
                    all[who].stop(time.monotonic);
                }
                while let Some(found) = answers.iter().position(|of| of.0 == who && of.3 <= tenth) {
                    let (_, number, answer, _) = answers.remove(found);
                    if number == issued[who] {
                        all[who].answer(answer, time);
                    }
                }
                if let Some(call) = all[who].poll_call(time) {
                    issued[who] += 1;
                    let takes = if is_calm { 1 } else { below(60) };
                    calls.push((who, issued[who], call, tenth + takes));
                }
            }
            while let Some(found) = calls.iter().position(|of| of.3 <= tenth) {
                let (who, number, call, _) = calls.remove(found);
                let answer = match below(5) {
                    0 if !is_calm => LeaseAnswer::Failed,
                    _ => server.take(call),
                };
                if is_calm || below(5) > 0 {
                    answers.push((who, number, answer, tenth + below(10)));
                }
            }
            let leaders = all.iter().filter(|one| leads(one, time)).count();
            assert!(leaders <= 1, "seed {seed}, {tenth}");
        }
        let leaders = all.iter().filter(|one| leads(one, now(2_999))).count();
        assert_eq!(leaders, 1, "seed {seed}");
    }
}

#[test]
fn timings_fit_together() {
    let usual = LeaseTimings::default();
    assert_eq!(usual.check(), Ok(()));
    let bad = |lease, renew, retry| {
        let timings = LeaseTimings {
            lease_duration: SECOND * lease,
            renew_deadline: SECOND * renew,
            retry_period: SECOND * retry,
        };
        timings.check()
    };
    assert_eq!(bad(10, 10, 2), Err(BadTimings::Lease));
    assert_eq!(bad(15, 2, 2), Err(BadTimings::Renew));
    assert_eq!(bad(0, 0, 2), Err(BadTimings::Odd));
    assert_eq!(bad(15, 10, 0), Err(BadTimings::Odd));
    let odd = LeaseTimings {
        lease_duration: Duration::from_millis(15_500),
        ..usual
    };
    assert_eq!(odd.check(), Err(BadTimings::Odd));
}
