//! Holds the state of the view, as a value: [`TopModel::handle`] takes inputs with the time, and the shell polls it for
//! feeds, reads and drawing.
//!
//! [`jobs`] is the table of all Jobs, [`page`] the open Job, [`cells`] its indexes as cells of a map. [`rates`] is the
//! rate at which Pods end, [`keys`] the handling of keys. Must not: send requests, wait, read a clock, or know how
//! something looks.

mod cells;
mod jobs;
mod keys;
mod page;
mod rates;

use std::{io, time::Duration};

use ratatui::crossterm::event::KeyEvent;

use lakh_client::Result;
use lakh_model::{JobKey, Monotonic, Now, Time};
use lakh_wire::ApiError;

use crate::one_job::{Depth, JobDetails};

pub(super) use cells::{CellSets, CellState, MapCell, MapFrame};
pub(super) use jobs::{JobTable, StateFilter};
pub(super) use page::JobPage;
pub(super) use rates::RateHistory;

use super::{feed::FeedNews, page_look::PageLook, records::EventRow};

/// The namespaces that are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobScope {
    /// All namespaces.
    All,
    /// The given namespace, or that of the kubeconfig's context.
    Home,
}

/// An input of the view.
#[derive(Debug)]
pub(super) enum TopInput {
    Key(KeyEvent),
    /// New width and height.
    Resized(u16, u16),
    TerminalGone(io::Error),
    /// From the feed of this number.
    Jobs(u64, FeedNews<JobDetails>),
    /// About the Job of the page of this number.
    Events(u64, FeedNews<EventRow>),
    /// A read of that Job has ended; with its duration.
    Looked(u64, Box<Result<PageLook>>, Duration),
}

/// Reason why the shown data are not current.
#[derive(Clone, Debug)]
pub(super) struct NoNews {
    /// Time of the first error, by our clock.
    pub(super) since: Time,
    pub(super) error: ApiError,
    /// Data arrive late, but arrive.
    pub(super) is_late: bool,
}

/// Text typed at the bottom of the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Prompt {
    /// Filter on the names of the shown Jobs.
    Name(String),
    /// The index to go to.
    Index(String),
}

/// State of the whole view. Inputs go into [`handle`](Self::handle); call [`prepare`](Self::prepare) before it is
/// drawn.
#[derive(Debug)]
pub(super) struct TopModel {
    pub(super) server: String,
    pub(super) home: String,
    pub(super) scope: JobScope,
    pub(super) size: (u16, u16),
    pub(super) jobs: JobTable,
    /// Why the Jobs are not current.
    pub(super) silence: Option<NoNews>,
    /// The open Job.
    pub(super) page: Option<JobPage>,
    pub(super) prompt: Option<Prompt>,
    pub(super) shows_help: bool,
    pub(super) now: Now,
    /// Number of the current feed of Jobs.
    pub(super) feeds: u64,
    pages: u64,
    is_changed: bool,
    is_over: bool,
    /// The content of the terminal is unknown.
    is_spoilt: bool,
}

/// Interval of drawing without input: durations of running Jobs change by seconds, otherwise only the clock by minutes.
const TICK: Duration = Duration::from_secs(1);
const SLOW_TICK: Duration = Duration::from_secs(10);

impl TopModel {
    pub(super) fn new(server: String, home: String, scope: JobScope, now: Now) -> Self {
        Self {
            server,
            home,
            scope,
            size: (80, 24),
            jobs: JobTable::default(),
            silence: None,
            page: None,
            prompt: None,
            shows_help: false,
            now,
            feeds: 0,
            pages: 0,
            is_changed: true,
            is_over: false,
            is_spoilt: false,
        }
    }

