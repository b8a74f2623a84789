//! Tests adoptions whose responses are late or missing. The rules themselves have their cases in
//! `tests/golden/ownership.case`.

use std::time::Duration;

use crate::model::{JobKey, PodLabels, PodRecord};

use super::*;

const POD: Uid = Uid::from_u128(2);

const NOW: Monotonic = Monotonic::from_secs(100);

const RETRY: Exponential = Exponential {
    base: Duration::from_secs(1),
    max: Duration::from_secs(60),
};

/// Claims of a Job on a Pod without an owner, and the round that adopts the Pod, in flight.
fn adopting() -> (Claims, Round) {
    let mut claims = Claims::new(RETRY);
    let mut labels = PodLabels::default();
    labels.push("app", "train");
    let selector = Selector {
        match_labels: labels.to_labels(),
        ..Selector::default()
    };
    let job = Job {
        uid: Uid::from_u128(1),
        key: JobKey {
            namespace: "default".into(),
            name: "j".into(),
        },
        ..Job::default()
    };
    let told = claims.handle_job(&job, Some(&Arc::new(selector)));
    claims.settle(told);
    let pod = DecodedPod {
        namespace: "default".into(),
        name: "a".into(),
        controller: Controller::None,
        labels,
        record: PodRecord {
            uid: POD,
            resource_version: 3,
            flags: PodFlags::default().with(PodFlags::FINALIZER, true),
            ..PodRecord::default()
        },
        end: None,
    };
    let told = claims.handle_pod(&pod);
    claims.settle(told);
    let round = claims.poll_round().expect("the Job claims the Pod");
    (claims, round)
}

/// A list shows that the Pod is gone; no event has shown its adoption.
#[test]
fn a_pod_that_is_gone_before_the_response_to_its_adoption_does_not_hold_its_job() {
    let (mut claims, round) = adopting();
    let told = claims.handle_pod_list(None, &HashSet::new(), 6);
    claims.settle(told);
    assert!(claims.holds(&round.job), "the response is still to come");
    claims.handle_round(&round, &[(POD, PatchAnswer::Done(5))], NOW);
    assert!(!claims.holds(&round.job));
    assert_eq!(claims.poll_resumed(), Some(round.job));
}

#[test]
fn a_pod_that_may_be_adopted_keeps_its_finalizer_when_the_next_attempt_fails() {
    let (mut claims, mut round) = adopting();
    for answer in [PatchAnswer::Unknown, PatchAnswer::Failed] {
        claims.handle_round(&round, &[(POD, answer)], NOW);
        assert_eq!(claims.poll_free(), None, "{answer:?}");
        claims.handle_timeout(NOW + RETRY.max);
        round = claims.poll_round().expect("it is tried again");
    }
}
