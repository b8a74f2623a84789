//! Drives each scenario: creates Jobs, and changes or deletes them while they run.
//!
//! Must not: measure; `seen` does.

use std::{error::Error, time::Duration};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use lakh::{client::Patch, wire::paths};
use serde_json::{Value, json};
use tokio::{
    task::JoinSet,
    time::{MissedTickBehavior, interval, sleep},
};

use crate::{
    child::Running,
    report::Phase,
    scenario::{ALONE, BESIDE, DURATION, MAIN_JOB, Scenario, go_duration},
    seen::Seen,
    target::{Target, patiently},
};

/// Maximum number of concurrent Job creations, like those of one impatient user.
const JOBS_AT_ONCE: usize = 16;

/// Interval of relist storms.
const STORM_EVERY: Duration = Duration::from_millis(500);

/// Interval of new small Jobs beside the giant.
const SMALL_JOB_EVERY: Duration = Duration::from_millis(250);

/// Interval of the tenant's Jobs: too few to be a load by themselves.
const TENANTS_JOB_EVERY: Duration = Duration::from_millis(500);

/// A running scenario.
pub(crate) struct Drive<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) target: &'a Target,
    pub(crate) seen: &'a Seen,
    /// The measured process, if it was started here.
    pub(crate) child: Option<&'a mut Running>,
    /// Completed phases of the run.
    pub(crate) phases: &'a mut Vec<Phase>,
}

type Done = Result<(), Box<dyn Error>>;

