//! Tests of replicas that share ranges, against a server with one Lease, step by step and at random.

use super::super::{
    Election, LeaseAnswer, LeaseCall, LeaseRecord, LeaseTimings, Role,
    tests::{Server, at},
};
use super::*;
use crate::model::{Division, Now, Partition, Time};

const RANGES: u32 = 6;

fn among(ranges: u32) -> Partition {
    Partition {
        ranges,
        by: Division::Remainder,
    }
}

fn replica(name: &str) -> Election {
    Election::sharing(name.to_owned(), among(RANGES), LeaseTimings::default())
}

fn has(one: &Election, now: Now) -> Vec<u32> {
    let mut all = 0..RANGES;
    all.by_ref()
        .filter(|range| one.range_until(*range, now.monotonic).is_some())
        .collect()
}

/// Each replica hands over its surplus, and all send requests until there are none left.
fn settle(server: &mut Server, all: &mut [&mut Election], secs: u64) {
    for _ in 0..10 {
        for one in &mut *all {
            // Each change arrives as a watch event.
            let heard = server.lease.clone().map(|lease| lease.record);
            one.hear(heard.as_ref(), at(secs).monotonic);
            server.serve(one, at(secs));
            for range in one.surplus(at(secs).monotonic) {
                one.give_up(range, at(secs).monotonic);
            }
            server.serve(one, at(secs));
        }
    }
}

fn entry(server: &Server, name: &str) -> Option<RosterEntry> {
    let roster = server.lease.as_ref()?.record.roster.as_ref()?;
    roster.0.get(name).cloned()
}

#[test]
fn a_joining_replica_gets_its_ranges_only_after_they_are_released() {
    let (mut server, mut one, mut two) = (Server::default(), replica("one"), replica("two"));
    server.serve(&mut one, at(0));
    assert_eq!(has(&one, at(0)).len(), 6);
    server.serve(&mut two, at(1));
    assert_eq!(two.role(at(1).monotonic), Role::Leader(at(11).monotonic));
    // The first replica still owns all ranges, and has not seen the second.
    assert_eq!((has(&one, at(1)).len(), has(&two, at(1)).len()), (6, 0));
    let heard = server.lease.clone().map(|lease| lease.record);
    one.hear(heard.as_ref(), at(1).monotonic);
    server.serve(&mut one, at(1));
    let surplus = one.surplus(at(1).monotonic);
    assert_eq!(surplus.len(), 3);
    // It may finish writes in flight; after it has handed a range over it may not.
    assert_eq!(has(&one, at(1)).len(), 6);
    for range in &surplus {
        one.give_up(*range, at(1).monotonic);
        assert!(one.range_until(*range, at(1).monotonic).is_none());
    }
    server.serve(&mut two, at(1));
    assert!(has(&two, at(1)).is_empty());
    settle(&mut server, &mut [&mut one, &mut two], 1);
    let gained: BTreeSet<u32> = has(&two, at(1)).into_iter().collect();
    assert_eq!((gained, has(&one, at(1)).len()), (surplus, 3));
    let lease = server.lease.clone().expect("a Lease");
    assert_eq!(lease.record.holder, "replicas-share-6");
    assert_eq!(lease.record.transitions, 0);
}

