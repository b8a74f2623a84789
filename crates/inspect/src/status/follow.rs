//! Implements `--watch`: follows a Job to its end.
//!
//! The Job is watched. After changes its Pods are listed again, so rarely that listing takes a small part of the time.
//! Where a watch is not allowed, the Job is polled.
//!
//! Must not: print anything about a Job but its report.

use std::{
    io::IsTerminal as _,
    time::{Duration, Instant},
};

use futures::StreamExt as _;

use lakh_client::{Client, Lines};
use lakh_clock::instant;
use lakh_model::{ConditionKind, JobKey, Time, Uid};
use lakh_wire::{ApiError, ErrorKind, Object, WatchEvent, decode_watch_line, paths};

use crate::{
    FAILED, OK, OutputError, Problem, TIMED_OUT,
    ask::Asker,
    complain,
    formats::{json_line, yaml},
    one_job::{Depth, JobDetails, JobSight, SeenSuccesses, look, no_job, read_job},
    output::put,
    print as tell,
};

use super::{
    StatusOutput, form, print,
    recorded::{self, Recorded},
    report::StatusReport,
};

/// The polling period where the Job may not be watched, and the delay before a broken watch is reopened.
const POLL: Duration = Duration::from_secs(2);

/// The minimum period between lists of the Pods.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Lines that are redrawn on a terminal: more would scroll away on a small one.
const MOST_LINES: usize = 20;

/// An error that ends a watch.
#[derive(Debug, thiserror::Error)]
enum WatchError {
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error(transparent)]
    Output(#[from] OutputError),
}

/// The end of a watched Job.
enum WatchEnd {
    Complete,
    Failed,
    Gone,
}

/// Follows the Job. Returns the exit code.
pub(super) async fn follow(
    mut follower: Follower<'_>,
    timeout: Option<Duration>,
) -> Result<u8, Problem> {
    let key = follower.key;
    let ended = match timeout {
        None => follower.run().await,
        Some(timeout) => match tokio::time::timeout(timeout, follower.run()).await {
            Ok(ended) => ended,
            Err(_) => {
                complain(&format!("Job {key} did not finish within {timeout:?}"));
                return Ok(TIMED_OUT);
            }
        },
    };
    Ok(match ended? {
        WatchEnd::Complete => OK,
        WatchEnd::Failed => FAILED,
        WatchEnd::Gone => {
            complain(&format!("Job {key} was deleted before it finished"));
            FAILED
        }
    })
}

/// A Job being followed.
pub(super) struct Follower<'a> {
    asker: &'a Asker,
    key: &'a JobKey,
    sight: JobSight,
    controller: Option<Client>,
    /// The controller's answer after the last list of Pods, if it is queried.
    recorded: Option<Recorded>,
    successes: SeenSuccesses,
    /// The difference between the server's clock and ours, in milliseconds.
    ahead: i64,
    next_look: Instant,
    screen: Screen,
}

impl<'a> Follower<'a> {
    /// Reads the Job for the first time.
    pub(super) async fn begin(
        asker: &'a Asker,
        key: &'a JobKey,
        output: StatusOutput,
        controller: Option<Client>,
    ) -> Result<Self, Problem> {
        let sight = look(asker, key, Depth::Pods).await;
        let sight = sight.map_err(|error| no_job(asker, key, &error))?;
        let mut follower = Self {
            controller,
            recorded: None,
            ahead: sight.now.as_millis() - asker.now().as_millis(),
            successes: SeenSuccesses::default(),
            next_look: instant() + LOOK_EVERY,
            screen: Screen::new(output),
            asker,
            key,
            sight,
        };
        follower.ask_controller().await;
        Ok(follower)
    }

    /// Prints each change until the Job has ended.
    async fn run(&mut self) -> Result<WatchEnd, Problem> {
        let uid = self.sight.job.job.uid;
        loop {
            if let Some(end) = self.show().await? {
                return Ok(end);
            }
            let begun = instant();
            match self.watch(uid).await {
                Ok(Some(end)) => return Ok(end),
                Ok(None) => {}
                // The Job is polled where it may not be watched.
                Err(WatchError::Api(error)) => tracing::debug!(%error, "the watch ended"),
                Err(WatchError::Output(error)) => return Err(error.into()),
            }
            if begun.elapsed() < POLL {
                tokio::time::sleep(POLL).await;
            }
            match read_job(self.asker, self.key).await {
                Ok((job, _)) if job.job.uid != uid => return Ok(WatchEnd::Gone),
                Ok((job, _)) => self.see(job),
                Err(error) if error.kind == ErrorKind::NotFound => return Ok(WatchEnd::Gone),
                // A forbidden request stays forbidden, but a server that is away may come back.
                Err(error) if [401, 403].contains(&error.code) => {
                    return Err(no_job(self.asker, self.key, &error));
                }
                Err(error) => tracing::debug!(%error, "the Job could not be read"),
            }
        }
    }

