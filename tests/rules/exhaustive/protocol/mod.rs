//! Models the counting protocol at its bound: three Pods, two crashes, two faults, one deletion by a user, and a watch
//! with any lag.
//!
//! A Pod's stages follow the machine's own table, `Stage::after`. Around it, `steps.rs` models the machine, and
//! `lockstep.rs` compares the real machine with that model. `moves.rs` lists the next steps, `search.rs` searches them
//! all, and `defect.rs` has the defects that must be found. docs/exhaustive.md lists the omissions, with their reasons.

mod defect;
mod moves;
mod search;
mod state;
mod steps;

use std::time::Instant;

use self::{
    defect::Defect,
    moves::Budget,
    search::{Found, search},
};
pub(super) use self::{
    state::{Change, Count, Mode, PODS, Removal, Sight, State, Writing},
    steps::Rules,
};

/// All trouble at the bound.
const BOUND: Budget = Budget {
    crashes: 2,
    faults: 2,
    deletions: 1,
    stops: 1,
};

fn rules(indexed: bool, deleting_has_failed: bool, pods: usize) -> Rules {
    Rules {
        indexed,
        deleting_has_failed,
        pods,
        defect: None,
    }
}

/// Searches all histories and prints their number.
fn check(rules: Rules, most: Budget) -> Found {
    let began = Instant::now();
    let found = search(rules, most);
    println!(
        "protocol, {} Pods{}{}, {most:?}: {} situations, looked at {} times, {} steps; {} MiB, {:.1?}",
        rules.pods,
        if rules.indexed { " with index" } else { "" },
        if rules.deleting_has_failed {
            ""
        } else {
            ", replaced once they have ended"
        },
        found.situations,
        found.looks,
        found.steps,
        found.bytes >> 20,
        began.elapsed()
    );
    found
}

/// Searches all histories and expects no violation.
fn check_whole(rules: Rules, most: Budget) {
    let found = check(rules, most);
    if let Some((wrong, way)) = found.wrong {
        panic!("{rules:?}: {wrong}\n{way}");
    }
    assert!(found.situations > 100_000, "hardly anything may come");
}

#[test]
#[cfg_attr(debug_assertions, ignore = "takes minutes without optimization")]
fn protocol_at_its_bound() {
    check_whole(rules(false, true, PODS), BOUND);
}

#[test]
#[cfg_attr(debug_assertions, ignore = "takes minutes without optimization")]
fn protocol_at_its_bound_with_indexes() {
    check_whole(rules(true, true, PODS), BOUND);
}

#[test]
#[cfg_attr(debug_assertions, ignore = "takes minutes without optimization")]
fn protocol_at_its_bound_with_pods_replaced_once_they_have_ended() {
    check_whole(rules(false, false, PODS), BOUND);
}

#[test]
fn every_planted_defect_is_found() {
    let most = Budget {
        crashes: 1,
        faults: 1,
        deletions: 1,
        stops: 1,
    };
    for defect in Defect::ALL {
        let rules = Rules {
            defect: Some(defect),
            ..rules(false, true, 2)
        };
        let found = search(rules, most);
        let Some((wrong, way)) = found.wrong else {
            panic!("{defect:?} is not found");
        };
        let steps = way.lines().count();
        println!("| `{defect:?}` | {wrong} | {steps} | {} |", found.looks);
    }
}