#[test]
fn ranges_of_a_silent_replica_are_redistributed_after_its_lease_expires() {
    let (mut server, mut one, mut two, mut three) = (
        Server::default(),
        replica("one"),
        replica("two"),
        replica("three"),
    );
    settle(&mut server, &mut [&mut one, &mut two, &mut three], 0);
    let before = [has(&one, at(0)), has(&two, at(0))];
    let lost = has(&three, at(0));
    assert_eq!(lost.len(), 2);
    for secs in 1..60 {
        server.serve(&mut one, at(secs));
        server.serve(&mut two, at(secs));
        let all = has(&one, at(secs)).len() + has(&two, at(secs)).len();
        match secs {
            0..15 => assert_eq!(all, 4, "{secs}"),
            20.. => assert_eq!(all, 6, "{secs}"),
            _ => {}
        }
    }
    for (had, one) in before.iter().zip([&one, &two]) {
        let has = has(one, at(59));
        assert!(
            had.iter().all(|range| has.contains(range)),
            "{had:?} {has:?}"
        );
        assert_eq!(has.len(), 3);
    }
    assert_eq!(entry(&server, "three"), None);
    // After its return it owns nothing until the others hand something over.
    assert!(has(&three, at(60)).is_empty());
    server.serve(&mut three, at(60));
    assert!(has(&three, at(60)).is_empty());
    settle(&mut server, &mut [&mut one, &mut two, &mut three], 60);
    assert_eq!(has(&three, at(60)).len(), 2);
}

#[test]
fn a_stopping_replica_releases_its_ranges_and_the_last_one_the_lease() {
    let (mut server, mut one, mut two) = (Server::default(), replica("one"), replica("two"));
    settle(&mut server, &mut [&mut one, &mut two], 0);
    one.stop(at(1).monotonic);
    server.serve(&mut one, at(1));
    assert_eq!(one.role(at(1).monotonic), Role::Stopped);
    settle(&mut server, &mut [&mut two], 1);
    assert_eq!(has(&two, at(1)).len(), 6);
    two.stop(at(2).monotonic);
    server.serve(&mut two, at(2));
    let record = server.lease.clone().expect("a Lease").record;
    assert_eq!((record.holder.as_str(), record.roster), ("", None));
}

#[test]
fn one_that_was_quicker_is_no_reason_to_wait() {
    let (mut server, mut one, mut two) = (Server::default(), replica("one"), replica("two"));
    settle(&mut server, &mut [&mut one, &mut two], 0);
    two.stop(at(1).monotonic);
    let release = two.poll_call(at(1)).expect("it leaves");
    server.serve(&mut one, at(2));
    two.answer(server.take(release), at(2));
    server.serve(&mut two, at(2));
    assert_eq!(two.role(at(2).monotonic), Role::Stopped);
    assert_eq!(entry(&server, "two"), None);
}

#[test]
fn repeated_stops_release_the_ranges_while_others_renew() {
    let (mut server, mut one, mut two) = (Server::default(), replica("one"), replica("two"));
    settle(&mut server, &mut [&mut one, &mut two], 0);
    two.stop(at(1).monotonic);
    // Another replica has renewed meanwhile, so the version that was read is old.
    server.serve(&mut one, at(2));
    for _ in 0..10 {
        two.stop(at(2).monotonic);
        if let Some(call) = two.poll_call(at(2)) {
            two.answer(server.take(call), at(2));
        }
    }
    assert_eq!(two.role(at(2).monotonic), Role::Stopped);
    assert_eq!(entry(&server, "two"), None);
}

#[test]
fn a_sole_leader_and_other_sharing_settings_exclude_each_other() {
    let (mut server, mut one) = (Server::default(), replica("one"));
    server.serve(&mut one, at(0));
    let mut others = [
        Election::new("alone".to_owned(), LeaseTimings::default()),
        Election::sharing("eight".to_owned(), among(8), LeaseTimings::default()),
    ];
    for secs in 1..40 {
        server.serve(&mut one, at(secs));
        for other in &mut others {
            server.serve(other, at(secs));
            assert_eq!(other.role(at(secs).monotonic), Role::Standby);
        }
    }
    assert_eq!(has(&one, at(39)).len(), 6);
    // They take the Lease as that of a single leader. Then the first replica is the one that waits.
    one.stop(at(40).monotonic);
    server.serve(&mut one, at(40));
    others[0].hear(None, at(41).monotonic);
    let mut one = replica("one");
    for secs in 41..60 {
        server.serve(&mut others[0], at(secs));
        server.serve(&mut one, at(secs));
        assert!(has(&one, at(secs)).is_empty());
    }
    assert!(matches!(others[0].role(at(59).monotonic), Role::Leader(_)));
    assert_eq!(server.lease.clone().expect("a Lease").record.roster, None);
}

