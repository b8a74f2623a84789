//! Reads and writes cases: text files of requests and responses.
//!
//! Responsible for: reading cases, and writing recorded responses back with everything else unchanged. Must not: send
//! anything.
//!
//! ```text
//! == parallelism is not negative
//! - POST jobs job
//! show .metadata.generation .spec.parallelism
//! MERGE jobs/j {spec: {parallelism: -1}}
//! < 422
//! < Invalid: Job.batch "j" is invalid: ...
//! ```
//!
//! - `== TITLE` begins a case, which has a namespace of its own, `{ns}`.
//! - `METHOD PATH BODY` is a request. Paths without a leading slash are in the namespace. MERGE, STRATEGIC, JSONPATCH
//!   and APPLY are kinds of PATCH. `body.rs` documents the notation of bodies; a body may continue in lines that begin
//!   with two spaces. After a leading `- `, the request only has to succeed.
//! - `WATCH N PATH` reads N events, or fewer if the stream ends before.
//! - `SCHEMA DOCUMENT TYPE` shows a type of an OpenAPI document; `SCHEMAS` shows it and all types that it refers to.
//! - `UNTIL CODE METHOD PATH` repeats the request until the response has that code.
//! - `- FORGET` drops the embedded server's watch history, as if it had just started.
//! - `show PATHS` selects the members to show of the objects that follow; by default, all. `[]` goes through an array;
//!   `-` shows none.
//! - `header NAME: VALUE` adds a header to the next request; `accept NAME` is a short form, see `run.rs`.
//! - `< ` begins a line of the recorded response: code, relevant headers, body.
//! - `differs WHY` marks a case that the embedded server answers differently; its own responses follow `! `.
//!
//! Values that change from run to run have names in responses: `<uid1>`, `<rv2>`, `<list1>`, `<token1>`, `<now>`.
//! Requests may use these names.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

/// One line of a response.
pub(crate) type Line = String;

/// A file of cases.
pub(crate) struct File {
    path: PathBuf,
    /// Everything before the first case.
    head: Vec<Line>,
    cases: Vec<Case>,
}

/// One case.
pub(crate) struct Case {
    /// The subject of the case.
    pub(crate) title: String,
    /// The reason why the embedded server differs.
    pub(crate) differs: Option<String>,
    items: Vec<Item>,
}

enum Item {
    Step(Step),
    /// Comments, directives, empty lines.
    Other(Line),
}

/// A request with its responses.
pub(crate) struct Step {
    /// The request as written, without `- `.
    pub(crate) text: String,
    /// Directives between the previous request and this one.
    pub(crate) directives: Vec<Line>,
    /// The request only has to succeed.
    pub(crate) silent: bool,
    /// The recorded response.
    pub(crate) answer: Vec<Line>,
    /// The embedded server's response where it differs.
    pub(crate) embedded: Vec<Line>,
}

const VERSION: &str = "# Answers recorded from kube-apiserver ";

impl File {
    /// Reads a file of cases.
    pub(crate) fn read(path: PathBuf) -> Self {
        let text = fs::read_to_string(&path).unwrap();
        let mut file = Self {
            path,
            head: Vec::new(),
            cases: Vec::new(),
        };
        let mut directives = Vec::new();
        for line in text.lines() {
            if let Some(title) = line.strip_prefix("== ") {
                directives.clear();
                file.cases.push(Case {
                    title: title.to_owned(),
                    differs: None,
                    items: Vec::new(),
                });
                continue;
            }
            let Some(case) = file.cases.last_mut() else {
                file.head.push(line.to_owned());
                continue;
            };
            case.read_line(line, &mut directives);
        }
        file
    }

    /// The file's name, without folder and extension.
    pub(crate) fn name(&self) -> String {
        let stem = self.path.file_stem().map(Path::new).unwrap();
        stem.display().to_string()
    }

    /// The version of the server that the responses were recorded from.
    pub(crate) fn version(&self) -> Option<&str> {
        self.head.iter().find_map(|line| line.strip_prefix(VERSION))
    }

    /// The cases of the file, in order.
    pub(crate) fn cases(&self) -> impl Iterator<Item = &Case> {
        self.cases.iter()
    }

