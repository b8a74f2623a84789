//! Measures bytes per Pod with a counting allocator, as the slope from 10,000 to 100,000 Pods.
//!
//! This covers the Job's machine and its Pod table, in the middle of the Job and at its end. The runtime's own memory
//! and the allocator's overhead show in the resident memory that load tests report. The budget for all together is 300
//! bytes. The record of a Job's indexes, which a Job may request, is counted separately.
#![allow(clippy::print_stdout, reason = "a benchmark's result")]

mod common;

use common::job;
use lakh::{
    decide::{Effect, JobMachine, Outcome},
    model::{
        CompactIndex, CompletionMode, EndCause, Limits, Now, PodEnd, PodFlags, PodName, PodPhase,
        PodRecord, PodTable, Slot, Time, Uid,
    },
    record::{IndexOutcome, IndexRecord, RecordInput},
};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// The maximum bytes per Pod.
const BUDGET: f64 = 300.0;

/// Bytes allocated with all Pods running, and with all counted.
fn held(size: u32, mode: CompletionMode) -> (usize, usize) {
    let before = dhat::HeapStats::get().curr_bytes;
    let since = || dhat::HeapStats::get().curr_bytes - before;
    let mut machine = JobMachine::new(&job(size, mode), Limits::default());
    let mut pods = PodTable::default();
    let slots: Vec<Slot> = (0..size)
        .map(|index| {
            pods.insert(PodRecord {
                uid: Uid::from_u128(u128::from(index)),
                name: PodName::new("bench", &format!("bench-{index}-bcdfg")),
                index: CompactIndex::new(index),
                flags: PodFlags::default().with(PodFlags::FINALIZER, true),
                phase: PodPhase::Running,
                ..PodRecord::default()
            })
        })
        .collect();
    turn(&mut machine, &mut pods);
    let own = size_of::<Slot>() * slots.capacity();
    let running = since() - own;
    for slot in &slots {
        pods.update(*slot, |pod| pod.phase = PodPhase::Succeeded);
    }
    turn(&mut machine, &mut pods);
    (running, since() - own)
}

/// Runs turns until there are no more effects; every write succeeds.
fn turn(machine: &mut JobMachine, pods: &mut PodTable) {
    let mut now = Now::at(Time::from_secs(1_000_000));
    let mut outcomes = Vec::new();
    loop {
        now = now + std::time::Duration::from_secs(2);
        for outcome in outcomes.drain(..) {
            machine.handle_outcome(outcome, now.monotonic);
        }
        while let Some((slot, record)) = pods.take_dirty() {
            machine.handle_pod(slot, record);
        }
        machine.decide(pods, now);
        while let Some(effect) = machine.poll_effect() {
            match effect {
                Effect::RemoveFinalizer(slot) | Effect::RemoveFinalizerIfUnchanged(slot) => {
                    pods.update(slot, |pod| pod.flags.set(PodFlags::FINALIZER, false));
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

/// The maximum bytes per index in a record: its row, and its share of a block.
const RECORD_BUDGET: f64 = 14.2;

/// Bytes of a record of `size` indexes, all ended, on 1,000 nodes.
fn recorded(size: u32) -> usize {
    let before = dhat::HeapStats::get().curr_bytes;
    let mut record = IndexRecord::new(size, Time::from_secs(1_000_000));
    for index in 0..size {
        let cause = EndCause::new(Some((index % 3).cast_signed()), "");
        let end = PodEnd::new(cause, &format!("node-{}", index % 1_000), 1_000_000);
        record.handle(RecordInput::Seen { index });
        record.handle(RecordInput::Ended {
            index,
            outcome: IndexOutcome::Failed,
            at: 1_000_001,
            end: &end,
        });
    }
    let held = dhat::HeapStats::get().curr_bytes - before;
    assert!(
        held <= IndexRecord::most_bytes(size),
        "more than was set aside"
    );
    held
}

fn main() {
    let _profiler = dhat::Profiler::builder().testing().build();
    for (name, mode) in [
        ("indexed", CompletionMode::Indexed),
        ("non-indexed", CompletionMode::NonIndexed),
    ] {
        let (small, large) = (held(10_000, mode), held(100_000, mode));
        let slope = |small: usize, large: usize| (large as f64 - small as f64) / 90_000.0;
        for (when, bytes) in [
            ("running", slope(small.0, large.0)),
            ("counted", slope(small.1, large.1)),
        ] {
            println!("{name}, all Pods {when}: {bytes:.0} bytes a Pod");
            assert!(bytes <= BUDGET, "more than {BUDGET} bytes a Pod");
        }
    }
    let (small, large) = (recorded(10_240), recorded(102_400));
    let each = (large as f64 - small as f64) / 92_160.0;
    println!("record of indexes: {each:.2} bytes an index, {large} bytes of 102,400");
    assert!(
        each <= RECORD_BUDGET,
        "more than {RECORD_BUDGET} bytes an index"
    );
}
