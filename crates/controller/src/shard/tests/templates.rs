//! Tests templates that are not in memory, and are read when Pods are created.

use super::*;

/// Adds a Job with four Pods at once.
fn begin(world: &mut World) {
    let spec = json!({"parallelism": 4, "completions": 4});
    world.hear_job(&job(6, &spec));
}

/// Returns the next request other than a status; statuses are applied.
fn next(world: &mut World) -> Option<Asked> {
    loop {
        let asked = world.asked()?;
        if asked.what != STATUS {
            return Some(asked);
        }
        world.done(&asked);
    }
}

/// Returns the next request other than a status, which must be this one.
fn asks(world: &mut World, what: &str) -> Asked {
    let asked = next(world).expect("a call");
    assert_eq!(asked.what, what);
    asked
}

/// Returns the server's Job, in the cached generation.
fn answer_of() -> Value {
    let mut found = job(6, &json!({"parallelism": 4, "completions": 4}));
    found["metadata"]["resourceVersion"] = json!("9");
    found
}

fn job_uid() -> Uid {
    Uid::from_u128(JOB)
}

fn reads(world: &World) -> u64 {
    world.shard.metrics.template_reads.get()
}

#[test]
fn a_job_at_work_is_not_read_for_its_pods() {
    let mut world = World::new(8);
    begin(&mut world);
    for _ in 0..2 {
        let asked = world.do_all();
        assert!(
            asked.iter().all(|call| !call.starts_with("GET")),
            "{asked:?}"
        );
    }
    assert_eq!(reads(&world), 0);
}

#[test]
fn a_job_that_makes_no_pods_takes_no_memory() {
    for (spec, status) in [
        (json!({"suspend": true}), json!({})),
        (
            json!({}),
            json!({"conditions": [{"type": "Complete", "status": "True"}]}),
        ),
    ] {
        let mut world = World::new(8);
        let mut heard = job(6, &json!({}));
        world.hear_job(&heard);
        let bytes = |world: &World| world.shard.metrics.template_bytes.get();
        assert!(bytes(&world) > 0);
        heard = job(7, &spec);
        heard["status"] = status;
        world.hear_job(&heard);
        assert_eq!(bytes(&world), 0);
    }
    let settings = Settings {
        mode: Mode::ManagedBy(
            lakh_core::ownership::ManagerName::parse("a.example/b").expect("a name"),
        ),
        ..Settings::of_jobs(8)
    };
    let mut world = World::with(settings);
    world.hear_job(&job(6, &json!({})));
    assert_eq!(world.shard.metrics.template_bytes.get(), 0, "another's");
}

#[test]
fn a_template_that_is_not_kept_is_read_once_for_all_pods_that_wait() {
    let mut world = World::new(8);
    begin(&mut world);
    let first = asks(&mut world, POST_POD);
    world.shard.store.templates.forget(job_uid());
    world.done(&first);
    let look = asks(&mut world, LOOK);
    assert!(next(&mut world).is_none(), "the second Pod waits");
    world.answer(&look, body(&answer_of()));
    let posts = [asks(&mut world, POST_POD), asks(&mut world, POST_POD)];
    posts.iter().for_each(|post| world.done(post));
    asks(&mut world, POST_POD);
    assert_eq!(reads(&world), 1);
}

#[test]
fn a_template_that_is_too_large_to_keep_is_read_for_each_pod_and_told_of() {
    let mut world = World::with(Settings {
        template_bytes: 1,
        ..Settings::of_jobs(8)
    });
    begin(&mut world);
    let told = world.shard.outbox.events.take_report();
    assert_eq!(
        told.map(|told| told.reason),
        Some("TemplateNotKept".to_owned())
    );
    let mut made = 0;
    while let Some(asked) = world.asked() {
        match asked.what.as_str() {
            LOOK => world.answer(&asked, body(&answer_of())),
            _ => {
                made += u32::from(asked.what == POST_POD);
                world.done(&asked);
            }
        }
    }
    assert_eq!((made, reads(&world)), (4, 4));
}

