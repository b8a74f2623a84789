//! Golden cases of the judges: a test produces each cause. A file of `tests/` is a topic. The output is the causes, the
//! most important first, and the sentences.

use std::{cell::RefCell, collections::BTreeSet};

use crate::{golden, one_job::seen::SeenJob};

use super::{judge, print};

#[test]
fn cases() {
    let causes = RefCell::new(BTreeSet::new());
    golden::check("src/why/tests", 30, |_, input| {
        let sight = SeenJob::read(input);
        let reasons = judge::judge(&sight);
        causes
            .borrow_mut()
            .extend(reasons.iter().map(|it| it.cause));
        let names: Vec<&str> = reasons.iter().map(|reason| reason.cause).collect();
        let text = print::text(&sight, &reasons, &sight.unseen());
        format!("({})\n{text}", names.join(", "))
    });
    // The guide lists exactly these causes.
    let guide = include_str!("../../../../docs/status.md");
    let (_, guide) = guide.split_once("\n| cause |").expect("a table of causes");
    let (table, _) = guide.split_once("\n\n").expect("an end of the table");
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `"));
    let told: BTreeSet<&str> = rows
        .filter_map(|row| row.split_once('`'))
        .map(|(cause, _)| cause)
        .collect();
    assert_eq!(causes.into_inner(), told);
}