    /// Rewrites the file with these responses to the recorded steps of each case.
    pub(crate) fn record(&mut self, version: &str, answers: Vec<Vec<Vec<Line>>>) {
        for (case, answers) in self.cases.iter_mut().zip(answers) {
            let steps = case.items.iter_mut().filter_map(|item| match item {
                Item::Step(step) if !step.silent => Some(step),
                Item::Step(_) | Item::Other(_) => None,
            });
            for (step, answer) in steps.zip(answers) {
                step.answer = answer;
            }
        }
        self.head.retain(|line| !line.starts_with(VERSION));
        self.head.insert(0, format!("{VERSION}{version}"));
        fs::write(&self.path, self.text()).unwrap();
    }

    /// Rewrites the file with the embedded server's responses where a case is marked as different.
    pub(crate) fn record_differences(&mut self, answers: Vec<Vec<Vec<Line>>>) {
        for (case, answers) in self.cases.iter_mut().zip(answers) {
            let differs = case.differs.is_some();
            let steps = case.items.iter_mut().filter_map(|item| match item {
                Item::Step(step) if !step.silent => Some(step),
                Item::Step(_) | Item::Other(_) => None,
            });
            for (step, answer) in steps.zip(answers) {
                step.embedded.clear();
                if differs && step.answer != answer {
                    step.embedded = answer;
                }
            }
        }
        fs::write(&self.path, self.text()).unwrap();
    }

    fn text(&self) -> String {
        let mut text = self.head.join("\n") + "\n";
        for case in &self.cases {
            writeln!(text, "== {}", case.title).unwrap();
            for item in &case.items {
                match item {
                    Item::Other(line) => writeln!(text, "{line}").unwrap(),
                    Item::Step(step) => step.write(&mut text),
                }
            }
        }
        text
    }
}

impl Case {
    fn read_line(&mut self, line: &str, directives: &mut Vec<Line>) {
        let mut last = match self.items.last_mut() {
            Some(Item::Step(step)) => Some(step),
            Some(Item::Other(_)) | None => None,
        };
        if let Some(answer) = line.strip_prefix("< ") {
            last.expect("an answer follows its request")
                .answer
                .push(answer.to_owned());
        } else if let Some(answer) = line.strip_prefix("! ") {
            last.expect("an answer follows its request")
                .embedded
                .push(answer.to_owned());
        } else if let Some(more) = line.strip_prefix("  ") {
            let step = last.as_mut().expect("a body goes on after its request");
            step.text += "\n  ";
            step.text += more;
        } else if line.is_empty() || line.starts_with('#') {
            self.items.push(Item::Other(line.to_owned()));
        } else if let Some(why) = line.strip_prefix("differs ") {
            self.differs = Some(why.to_owned());
            self.items.push(Item::Other(line.to_owned()));
        } else if ["show ", "header ", "accept "]
            .iter()
            .any(|word| line.starts_with(word))
        {
            directives.push(line.to_owned());
            self.items.push(Item::Other(line.to_owned()));
        } else {
            let silent = line.starts_with("- ");
            self.items.push(Item::Step(Step {
                text: line.strip_prefix("- ").unwrap_or(line).to_owned(),
                directives: std::mem::take(directives),
                silent,
                answer: Vec::new(),
                embedded: Vec::new(),
            }));
        }
    }

    /// All requests of the case.
    pub(crate) fn steps(&self) -> impl Iterator<Item = &Step> {
        self.items.iter().filter_map(|item| match item {
            Item::Step(step) => Some(step),
            Item::Other(_) => None,
        })
    }

    /// The requests with recorded responses.
    pub(crate) fn recorded_steps(&self) -> impl Iterator<Item = &Step> {
        self.steps().filter(|step| !step.silent)
    }

    /// The recorded responses.
    pub(crate) fn recorded(&self) -> Vec<Vec<Line>> {
        self.recorded_steps()
            .map(|step| step.answer.clone())
            .collect()
    }

    /// The responses expected from the embedded server.
    pub(crate) fn embedded(&self) -> Vec<Vec<Line>> {
        let own = |step: &Step| match step.embedded.as_slice() {
            [] => step.answer.clone(),
            own => own.to_vec(),
        };
        self.recorded_steps().map(own).collect()
    }
}

impl Step {
    fn write(&self, text: &mut String) {
        let mark = if self.silent { "- " } else { "" };
        writeln!(text, "{mark}{}", self.text).unwrap();
        for line in &self.answer {
            writeln!(text, "< {line}").unwrap();
        }
        for line in &self.embedded {
            writeln!(text, "! {line}").unwrap();
        }
    }
}
