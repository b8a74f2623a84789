//! Runs a case on a server.
//!
//! Responsible for: sending a case's requests and returning the responses. Must not: judge them.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout_at};

use super::{
    arm::{Answer, Arm},
    body,
    case::{Case, Line, Step},
    normal::Names,
    render, schema,
};

/// Time limit for the events of a `WATCH`.
const PATIENCE: Duration = Duration::from_secs(10);

/// Time limit of an `UNTIL`: the garbage collector of a busy cluster may be slow.
const LONG_PATIENCE: Duration = Duration::from_secs(180);

/// Names that cases use for media types.
const ACCEPT: [(&str, &str); 6] = [
    ("table", "application/json;as=Table;v=v1;g=meta.k8s.io"),
    (
        "partial",
        "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    ),
    (
        "partials",
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    ),
    (
        "aggregated",
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    ),
    ("yaml", "application/yaml"),
    ("protobuf", "application/vnd.kubernetes.protobuf"),
];

static CASES: AtomicUsize = AtomicUsize::new(0);

/// Runs a case and returns the responses to its recorded steps.
pub(crate) async fn case(arm: &Arm, case: &Case) -> Vec<Vec<Line>> {
    let number = CASES.fetch_add(1, Ordering::Relaxed);
    let namespace = format!("{}-{number}", arm.prefix);
    prepare(arm, &namespace).await;
    let mut run = Run {
        arm,
        title: &case.title,
        names: Names::new(namespace.clone()),
        last: None,
        show: None,
    };
    let mut answers = Vec::new();
    for step in case.steps() {
        let answer = run.step(step).await;
        if !step.silent {
            answers.push(answer);
        }
    }
    clean_up(arm, &namespace).await;
    answers
}

struct Run<'a> {
    arm: &'a Arm,
    title: &'a str,
    names: Names,
    /// The last object in a response.
    last: Option<Value>,
    show: Option<Vec<String>>,
}

