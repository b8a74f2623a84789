//! Checks that the controllers' index records agree with the Pods.
//!
//! A controller may have missed events. Then its record has less, and never anything false. It must record each event
//! that it acted on.

use lakh::{
    record::IndexOutcome,
    shard::{RecordPage, RecordRow, RowEnd},
};

use super::{
    Judges,
    book::{Job, Pod},
    views::indexes,
};
use crate::{casting::Profile, world::World};

const JUDGE: &str = "records";

/// Faults that may keep events from a living controller, or bring it events of foreign objects.
const MISSES_NEWS: [Profile; 4] = [
    Profile::Watches,
    Profile::Backup,
    Profile::Two,
    Profile::Hostile,
];

impl Judges {
    /// Judges the records at the end. Returns the number of rows judged.
    pub(super) fn judge_records(&mut self, world: &World) -> usize {
        let mut judged = 0;
        let profiles = &world.scenario.profiles;
        let hears_all = !MISSES_NEWS.iter().any(|it| profiles.contains(it));
        // The lost history had other Pods.
        if self.restored_at.is_some() {
            return judged;
        }
        for (knows_since, page) in world.records() {
            let uid = page.uid.to_string();
            let Some(job) = self.jobs.get(&uid) else {
                continue;
            };
            if job.is_meddled_with || job.gone_at.is_some() {
                continue;
            }
            let pods: Vec<&Pod> = self
                .pods
                .values()
                .filter(|pod| pod.job.as_deref() == Some(&uid))
                .collect();
            if pods.iter().any(|pod| pod.is_meddled_with) {
                continue;
            }
            judged += page.rows.iter().filter(|row| row.tries.is_some()).count();
            let mut wrong = untrue(&page, &pods, hears_all);
            let is_alone = !self.is_shared && world.scenario.partition.is_none();
            if knows_since <= job.created_at && is_alone {
                wrong.extend(unrecorded(&page, job, &pods));
                if hears_all && job.sizes.len() == 1 {
                    wrong.extend(uncounted_tries(&page, &pods));
                }
            }
            let name = format!("{}/{}", job.namespace, job.name);
            for text in wrong {
                self.find(JUDGE, format!("{name}: {text}"));
            }
        }
        judged
    }
}

/// Returns the Pods of an index.
fn of_index<'a>(pods: &'a [&Pod], row: &RecordRow) -> impl Iterator<Item = &'a Pod> {
    let index = u64::from(row.index);
    let pods = pods.iter().copied();
    pods.filter(move |pod| pod.view.index == Some(index))
}

/// Returns the rows that are false. The event of a Pod that is gone may come a second time, and then counts as another
/// Pod.
fn untrue(page: &RecordPage, pods: &[&Pod], hears_all: bool) -> Vec<String> {
    let mut wrong = Vec::new();
    for row in &page.rows {
        let made = of_index(pods, row).count();
        let tries = usize::from(row.tries.unwrap_or(0));
        if tries > made && hears_all {
            wrong.push(format!("index {}: {tries} tries of {made}", row.index));
        }
        let Some(end) = &row.end else { continue };
        if !of_index(pods, row).any(|pod| ended_so(pod, end)) {
            let pods: Vec<_> = of_index(pods, row).map(|pod| &pod.view).collect();
            wrong.push(format!(
                "index {}: no Pod ended so: {end:?}: {pods:?}",
                row.index
            ));
        }
    }
    wrong
}

/// Returns true if the Pod ended as recorded, as far as the record goes.
fn ended_so(pod: &Pod, end: &RowEnd) -> bool {
    let view = &pod.view;
    let is_there = end.node.is_empty() || end.node == view.node;
    let code = end.cause.exit_code.map(i64::from);
    let has_code = code == view.exit_code || view.exits.iter().any(|(_, exit)| Some(*exit) == code);
    let is_so = match end.outcome {
        // The collector of Pods of lost nodes may have changed the phase later.
        IndexOutcome::Succeeded => view.phase == "Succeeded" || pod.failed_after_all,
        IndexOutcome::Failed => view.phase == "Failed" && (has_code || pod.failed_after_all),
        IndexOutcome::Gone => pod.is_gone,
    };
    is_there && is_so
}

/// Returns the facts that a controller acted on and did not record.
fn unrecorded(page: &RecordPage, job: &Job, pods: &[&Pod]) -> Vec<String> {
    let mut wrong = Vec::new();
    let status = &job.view.status;
    let completed = indexes(&status.completed_indexes);
    let failed = indexes(status.failed_indexes.as_deref().unwrap_or_default());
    for row in &page.rows {
        let index = u64::from(row.index);
        let outcome = row.end.as_ref().map(|end| end.outcome);
        let has_succeeded = outcome == Some(IndexOutcome::Succeeded);
        if completed.contains(&index) && !has_succeeded {
            wrong.push(format!(
                "index {index} is completed, and recorded as {outcome:?}"
            ));
        }
        // A deleted Pod counts as failed, and may still succeed.
        if failed.contains(&index) && outcome.is_none() {
            wrong.push(format!(
                "index {index} has failed, and is recorded as {outcome:?}"
            ));
        }
        let was_seen = |pod: &Pod| pod.was_freed && !pod.was_given_up && pod.ended_as.is_some();
        if outcome.is_none() && of_index(pods, row).any(was_seen) {
            wrong.push(format!(
                "index {index}: a Pod was counted, and no end is recorded"
            ));
        }
    }
    wrong
}

/// Returns the rows that count fewer tries than Pods. Only valid if the controller received all events.
fn uncounted_tries(page: &RecordPage, pods: &[&Pod]) -> Vec<String> {
    let rows = page.rows.iter();
    let wrong = rows.filter_map(|row| {
        let made = of_index(pods, row).count();
        let tries = usize::from(row.tries.unwrap_or(0));
        (tries < made).then(|| format!("index {}: {tries} tries of {made}", row.index))
    });
    wrong.collect()
}

#[test]
fn there_is_something_to_judge() {
    use crate::{casting::Scenario, deeds::Deed};

    let spec = serde_json::json!({
        "completions": 6, "parallelism": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 1,
        "template": {
            "metadata": {"annotations": {"sim.lakh.dev/fail-indexes": "1,3", "sim.lakh.dev/duration": "1s"}},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]},
        },
    });
    let mut scenario = Scenario::quiet(7);
    let deed = Deed::CreateJob(crate::casting::BUSY, 0, Box::new(spec));
    scenario.deeds.push((10, deed));
    let mut world = World::new(scenario);
    world.run_until(120_000).expect("nothing goes wrong");
    let mut judges = world.judges.clone();
    assert_eq!(judges.judge_records(&world), 6);
    assert_eq!(judges.found(), Ok(()));
}
