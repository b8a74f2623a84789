//! Sends the same random objects to the embedded server and a real one, which must answer alike.
//!
//! Responsible for: generating objects and requests from `generated.yaml`, comparing the responses, and counting
//! differences. Must not: judge which server is right.
//!
//! ```console
//! LAKH_CONFORMANCE_KUBECONFIG=PATH LAKH_CONFORMANCE_SEED=1 LAKH_CONFORMANCE_OBJECTS=2000 \
//!   cargo test --test conformance_api generated -- --ignored --nocapture
//! ```
//!
//! Compared are the code, the causes with their order and text, and the warnings. So are the object as returned and as
//! stored, and the cells of its table. The order of adjacent causes or warnings about entries of the same map does not
//! count: a real server iterates over Go maps in no fixed order.

use std::{collections::BTreeMap, env, fmt::Write as _, fs, path::Path, time::Duration};

use serde_json::{Map, Value, json};

use super::{
    arm::{Answer, Arm},
    normal::Names,
    render,
};

/// Differences that `docs/embedded-cluster.md` lists. Each line is a text in one of the two responses.
const LISTED: &str = "tests/conformance_api/generated.listed";

/// The end of the message before the diff of two Pods, in the response to an update.
const POD_DIFFERENCE: &str = "(allow it to be set to 1 if it was previously negative)";

/// A random number generator that depends on a seed alone.
struct Dice(u64);

impl Dice {
    /// A random number below `limit`.
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((bits ^ (bits >> 31)) % limit as u64) as usize
    }

    fn one_of<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}

/// The base objects and field values from which objects of a kind are generated.
struct Recipe {
    kind: String,
    resource: String,
    template: Option<String>,
    bases: Vec<Value>,
    fields: Vec<(String, Vec<Value>)>,
}

fn recipes() -> Vec<Recipe> {
    let text = fs::read_to_string("tests/conformance_api/generated.yaml").unwrap();
    let all: Map<String, Value> = serde_saphyr::from_str(&text).unwrap();
    let fields = |of: &Value| -> Vec<(String, Vec<Value>)> {
        let fields = of["fields"].as_object().into_iter().flatten();
        let field =
            |(path, values): (&String, &Value)| (path.clone(), values.as_array().unwrap().clone());
        fields.map(field).collect()
    };
    let recipe = |(kind, row): (&String, &Value)| {
        let template = row.get("template").and_then(Value::as_str);
        let mut own = fields(row);
        own.extend(fields(&all["all"]));
        if template.is_some() {
            own.extend(fields(&all["template"]));
        }
        Some(Recipe {
            kind: kind.clone(),
            resource: row.get("resource")?.as_str()?.to_owned(),
            template: template.map(str::to_owned),
            bases: row["bases"].as_array()?.clone(),
            fields: own,
        })
    };
    all.iter().filter_map(recipe).collect()
}

impl Recipe {
    /// A valid object with this name.
    fn base(&self, dice: &mut Dice, name: &str) -> Value {
        let mut object = dice.one_of(&self.bases).clone();
        object["metadata"]["name"] = name.into();
        object["kind"] = self.kind.as_str().into();
        object["apiVersion"] = match self.resource.starts_with("/apis/batch") {
            true => "batch/v1".into(),
            false => "v1".into(),
        };
        object
    }

    /// Applies one to three random changes to an object.
    fn mutate(&self, dice: &mut Dice, object: &mut Value) {
        for _ in 0..=dice.below(3) {
            if dice.below(4) > 0 {
                let (path, values) = dice.one_of(&self.fields);
                let path = match (path.strip_prefix('@'), &self.template) {
                    (Some(rest), Some(template)) if template.is_empty() => rest.to_owned(),
                    (Some(rest), Some(template)) => format!("{template}.{rest}"),
                    _ => path.clone(),
                };
                set(object, &path, dice.one_of(values).clone());
            } else {
                mutate_anywhere(dice, object, 0);
            }
        }
    }
}

/// Sets the value at a path; numbers are indexes of arrays.
fn set(object: &mut Value, path: &str, value: Value) {
    let mut at = object;
    for name in path.split('.') {
        at = match (at, name.parse::<usize>()) {
            (Value::Array(items), Ok(place)) if place < items.len() => &mut items[place],
            (Value::Object(members), Err(_)) => members.entry(name).or_insert(json!({})),
            _ => return,
        };
    }
    *at = value;
}