#[test]
fn a_damaged_roster_has_no_owners_until_the_lease_expires() {
    for damaged in [None, Some(["one", "two"])] {
        let (mut server, mut one, mut two) = (Server::default(), replica("one"), replica("two"));
        settle(&mut server, &mut [&mut one, &mut two], 0);
        let record = server.lease.clone().expect("a Lease").record;
        let roster = damaged.map(|names| {
            let entry = RosterEntry {
                ranges: BTreeSet::from([1]),
                ..RosterEntry::default()
            };
            Roster(names.map(|name| (name.to_owned(), entry.clone())).into())
        });
        server.write(LeaseRecord { roster, ..record });
        for secs in 2..40 {
            server.serve(&mut one, at(secs));
            server.serve(&mut two, at(secs));
            let (ones, twos) = (has(&one, at(secs)), has(&two, at(secs)));
            assert!(!ones.iter().any(|range| twos.contains(range)));
            if (4..16).contains(&secs) {
                assert!(
                    ones.is_empty() && twos.is_empty(),
                    "{secs} {ones:?} {twos:?}"
                );
            }
        }
        settle(&mut server, &mut [&mut one, &mut two], 40);
        assert_eq!((has(&one, at(40)).len(), has(&two, at(40)).len()), (3, 3));
    }
}

#[test]
fn the_lease_is_left_alone_as_long_as_the_most_patient_one_asks_for() {
    let patient = LeaseTimings {
        lease_duration: Duration::from_secs(60),
        renew_deadline: Duration::from_secs(40),
        ..LeaseTimings::default()
    };
    let mut server = Server::default();
    let mut one = Election::sharing("one".to_owned(), among(RANGES), patient);
    let mut two = replica("two");
    settle(&mut server, &mut [&mut one, &mut two], 0);
    server.serve(&mut two, at(4));
    let mut alone = Election::new("alone".to_owned(), LeaseTimings::default());
    for secs in 4..64 {
        server.serve(&mut alone, at(secs));
        assert_eq!(alone.role(at(secs).monotonic), Role::Standby);
    }
    // Nor does the other replica take its ranges before.
    let mut two = replica("three");
    for secs in 64..123 {
        server.serve(&mut two, at(secs));
        assert!(entry(&server, "one").is_some(), "{secs}");
    }
    for secs in 123..130 {
        server.serve(&mut two, at(secs));
    }
    assert_eq!(has(&two, at(129)).len(), 6);
}

/// The wait before a renewal grows with the number of replicas and the duration of a renewal, but not past the deadline.
#[test]
fn a_slow_lease_of_many_is_renewed_before_the_deadline() {
    let (mut server, mut one) = (Server::default(), replica("one"));
    for name in ["two", "three", "four", "five", "six"] {
        server.serve(&mut replica(name), at(0));
    }
    // Each request takes two seconds. The deadline of the first update passes at 12 s.
    for secs in [0, 2, 6, 8] {
        let call = one.poll_call(at(secs)).expect("a read, then an update");
        one.answer(server.take(call), at(secs + 2));
    }
    assert_eq!(one.role(at(10).monotonic), Role::Leader(at(18).monotonic));
}

/// A client removes an entry and its owner writes it again: other replicas still see that it is alive.
#[test]
fn no_beat_comes_again() {
    let (mut server, mut one) = (Server::default(), replica("one"));
    let mut beats = BTreeSet::new();
    for secs in 0..20 {
        server.serve(&mut one, at(secs * 2));
        let beat = entry(&server, "one").expect("its entry").beat;
        assert!(beats.insert(beat), "{beats:?}");
        let record = server.lease.clone().expect("a Lease").record;
        server.write(LeaseRecord {
            roster: Some(Roster::default()),
            ..record
        });
    }
}

