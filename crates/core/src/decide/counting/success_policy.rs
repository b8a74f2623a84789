//! Decides whether an Indexed Job's successPolicy is met.
//!
//! Source: docs/rules/jobs.md, 6.4. The number of completed indexes is maintained per rule, so evaluating the rules
//! visits no index.

use crate::model::{IndexSet, SuccessPolicy, SuccessRule};

/// For each rule with a set of indexes, the number of these that are completed; 0 for other rules.
#[doc(alias = "matchSuccessPolicy")]
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Successes {
    done: Vec<u32>,
}

impl Successes {
    /// Returns the counts for these completed indexes.
    pub(super) fn new(policy: Option<&SuccessPolicy>, completed: &IndexSet) -> Self {
        let rules = policy.into_iter().flat_map(|policy| &policy.rules);
        Self {
            done: rules
                .map(|rule| match rule {
                    SuccessRule::Among { indexes, .. } => indexes.intersection_len(completed),
                    SuccessRule::Any(_) | SuccessRule::Never => 0,
                })
                .collect(),
        }
    }

    /// Adds a completed index.
    pub(super) fn add(&mut self, policy: &SuccessPolicy, index: u32) {
        for (done, rule) in self.done.iter_mut().zip(&policy.rules) {
            match rule {
                SuccessRule::Among { indexes, .. } if indexes.contains(index) => *done += 1,
                SuccessRule::Among { .. } | SuccessRule::Any(_) | SuccessRule::Never => {}
            }
        }
    }

    /// Returns the position of the first rule that is met, with `completed` indexes in all.
    pub(super) fn met(&self, policy: &SuccessPolicy, completed: u32) -> Option<usize> {
        if completed == 0 {
            return None;
        }
        let mut rules = self.done.iter().zip(&policy.rules);
        rules.position(|(done, rule)| match rule {
            SuccessRule::Among { enough, .. } => done >= enough,
            SuccessRule::Any(enough) => completed >= *enough,
            SuccessRule::Never => false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn met(rules: Vec<SuccessRule>, completed: &str) -> Option<usize> {
        let policy = SuccessPolicy { rules };
        let completed = IndexSet::parse(completed, 9);
        let at_once = Successes::new(Some(&policy), &completed);
        let mut by_change = Successes::new(Some(&policy), &IndexSet::default());
        for index in completed.iter() {
            by_change.add(&policy, index);
        }
        assert_eq!(at_once, by_change);
        at_once.met(&policy, completed.len())
    }

    #[test]
    fn a_rule_counts_its_own_indexes() {
        let rule = |indexes, count| SuccessRule::new(indexes, count, 8);
        let two_of = || vec![rule(Some("3-6"), Some(2))];
        assert_eq!(met(two_of(), "0-2,4-7"), Some(0));
        assert_eq!(met(two_of(), "0-2,6,7"), None);
        assert_eq!(met(vec![rule(Some("0,1"), None)], "0,2"), None);
        assert_eq!(met(vec![rule(Some("0,1"), None)], "0,1"), Some(0));
        let two_rules = vec![rule(Some("0,1"), None), rule(None, Some(2))];
        assert_eq!(met(two_rules, "4,5"), Some(1));
        assert_eq!(met(vec![rule(Some("invalid"), Some(0))], "0"), None);
        assert_eq!(met(vec![rule(None, Some(0))], ""), None, "nothing is done");
    }
}