#[test]
fn no_pod_is_made_of_another_template_than_the_one_that_is_known() {
    let other_generation = job(9, &json!({"parallelism": 4, "completions": 4}));
    let mut other_job = answer_of();
    other_job["metadata"]["uid"] = json!(uid(77));
    let mut suspended = answer_of();
    suspended["spec"]["suspend"] = json!(true);
    for answer in [
        body(&other_generation),
        body(&other_job),
        body(&suspended),
        Ok("<html>".into()),
        refusal(404, "NotFound", "gone"),
        refusal(500, "InternalError", "no"),
    ] {
        let mut world = World::new(8);
        begin(&mut world);
        world.shard.store.templates.forget(job_uid());
        let look = asks(&mut world, LOOK);
        world.answer(&look, answer);
        assert!(next(&mut world).is_none(), "it waits a while");
        // Nothing is lost by it.
        let (look, after) = world.wait_for(LOOK);
        assert!(after >= Duration::from_secs(1), "{after:?}");
        world.answer(&look, body(&answer_of()));
        asks(&mut world, POST_POD);
    }
}

#[test]
fn no_pod_is_made_that_is_not_wanted_any_more_when_its_template_has_come() {
    let mut world = World::new(8);
    begin(&mut world);
    let first = asks(&mut world, POST_POD);
    world.shard.store.templates.forget(job_uid());
    world.done(&first);
    let look = asks(&mut world, LOOK);
    let spec = json!({"parallelism": 4, "completions": 4, "suspend": true});
    world.hear_job(&job(200, &spec));
    let _ = world.asked();
    world.answer(&look, body(&answer_of()));
    world.never_asks(POST_POD);
}

#[test]
fn a_busy_server_is_asked_for_the_template_again_and_who_waits_goes_on_waiting() {
    let mut world = World::new(8);
    begin(&mut world);
    let first = asks(&mut world, POST_POD);
    world.shard.store.templates.forget(job_uid());
    world.done(&first);
    let look = asks(&mut world, LOOK);
    assert!(next(&mut world).is_none());
    world.answer(&look, refusal(429, "", "busy"));
    let (look, _) = world.wait_for(LOOK);
    assert!(next(&mut world).is_none());
    world.answer(&look, body(&answer_of()));
    asks(&mut world, POST_POD);
    asks(&mut world, POST_POD);
}

#[test]
fn one_that_retires_makes_no_pod_of_a_template_that_comes_late() {
    let mut world = World::new(8);
    begin(&mut world);
    world.shard.store.templates.forget(job_uid());
    let look = asks(&mut world, LOOK);
    world.shard.notice(&Notice::Retire(1));
    world.answer(&look, body(&answer_of()));
    assert!(next(&mut world).is_none());
    assert_eq!(world.shard.poll_retired(), Some(1));
}

#[test]
fn no_namespace_fills_the_memory_with_policies() {
    let mut world = World::new(8);
    let indexes: Vec<String> = (0..10_000).map(|index| (2 * index).to_string()).collect();
    let rule = json!({"succeededIndexes": indexes.join(",")});
    let spec = json!({"completionMode": "Indexed", "completions": 20_000, "suspend": true,
        "successPolicy": {"rules": vec![rule; 20]}});
    let known = |world: &World| {
        world
            .shard
            .store
            .all()
            .filter(|it| it.job.is_some())
            .count()
    };
    for number in 2..40 {
        world.hear_job(&of_job(number, &job(6, &spec)));
    }
    let some = known(&world);
    assert!((10..20).contains(&some), "{some}");
    let told = iter::from_fn(|| world.shard.outbox.events.take_report());
    assert_eq!(
        told.filter(|told| told.reason == "JobTooLarge").count(),
        38 - some
    );
    // Other namespaces have room, and so have usual Jobs in this one.
    let mut other = of_job(50, &job(6, &spec));
    other["metadata"]["namespace"] = json!("e");
    world.hear_job(&other);
    world.hear_job(&job(6, &json!({})));
    assert_eq!(known(&world), some + 2);
    world.shard.notice(&Notice::Forget(extent(Kind::Job)));
    for number in 2..12 {
        world.hear_job(&of_job(number, &job(6, &spec)));
    }
    assert_eq!(known(&world), 10, "what is gone makes room");
}