/// Requests are lost, delayed or succeed without a response, processes are suspended, some replicas lead alone and some
/// count other ranges. No range ever has two owners. When all faults are over, each range has one owner, and no replica
/// has two more than another.
#[test]
#[cfg_attr(debug_assertions, ignore = "slow without optimization")]
fn no_range_is_ever_of_two_and_in_the_end_each_is_of_one() {
    for seed in 0..120_u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut below = |bound: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % bound
        };
        let mut server = Server::default();
        let mut names = 3;
        let mut all: Vec<_> = ["one", "two", "three"].map(replica).into();
        let mut frozen = [0_u64; 3];
        let mut issued = [0_u64; 3];
        // When each replica will have finished the writes in flight of a range to hand over.
        let mut finishes: Vec<(usize, u32, u64)> = Vec::new();
        let mut calls: Vec<(usize, u64, LeaseCall, u64)> = Vec::new();
        let mut answers: Vec<(usize, u64, LeaseAnswer, u64)> = Vec::new();
        let now = |tenth: u64| Now::at(Time::from_secs(1_000)) + Duration::from_millis(tenth * 100);
        for tenth in 0..3_000 {
            let (is_calm, time) = (tenth > 2_000, now(tenth));
            for who in 0..3 {
                if !is_calm && below(600) == 0 {
                    frozen[who] = tenth + below(300);
                }
                if frozen[who] > tenth {
                    continue;
                }
                let is_strange = all[who].surplus(time.monotonic).is_empty()
                    && all[who].identity() != "replicas-share-6";
                if all[who].is_over() || (is_calm && is_strange) {
                    names += 1;
                    let name = names.to_string();
                    all[who] = match below(8) {
                        0 if !is_calm => Election::new(name, LeaseTimings::default()),
                        1 if !is_calm => Election::sharing(name, among(5), LeaseTimings::default()),
                        _ => replica(&name),
                    };
                    issued[who] += 1;
                    finishes.retain(|of| of.0 != who);
                }
                if !is_calm && below(1_000) == 0 {
                    all[who].stop(time.monotonic);
                }
                while let Some(found) = answers.iter().position(|of| of.0 == who && of.3 <= tenth) {
                    let (_, number, answer, _) = answers.remove(found);
                    if number == issued[who] {
                        all[who].answer(answer, time);
                    }
                }
                if below(10) < 5 {
                    let heard = server.lease.clone().map(|lease| lease.record);
                    all[who].hear(heard.as_ref(), time.monotonic);
                }
                for range in all[who].surplus(time.monotonic) {
                    if !finishes.iter().any(|of| (of.0, of.1) == (who, range)) {
                        finishes.push((who, range, tenth + below(60)));
                    }
                }
                while let Some(found) = finishes.iter().position(|of| of.0 == who && of.2 <= tenth)
                {
                    let (_, range, _) = finishes.remove(found);
                    all[who].give_up(range, time.monotonic);
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
            let is_alone = |one: &&Election| {
                let leads = matches!(one.role(time.monotonic), Role::Leader(_));
                leads && !one.identity().starts_with("replicas-share")
            };
            let alone = all.iter().filter(is_alone).count();
            let mut groups: Vec<&str> = all
                .iter()
                .filter(|one| !has(one, time).is_empty())
                .map(Election::identity)
                .collect();
            groups.dedup();
            assert!(
                alone + groups.len() <= 1 || groups.len() == 1 && alone == 0,
                "seed {seed}"
            );
            for range in 0..RANGES {
                let of = all.iter();
                let of = of.filter(|one| one.range_until(range, time.monotonic).is_some());
                assert!(of.count() <= 1, "seed {seed}, {tenth}, range {range}");
            }
        }
        let counts: Vec<usize> = all.iter().map(|one| has(one, now(2_999)).len()).collect();
        assert_eq!(counts, [2, 2, 2], "seed {seed}");
    }
}
