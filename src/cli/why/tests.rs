//! Golden cases of the judges: each cause is made here. A file of `tests/` is a topic; said are the causes, the one that
//! matters first, and the sentences.

use std::{cell::RefCell, collections::BTreeSet};

use crate::cli::{golden, one_job::seen::SeenJob};

use super::{judge, print};

#[test]
fn cases() {
    let causes = RefCell::new(BTreeSet::new());
    golden::check("src/cli/why/tests", 30, |_, input| {
        let sight = SeenJob::read(input);
        let reasons = judge::judge(&sight);
        causes
            .borrow_mut()
            .extend(reasons.iter().map(|it| it.cause));
        let names: Vec<&str> = reasons.iter().map(|reason| reason.cause).collect();
        let text = print::text(&sight, &reasons, &sight.unseen());
        format!("({})\n{text}", names.join(", "))
    });
    // Each is in the guide, and the guide has no other.
    let guide = include_str!("../../../docs/status.md");
    let (_, guide) = guide.split_once("\n| cause |").expect("a table of causes");
    let (table, _) = guide.split_once("\n\n").expect("an end of the table");
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `"));
    let told: BTreeSet<&str> = rows
        .filter_map(|row| row.split_once('`'))
        .map(|(cause, _)| cause)
        .collect();
    assert_eq!(causes.into_inner(), told);
}
