//! Prints the actions of a machine as in golden cases.

use std::collections::HashMap;

use lakh::model::{Condition, JobStatus, Time, Uid, Uncounted};

/// The labels of Pods in a case.
#[derive(Default)]
pub(crate) struct Labels {
    by_name: HashMap<String, Uid>,
    by_uid: HashMap<Uid, String>,
    created: usize,
}

impl Labels {
    /// The UID of a label. A new label gets a new UID.
    pub(crate) fn uid(&mut self, label: &str) -> Uid {
        if let Some(uid) = self.by_name.get(label) {
            return *uid;
        }
        let uid = Uid::from_u128(self.by_name.len() as u128 + 1);
        self.give(uid, label.to_owned());
        uid
    }

    /// The first unused label of `a`, `b`, ... `p27`, ...
    pub(crate) fn fresh(&self) -> String {
        let labels = (1..).map(|count: u8| match b'a' + count - 1 {
            letter @ b'a'..=b'z' => char::from(letter).to_string(),
            _ => String::new(),
        });
        let mut letters = labels.take(26);
        letters
            .find(|label| !self.by_name.contains_key(label))
            .unwrap_or_else(|| format!("p{}", self.by_name.len() + 1))
    }

    /// Labels a Pod that the machine created.
    pub(crate) fn created(&mut self, uid: Uid) {
        self.created += 1;
        self.give(uid, format!("new{}", self.created));
    }

    fn give(&mut self, uid: Uid, label: String) {
        self.by_uid.insert(uid, label.clone());
        self.by_name.insert(label, uid);
    }

    pub(crate) fn label(&self, uid: Uid) -> String {
        let known = self.by_uid.get(&uid).cloned();
        known.unwrap_or_else(|| uid.to_string())
    }

    /// Labels in order. Many are shortened, see `some_of`.
    pub(crate) fn list(&self, uids: &[Uid]) -> String {
        let mut labels: Vec<String> = uids.iter().map(|uid| self.label(*uid)).collect();
        labels.sort_by_key(|label| (label.len(), label.clone()));
        some_of(&labels)
    }
}

/// All words. More than 12 are shortened to the first, the last and their number.
pub(crate) fn some_of(words: &[String]) -> String {
    match words {
        [first, .., last] if words.len() > 12 => {
            format!("{first} .. {last} ({})", words.len())
        }
        _ => words.join(" "),
    }
}

/// A time as the offset from the case's start.
pub(crate) fn time(time: Option<Time>, start: Time) -> String {
    let Some(time) = time else {
        return "none".to_owned();
    };
    let millis = time.as_millis() - start.as_millis();
    let sign = if millis < 0 { '-' } else { '+' };
    match (millis.abs() / 1000, millis.abs() % 1000) {
        (secs, 0) => format!("{sign}{secs}s"),
        (secs, rest) => format!("{sign}{secs}.{rest:03}s"),
    }
}

/// The fields of a status that differ from the old one.
pub(crate) fn difference(old: &JobStatus, new: &JobStatus, labels: &Labels, start: Time) -> String {
    let before = fields(old, labels, start);
    let after = fields(new, labels, start);
    let changed: Vec<String> = after
        .into_iter()
        .filter(|field| !before.contains(field))
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    changed.join(", ")
}

/// The fields of a status. Unset and empty fields are omitted, except for counters.
pub(crate) fn whole(status: &JobStatus, labels: &Labels, start: Time) -> String {
    let always = ["active", "ready", "terminating", "succeeded", "failed"];
    let quiet = ["none", "[]", "\"\""];
    let said: Vec<String> = fields(status, labels, start)
        .into_iter()
        .filter(|(name, value)| always.contains(&&**name) || !quiet.contains(&&**value))
        .map(|(name, value)| {
            let word = value.split(' ').next().unwrap_or_default();
            match word {
                "True" | "False" => format!("{name}={word}"),
                _ => format!("{name} {value}"),
            }
        })
        .collect();
    said.join(", ")
}

fn fields(status: &JobStatus, labels: &Labels, start: Time) -> Vec<(String, String)> {
    let number = |value: Option<u32>| value.map_or("none".to_owned(), |value| value.to_string());
    let list = |pick: fn(&Uncounted) -> &Vec<Uid>| {
        let uids = status.uncounted.as_ref().map(pick);
        format!("[{}]", uids.map_or(String::new(), |uids| labels.list(uids)))
    };
    let mut fields = vec![
        ("active", status.active.to_string()),
        ("ready", number(status.ready)),
        ("terminating", number(status.terminating)),
        ("succeeded", status.succeeded.to_string()),
        ("failed", status.failed.to_string()),
        ("completed", format!("\"{}\"", status.completed_indexes)),
        (
            "failed-indexes",
            status
                .failed_indexes
                .as_ref()
                .map_or("none".to_owned(), |text| format!("\"{text}\"")),
        ),
        ("uncounted.succeeded", list(|list| &list.succeeded)),
        ("uncounted.failed", list(|list| &list.failed)),
        ("start", time(status.start_time, start)),
        ("ended", time(status.completion_time, start)),
    ];
    let mut named: Vec<(String, String)> = fields
        .drain(..)
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    named.extend(status.conditions.iter().map(condition));
    named
}

fn condition(condition: &Condition) -> (String, String) {
    let Condition {
        kind,
        status,
        reason,
        message,
        ..
    } = condition;
    (kind.to_string(), format!("{status} ({reason}: {message})"))
}
