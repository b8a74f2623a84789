//! Measures the Job machine and the text of index sets. Cases: the cost of a Pod's events by the size of the Job; many
//! Pods that end at once; index text, parsed and formatted.
//!
//! The figure to watch: the cost per Pod must not grow with the Job.
#![allow(missing_docs, reason = "criterion's macros make public functions")]

mod common;

use std::{hint::black_box, time::Duration};

use common::job;
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use lakh::{
    decide::{Effect, JobMachine, Outcome},
    model::{
        CompactIndex, CompletionMode, IndexSet, Limits, Now, PodFlags, PodName, PodPhase,
        PodRecord, PodTable, Slot, Time, Uid,
    },
};

const SIZES: [u32; 4] = [100, 10_000, 100_000, 1_000_000];

/// The number of Pods with events between two decisions.
const PER_TURN: u32 = 10;

/// A Job with only Pending Pods.
struct Bench {
    machine: JobMachine,
    pods: PodTable,
    slots: Vec<Slot>,
    now: Now,
}

impl Bench {
    fn new(size: u32, mode: CompletionMode) -> Self {
        let mut bench = Self {
            machine: JobMachine::new(&job(size, mode), Limits::default()),
            pods: PodTable::default(),
            slots: Vec::new(),
            now: Now::at(Time::from_secs(1_000_000)),
        };
        for index in 0..size {
            let slot = bench.pods.insert(PodRecord {
                uid: Uid::from_u128(u128::from(index)),
                name: PodName::new("bench", &format!("bench-{index}-bcdfg")),
                index: CompactIndex::new(index),
                created: 1,
                flags: PodFlags::default().with(PodFlags::FINALIZER, true),
                ..PodRecord::default()
            });
            bench.slots.push(slot);
        }
        bench.turn();
        bench
    }

    /// Applies a Pod's next event.
    fn event(&mut self, index: u32, phase: PodPhase) {
        self.pods.update(self.slots[index as usize], |pod| {
            pod.phase = phase;
            pod.flags.set(PodFlags::ASSIGNED, true);
            pod.finished = 1_000_000;
        });
    }

    /// Runs turns of the machine until it has no more effects; every write succeeds.
    fn turn(&mut self) {
        let mut outcomes = Vec::new();
        loop {
            for outcome in outcomes.drain(..) {
                self.machine.handle_outcome(outcome, self.now.monotonic);
            }
            while let Some((slot, record)) = self.pods.take_dirty() {
                self.machine.handle_pod(slot, record);
            }
            self.machine.decide(&self.pods, self.now);
            while let Some(effect) = self.machine.poll_effect() {
                match effect {
                    Effect::RemoveFinalizer(slot) | Effect::RemoveFinalizerIfUnchanged(slot) => {
                        self.pods
                            .update(slot, |pod| pod.flags.set(PodFlags::FINALIZER, false));
                        outcomes.push(Outcome::FinalizerRemoved(slot));
                    }
                    Effect::WriteStatus(_) => outcomes.push(Outcome::StatusWritten),
                    Effect::DeletePod(slot) => outcomes.push(Outcome::PodDeleted(slot)),
                    Effect::CreatePod(new) => outcomes.push(Outcome::PodCreated(new.id())),
                    Effect::MakeGangObject(_) => unreachable!("nobody told of gangs"),
                    Effect::Report(_) | Effect::PolicyApplied(_) => {}
                }
            }
            if outcomes.is_empty() {
                return;
            }
        }
    }

    /// Lets each Pod of a range run and succeed, a few per turn.
    fn run(&mut self, from: u32, to: u32) {
        for phase in [PodPhase::Running, PodPhase::Succeeded] {
            for index in from..to {
                self.event(index, phase);
                if index % PER_TURN == 0 {
                    self.now = self.now + Duration::from_millis(20);
                    self.turn();
                }
            }
        }
        self.turn();
    }
}

/// A hundred Pods in the middle of a Job: Pending, Running, Succeeded, finalizer removed.
fn pod_events(criterion: &mut Criterion) {
    for (name, mode) in [
        ("indexed", CompletionMode::Indexed),
        ("non-indexed", CompletionMode::NonIndexed),
    ] {
        let mut group = criterion.benchmark_group(format!("pod life, {name}"));
        group.sample_size(20).throughput(Throughput::Elements(100));
        for size in SIZES {
            let mut bench = Bench::new(size, mode);
            let middle = size / 2;
            bench.run(0, middle);
            let mut at = middle;
            group.bench_function(BenchmarkId::from_parameter(size), |bencher| {
                bencher.iter_custom(|rounds| {
                    let mut spent = Duration::ZERO;
                    for _ in 0..rounds {
                        // A Job that is used up is recreated; this is not timed.
                        let end = at + 100;
                        if end > size {
                            bench = Bench::new(size, mode);
                            bench.run(0, middle);
                            at = middle;
                        }
                        let end = (at + 100).min(size);
                        let start = std::time::Instant::now();
                        bench.run(at, end);
                        spent += start.elapsed() * 100 / (end - at);
                        at = end;
                    }
                    spent
                });
            });
        }
        group.finish();
    }
}

/// Five thousand Pods end between two turns. Status writes of limited size list them as uncounted, then finalizers are
/// removed in batches, then the Pods are counted.
fn finalizer_batches(criterion: &mut Criterion) {
    const ENDED: u32 = 5_000;
    let mut group = criterion.benchmark_group("Pods that end at once");
    group.sample_size(20);
    group.throughput(Throughput::Elements(ENDED.into()));
    for (name, mode) in [
        ("indexed", CompletionMode::Indexed),
        ("non-indexed", CompletionMode::NonIndexed),
    ] {
        group.bench_function(name, |bencher| {
            bencher.iter_batched(
                || Bench::new(2 * ENDED, mode),
                |mut bench| {
                    for index in 0..ENDED {
                        bench.event(index, PodPhase::Succeeded);
                    }
                    bench.turn();
                    bench
                },
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

fn index_text(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("index text");
    for size in SIZES {
        // Every third index is missing: many short runs, the worst case.
        let set: IndexSet = (0..size).filter(|index| index % 3 != 0).collect();
        let text = set.to_string();
        group.bench_function(BenchmarkId::new("write", size), |bencher| {
            bencher.iter(|| black_box(&set).to_string());
        });
        group.bench_function(BenchmarkId::new("read", size), |bencher| {
            bencher.iter_batched(
                || text.clone(),
                |text| IndexSet::parse(black_box(&text), size),
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, pod_events, finalizer_batches, index_text);
criterion_main!(benches);
