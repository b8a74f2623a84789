//! Tests screens by golden files: inputs, and the text that is drawn after them. Each file of `tests/` is a topic.

use std::time::Duration;

use ratatui::{
    Terminal,
    backend::TestBackend,
    buffer::Buffer,
    crossterm::event::{KeyCode, KeyEvent, KeyModifiers},
    style::Color,
};
use serde::Deserialize;
use serde_json::Value;

use lakh_model::{IndexSet, Monotonic, Now, Time};
use lakh_wire::ApiError;

use crate::{
    golden,
    one_job::{Depth, JobDetails, seen::SeenJob},
};

use super::{
    draw::{self, Looks},
    feed::{Fed as _, FeedNews},
    model::{JobScope, TopInput, TopModel},
    page_look::PageLook,
    records::{EventRow, JobRow},
};

/// Start time of the view.
const BEGIN: &str = "2026-11-26T03:00:00Z";

/// Inputs until a screen is drawn.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SeenView {
    size: (u16, u16),
    #[serde(default)]
    ascii: bool,
    #[serde(default)]
    home: bool,
    steps: Vec<SeenStep>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct SeenStep {
    /// Seconds after the previous step.
    after: u32,
    /// All Jobs, in API form.
    jobs: Option<Vec<Value>>,
    changed: Vec<Value>,
    deleted: Vec<Value>,
    /// Status code and message of a refusal; code 0 means no answer.
    broken: Option<(u16, String)>,
    unwatched: Option<String>,
    back: bool,
    keys: Vec<String>,
    /// Result of a read, as for `lakh status`.
    look: Option<Value>,
    /// Running indexes.
    running: String,
    /// The read did not include reasons.
    shallow: bool,
    events: Option<Vec<Value>>,
    events_broken: Option<(u16, String)>,
}

fn details(job: &Value) -> JobDetails {
    SeenJob::read(&serde_json::json!({ "job": job }).to_string()).job
}

fn error((code, message): &(u16, String)) -> ApiError {
    match code {
        0 => ApiError::no_answer(message.clone()),
        code => {
            let body = serde_json::json!({"code": code, "message": message, "reason": "Forbidden"});
            ApiError::from_response(*code, body.to_string().as_bytes(), None)
        }
    }
}

fn key(name: &str) -> KeyEvent {
    let code = match name {
        "Enter" => KeyCode::Enter,
        "Esc" => KeyCode::Esc,
        "Up" => KeyCode::Up,
        "Down" => KeyCode::Down,
        "Left" => KeyCode::Left,
        "Right" => KeyCode::Right,
        "End" => KeyCode::End,
        "PageDown" => KeyCode::PageDown,
        letter => {
            let mut letters = letter.chars();
            let code = KeyCode::Char(letters.next().expect("a key"));
            assert_eq!(letters.next(), None, "no key {name}");
            code
        }
    };
    KeyEvent::new(code, KeyModifiers::NONE)
}

fn page(model: &TopModel) -> u64 {
    model.page.as_ref().expect("a page is open").number
}

impl SeenStep {
    fn happen(&self, model: &mut TopModel, now: Now) {
        let feed = model.feeds;
        let mut jobs = Vec::new();
        if let Some(listed) = &self.jobs {
            let rows = listed.iter().map(|job| JobRow::of(&details(job)));
            jobs.push(FeedNews::Listed(rows.collect()));
        }
        jobs.extend(
            self.changed
                .iter()
                .map(|job| FeedNews::Applied(Box::new(details(job)))),
        );
        jobs.extend(
            self.deleted
                .iter()
                .map(|job| FeedNews::Deleted(JobRow::of(&details(job)))),
        );
        jobs.extend(self.broken.iter().map(|it| FeedNews::Broken(error(it))));
        let words = self.unwatched.iter().map(|words| (403, words.clone()));
        jobs.extend(words.map(|it| FeedNews::Unwatched(error(&it))));
        if self.back {
            jobs.push(FeedNews::Back);
        }
        for news in jobs {
            model.handle(TopInput::Jobs(feed, news), now);
        }
        // The effect of keys depends on the drawn state.
        model.prepare(now);
        for name in &self.keys {
            model.handle(TopInput::Key(key(name)), now);
            model.prepare(now);
        }
        if let Some(seen) = &self.look {
            let look = PageLook {
                sight: SeenJob::read(&seen.to_string()),
                depth: if self.shallow {
                    Depth::Pods
                } else {
                    Depth::Reasons
                },
                running: IndexSet::parse(&self.running, u32::MAX),
                ahead: 0,
            };
            let took = Duration::from_millis(100);
            model.begin_look();
            model.handle(TopInput::Looked(page(model), Box::new(Ok(look)), took), now);
        }
        let events = self.events.iter().map(|events| {
            let read = |event: &Value| EventRow::read(&event.to_string()).expect("an Event");
            FeedNews::Listed(events.iter().map(read).collect())
        });
        let broken = self
            .events_broken
            .iter()
            .map(|it| FeedNews::Broken(error(it)));
        for news in events.chain(broken) {
            model.handle(TopInput::Events(page(model), news), now);
        }
    }
}

