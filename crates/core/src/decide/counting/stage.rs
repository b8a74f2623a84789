//! Defines the stages of a Pod's counting, and the one table of their transitions.
//!
//! docs/design/pod-stages.md prints the table; a test compares the two.
//!
//! Must not: decide which event a Pod had.

/// The end of a Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It succeeded.
    Success,
    /// It failed, or counts as if it had.
    Failure,
}

/// The stage of a Pod's counting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// Nothing to count: the Pod has not ended, or it came without our finalizer.
    #[default]
    Live,
    /// The Pod failed and is kept until its index has a new Pod.
    Delayed,
    /// The Pod ended and waits for the next status write.
    Ended(End),
    /// A status write that records the Pod is in flight.
    Listing(End),
    /// The server's status records the Pod: its finalizer may be removed.
    Listed(End),
    /// The Pod has not ended and goes uncounted: its finalizer may be removed. A deletion by other clients does not
    /// change that. If the Pod ends before the removal reaches the server, or the server refuses the removal, the Pod
    /// counts after all.
    Stopped,
    /// The Pod is never counted: its finalizer may be removed.
    Skipped,
    /// Nothing is left to do.
    Settled,
}

/// State of a Pod after a refused removal of its finalizer. A Pod that has ended, is gone or has lost its finalizer has
/// inputs of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// The Pod has not ended and is not being deleted.
    Active,
    /// The Pod is being deleted and has not ended.
    Terminating,
}

/// An event in the counting of a Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// The Pod is gone.
    Gone,
    /// The Job has ended or is gone, and the Pod has the finalizer.
    JobOver,
    /// An event shows the Pod without the finalizer.
    Freed,
    /// An event shows the Pod with the finalizer, and nothing new about its end.
    Seen,
    /// The server's status records the Pod.
    WasListed(End),
    /// The status write in flight records the Pod, which had left the Job and has come back.
    BeingListed(End),
    /// The Pod succeeded.
    Succeeded,
    /// The Pod succeeded, and the server's status has its index.
    IndexStored,
    /// The Pod failed, and counts.
    Failed,
    /// The Pod failed, and is kept for its index.
    Kept,
    /// The Pod ended and does not count: its index is invalid or has failed, or a policy ignores it.
    Ignored,
    /// The Job does not want the Pod any more.
    Stopped,
    /// The server refused to remove the finalizer, and the Pod has this state since.
    RemovalRefused(Shown),
    /// A status write records the Pod.
    Named,
    /// The server has the status that records the Pod.
    StatusWritten,
    /// The server may not have the status that records the Pod.
    StatusNotWritten,
}

impl Stage {
    /// Returns the next stage.
    #[inline]
    pub fn after(self, input: Input) -> Self {
        use Stage::{Delayed, Ended, Listed, Listing, Live, Settled, Skipped, Stopped};
        match (self, input) {
            (_, Input::Gone) => Live,
            (_, Input::JobOver) => Skipped,

            (Live | Delayed, Input::Freed) => Live,
            (_, Input::Freed) => Settled,
            // The Pod was counted or skipped before: never a second time.
            (Settled, Input::Seen) => Skipped,

            (Delayed, Input::Seen) => Live,
            (Live | Delayed | Stopped, Input::WasListed(end)) => Listed(end),
            (Live | Delayed | Stopped, Input::BeingListed(end)) => Listing(end),
            (Live | Delayed | Stopped | Ended(End::Failure), Input::Succeeded) => {
                Ended(End::Success)
            }
            (Live | Delayed | Stopped | Ended(_), Input::IndexStored) => Listed(End::Success),
            (Live | Delayed | Stopped | Ended(End::Failure), Input::Failed) => Ended(End::Failure),
            (Live | Delayed | Stopped | Ended(End::Failure), Input::Kept) => Delayed,
            (Live | Delayed | Stopped | Ended(End::Failure), Input::Ignored) => Skipped,

            (Live, Input::Stopped) => Stopped,
            // The Job may want the Pod by now. A Pod that is being deleted is no longer wanted.
            (Stopped, Input::RemovalRefused(Shown::Active)) => Live,
            (Stopped, Input::RemovalRefused(Shown::Terminating)) => Stopped,

            (Ended(end), Input::Named) => Listing(end),
            (Listing(end), Input::StatusWritten) => Listed(end),
            (Listing(end), Input::StatusNotWritten) => Ended(end),

            (same, _) => same,
        }
    }