/// Drops, doubles or retypes a random part of an object.
fn mutate_anywhere(dice: &mut Dice, value: &mut Value, depth: usize) {
    let deeper = depth == 0 || dice.below(4) > 0;
    match value {
        Value::Object(members) if deeper && !members.is_empty() => {
            let names: Vec<String> = members.keys().cloned().collect();
            let name = dice.one_of(&names);
            // The name is part of the object's path, so it must stay.
            if name == "name" && depth == 1 {
                return;
            }
            if depth > 0 && dice.below(6) == 0 {
                members.remove(name);
            } else {
                mutate_anywhere(dice, members.get_mut(name).unwrap(), depth + 1);
            }
        }
        Value::Array(items) if deeper && !items.is_empty() => {
            let place = dice.below(items.len());
            match dice.below(3) {
                0 => items.push(items[place].clone()),
                1 => drop(items.remove(place)),
                _ => mutate_anywhere(dice, &mut items[place], depth + 1),
            }
        }
        _ if depth < 2 => {}
        other => {
            *other = dice
                .one_of(&[
                    json!(null),
                    json!(""),
                    json!("x"),
                    json!("a.b"),
                    json!(-1),
                    json!(0),
                    json!(1.5),
                    json!(true),
                    json!([]),
                    json!({}),
                ])
                .clone();
        }
    }
}

/// A request.
struct Asked {
    method: &'static str,
    path: String,
    media: &'static str,
    body: String,
}

/// The ways to send an object.
const WAYS: [&str; 8] = [
    "create",
    "create",
    "dry-run",
    "update",
    "merge",
    "strategic",
    "json",
    "apply",
];

/// The requests that send an object in this way. Those before the last create the unchanged base.
fn requests(dice: &mut Dice, recipe: &Recipe, way: &str, name: &str, resource: &str) -> Vec<Asked> {
    let base = recipe.base(dice, name);
    let mut object = base.clone();
    recipe.mutate(dice, &mut object);
    if way != "create" && way != "dry-run" {
        object["metadata"]["name"] = name.into();
    }
    let json = "application/json";
    let asked = |method, path, media, body: &Value| Asked {
        method,
        path,
        media,
        body: body.to_string(),
    };
    let create = asked("POST", resource.to_owned(), json, &base);
    let one = format!("{resource}/{name}");
    match way {
        "create" => {
            let mut create = asked("POST", resource.to_owned(), json, &object);
            if dice.below(20) == 0 {
                let spec = json!({"suspend": true});
                let again = format!("{{\"spec\":{spec},");
                create.body = create.body.replacen('{', &again, 1);
            }
            vec![create]
        }
        "dry-run" => {
            let path = format!("{resource}?dryRun=All");
            vec![asked("POST", path, json, &object)]
        }
        "update" => vec![create, asked("PUT", one, json, &object)],
        "merge" => {
            let patch = difference(&base, &object);
            vec![
                create,
                asked("PATCH", one, "application/merge-patch+json", &patch),
            ]
        }
        "strategic" => {
            let patch = difference(&base, &object);
            let media = "application/strategic-merge-patch+json";
            vec![create, asked("PATCH", one, media, &patch)]
        }
        "json" => {
            let mut patch = Vec::new();
            for (member, value) in object.as_object().unwrap() {
                if base.get(member) != Some(value) && member != "metadata" {
                    patch.push(json!({"op": "add", "path": format!("/{member}"), "value": value}));
                }
            }
            let media = "application/json-patch+json";
            vec![create, asked("PATCH", one, media, &patch.into())]
        }
        _ => {
            let path = format!("{one}?fieldManager=a&force=true");
            let apply = asked("PATCH", path, "application/apply-patch+yaml", &object);
            match dice.below(2) {
                0 => vec![apply],
                _ => vec![create, apply],
            }
        }
    }
}

/// The merge patch that turns one object into another.
fn difference(from: &Value, to: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (from, to) else {
        return to.clone();
    };
    let mut patch = Map::new();
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    for (name, value) in new {
        match old.get(name) {
            Some(before) if before == value => {}
            Some(before) => drop(patch.insert(name.clone(), difference(before, value))),
            None => drop(patch.insert(name.clone(), value.clone())),
        }
    }
    patch.into()
}

/// A server's response without the values that change from run to run.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    code: u16,
    warnings: Vec<String>,
    causes: Vec<String>,
    body: Vec<String>,
}

