//! Measures the Pod table under events and lists, the work queue, and the fair write queue.
#![allow(missing_docs, reason = "criterion's macros make public functions")]

use std::{hint::black_box, time::Duration};

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use lakh::{
    flow::{FairQueue, Rank, WorkQueue, WriteAnswer},
    model::{
        CompactIndex, Exponential, Now, PodFlags, PodName, PodPhase, PodRecord, PodTable, Slot,
        Time, Uid,
    },
};

const SIZES: [u32; 3] = [100, 10_000, 100_000];

fn record(index: u32, version: u64) -> PodRecord {
    PodRecord {
        uid: Uid::from_u128(u128::from(index)),
        name: PodName::new("bench", &format!("bench-{index}-bcdfg")),
        resource_version: version,
        index: CompactIndex::new(index),
        created: 1,
        flags: PodFlags::default().with(PodFlags::FINALIZER, true),
        ..PodRecord::default()
    }
}

/// A table of `size` Pods without marks.
fn table(size: u32) -> (PodTable, Vec<Slot>) {
    let mut pods = PodTable::default();
    let slots = (0..size)
        .map(|index| pods.insert(record(index, 1)))
        .collect();
    while pods.take_dirty().is_some() {}
    (pods, slots)
}

fn pod_table(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("Pod table");
    for size in SIZES {
        group.throughput(Throughput::Elements(1));
        let (mut pods, slots) = table(size);
        let mut version: u64 = 1;
        group.bench_function(BenchmarkId::new("event", size), |bencher| {
            bencher.iter(|| {
                version += 1;
                let index = (version.wrapping_mul(7919) % u64::from(size)) as u32;
                let phase = match version % 2 {
                    0 => PodPhase::Running,
                    _ => PodPhase::Pending,
                };
                let record = PodRecord {
                    phase,
                    ..record(index, version)
                };
                pods.replace(slots[index as usize], record);
                black_box(pods.take_dirty().is_some())
            });
        });
        // The same Pods under newer versions must set no mark.
        group.throughput(Throughput::Elements(size.into()));
        group.sample_size(20);
        group.bench_function(BenchmarkId::new("relist", size), |bencher| {
            bencher.iter_batched_ref(
                || table(size),
                |(pods, slots)| {
                    for (index, slot) in (0..size).zip(slots) {
                        pods.replace(*slot, record(index, 2));
                    }
                    assert!(!pods.is_dirty(), "a relist changes nothing");
                },
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

fn queues(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("queues");
    let backoff = Exponential {
        base: Duration::from_secs(1),
        max: Duration::from_secs(60),
    };
    for keys in [1, 10_000] {
        group.throughput(Throughput::Elements(1));
        let mut work = WorkQueue::new(backoff);
        for key in 0..keys {
            work.add(key);
        }
        group.bench_function(BenchmarkId::new("a turn at work", keys), |bencher| {
            bencher.iter(|| {
                let key = work
                    .take(Now::at(Time::from_secs(1)))
                    .expect("each key is put back");
                work.add(key);
                work.done(&key)
            });
        });
        let mut fair: FairQueue<u32, u32, u64> = FairQueue::new(96);
        for key in 0..keys {
            fair.push(&(key % 8), &key, Rank::Usual, 0);
        }
        let mut next = 0;
        group.bench_function(BenchmarkId::new("a write in turn", keys), |bencher| {
            bencher.iter(|| {
                next = (next + 1) % keys;
                fair.push(&(next % 8), &next, Rank::Usual, 1);
                let (tenant, job, item) = fair.pop(Duration::ZERO).expect("one waits");
                fair.done(&tenant, &job, WriteAnswer::Taken, Duration::ZERO);
                black_box(item)
            });
        });
    }
    group.finish();
}

criterion_group!(benches, pod_table, queues);
criterion_main!(benches);
