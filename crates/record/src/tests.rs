//! Compares a record with a simple model over random histories, and its size with the stated maximum.

use std::collections::BTreeMap;

use super::*;
use lakh_model::{EndCause, PodEnd, Time};

/// A deterministic generator of pseudo-random numbers.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u32) -> u32 {
        // An LCG by Knuth's constants; its upper bits are the better ones.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % u64::from(end)) as u32
    }
}

/// A Pod of the model.
#[derive(Clone, Debug)]
struct ModelPod {
    outcome: Option<IndexOutcome>,
    end: PodEnd,
    at: u32,
}

fn ended(index: u32, pod: &ModelPod) -> RecordInput<'_> {
    RecordInput::Ended {
        index,
        outcome: pod.outcome.expect("it has ended"),
        at: pod.at,
        end: &pod.end,
    }
}

/// The Pod that the record must report for an index, given all its Pods in order of creation.
fn expected(pods: &[ModelPod]) -> Option<&ModelPod> {
    let ended = || pods.iter().filter(|pod| pod.outcome.is_some());
    let last_success = ended().rfind(|pod| pod.outcome == Some(IndexOutcome::Succeeded));
    last_success.or_else(|| ended().next_back())
}

fn check(record: &IndexRecord, model: &BTreeMap<u32, Vec<ModelPod>>) {
    assert_eq!(record.known() as usize, model.len());
    for (index, pods) in model {
        let row = record.of(*index).expect("it had a Pod");
        assert_eq!(usize::from(row.tries), pods.len(), "index {index}");
        let said = row.end.map(|end| {
            let times = [end.started, end.ended].map(|at| at.map_or(0, Time::as_secs));
            (end.outcome, end.cause.clone(), end.node.to_owned(), times)
        });
        let expected = expected(pods).map(|pod| {
            let times = [pod.end.started, pod.at].map(i64::from);
            let outcome = pod.outcome.expect("it has ended");
            (
                outcome,
                pod.end.cause.clone(),
                pod.end.node.to_string(),
                times,
            )
        });
        assert_eq!(said, expected, "index {index}: {pods:?}");
    }
}

#[test]
fn a_record_agrees_with_a_simple_model() {
    for seed in 0..200 {
        let mut chance = Chance(seed);
        let completions = [1, 7, 1024, 1025, 5000][chance.below(5) as usize];
        let mut record = IndexRecord::new(completions, Time::from_secs(1));
        let mut model: BTreeMap<u32, Vec<ModelPod>> = BTreeMap::new();
        for second in 10..400 {
            let index = chance.below(completions);
            let pods = model.entry(index).or_default();
            let open = pods.iter().position(|pod| pod.outcome.is_none());
            match open {
                // An index gets another Pod only when the one before has ended, as in a Job.
                None => {
                    record.handle(RecordInput::Seen { index });
                    pods.push(ModelPod {
                        outcome: None,
                        end: PodEnd::new(EndCause::default(), "", second),
                        at: 0,
                    });
                }
                Some(at) => {
                    let pod = &mut pods[at];
                    let (outcome, code) = match chance.below(4) {
                        0 => (IndexOutcome::Succeeded, Some(0)),
                        1 => (IndexOutcome::Gone, None),
                        _ => (
                            IndexOutcome::Failed,
                            Some(1 + chance.below(3).cast_signed()),
                        ),
                    };
                    pod.outcome = Some(outcome);
                    pod.at = second;
                    let reason = ["", "OOMKilled"][chance.below(2) as usize];
                    // The first input has few details.
                    pod.end.cause = EndCause::new(code, "");
                    record.handle(ended(index, pod));
                    if outcome != IndexOutcome::Gone && chance.below(4) > 0 {
                        let node = format!("node-{}", chance.below(20));
                        let brief = pod.clone();
                        pod.end = PodEnd::new(EndCause::new(code, reason), &node, pod.end.started);
                        record.handle(ended(index, pod));
                        // A stale input changes nothing.
                        record.handle(ended(index, &brief));
                    }
                    // A repeated input changes nothing.
                    record.handle(ended(index, pod));
                }
            }
        }
        check(&record, &model);
        assert!(record.bytes() <= IndexRecord::most_bytes(completions));
    }
}

