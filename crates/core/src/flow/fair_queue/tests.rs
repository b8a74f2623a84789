//! Tests of the fair queue: turns, shares, refusals.

use super::*;

type Queue = FairQueue<&'static str, u32, u32>;

const NOW: Duration = Duration::from_secs(100);

/// The refusal by a busy server of a write sent at `sent`.
fn busy(sent: Duration, pause: f64) -> WriteAnswer {
    let pause = secs(pause);
    WriteAnswer::Busy { sent, pause }
}

fn secs(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// A queue with `max` places, in which each Job has `writes` writes.
fn queue(max: usize, jobs: &[(&'static str, u32)], writes: u32) -> Queue {
    let mut queue = Queue::new(max);
    for write in 0..writes {
        for (tenant, job) in jobs {
            queue.push(tenant, job, Rank::Usual, write);
        }
    }
    queue
}

/// Takes the next write and completes it at once.
fn next(queue: &mut Queue) -> Option<(&'static str, u32)> {
    let (tenant, job, _) = queue.pop(NOW)?;
    queue.done(&tenant, &job, WriteAnswer::Taken, NOW);
    Some((tenant, job))
}

/// Takes all writes that may be sent. Returns their number per Job.
fn fill(queue: &mut Queue, now: Duration) -> HashMap<(&'static str, u32), usize> {
    let mut under_way = HashMap::new();
    while let Some((tenant, job, _)) = queue.pop(now) {
        *under_way.entry((tenant, job)).or_default() += 1;
    }
    under_way
}

#[test]
fn tenants_have_their_turns_and_jobs_within_them() {
    let mut queue = queue(1, &[("a", 1), ("a", 2), ("b", 3)], 100);
    let mut given = HashMap::<_, usize>::new();
    for _ in 0..16 * BATCH {
        *given
            .entry(next(&mut queue).expect("all have more"))
            .or_default() += 1;
    }
    let of = |key| given[&key];
    assert!(of(("b", 3)).abs_diff(8 * BATCH) <= BATCH, "{given:?}");
    assert!(of(("a", 1)).abs_diff(of(("a", 2))) <= BATCH, "{given:?}");
    let rest = std::iter::from_fn(|| next(&mut queue)).count();
    assert_eq!(rest, 300 - 16 * BATCH);
    assert!(queue.tenants.is_empty() && queue.turns.is_empty() && queue.is_empty());
}

#[test]
fn a_newcomer_waits_for_one_write_of_the_others() {
    for tenant in ["a", "b"] {
        let mut queue = queue(1, &[("a", 1), ("a", 2)], 100);
        for _ in 0..7 {
            next(&mut queue);
        }
        queue.push(&tenant, &3, Rank::Usual, 0);
        let newcomer = Some((tenant, 3));
        assert!(next(&mut queue) == newcomer || next(&mut queue) == newcomer);
    }
}

#[test]
fn a_newcomer_keeps_its_call_while_its_tenant_has_no_room() {
    let jobs: Vec<_> = (1..=20).map(|job| ("a", job)).collect();
    let mut queue = queue(96, &jobs, 100);
    let mut in_flight: Vec<_> = std::iter::from_fn(|| queue.pop(NOW)).collect();
    queue.push(&"a", &100, Rank::Usual, 0);
    assert_eq!(queue.pop(NOW), None, "what is free is for other tenants");
    let next = (0..2).filter_map(|_| {
        let (tenant, job, _) = in_flight.pop()?;
        queue.done(&tenant, &job, WriteAnswer::Taken, NOW);
        queue.pop(NOW)
    });
    let next: Vec<_> = next.map(|(_, job, _)| job).collect();
    assert!(next.len() == 2 && next.contains(&100), "{next:?}");
}

#[test]
fn a_crowd_of_newcomers_does_not_hold_up_another_tenants() {
    let crowd: Vec<_> = (1..=100).map(|job| ("a", job)).collect();
    let mut queue = queue(1, &crowd, 1);
    queue.push(&"b", &1, Rank::Usual, 0);
    let first: Vec<_> = (0..4).filter_map(|_| next(&mut queue)).collect();
    assert!(first.contains(&("b", 1)), "{first:?}");
}

#[test]
fn newcomers_do_not_keep_a_giant_from_its_turn() {
    let mut queue = queue(1, &[("a", 0)], 100);
    next(&mut queue);
    let mut of_giant = 0;
    for newcomer in 1..=100 {
        queue.push(&"a", &newcomer, Rank::Usual, 0);
        of_giant += usize::from(next(&mut queue) == Some(("a", 0)));
    }
    assert_eq!(of_giant, 50);
}

#[test]
fn urgent_writes_go_first() {
    let mut queue = queue(1, &[("a", 1), ("b", 2)], 20);
    for _ in 0..4 {
        next(&mut queue);
    }
    queue.push(&"a", &1, Rank::Urgent, 1000);
    queue.push(&"b", &2, Rank::Urgent, 1000);
    let urgent = (0..4).filter(|_| {
        let (tenant, job, item) = queue.pop(NOW).expect("there are more");
        queue.done(&tenant, &job, WriteAnswer::Taken, NOW);
        item == 1000
    });
    assert_eq!(urgent.count(), 2);
}

#[test]
fn no_tenant_takes_all_permits_and_a_new_one_gets_one() {
    let of = |jobs: &[(&'static str, u32)]| {
        let mut queue = queue(96, jobs, 200);
        let under_way = fill(&mut queue, NOW);
        queue.push(&"new", &100, Rank::Usual, 0);
        assert!(queue.pop(NOW).is_some(), "{under_way:?}");
        jobs.iter().map(|job| under_way[job]).collect::<Vec<_>>()
    };
    assert_eq!(of(&[("a", 1)]), [64]);
    let of_two = of(&[("a", 1), ("b", 2)]);
    assert!(
        of_two.iter().all(|count| (36..=42).contains(count)),
        "{of_two:?}"
    );
    let of_one_tenant: usize = of(&[("a", 1), ("a", 2), ("a", 3), ("a", 4)]).iter().sum();
    assert_eq!(of_one_tenant, 77);
    // A small limit works, too.
    assert_eq!(fill(&mut queue(1, &[("a", 1)], 9), NOW)[&("a", 1)], 1);
    assert_eq!(fill(&mut queue(2, &[("a", 1)], 9), NOW)[&("a", 1)], 2);
}

/// Records the latency of `count` patches.
fn patches(queue: &mut Queue, count: usize, millis: u64) {
    for _ in 0..count {
        queue.took(NOW - Duration::from_millis(millis), true, NOW);
    }
}

#[test]
fn a_giant_gives_more_room_while_there_is_congestion() {
    let mut queue = queue(96, &[("a", 1)], 4_000);
    // Alone it leaves no room.
    let mut in_flight = fill(&mut queue, NOW)[&("a", 1)];
    patches(&mut queue, 96, 110);
    assert!(!queue.is_congested());
    queue.push(&"b", &2, Rank::Usual, 0);
    assert_eq!(fill(&mut queue, NOW)[&("b", 2)], 1);
    let mut wave = |millis: u64| {
        patches(&mut queue, 96, millis);
        // One response is still missing.
        for _ in 0..in_flight - 1 {
            queue.done(&"a", &1, WriteAnswer::Taken, NOW);
        }
        in_flight = 1 + fill(&mut queue, NOW).values().sum::<usize>();
        in_flight
    };
    assert_eq!((wave(5), wave(50)), (64, 64));
    // Twice the acceptable latency.
    assert_eq!(wave(110), 19);
    assert!(queue.is_congested());
    queue.push(&"new", &100, Rank::Usual, 0);
    assert_eq!(
        fill(&mut queue, NOW).len(),
        1,
        "who comes new finds a place"
    );
}

#[test]
fn under_congestion_limits_shrink_and_an_idle_tenant_still_gets_a_permit() {
    let jobs = [("a", 1), ("a", 2), ("a", 3), ("b", 4)];
    let mut queue = queue(96, &jobs, 200);
    let before = fill(&mut queue, NOW).values().sum::<usize>();
    assert!(before > 80);
    queue.took(NOW - Duration::from_millis(5), false, NOW);
    patches(&mut queue, 96, 550);
    assert!(fill(&mut queue, NOW).is_empty());
    // The writes in flight hang: other tenants must not wait for them.
    for tenant in ["c", "d"] {
        for write in 0..10 {
            queue.push(&tenant, &9, Rank::Usual, write);
        }
    }
    let given = fill(&mut queue, NOW);
    assert_eq!(given, HashMap::from([(("c", 9), 1), (("d", 9), 1)]));
    for _ in 0..before {
        let name = jobs.iter().find(|(tenant, job)| {
            let lanes = &queue.tenants[tenant].lanes;
            lanes.get(job).is_some_and(|lane| lane.in_flight > 0)
        });
        let (tenant, job) = *name.expect("they are in flight");
        queue.done(&tenant, &job, WriteAnswer::Taken, NOW);
    }
    fill(&mut queue, NOW);
    assert!(
        (9..=12).contains(&queue.in_flight()),
        "{}",
        queue.in_flight()
    );
}

#[test]
fn answers_to_few_writes_do_not_gather() {
    let mut queue = queue(96, &[("a", 1), ("a", 2), ("b", 3)], 3);
    assert!(!queue.may_gather(&"a"), "nothing is in flight");
    fill(&mut queue, NOW);
    assert!(queue.may_gather(&"a") && !queue.may_gather(&"b"));
    assert!(!queue.may_gather(&"c"));
}

#[test]
fn one_tenants_refusals_do_not_stop_others() {
    let mut queue = queue(96, &[("refused", 1), ("other", 2)], 500);
    let mut now = NOW;
    for _ in 0..200 {
        now += secs(0.1);
        for ((tenant, job), count) in fill(&mut queue, now) {
            let answer = match tenant {
                "refused" => busy(now, 1.0),
                _ => WriteAnswer::Taken,
            };
            for _ in 0..count {
                queue.done(&tenant, &job, answer, now);
                if tenant == "refused" {
                    queue.put_back(&tenant, &job, 0);
                }
            }
        }
    }
    let refused = &queue.tenants["refused"];
    assert_eq!(refused.waiting, 500);
    assert!(refused.limit.allows(0, now + secs(1.0)) && !refused.limit.allows(1, now + secs(1.0)));
    assert!(!queue.tenants.contains_key("other"), "all of its are sent");
}

#[test]
fn all_wait_when_one_after_the_other_is_refused() {
    let mut queue = queue(96, &[("a", 1), ("b", 2), ("c", 3)], 9);
    for (tenant, answer) in [
        ("a", busy(NOW, 2.0)),
        ("a", busy(NOW, 2.0)),
        ("c", WriteAnswer::Taken),
        ("a", busy(NOW, 2.0)),
    ] {
        let job = fill_one(&mut queue, tenant);
        queue.done(&tenant, &job, answer, NOW);
    }
    assert!(queue.pop(NOW).is_some(), "it is a matter of one");
    let job = fill_one(&mut queue, "b");
    queue.done(&"b", &job, busy(NOW, 2.0), NOW);
    assert!(queue.pop(NOW + secs(1.9)).is_none());
    assert_eq!(queue.next_due(NOW), Some(NOW + secs(2.0)));
    assert!(queue.pop(NOW + secs(2.0)).is_some());
}

/// The refused writes are given up, so that only the other tenant still waits for the end of the pause.
#[test]
fn a_tenant_that_was_never_refused_is_due_when_the_pause_of_all_ends() {
    let mut queue = queue(9, &[("a", 1), ("b", 2)], 1);
    for _ in 0..2 {
        let (tenant, job, _) = queue.pop(NOW).expect("nothing is paused");
        queue.done(&tenant, &job, busy(NOW, 2.0), NOW);
    }
    queue.push(&"c", &3, Rank::Usual, 0);
    assert!(queue.pop(NOW).is_none());
    assert_eq!(queue.next_due(NOW), Some(NOW + secs(2.0)));
    assert!(queue.pop(NOW + secs(2.0)).is_some());
}

/// Takes writes until one belongs to this tenant. Pauses and limits are reset before each; the others end as `Other`.
fn fill_one(queue: &mut Queue, wanted: &str) -> u32 {
    loop {
        queue.limit.end_pause();
        for tenant in queue.tenants.values_mut() {
            tenant.limit = TenantLimit::default();
        }
        let (tenant, job, _) = queue.pop(NOW).expect("it has more");
        if tenant == wanted {
            return job;
        }
        queue.done(&tenant, &job, WriteAnswer::Other, NOW);
    }
}

#[test]
fn a_webhooks_denial_affects_only_its_job() {
    let mut queue = queue(9, &[("a", 1), ("a", 2)], 9);
    let job = fill_one(&mut queue, "a");
    queue.done(&"a", &job, WriteAnswer::Denied(secs(2.0)), NOW);
    let other = 3 - job;
    let under_way = fill(&mut queue, NOW);
    assert!(!under_way.contains_key(&("a", job)) && under_way[&("a", other)] > 1);
    for _ in 0..under_way[&("a", other)] {
        queue.done(&"a", &other, WriteAnswer::Taken, NOW);
    }
    while let Some((_, popped, _)) = queue.pop(NOW) {
        assert_eq!(popped, other);
        queue.done(&"a", &other, WriteAnswer::Taken, NOW);
    }
    assert_eq!(
        (queue.len(), queue.next_due(NOW)),
        (8, Some(NOW + secs(2.0)))
    );
    assert!(queue.pop(NOW + secs(2.0)).is_some());
}

#[test]
fn a_pause_of_one_job_delays_no_other_job_of_its_namespace() {
    let mut queue = queue(9, &[("a", 1), ("a", 2)], 1);
    for _ in 0..2 {
        let (tenant, job, _) = queue.pop(NOW).expect("nothing is paused");
        let pause = secs(if job == 1 { 30.0 } else { 1.0 });
        queue.push(&tenant, &job, Rank::Usual, 2);
        queue.done(&tenant, &job, WriteAnswer::Denied(pause), NOW);
    }
    assert_eq!(fill(&mut queue, NOW), HashMap::new());
    assert_eq!(queue.next_due(NOW), Some(NOW + secs(1.0)));
    let later = NOW + secs(1.0);
    assert_eq!(fill(&mut queue, later), HashMap::from([(("a", 2), 1)]));
    assert_eq!(queue.next_due(later), Some(NOW + secs(30.0)));
}

#[test]
fn deletions_and_removals_go_before_creations() {
    let mut queue = queue(9, &[("a", 1), ("b", 2)], 2);
    queue.push(&"a", &1, Rank::Ends, 7);
    queue.push(&"a", &1, Rank::Urgent, 8);
    let given: Vec<_> = std::iter::from_fn(|| {
        let (tenant, job, write) = queue.pop(NOW)?;
        queue.done(&tenant, &job, WriteAnswer::Taken, NOW);
        Some((tenant, write))
    })
    .collect();
    let of = |tenant| given.iter().filter(move |(of, _)| *of == tenant);
    let writes: Vec<_> = of("a").map(|(_, write)| *write).collect();
    assert_eq!(writes, [8, 7, 0, 1]);
    // The rank only orders writes within the Job: other Jobs wait no longer for it.
    assert_eq!(given[1].0, "b", "{given:?}");
}

#[test]
fn a_job_that_has_nothing_to_write_is_still_not_to_come_again() {
    let mut queue = queue(9, &[("a", 1)], 1);
    queue.pop(NOW);
    queue.done(&"a", &1, WriteAnswer::Denied(secs(20.0)), NOW);
    queue.push(&"a", &1, Rank::Urgent, 1);
    assert!(queue.pop(NOW + secs(19.0)).is_none());
    assert_eq!(queue.next_due(NOW), Some(NOW + secs(20.0)));
    assert!(queue.pop(NOW + secs(20.0)).is_some());
    queue.done(&"a", &1, WriteAnswer::Taken, NOW + secs(20.0));
    assert!(queue.tenants.is_empty());
}

/// Runs a server that accepts `limit` writes in each of ten waves a second. Returns the used fraction of its capacity.
fn taken_by(limit: usize, seconds: u32) -> f64 {
    let mut queue = Queue::new(96);
    let mut taken = 0;
    for tenth in 0..seconds * 10 {
        let now = NOW + secs(0.1) * tenth;
        while queue.len() < 96 {
            queue.push(&"a", &1, Rank::Usual, 0);
        }
        let under_way = fill(&mut queue, now).values().sum();
        for nth in 0..under_way {
            let answer = match nth < limit {
                true => WriteAnswer::Taken,
                false => busy(now, 1.0),
            };
            taken += usize::from(answer == WriteAnswer::Taken);
            queue.done(&"a", &1, answer, now);
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "far less than 2^52")]
    let share = taken as f64 / (limit as f64 * f64::from(seconds) * 10.0);
    share
}

#[test]
fn a_server_that_takes_few_gets_few() {
    for limit in [1, 4, 20, 50] {
        let share = taken_by(limit, 300);
        assert!(share > 0.4, "{limit}: {share}");
    }
    assert!(taken_by(64, 10) > 0.99);
}

#[test]
fn one_refusal_in_a_quiet_time_costs_little() {
    let mut queue = queue(96, &[("a", 1)], 1);
    queue.pop(NOW);
    queue.done(&"a", &1, busy(NOW, 1.0), NOW);
    for _ in 0..200 {
        queue.push(&"a", &1, Rank::Usual, 0);
    }
    assert_eq!(
        fill(&mut queue, NOW + secs(1.0)).values().sum::<usize>(),
        48
    );
}

#[test]
fn queued_writes_can_be_dropped_while_others_are_in_flight() {
    let mut queue = queue(4, &[("a", 1), ("b", 2)], 9);
    let under_way = fill(&mut queue, NOW);
    queue.clear(NOW);
    assert!(queue.is_empty() && queue.pop(NOW).is_none());
    for ((tenant, job), count) in under_way {
        for _ in 0..count {
            queue.done(&tenant, &job, WriteAnswer::Other, NOW);
        }
    }
    assert!(queue.tenants.is_empty() && queue.in_flight() == 0);
}

/// Random pushes, results and pauses: no write is lost or sent twice, none exceeds the limits, and no state is left
/// over.
#[test]
fn nothing_is_lost_in_random_histories() {
    for seed in 1..200_u64 {
        let mut random = seed;
        let mut below = move |count: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % count
        };
        let mut queue = Queue::new(usize::try_from(below(9) + 1).expect("small"));
        let (mut now, mut pushed, mut done) = (NOW, 0, Vec::new());
        let mut under_way = Vec::new();
        for step in 0..600 {
            now += Duration::from_millis(below(700));
            match below(3) {
                0 if step < 400 => {
                    let tenant = ["a", "b", "c", "d"][usize::try_from(below(4)).expect("small")];
                    let job = u32::try_from(below(3)).expect("small");
                    let rank = [Rank::Urgent, Rank::Ends, Rank::Usual][below(3) as usize];
                    queue.push(&tenant, &job, rank, pushed);
                    pushed += 1;
                }
                1 => under_way.extend(queue.pop(now)),
                _ if !under_way.is_empty() => {
                    let at = usize::try_from(below(under_way.len() as u64)).expect("small");
                    let (tenant, job, item) = under_way.swap_remove(at);
                    let is_busy = step < 400 && below(4) == 0;
                    let pause = Duration::from_millis(below(3000));
                    let answer = match (is_busy, below(8)) {
                        (true, _) => WriteAnswer::Busy { sent: now, pause },
                        (false, 0) => WriteAnswer::Denied(pause),
                        (false, _) => WriteAnswer::Taken,
                    };
                    queue.done(&tenant, &job, answer, now);
                    match is_busy {
                        true => queue.put_back(&tenant, &job, item),
                        false => done.push(item),
                    }
                }
                _ => {}
            }
            assert!(under_way.len() <= queue.limit.max() && queue.in_flight() == under_way.len());
        }
        loop {
            for (tenant, job, item) in under_way.drain(..) {
                queue.done(&tenant, &job, WriteAnswer::Taken, now);
                done.push(item);
            }
            now += secs(60.0);
            under_way.extend(queue.pop(now));
            if under_way.is_empty() {
                break;
            }
        }
        done.sort_unstable();
        assert_eq!(done, (0..pushed).collect::<Vec<_>>(), "seed {seed}");
        // Limits are remembered for five minutes.
        now += secs(301.0);
        assert!(queue.pop(now).is_none());
        assert_eq!(
            (queue.tenants.len(), queue.looks.len()),
            (0, 0),
            "seed {seed}"
        );
    }
}

#[test]
fn tenants_that_were_refused_and_never_come_again_are_forgotten() {
    let mut queue: FairQueue<u32, u32, u32> = FairQueue::new(96);
    let second = Duration::from_secs(1);
    let mut now = second;
    let mut most = 0;
    // Too many to visit all of them each time within hours.
    for tenant in 0..100_000 {
        queue.push(&tenant, &0, Rank::Usual, tenant);
        while queue.pop(now).is_none() {
            now += second / 100;
        }
        let pause = second / 100;
        let busy = WriteAnswer::Busy { sent: now, pause };
        queue.done(&tenant, &0, busy, now);
        now += second / 50;
        most = most.max(queue.tenants.len());
    }
    // Those of the last five minutes.
    assert!((1..=15_100).contains(&most), "{most}");
    now += second * 301;
    queue.push(&100_000, &0, Rank::Usual, 1);
    let (tenant, job, _) = queue.pop(now).expect("it may go");
    queue.done(&tenant, &job, WriteAnswer::Taken, now);
    let _ = queue.pop(now);
    assert_eq!((queue.tenants.len(), queue.looks.len()), (0, 0));
}
