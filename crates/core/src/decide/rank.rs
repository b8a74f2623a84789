//! Ranks surplus active Pods for deletion.
//!
//! Source: docs/rules/jobs.md, 4.8. Runs only when Pods must be deleted, over the active Pods.

use std::{cmp::Reverse, collections::HashMap};

use crate::model::{PodFlags, PodPhase, PodRecord, PodTable, Slot};

/// Deletion order of Pods: the smallest is deleted first.
type PodRank = (
    bool,
    bool,
    u8,
    bool,
    Reverse<u64>,
    Reverse<u16>,
    Reverse<u16>,
    Reverse<u64>,
    u32,
);

fn rank(slot: Slot, pod: &PodRecord) -> PodRank {
    let phase = match pod.phase {
        PodPhase::Pending | PodPhase::Succeeded | PodPhase::Failed => 0,
        PodPhase::Unknown => 1,
        PodPhase::Running => 2,
    };
    let ready = pod.has(PodFlags::READY);
    let ready_since = if ready {
        unset_is_newest(pod.ready_since)
    } else {
        0
    };
    (
        // A Pod without the finalizer will not be counted, so it is of no use. The controller that released it may have
        // forgotten it in a restart.
        pod.has(PodFlags::FINALIZER),
        pod.has(PodFlags::ASSIGNED),
        phase,
        ready,
        Reverse(ready_since),
        Reverse(pod.restarts_max),
        Reverse(pod.sidecar_restarts_max),
        Reverse(unset_is_newest(pod.created)),
        slot.0,
    )
}

/// Ranks an unset time first, then the newest.
fn unset_is_newest(seconds: u32) -> u64 {
    if seconds == 0 {
        u64::MAX
    } else {
        u64::from(seconds)
    }
}

/// Returns the `count` Pods of `candidates` to delete first.
pub(super) fn first_to_go(candidates: Vec<Slot>, pods: &PodTable, count: usize) -> Vec<Slot> {
    if count == 0 {
        return Vec::new();
    }
    let mut ranked: Vec<(PodRank, Slot)> = candidates
        .into_iter()
        .filter_map(|slot| Some((rank(slot, pods.get(slot)?), slot)))
        .collect();
    if count < ranked.len() {
        ranked.select_nth_unstable(count);
        ranked.truncate(count);
    }
    ranked.sort_unstable();
    ranked.into_iter().map(|(_, slot)| slot).collect()
}

/// Splits active Pods of an Indexed Job. The first list must be deleted whatever the number of Pods: without an index,
/// all but the best of each index, and with an index out of range, in this order. The second list is the rest.
pub(super) fn split_misplaced(
    candidates: Vec<Slot>,
    pods: &PodTable,
    completions: u32,
) -> (Vec<Slot>, Vec<Slot>) {
    let mut without_index = Vec::new();
    let mut out_of_range = Vec::new();
    let mut by_index: HashMap<u32, Vec<Slot>> = HashMap::new();
    for slot in candidates {
        match pods.get(slot).and_then(|pod| pod.index) {
            None => without_index.push(slot),
            Some(index) if index.get() >= completions => out_of_range.push(slot),
            Some(index) => by_index.entry(index.get()).or_default().push(slot),
        }
    }
    let mut by_index: Vec<(u32, Vec<Slot>)> = by_index.into_iter().collect();
    by_index.sort_unstable();
    let mut rest = Vec::new();
    let mut misplaced = without_index;
    for (_, holders) in by_index {
        let count = holders.len();
        let mut ranked = first_to_go(holders, pods, count);
        rest.extend(ranked.pop());
        misplaced.append(&mut ranked);
    }
    misplaced.append(&mut out_of_range);
    (misplaced, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(pods: Vec<PodRecord>) -> Vec<u32> {
        let mut table = PodTable::default();
        let slots: Vec<Slot> = pods.into_iter().map(|pod| table.insert(pod)).collect();
        let count = slots.len();
        first_to_go(slots, &table, count)
            .into_iter()
            .map(|slot| slot.0)
            .collect()
    }

    fn running(ready_since: u32) -> PodRecord {
        let flags = PodFlags::default()
            .with(PodFlags::ASSIGNED, true)
            .with(PodFlags::READY, ready_since > 0);
        PodRecord {
            phase: PodPhase::Running,
            flags,
            ready_since,
            created: 1,
            ..Default::default()
        }
    }

    #[test]
    fn pods_with_the_least_progress_are_deleted_first() {
        let unassigned = PodRecord {
            created: 1,
            ..Default::default()
        };
        let pending = PodRecord {
            phase: PodPhase::Pending,
            ..running(0)
        };
        let restarting = PodRecord {
            restarts_max: 3,
            ..running(5)
        };
        assert_eq!(
            order(vec![
                running(5),
                running(9),
                running(0),
                restarting,
                pending,
                unassigned
            ]),
            [5, 4, 2, 1, 3, 0]
        );
    }

    #[test]
    fn released_pods_are_deleted_first() {
        let counted = |phase, counted| PodRecord {
            phase,
            flags: running(5).flags.with(PodFlags::FINALIZER, counted),
            ..running(5)
        };
        let pending = counted(PodPhase::Pending, true);
        assert_eq!(
            order(vec![pending, counted(PodPhase::Running, false)]),
            [1, 0]
        );
    }

    #[test]
    fn among_equals_the_newest_goes_first() {
        let old = PodRecord {
            created: 3,
            ..running(5)
        };
        let new = PodRecord {
            created: 8,
            ..running(5)
        };
        assert_eq!(order(vec![old, new]), [1, 0]);
    }
}