    /// Handles an input.
    pub(super) fn handle(&mut self, input: TopInput, now: Now) {
        self.now = now;
        match input {
            TopInput::Key(key) => {
                self.press(key);
                self.is_changed = true;
            }
            TopInput::Resized(width, height) => {
                self.size = (width, height);
                self.is_changed = true;
            }
            TopInput::TerminalGone(_) => self.is_over = true,
            TopInput::Jobs(number, news) if number == self.feeds => self.hear_of_jobs(news),
            // From an earlier feed.
            TopInput::Jobs(..) => {}
            TopInput::Events(number, news) => self.hear_of_events(number, news),
            TopInput::Looked(number, seen, took) => {
                if let Some(page) = self.page_of(number) {
                    page.see(*seen, took, now);
                    self.is_changed = true;
                }
            }
        }
    }

    fn hear_of_jobs(&mut self, news: FeedNews<JobDetails>) {
        let was_silent = self.silence.is_some();
        let silence = self.silence.take();
        let now = self.now;
        self.is_changed |= was_silent || !matches!(news, FeedNews::Back);
        match news {
            FeedNews::Listed(rows) => {
                if let Some(page) = &mut self.page {
                    page.see_list(&rows);
                }
                self.jobs.list(rows, now.wall);
            }
            FeedNews::Applied(details) => {
                self.jobs.apply(&details, now.wall);
                if let Some(page) = self
                    .page
                    .as_mut()
                    .filter(|page| page.key == details.job.key)
                {
                    page.see_job(*details);
                }
            }
            FeedNews::Deleted(row) => {
                self.jobs.delete(&row);
                if let Some(page) = self.page.as_mut().filter(|page| page.key == row.key) {
                    page.see_deletion(row.uid);
                }
            }
            FeedNews::Broken(error) => self.silence = Some(NoNews::of(silence, error, false, now)),
            FeedNews::Unwatched(error) => {
                self.silence = Some(NoNews::of(silence, error, true, now))
            }
            FeedNews::Back => {}
        }
    }

    fn hear_of_events(&mut self, number: u64, news: FeedNews<EventRow>) {
        let now = self.now;
        if let Some(page) = self.page_of(number) {
            page.events.hear(news, now);
            self.is_changed = true;
        }
    }

    fn page_of(&mut self, number: u64) -> Option<&mut JobPage> {
        self.page.as_mut().filter(|page| page.number == number)
    }

    /// Opens the page of the selected Job.
    fn open(&mut self) {
        let Some(row) = self.jobs.chosen() else {
            return;
        };
        self.pages += 1;
        self.page = Some(JobPage::new(self.pages, row));
    }

    /// Returns the namespace of the shown Jobs; none for all.
    pub(super) fn namespace(&self) -> Option<&str> {
        (self.scope == JobScope::Home).then_some(self.home.as_str())
    }

    /// Returns the next read of the open Job, with its due time.
    pub(super) fn next_look(&self) -> Option<(Monotonic, u64, JobKey, Depth)> {
        let page = self.page.as_ref()?;
        let (at, depth) = page.next_look()?;
        Some((at, page.number, page.key.clone(), depth))
    }

    /// Records that the read has begun.
    pub(super) fn begin_look(&mut self) {
        if let Some(page) = &mut self.page {
            page.is_looking = true;
        }
    }

    /// Returns true if the screen is out of date.
    pub(super) fn is_changed(&self) -> bool {
        self.is_changed
    }

    /// Returns true, once, if the whole screen must be rewritten.
    pub(super) fn take_spoilt(&mut self) -> bool {
        std::mem::take(&mut self.is_spoilt)
    }

    /// Returns true once the view is to be closed.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns the longest time until the next drawing.
    pub(super) fn tick(&self) -> Duration {
        match self.jobs.has_unfinished() {
            true => TICK,
            false => SLOW_TICK,
        }
    }

    /// Updates all derived data for drawing at this time.
    pub(super) fn prepare(&mut self, now: Now) {
        self.now = now;
        self.is_changed = false;
        self.jobs.sort(now.wall);
        if let Some(page) = &mut self.page {
            page.prepare(now);
        }
    }
}

impl NoNews {
    fn of(before: Option<Self>, error: ApiError, is_late: bool, now: Now) -> Self {
        Self {
            since: before.map_or(now.wall, |before| before.since),
            error,
            is_late,
        }
    }
}