fn seen(names: &mut Names, answer: &Answer) -> Seen {
    let mut warnings = Vec::new();
    for line in render::head(answer.code, &answer.headers).split_off(1) {
        let mut line = line;
        names.text(&mut line, "");
        warnings.push(line);
    }
    let mut value: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    if let Some(columns) = value
        .get_mut("columnDefinitions")
        .and_then(Value::as_array_mut)
    {
        for column in columns {
            // The embedded server has descriptions of its own.
            if let Some(column) = column.as_object_mut() {
                column.remove("description");
            }
        }
        if let Some(row) = value["rows"][0].as_object_mut() {
            row.remove("object");
        }
        value["metadata"] = json!({});
    }
    names.name(&mut value, false);
    without_admission(&mut value);
    let mut body = render::object(answer.code, &value, None);
    let (mut causes, rest): (Vec<_>, Vec<_>) = body
        .into_iter()
        .partition(|line| line.starts_with("cause "));
    body = rest;
    for line in causes.iter_mut().chain(&mut body) {
        // A real server prints the diff of its internal Pod structures.
        if let Some(end) = line.find(POD_DIFFERENCE) {
            line.truncate(end + POD_DIFFERENCE.len());
        }
    }
    if causes.len() > 1 {
        // The message repeats the causes.
        body.retain(|line| !line.contains("is invalid: ["));
    }
    for list in [&mut causes, &mut warnings] {
        sort_entries(list);
    }
    Seen {
        code: answer.code,
        warnings,
        causes,
        body,
    }
}

/// Removes the fields set by the service account admission, which test servers often lack.
fn without_admission(value: &mut Value) {
    if value["kind"] == "Pod"
        && let Some(spec) = value["spec"].as_object_mut()
        && spec.get("serviceAccountName") == Some(&json!("default"))
    {
        spec.remove("serviceAccountName");
        spec.remove("serviceAccount");
    }
}

/// Sorts adjacent lines about entries of the same map.
fn sort_entries(lines: &mut [String]) {
    fn map_of(line: &str) -> Option<&str> {
        let (path, _) = line.split_once("]: ")?;
        let (map, key) = path.rsplit_once('[')?;
        (key.parse::<usize>().is_err()).then_some(map)
    }
    for run in
        lines.chunk_by_mut(|one, other| map_of(one).is_some() && map_of(one) == map_of(other))
    {
        run.sort();
    }
}

/// Returns the first difference: its subject, and both responses.
fn compare(way: &str, real: &Seen, ours: &Seen) -> Option<(String, String)> {
    let part = if real.code != ours.code {
        "code"
    } else if real.causes != ours.causes {
        "causes"
    } else if real.warnings != ours.warnings {
        "warnings"
    } else if real.body != ours.body {
        "body"
    } else {
        return None;
    };
    let lines = |seen: &Seen| {
        let all = [
            seen.causes.clone(),
            seen.warnings.clone(),
            seen.body.clone(),
        ]
        .concat();
        [vec![seen.code.to_string()], all].concat()
    };
    let (real, ours) = (lines(real), lines(ours));
    let mut text = String::new();
    for line in real.iter().filter(|line| !ours.contains(line)) {
        writeln!(text, "    - {line}").unwrap();
    }
    for line in ours.iter().filter(|line| !real.contains(line)) {
        writeln!(text, "    + {line}").unwrap();
    }
    Some((format!("{way} {part}"), text))
}

/// The start of the name of the namespace that holds the objects on both servers.
const NAMESPACE: &str = "generated";

async fn prepare(arm: &Arm, namespace: &str) {
    let json = [("Content-Type".to_owned(), "application/json".to_owned())];
    let body = json!({"metadata": {"name": namespace}}).to_string();
    let answer = arm
        .send("POST", "/api/v1/namespaces", &json, body.into_bytes())
        .await;
    assert!(matches!(answer.code, 201 | 409), "{}", answer.code);
}