#[test]
fn unseen_pods_are_unknown() {
    let mut record = IndexRecord::new(3, Time::from_secs(7));
    let end = PodEnd::default();
    for index in [3, 1024, u32::MAX] {
        record.handle(RecordInput::Seen { index });
        record.handle(RecordInput::Ended {
            index,
            outcome: IndexOutcome::Failed,
            at: 9,
            end: &end,
        });
        assert_eq!(record.of(index), None);
    }
    assert_eq!((record.known(), record.of(0)), (0, None));
}

#[test]
fn a_growing_job_keeps_its_record() {
    let mut record = IndexRecord::new(2, Time::from_secs(7));
    record.handle(RecordInput::Seen { index: 1 });
    record.handle(RecordInput::Completions(2000));
    for index in [0, 1, 1023, 1024, 1999] {
        record.handle(RecordInput::Seen { index });
    }
    let tries = [0, 1, 2, 1023, 1024, 1999].map(|index| record.of(index).map(|row| row.tries));
    let one = Some(1);
    assert_eq!(tries, [one, Some(2), None, one, one, one]);
    record.handle(RecordInput::Completions(1));
    assert_eq!((record.of(1), record.known()), (None, 5));
}

#[test]
#[cfg_attr(debug_assertions, ignore = "slow without optimization")]
fn a_tenant_cannot_make_it_grow_by_words_or_tries() {
    for completions in [1, 10, 1000] {
        let mut record = IndexRecord::new(completions, Time::from_secs(7));
        let most = IndexRecord::most_bytes(completions);
        for number in 0..100_000_u32 {
            let index = number % completions;
            let reason = format!("AReasonThatIsLongAndDifferentEachTime{number}");
            let node = format!("a-node-that-is-none.of-a-long-name.{number}.example");
            let end = PodEnd::new(
                EndCause::new(Some(number.cast_signed()), &reason),
                &node,
                number,
            );
            record.handle(RecordInput::Seen { index });
            record.handle(RecordInput::Ended {
                index,
                outcome: IndexOutcome::Failed,
                at: number,
                end: &end,
            });
        }
        assert!(record.bytes() <= most, "{} of {most}", record.bytes());
        // The failure and its time are still recorded.
        let end = record.of(0).and_then(|row| row.end).expect("it ended");
        assert_eq!((end.outcome, end.node), (IndexOutcome::Failed, ""));
        assert_eq!(end.cause, &EndCause::default());
        assert!(end.ended.is_some());
    }
    let mut record = IndexRecord::new(1, Time::from_secs(7));
    (0..70_000).for_each(|_| record.handle(RecordInput::Seen { index: 0 }));
    assert_eq!(record.of(0).map(|row| row.tries), Some(u16::MAX));
}

#[test]
fn a_started_index_takes_fourteen_bytes_and_an_unstarted_one_none() {
    let completions = 100_000;
    let mut record = IndexRecord::new(completions, Time::from_secs(7));
    assert!(record.bytes() < 300, "{} bytes empty", record.bytes());
    for index in 0..completions {
        let node = format!("node-{}", index % 5000);
        let cause = EndCause::new(Some((index % 2).cast_signed()), "");
        let end = PodEnd::new(cause, &node, 1000 + index);
        record.handle(RecordInput::Seen { index });
        record.handle(RecordInput::Ended {
            index,
            outcome: IndexOutcome::Failed,
            at: 2000 + index,
            end: &end,
        });
    }
    let words = record.nodes_and_endings_bytes();
    let each = (record.bytes() - words) as f64 / f64::from(completions);
    assert!((14.0..14.2).contains(&each), "{each} bytes an index");
    // 5,000 names of nodes.
    assert!(words < 400 * 1024, "{words} bytes of words");
    let most = IndexRecord::most_bytes(completions);
    assert!(record.bytes() <= most, "{} of {most}", record.bytes());
    let end = record.of(4999).and_then(|row| row.end).expect("it ended");
    assert_eq!(end.node, "node-4999");
}
