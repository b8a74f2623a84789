//! How cases are written: a text file of requests and answers.
//!
//! Responsible for: reading them, and writing answers back with everything else left as it is.
//! Must not: send anything.
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
//! - `METHOD PATH BODY` is a request. Paths without a slash before them are in the namespace. MERGE,
//!   STRATEGIC, JSONPATCH, APPLY are kinds of PATCH. `body.rs` says how bodies are written; one may
//!   go on in lines that begin with two blanks. With `- ` before it, the request only has to succeed.
//! - `WATCH N PATH` reads N events, or as many as come before the stream ends.
//! - `SCHEMA DOCUMENT TYPE` shows a type of an OpenAPI document, `SCHEMAS` all that it is made of.
//! - `UNTIL CODE METHOD PATH` asks again until that is the answer's code.
//! - `- FORGET` makes the embedded server forget its events, as a real one has those before its start.
//! - `show PATHS` says what of the objects that follow is shown: all of their members, if it is not
//!   said. `[]` goes through an array; `-` shows nothing but the code.
//! - `header NAME: VALUE` goes with the next request; `accept NAME` is a short form, see `run.rs`.
//! - `< ` is an answer as recorded: code, headers that matter, body.
//! - `differs WHY` says that the embedded server answers otherwise; its answers are `! `.
//!
//! What is different each time has a name in answers: `<uid1>`, `<rv2>`, `<list1>`, `<token1>`,
//! `<now>`. Requests may use these names.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

/// One line of an answer.
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
    /// What the case is about.
    pub(crate) title: String,
    /// Why the embedded server differs here.
    pub(crate) differs: Option<String>,
    items: Vec<Item>,
}

enum Item {
    Step(Step),
    /// Comments, directives, empty lines.
    Other(Line),
}

/// A request with its answers.
pub(crate) struct Step {
    /// The request as written, without `- `.
    pub(crate) text: String,
    /// Directives that stand between the last request and this one.
    pub(crate) directives: Vec<Line>,
    /// Whether it only has to succeed.
    pub(crate) silent: bool,
    /// The recorded answer.
    pub(crate) answer: Vec<Line>,
    /// What the embedded server answers where it differs.
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

    /// Its name, without folder and ending.
    pub(crate) fn name(&self) -> String {
        let stem = self.path.file_stem().map(Path::new).unwrap();
        stem.display().to_string()
    }

    /// The server version that its answers come from.
    pub(crate) fn version(&self) -> Option<&str> {
        self.head.iter().find_map(|line| line.strip_prefix(VERSION))
    }

    /// Its cases, in order.
    pub(crate) fn cases(&self) -> impl Iterator<Item = &Case> {
        self.cases.iter()
    }

    /// Writes the file anew with these answers to the recorded steps of each case.
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

    /// Writes the file anew with the embedded server's own answers where it is known to differ.
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

    /// All its requests.
    pub(crate) fn steps(&self) -> impl Iterator<Item = &Step> {
        self.items.iter().filter_map(|item| match item {
            Item::Step(step) => Some(step),
            Item::Other(_) => None,
        })
    }

    /// The requests whose answers are told.
    pub(crate) fn recorded_steps(&self) -> impl Iterator<Item = &Step> {
        self.steps().filter(|step| !step.silent)
    }

    /// The recorded answers.
    pub(crate) fn recorded(&self) -> Vec<Vec<Line>> {
        self.recorded_steps()
            .map(|step| step.answer.clone())
            .collect()
    }

    /// What the embedded server has to answer.
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