impl SeenView {
    fn read(yaml: &str) -> Self {
        serde_saphyr::from_str(yaml).unwrap_or_else(|error| panic!("{error}: {yaml}"))
    }

    /// Returns the model after all inputs.
    fn model(&self) -> TopModel {
        let scope = if self.home {
            JobScope::Home
        } else {
            JobScope::All
        };
        let server = "https://cluster.example.com:6443".to_owned();
        let mut now = Now::at(Time::parse_rfc3339(BEGIN).expect("a time"));
        let mut model = TopModel::new(server, "ml".to_owned(), scope, now);
        let (width, height) = self.size;
        model.handle(TopInput::Resized(width, height), now);
        for step in &self.steps {
            now = now + Duration::from_secs(step.after.into());
            step.happen(&mut model, now);
        }
        model.prepare(now);
        model
    }

    fn looks(&self) -> Looks {
        Looks {
            is_ascii: self.ascii,
            has_colour: false,
        }
    }
}

fn drawn(model: &TopModel, looks: Looks) -> Buffer {
    let (width, height) = model.size;
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("it cannot fail");
    let frame = terminal.draw(|frame| draw::draw(model, looks, frame.buffer_mut()));
    frame.expect("it cannot fail").buffer.clone()
}

/// Returns the lines of a screen, without trailing spaces.
fn text(buffer: &Buffer) -> String {
    let width = usize::from(buffer.area.width).max(1);
    let lines = buffer.content().chunks(width).map(|row| {
        let line: String = row.iter().map(|cell| cell.symbol()).collect();
        line.trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn screens() {
    golden::check("src/top/tests", 15, |_, input| {
        let view = SeenView::read(input);
        let looks = view.looks();
        let screen = text(&drawn(&view.model(), looks));
        assert!(!looks.is_ascii || screen.is_ascii(), "{screen}");
        screen
    });
}

/// A partly completed Job of a million indexes.
const MILLION: &str = r#"
size: [80, 24]
steps:
  - jobs: [{spec: {completions: 1000000, parallelism: 10000, completionMode: Indexed}}]
    keys: [Enter]
    look:
      job:
        spec: {completions: 1000000, parallelism: 10000, completionMode: Indexed, backoffLimitPerIndex: 1}
        status: {active: 10000, ready: 9000, succeeded: 400000, failedIndexes: "123456", failed: 2,
          completedIndexes: "0-399999", startTime: 2026-11-26T02:50:00Z}
    running: 400000-408999
"#;

#[test]
fn any_size_can_be_drawn_on() {
    let mut model = SeenView::read(MILLION).model();
    let now = model.now;
    for help in [false, true] {
        model.shows_help = help;
        for width in (0..40).chain([80, 300]) {
            for height in (0..30).chain([100]) {
                model.handle(TopInput::Resized(width, height), now);
                model.prepare(now);
                let looks = SeenView::read(MILLION).looks();
                let mut buffer = Buffer::empty(ratatui::layout::Rect::new(0, 0, width, height));
                draw::draw(&model, looks, &mut buffer);
            }
        }
    }
    model.shows_help = false;
    model.handle(TopInput::Key(key("Esc")), now);
    for (width, height) in [(0, 0), (1, 1), (3, 7), (20, 6), (41, 24), (300, 5)] {
        model.handle(TopInput::Resized(width, height), now);
        model.prepare(now);
        let mut buffer = Buffer::empty(ratatui::layout::Rect::new(0, 0, width, height));
        draw::draw(&model, SeenView::read(MILLION).looks(), &mut buffer);
    }
}

#[test]
fn colours_are_used_only_where_there_are_some() {
    let view = SeenView::read(MILLION);
    let model = view.model();
    let colours = |has_colour| {
        let looks = Looks {
            has_colour,
            ..view.looks()
        };
        let buffer = drawn(&model, looks);
        let cells = buffer.content().iter();
        let inked = cells.filter(|cell| (cell.fg, cell.bg) != (Color::Reset, Color::Reset));
        (inked.count(), text(&buffer))
    };
    let (without, plain) = colours(false);
    let (with, colourful) = colours(true);
    assert_eq!(without, 0);
    assert!(with > 200, "only {with} cells with a colour");
    // Colours add nothing that the characters do not show.
    assert_eq!(plain, colourful);
}

/// Returns the time of the next read, in seconds from now, and its depth.
fn next_look(model: &TopModel) -> Option<(u64, Depth)> {
    let (at, _, _, depth) = model.next_look()?;
    Some((at.since(model.now.monotonic).as_secs(), depth))
}

fn look_of(job: &Value, took: Duration) -> (Box<lakh_client::Result<PageLook>>, Duration) {
    let seen = serde_json::json!({ "job": job });
    let look = PageLook {
        sight: SeenJob::read(&seen.to_string()),
        depth: Depth::Pods,
        running: IndexSet::default(),
        ahead: 0,
    };
    (Box::new(Ok(look)), took)
}

#[test]
fn pods_are_looked_at_no_more_than_a_twentieth_of_the_time() {
    let job = |version: u32, succeeded: u32, more: &str| -> Value {
        let text = format!(
            r#"{{"metadata": {{"resourceVersion": "{version}"}}, "spec": {{"completions": 9}},
            "status": {{"startTime": "{BEGIN}", "succeeded": {succeeded}{more}}}}}"#
        );
        serde_json::from_str(&text).expect("JSON")
    };
    let view = r#"{size: [80, 24], steps: [{jobs: [{}], keys: [Enter]}]}"#;
    let mut model = SeenView::read(view).model();
    let now = model.now;
    let apply = |model: &mut TopModel, job: &Value| {
        let news = FeedNews::Applied(Box::new(details(job)));
        model.handle(TopInput::Jobs(0, news), now);
    };
    let see = |model: &mut TopModel, job: &Value, took: u64| {
        model.begin_look();
        assert_eq!(next_look(model), None, "one at a time");
        let (look, took) = look_of(job, Duration::from_millis(took));
        model.handle(TopInput::Looked(1, look, took), now);
    };
    let (at, ..) = model.next_look().expect("at once");
    assert_eq!(at, Monotonic::default());
    see(&mut model, &job(8, 1, ""), 10);
    assert_eq!(
        next_look(&model),
        Some((30, Depth::Reasons)),
        "it is as it was"
    );
    apply(&mut model, &job(9, 2, ""));
    assert_eq!(next_look(&model), Some((2, Depth::Pods)), "it goes on");
    see(&mut model, &job(9, 2, ""), 1_000);
    apply(&mut model, &job(10, 2, r#","active":1"#));
    assert_eq!(
        next_look(&model),
        Some((20, Depth::Reasons)),
        "nothing has ended"
    );
    see(&mut model, &job(10, 2, ""), 4_000);
    assert_eq!(next_look(&model), Some((80, Depth::Reasons)));
    let end = r#","conditions":[{"type":"Failed","status":"True"}]"#;
    see(&mut model, &job(11, 2, end), 10);
    assert_eq!(next_look(&model), None, "nothing comes any more");
    apply(&mut model, &job(12, 2, end));
    assert_eq!(next_look(&model), Some((2, Depth::Reasons)));
}

#[test]
fn events_of_a_closed_page_are_ignored() {
    let view = "{size: [80, 24], steps: [{jobs: [{}], keys: [Enter, Esc, a]}]}";
    let mut model = SeenView::read(view).model();
    let now = model.now;
    let row = JobRow::of(&details(&Value::Object(serde_json::Map::default())));
    model.handle(TopInput::Jobs(0, FeedNews::Listed(vec![row.clone()])), now);
    model.prepare(now);
    assert_eq!(model.jobs.len(), 0, "that was of all namespaces");
    model.handle(TopInput::Jobs(1, FeedNews::Listed(vec![row])), now);
    model.handle(TopInput::Key(key("Enter")), now);
    model.prepare(now);
    model.handle(TopInput::Key(key("Enter")), now);
    assert_eq!(page(&model), 2);
    let (look, took) = look_of(&serde_json::json!({}), Duration::from_secs(1));
    model.handle(TopInput::Looked(1, look, took), now);
    assert!(model.page.as_ref().is_some_and(|page| page.look.is_none()));
}

#[test]
fn nothing_is_drawn_when_nothing_has_changed() {
    let view = "{size: [80, 24], steps: [{jobs: [{}]}]}";
    let mut model = SeenView::read(view).model();
    let now = model.now;
    assert!(!model.is_changed());
    model.handle(TopInput::Jobs(0, FeedNews::Back), now);
    assert!(!model.is_changed(), "all was well before");
    model.handle(
        TopInput::Jobs(0, FeedNews::Broken(ApiError::no_answer("away"))),
        now,
    );
    assert!(model.is_changed());
    model.prepare(now);
    model.handle(TopInput::Jobs(0, FeedNews::Back), now);
    assert!(model.is_changed());
    assert!(model.silence.is_none());
}