struct Asked {
    method: &'static str,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Run<'_> {
    async fn step(&mut self, step: &Step) -> Vec<Line> {
        let mut headers = Vec::new();
        for line in &step.directives {
            self.directive(line, &mut headers);
        }
        let (word, rest) = step.text.split_once(' ').unwrap_or((&step.text, ""));
        match word {
            "WATCH" => {
                let (count, rest) = rest.split_once(' ').unwrap();
                let asked = self.asked("GET", rest, headers);
                self.watch(asked, count.parse().unwrap()).await
            }
            "UNTIL" => {
                let (code, rest) = rest.split_once(' ').unwrap();
                let (word, rest) = rest.split_once(' ').unwrap();
                self.until(code.parse().unwrap(), word, rest, headers).await
            }
            "SCHEMA" | "SCHEMAS" => {
                let (path, name) = rest.split_once(' ').unwrap();
                let asked = self.asked("GET", path, headers);
                let answer = self.send(&asked).await;
                let document: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
                match word {
                    "SCHEMA" => schema::one(&document, name),
                    _ => schema::all(&document, name),
                }
            }
            "FORGET" => {
                self.arm.forget();
                Vec::new()
            }
            word => {
                let asked = self.asked(word, rest, headers);
                let answer = self.send(&asked).await;
                assert!(
                    !step.silent || answer.code < 300,
                    "{}: {}: {} {}",
                    self.title,
                    step.text,
                    answer.code,
                    String::from_utf8_lossy(&answer.body)
                );
                self.tell(&asked, answer)
            }
        }
    }

    fn directive(&mut self, line: &str, headers: &mut Vec<(String, String)>) {
        let (word, rest) = line.split_once(' ').unwrap();
        match word {
            "show" if rest == "all" => self.show = None,
            "show" => self.show = Some(rest.split(' ').map(str::to_owned).collect()),
            "accept" => {
                let (_, media) = ACCEPT.iter().find(|(name, _)| *name == rest).unwrap();
                headers.push(("Accept".to_owned(), (*media).to_owned()));
            }
            "header" => {
                let (name, value) = rest.split_once(':').unwrap();
                headers.push((name.to_owned(), value.trim().to_owned()));
            }
            other => panic!("{}: no directive {other}", self.title),
        }
    }

    fn asked(&self, word: &str, rest: &str, mut headers: Vec<(String, String)>) -> Asked {
        let rest = self.names.real(rest);
        let (path, body) = rest.split_once([' ', '\n']).unwrap_or((&rest, ""));
        let (method, media) = match word {
            "GET" => ("GET", ""),
            "POST" => ("POST", "application/json"),
            "PUT" => ("PUT", "application/json"),
            "DELETE" => ("DELETE", "application/json"),
            "PATCH" => ("PATCH", ""),
            "MERGE" => ("PATCH", "application/merge-patch+json"),
            "STRATEGIC" => ("PATCH", "application/strategic-merge-patch+json"),
            "JSONPATCH" => ("PATCH", "application/json-patch+json"),
            "APPLY" => ("PATCH", "application/apply-patch+yaml"),
            other => panic!("{}: no request {other}", self.title),
        };
        let typed = headers
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        if !media.is_empty() && !typed {
            headers.push(("Content-Type".to_owned(), media.to_owned()));
        }
        Asked {
            method,
            path: self.path(path),
            headers,
            body: body::bytes(body, self.last.as_ref()),
        }
    }

    fn path(&self, short: &str) -> String {
        let (resource, _) = short.split_once(['/', '?']).unwrap_or((short, ""));
        let root = match resource {
            "" => String::new(),
            "jobs" | "cronjobs" => self.names.real("/apis/batch/v1/namespaces/{ns}/"),
            _ => self.names.real("/api/v1/namespaces/{ns}/"),
        };
        let mut path = root;
        for letter in short.chars() {
            match letter {
                '"' | '<' | '>' | '^' | '`' | '{' | '}' | '|' | '\\' => {
                    path.push_str(&format!("%{:02X}", u32::from(letter)));
                }
                _ => path.push(letter),
            }
        }
        path
    }

    async fn send(&self, asked: &Asked) -> Answer {
        self.arm
            .send(
                asked.method,
                &asked.path,
                &asked.headers,
                asked.body.clone(),
            )
            .await
    }

    async fn until(
        &mut self,
        code: u16,
        word: &str,
        rest: &str,
        headers: Vec<(String, String)>,
    ) -> Vec<Line> {
        let asked = self.asked(word, rest, headers);
        let deadline = Instant::now() + LONG_PATIENCE;
        loop {
            let answer = self.send(&asked).await;
            if answer.code == code || Instant::now() > deadline {
                return self.tell(&asked, answer);
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    fn tell(&mut self, asked: &Asked, answer: Answer) -> Vec<Line> {
        let mut lines = render::head(answer.code, &answer.headers);
        for line in &mut lines {
            self.names.text(line, "");
        }
        let show = self.show.clone();
        match serde_json::from_slice::<Value>(&answer.body) {
            Ok(mut value) => {
                if value.pointer("/metadata/name").is_some() {
                    self.last = Some(value.clone());
                }
                self.names
                    .name(&mut value, asked.path.contains("continue="));
                lines.extend(render::object(answer.code, &value, show.as_deref()));
            }
            Err(_) if show.is_some() => {}
            Err(_) => {
                let mut text = String::from_utf8_lossy(&answer.body).into_owned();
                self.names.text(&mut text, "");
                lines.extend(render::text(&text));
            }
        }
        lines
    }

    async fn watch(&mut self, mut asked: Asked, count: usize) -> Vec<Line> {
        asked.path += if asked.path.contains('?') { "&" } else { "?" };
        asked.path += "watch=true";
        let response = self
            .arm
            .open(asked.method, &asked.path, &asked.headers, Vec::new())
            .await;
        let (parts, mut stream) = response.into_parts();
        if parts.status != 200 {
            let body = stream.collect().await.unwrap().to_bytes().to_vec();
            let code = parts.status.as_u16();
            return self.tell(
                &asked,
                Answer {
                    code,
                    headers: parts.headers,
                    body,
                },
            );
        }
        let mut lines = render::head(200, &parts.headers);
        let deadline = Instant::now() + PATIENCE;
        let (mut rest, mut seen) = (Vec::new(), 0);
        while seen < count {
            let frame = match timeout_at(deadline, stream.frame()).await {
                Ok(Some(frame)) => frame.unwrap(),
                Ok(None) => {
                    lines.push("(end)".to_owned());
                    break;
                }
                Err(_) => {
                    lines.push("(silence)".to_owned());
                    break;
                }
            };
            let Ok(data) = frame.into_data() else {
                continue;
            };
            rest.extend_from_slice(&data);
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = rest.drain(..=end).collect();
                if seen < count {
                    lines.push(self.event(&line));
                    seen += 1;
                }
            }
        }
        lines
    }

    fn event(&mut self, line: &[u8]) -> Line {
        let mut event: Value = serde_json::from_slice(line).unwrap();
        let kind = event["type"].as_str().unwrap().to_owned();
        let object = &mut event["object"];
        if kind == "BOOKMARK"
            && let Some(Value::String(version)) = object.pointer_mut("/metadata/resourceVersion")
        {
            self.names.list_version(version, false);
        }
        self.names.name(object, false);
        render::event(&kind, object, self.show.as_deref())
    }
}

/// Creates a namespace, and the service account that servers with admission require for Pods.
async fn prepare(arm: &Arm, namespace: &str) {
    let create = async |path: String, name: &str| {
        let body = json!({"metadata": {"name": name}}).to_string();
        let json = [("Content-Type".to_owned(), "application/json".to_owned())];
        let answer = arm.send("POST", &path, &json, body.into_bytes()).await;
        assert!(
            matches!(answer.code, 201 | 409),
            "{path}: {}",
            String::from_utf8_lossy(&answer.body)
        );
    };
    create("/api/v1/namespaces".to_owned(), namespace).await;
    create(
        format!("/api/v1/namespaces/{namespace}/serviceaccounts"),
        "default",
    )
    .await;
}

/// Removes the finalizers of the remaining objects and deletes the namespace.
async fn clean_up(arm: &Arm, namespace: &str) {
    let patch = [(
        "Content-Type".to_owned(),
        "application/merge-patch+json".to_owned(),
    )];
    let free = json!({"metadata": {"finalizers": null}}).to_string();
    for (group, resource) in [
        ("api/v1", "pods"),
        ("apis/batch/v1", "jobs"),
        ("apis/batch/v1", "cronjobs"),
    ] {
        let root = format!("/{group}/namespaces/{namespace}/{resource}");
        let list = arm.send("GET", &root, &[], Vec::new()).await;
        let list: Value = serde_json::from_slice(&list.body).unwrap_or_default();
        for item in list["items"].as_array().into_iter().flatten() {
            if item["metadata"].get("finalizers").is_some() {
                let name = item["metadata"]["name"].as_str().unwrap();
                let path = format!("{root}/{name}");
                arm.send("PATCH", &path, &patch, free.clone().into_bytes())
                    .await;
            }
        }
    }
    let path = format!("/api/v1/namespaces/{namespace}");
    arm.send("DELETE", &path, &[], Vec::new()).await;
}