    /// Returns true if the Pod's finalizer may be removed.
    pub fn may_be_freed(self) -> bool {
        matches!(self, Self::Listed(_) | Self::Stopped | Self::Skipped)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const ENDS: [End; 2] = [End::Success, End::Failure];

    /// Returns every stage with its name in the table.
    fn stages() -> Vec<(String, Stage)> {
        let plain = [
            Stage::Live,
            Stage::Delayed,
            Stage::Stopped,
            Stage::Skipped,
            Stage::Settled,
        ];
        let with_end: [fn(End) -> Stage; 3] = [Stage::Ended, Stage::Listing, Stage::Listed];
        let with_end = with_end.iter().flat_map(|stage| ENDS.map(stage));
        let all = plain.into_iter().chain(with_end);
        all.map(|stage| (name(&stage), stage)).collect()
    }

    fn inputs() -> Vec<(String, Input)> {
        let plain = [
            Input::Gone,
            Input::JobOver,
            Input::Freed,
            Input::Seen,
            Input::Succeeded,
            Input::IndexStored,
            Input::Failed,
            Input::Kept,
            Input::Ignored,
            Input::Stopped,
            Input::RemovalRefused(Shown::Active),
            Input::RemovalRefused(Shown::Terminating),
            Input::Named,
            Input::StatusWritten,
            Input::StatusNotWritten,
        ];
        let all = plain.into_iter().chain(ENDS.map(Input::WasListed));
        let all = all.chain(ENDS.map(Input::BeingListed));
        all.map(|input| (name(&input), input)).collect()
    }

    /// `Ended(Success)` is `Ended Success` in the table.
    fn name(value: &impl std::fmt::Debug) -> String {
        format!("{value:?}").replace('(', " ").replace(')', "")
    }

    /// Parses a cell of the table: items are separated by commas, and `Ended` alone is either end.
    fn meant<T: Copy>(cell: &str, all: &[(String, T)]) -> Vec<(String, T)> {
        let of = |word: &str| {
            let same = move |name: &str| {
                word == "any"
                    || name == word
                    || name
                        .strip_prefix(word)
                        .is_some_and(|rest| rest.starts_with(' '))
            };
            let found: Vec<_> = all.iter().filter(|(name, _)| same(name)).cloned().collect();
            assert!(!found.is_empty(), "{word} is nothing of ours");
            found
        };
        cell.split(", ").flat_map(of).collect()
    }

    /// Parses the next stage. Where the table leaves the end open, it is that of the stage or the input.
    fn next(cell: &str, stage: &str, input: &str, all: &[(String, Stage)]) -> Stage {
        let found = meant(cell, all);
        let end = |name: &str| name.split_once(' ').map(|(_, end)| end.to_owned());
        let end = end(input).or_else(|| end(stage));
        let mut fitting = found.iter().filter(|(name, _)| {
            found.len() == 1 || name.split_once(' ').map(|(_, end)| end.to_owned()) == end
        });
        let (_, stage) = fitting.next().expect("a stage that fits");
        *stage
    }

    #[test]
    fn the_printed_table_is_the_one_that_holds() {
        let text = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/design/pod-stages.md"
        );
        let text = std::fs::read_to_string(text).expect("the page can be read");
        let (_, table) = text
            .split_once("| Stage | Input | Next stage |\n")
            .expect("the table");
        let (stages, inputs) = (stages(), inputs());
        let mut seen = BTreeSet::new();
        let mut same: Vec<_> = Vec::new();
        for (stage_name, stage) in &stages {
            for (input_name, input) in &inputs {
                same.push((stage_name.clone(), input_name.clone(), *stage, *input));
            }
        }
        for row in table
            .lines()
            .skip(1)
            .take_while(|line| line.starts_with('|'))
        {
            let cells: Vec<&str> = row.trim_matches(['|', ' ']).split(" | ").collect();
            let [from, on, to] = cells[..] else {
                panic!("not three cells: {row}");
            };
            for (stage_name, stage) in meant(from, &stages) {
                for (input_name, input) in meant(on, &inputs) {
                    // The first matching row decides.
                    if seen.insert((stage_name.clone(), input_name.clone())) {
                        let next = next(to, &stage_name, &input_name, &stages);
                        assert_eq!(stage.after(input), next, "{row}: {stage:?}, {input:?}");
                    }
                }
            }
        }
        assert!(
            seen.len() > 60,
            "only {} pairs are in the table",
            seen.len()
        );
        for (stage_name, input_name, stage, input) in same {
            if !seen.contains(&(stage_name, input_name)) {
                assert_eq!(
                    stage.after(input),
                    stage,
                    "{stage:?}, {input:?} is not printed"
                );
            }
        }
    }

    #[test]
    fn no_pod_is_counted_twice_or_changes_its_listed_outcome() {
        for (_, stage) in stages() {
            for (_, input) in inputs() {
                let next = stage.after(input);
                if matches!(stage, Stage::Settled | Stage::Skipped) && input != Input::Gone {
                    assert!(
                        matches!(next, Stage::Settled | Stage::Skipped),
                        "{stage:?}, {input:?}"
                    );
                }
                if let (Stage::Listed(was), Stage::Ended(is) | Stage::Listing(is)) = (stage, next) {
                    panic!("{was:?} becomes {is:?} by {input:?}");
                }
            }
        }
    }
}