async fn play(arm: &Arm, namespace: &str, asked: &[Asked], stored: &str) -> Vec<Seen> {
    let mut names = Names::new(namespace.to_owned());
    let mut all = Vec::new();
    for (place, request) in asked.iter().enumerate() {
        let headers = [("Content-Type".to_owned(), request.media.to_owned())];
        let body = request.body.clone().into_bytes();
        let answer = arm
            .send(request.method, &request.path, &headers, body)
            .await;
        let seen = seen(&mut names, &answer);
        // The requests before the last only send the base object. They count if they fail.
        if place + 1 == asked.len() || seen.code >= 300 {
            all.push(seen);
        }
        settle(arm, stored).await;
    }
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    for accept in ["application/json", table] {
        let accept = [("Accept".to_owned(), accept.to_owned())];
        let answer = arm.send("GET", stored, &accept, Vec::new()).await;
        all.push(seen(&mut names, &answer));
    }
    let free = json!({"metadata": {"finalizers": null}}).to_string();
    let merge = [(
        "Content-Type".to_owned(),
        "application/merge-patch+json".to_owned(),
    )];
    arm.send("PATCH", stored, &merge, free.into_bytes()).await;
    let now = format!("{stored}?propagationPolicy=Background&gracePeriodSeconds=0");
    arm.send("DELETE", &now, &[], Vec::new()).await;
    all
}

/// Waits until the status of a quota follows its spec: a controller writes it asynchronously.
async fn settle(arm: &Arm, stored: &str) {
    if !stored.contains("/resourcequotas/") {
        return;
    }
    for _ in 0..100 {
        let answer = arm.send("GET", stored, &[], Vec::new()).await;
        let quota: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        if answer.code != 200 || quota["status"]["hard"] == quota["spec"]["hard"] {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn number(name: &str, default: usize) -> usize {
    env::var(name).map_or(default, |text| text.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real server"]
async fn generated_objects_are_answered_alike() {
    let kubeconfig = env::var("LAKH_CONFORMANCE_KUBECONFIG").unwrap();
    let (real, ours) = (Arm::real(&kubeconfig).await, Arm::embedded().await);
    let (seed, count) = (
        number("LAKH_CONFORMANCE_SEED", 1),
        number("LAKH_CONFORMANCE_OBJECTS", 2000),
    );
    let only = env::var("LAKH_CONFORMANCE_ONLY").unwrap_or_default();
    let listed = match Path::new(LISTED).exists() {
        true => fs::read_to_string(LISTED).unwrap(),
        false => String::new(),
    };
    let listed: Vec<&str> = listed
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect();
    let recipes = recipes();
    let namespace = format!("{NAMESPACE}-{}", std::process::id());
    prepare(&real, &namespace).await;
    prepare(&ours, &namespace).await;
    let mut sent: BTreeMap<&str, usize> = BTreeMap::new();
    let mut found: BTreeMap<(&str, String), usize> = BTreeMap::new();
    let mut known: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for place in 0..count {
        let mut dice = Dice((seed * 1_000_000 + place) as u64);
        let recipe = &recipes[place % recipes.len()];
        if !recipe.kind.contains(&only) {
            continue;
        }
        let way = *dice.one_of(&WAYS);
        let name = format!("o{seed}-{place}");
        let resource = recipe.resource.replace("{ns}", &namespace);
        let asked = requests(&mut dice, recipe, way, &name, &resource);
        let stored = format!("{resource}/{name}");
        let (theirs, own) = tokio::join!(
            play(&real, &namespace, &asked, &stored),
            play(&ours, &namespace, &asked, &stored)
        );
        *sent.entry(&recipe.kind).or_default() += 1;
        let body = &asked.last().unwrap().body;
        let stages = [way, "stored", "table"];
        let offset = theirs.len().saturating_sub(3);
        let pairs = theirs
            .iter()
            .skip(offset)
            .zip(own.iter().skip(offset))
            .zip(stages);
        let difference = pairs
            .into_iter()
            .find_map(|((one, other), stage)| compare(stage, one, other));
        let Some((what, text)) = difference else {
            continue;
        };
        if let Some(reason) = listed.iter().find(|line| text.contains(**line)) {
            *known.entry((recipe.kind.as_str(), *reason)).or_default() += 1;
            continue;
        }
        eprintln!("{} {name} {what}\n  {body}\n{text}", recipe.kind);
        *found.entry((recipe.kind.as_str(), what)).or_default() += 1;
    }
    eprintln!("sent: {sent:?}");
    for ((kind, reason), times) in &known {
        eprintln!("listed: {kind}: {times}: {reason}");
    }
    for ((kind, what), times) in &found {
        eprintln!("differs: {kind}: {times}: {what}");
    }
    assert_eq!(
        found.values().sum::<usize>(),
        0,
        "differences that are not listed"
    );
}
