//! Measures the memory of 100,000 finished Jobs that wait for their deletion. It has a process of its own, so that
//! other tests do not count.

#![cfg(target_os = "linux")]

use std::{fs, time::Duration};

use lakh::{
    flow::WorkQueue,
    model::{Exponential, Now, Time, Uid},
};

fn resident_kib() -> usize {
    let status = fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let words = line.expect("it says so").split_whitespace().next();
    words.and_then(|kib| kib.parse().ok()).expect("a number")
}

#[test]
fn a_hundred_thousand_timers_take_no_more_than_20_mib() {
    let second = Duration::from_secs(1);
    let before = resident_kib();
    let mut queue = WorkQueue::new(Exponential {
        base: second,
        max: second,
    });
    let now = Now::at(Time::from_secs(1_795_231_200));
    for job in 0..100_000_u32 {
        // As in the controller: an event, a turn, and a timer for the next turn.
        let uid = Uid::from_u128(u128::from(job).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        queue.add(uid);
        assert_eq!(queue.take(now), Some(uid));
        let due = now.wall + Duration::from_secs(u64::from(job) + 1);
        queue.add_at(uid, due.into());
        queue.done(&uid);
    }
    let kib = resident_kib().saturating_sub(before);
    println!("100,000 timers: {kib} KiB");
    assert!(kib <= 20 * 1024, "{kib} KiB");
    assert_eq!(queue.next_due(), (now.wall + second).into());
}