    /// Prints changes until the Job or the watch ends. Returns the end of the Job, if it has ended.
    async fn watch(&mut self, uid: Uid) -> Result<Option<WatchEnd>, WatchError> {
        let path = format!(
            "{}?watch=true&fieldSelector=metadata.name%3D{}&resourceVersion={}",
            paths::jobs(Some(&self.key.namespace)),
            self.key.name,
            self.sight.job.job.resource_version
        );
        let mut pieces = self.asker.watch(&path).await?;
        let mut lines = Lines::default();
        while let Some(piece) = pieces.next().await {
            let mut news = Vec::new();
            lines.push(&piece?, |line| {
                news.extend(read_line(line, uid)?);
                Ok::<(), ApiError>(())
            })?;
            for one in news {
                let WatchNews::Changed(job) = one else {
                    return Ok(Some(WatchEnd::Gone));
                };
                self.see(*job);
                // The Job may have ended since, as a read of its Pods may show.
                if let Some(end) = self.show().await? {
                    return Ok(Some(end));
                }
            }
        }
        Ok(None)
    }

    fn see(&mut self, job: JobDetails) {
        self.sight.job = job;
        self.sight.now = Time::from_millis(self.asker.now().as_millis() + self.ahead);
    }

    /// Prints the state of the Job. Returns its end, if it has ended.
    async fn show(&mut self) -> Result<Option<WatchEnd>, OutputError> {
        let has_ended = self.sight.job.end().is_some();
        if has_ended || instant() >= self.next_look {
            self.look_again().await;
        }
        self.successes.see(&self.sight.job, self.sight.now);
        let pace = self.successes.pace(&self.sight.job, self.sight.now);
        let mut report = StatusReport::of(&self.sight, pace);
        if let Some(recorded) = &self.recorded {
            report.add(recorded.clone());
        }
        let end = self.sight.job.end();
        self.screen.show(&report, &self.sight, end.is_some())?;
        Ok(end.map(|end| match end.is(ConditionKind::Complete) {
            true => WatchEnd::Complete,
            false => WatchEnd::Failed,
        }))
    }

    async fn ask_controller(&mut self) {
        if let Some(controller) = &self.controller {
            self.recorded = Some(recorded::look(&self.sight, controller).await);
        }
    }

    /// A failed read leaves the previous snapshot.
    async fn look_again(&mut self) {
        let begun = instant();
        match look(self.asker, self.key, Depth::Pods).await {
            Ok(sight) if sight.job.job.uid == self.sight.job.job.uid => {
                self.sight = sight;
                self.ask_controller().await;
            }
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, "the Job could not be inspected"),
        }
        // However long a read takes, it is a small part of the time.
        self.next_look = instant() + LOOK_EVERY.max(begun.elapsed() * 20);
    }
}

/// A watch event of the Job.
enum WatchNews {
    Changed(Box<JobDetails>),
    Gone,
}

/// Decodes an event. Events of another Job with the name are skipped.
fn read_line(line: &[u8], uid: Uid) -> Result<Option<WatchNews>, ApiError> {
    let odd = |error: serde_json::Error| ApiError::no_answer(format!("odd event: {error}"));
    let read = |object: Object<'_>| {
        let job = object.json().and_then(JobDetails::read).map_err(odd)?;
        Ok::<_, ApiError>(Some(job).filter(|job| job.job.uid == uid))
    };
    Ok(match decode_watch_line(line).map_err(odd)? {
        WatchEvent::Applied(object) => read(object)?.map(|job| WatchNews::Changed(Box::new(job))),
        WatchEvent::Deleted(object) => read(object)?.map(|_| WatchNews::Gone),
        WatchEvent::Bookmark(_) => None,
        WatchEvent::Error(error) => return Err(error),
    })
}

/// The output while the Job is watched.
struct Screen {
    output: StatusOutput,
    is_terminal: bool,
    /// Lines that are redrawn.
    drawn: usize,
    said: String,
}

impl Screen {
    fn new(output: StatusOutput) -> Self {
        Self {
            output,
            is_terminal: std::io::stdout().is_terminal(),
            drawn: 0,
            said: String::new(),
        }
    }

    fn show(
        &mut self,
        report: &StatusReport,
        sight: &JobSight,
        is_last: bool,
    ) -> Result<(), OutputError> {
        match self.output {
            StatusOutput::Json => tell(&json_line(report)),
            StatusOutput::Yaml => tell(&format!("---\n{}", yaml(report))),
            _ if is_last => {
                self.wipe()?;
                tell(&form(report, sight, self.output))
            }
            _ if self.is_terminal => {
                self.wipe()?;
                self.draw(&print::text(report, sight.now))
            }
            _ => {
                let line = print::line(report);
                if line != self.said {
                    tell(&line)?;
                    self.said = line;
                }
                Ok(())
            }
        }
    }

    /// Clears the lines drawn last.
    fn wipe(&mut self) -> Result<(), OutputError> {
        let drawn = std::mem::take(&mut self.drawn);
        match drawn {
            0 => Ok(()),
            // Move up to the first line, and clear everything below.
            lines => put(format!("\x1b[{lines}A\x1b[J").as_bytes()),
        }
    }

    fn draw(&mut self, text: &str) -> Result<(), OutputError> {
        let lines: Vec<&str> = text.lines().take(MOST_LINES).collect();
        self.drawn = lines.len();
        // The terminal truncates a line that is too long instead of wrapping it. Otherwise the number of lines would be
        // wrong.
        put(format!("\x1b[?7l{}\n\x1b[?7h", lines.join("\n")).as_bytes())
    }
}