impl Drive<'_> {
    /// Runs the scenario to its end.
    pub(crate) async fn run(mut self) -> Done {
        let jobs = self.scenario.jobs();
        let count = jobs.len() as u32;
        // The writer's Job exists already, and the neighbours scenario starts without the giant.
        if !matches!(self.scenario, Scenario::Writer(_) | Scenario::Neighbours(_)) {
            create(self.target, jobs).await?;
        }
        match self.scenario {
            Scenario::Indexed(_)
            | Scenario::NonIndexed(_)
            | Scenario::SmallJobs(_)
            | Scenario::PerIndexFailures(_)
            | Scenario::SlowServer(_) => self.until_ended(count).await,
            Scenario::SuspendResume(_) => self.suspend_and_resume().await?,
            Scenario::RelistStorms(_) => self.storms().await,
            Scenario::DeleteFullJob(_) => self.delete_when_full().await?,
            Scenario::Fairness(_) => self.small_jobs_beside_a_giant().await?,
            Scenario::Neighbours(neighbours) => {
                self.neighbours(neighbours.alone, neighbours.beside).await?
            }
            Scenario::Writer(_) => {
                let writer = self
                    .child
                    .as_mut()
                    .ok_or("the bare writer was not started")?;
                writer.written().await?;
            }
        }
        self.phase_over("to the end");
        Ok(())
    }

    async fn until_ended(&self, jobs: u32) {
        let ended = |counts: crate::seen::Counts| counts.complete + counts.failed_jobs >= jobs;
        self.seen.until(ended).await;
    }

    async fn until_full(&mut self) {
        let load = self.scenario.load();
        let full = load.parallelism.unwrap_or(load.size).min(load.size);
        self.seen.until(|counts| counts.active >= full).await;
        self.phase_over("filling");
    }

    async fn suspend_and_resume(&mut self) -> Done {
        self.until_full().await;
        self.patch(json!({"spec": {"suspend": true}})).await?;
        let idle = |counts: crate::seen::Counts| counts.suspended == 1 && counts.active == 0;
        self.seen.until(idle).await;
        self.phase_over("suspending");
        let duration = go_duration(self.scenario.load().pod_duration);
        let template = json!({"metadata": {"annotations": {DURATION: duration}}});
        let resumed = json!({"spec": {"suspend": false, "template": template}});
        // The status without active Pods may lag behind the Pods.
        while let Err(error) = self.patch(resumed.clone()).await {
            if !error.to_string().contains("immutable") {
                return Err(error);
            }
            sleep(Duration::from_millis(50)).await;
        }
        self.until_ended(1).await;
        Ok(())
    }

    async fn storms(&self) {
        let storms = async {
            loop {
                sleep(STORM_EVERY).await;
                self.target.expire_watches();
            }
        };
        tokio::select! {
            () = self.until_ended(1) => {}
            () = storms => {}
        }
    }

    async fn delete_when_full(&mut self) -> Done {
        self.until_full().await;
        let options = json!({"propagationPolicy": "Background"});
        let (path, body) = (self.main_job(), options.to_string().into_bytes());
        self.target.client.delete_with(&path, body).await?;
        let gone = |counts: crate::seen::Counts| counts.deleted == 1 && counts.present == 0;
        self.seen.until(gone).await;
        Ok(())
    }

    async fn small_jobs_beside_a_giant(&mut self) -> Done {
        let load = self.scenario.load();
        let tenth = load.size / 10;
        self.seen.until(|counts| counts.created >= tenth).await;
        self.phase_over("to full flight");
        let mut ticks = interval(SMALL_JOB_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut jobs = 1;
        // The giant's Pods outnumber all others, so the giant has ended once this many are counted.
        while self.seen.counts().counted < load.size {
            ticks.tick().await;
            let job = load.small_job(&format!("{MAIN_JOB}-small-{jobs}"));
            create(self.target, vec![job]).await?;
            jobs += 1;
        }
        self.until_ended(jobs).await;
        Ok(())
    }

    async fn neighbours(&mut self, alone: u32, least: u32) -> Done {
        self.tenants_jobs(ALONE, |made| made >= alone).await?;
        self.until_ended(alone).await;
        self.phase_over(ALONE);
        create(self.target, self.scenario.jobs()).await?;
        let tenth = alone + self.scenario.load().size / 10;
        self.seen.until(|counts| counts.created >= tenth).await;
        self.phase_over("to full flight");
        let is_over = |made| made >= least && self.seen.has_ended(MAIN_JOB);
        let beside = self.tenants_jobs(BESIDE, is_over).await?;
        self.until_ended(alone + 1 + beside).await;
        Ok(())
    }

    /// Creates the tenant's Jobs until `enough` holds for their number; returns the number. Creations do not wait for
    /// earlier responses: otherwise the load would drop as the latency rises.
    async fn tenants_jobs(
        &self,
        when: &str,
        enough: impl Fn(u32) -> bool,
    ) -> Result<u32, Box<dyn Error>> {
        let tenant = self.target.tenant.as_ref().ok_or("there is no tenant")?;
        let load = self.scenario.load();
        let mut ticks = interval(TENANTS_JOB_EVERY);
        let mut answers = JoinSet::new();
        let mut made = 0;
        while !enough(made) {
            ticks.tick().await;
            let name = format!("{MAIN_JOB}-{when}-{made}");
            let body = load.small_job(&name).to_string().into_bytes();
            self.seen.asked_for(&name);
            let (client, path) = (tenant.client.clone(), paths::jobs(Some(&tenant.namespace)));
            answers.spawn(async move { patiently(|| client.create(&path, body.clone())).await });
            made += 1;
        }
        while let Some(answer) = answers.join_next().await {
            answer??;
        }
        Ok(made)
    }

    async fn patch(&self, patch: Value) -> Done {
        let (path, body) = (self.main_job(), patch.to_string().into_bytes());
        self.target.client.patch(&path, Patch::Merge, body).await?;
        Ok(())
    }

    fn main_job(&self) -> String {
        paths::job(&self.target.namespace, MAIN_JOB)
    }

    fn phase_over(&mut self, name: &str) {
        let begun: f64 = self.phases.iter().map(|phase| phase.seconds).sum();
        self.phases.push(Phase {
            name: name.to_owned(),
            seconds: self.seen.started().elapsed().as_secs_f64() - begun,
        });
    }
}

/// Creates Jobs, several at a time.
pub(crate) async fn create(target: &Target, jobs: Vec<Value>) -> Done {
    let path = paths::jobs(Some(&target.namespace));
    let created = jobs.into_iter().map(|job| {
        let (client, path, body) = (&target.client, &path, job.to_string().into_bytes());
        patiently(move || client.create(path, body.clone()))
    });
    stream::iter(created)
        .buffer_unordered(JOBS_AT_ONCE)
        .try_for_each(async |_| Ok(()))
        .await?;
    Ok(())
}
