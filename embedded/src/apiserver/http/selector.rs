//! Label and field selectors.
//!
//! Responsible for: their syntax and which objects match. Must not: fetch objects.

use serde_json::Value;

use super::query::Query;
use crate::apiserver::object::{
    error::{ApiError, Result},
    kind::Kind,
    names,
    stored::Stored,
};

/// Both selectors of a list or watch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selector {
    labels: Vec<Requirement>,
    fields: Vec<FieldTerm>,
}

#[derive(Clone, Debug)]
struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    Exists,
    Absent,
    Greater,
    Less,
}

#[derive(Clone, Debug)]
struct FieldTerm {
    path: String,
    value: String,
    equal: bool,
}

impl Selector {
    /// Reads `labelSelector` and `fieldSelector`.
    pub(crate) fn read(query: &Query, kind: Kind) -> Result<Self> {
        let labels = parse_labels(query.text("labelSelector")).map_err(ApiError::bad_request)?;
        let fields = parse_fields(query.text("fieldSelector"), kind)?;
        Ok(Self { labels, fields })
    }

    /// Whether every object matches.
    pub(crate) const fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// The name, where the selector asks for exactly one.
    pub(crate) fn single_name(&self) -> Option<&str> {
        let term = self
            .fields
            .iter()
            .find(|term| term.equal && term.path == "metadata.name")?;
        Some(&term.value)
    }

    /// Whether an object is selected.
    pub(crate) fn matches(&self, object: &Stored) -> bool {
        self.labels
            .iter()
            .all(|requirement| requirement.matches(object))
            && self.fields.iter().all(|term| term.matches(object))
    }
}

impl Requirement {
    fn matches(&self, object: &Stored) -> bool {
        let value = object.label(&self.key);
        let listed = |value: &str| self.values.iter().any(|have| have == value);
        let number = |compare: fn(&i64, &i64) -> bool| {
            let have = value.and_then(|value| value.parse::<i64>().ok());
            let limit = self
                .values
                .first()
                .and_then(|limit| limit.parse::<i64>().ok());
            have.zip(limit)
                .is_some_and(|(have, limit)| compare(&have, &limit))
        };
        match self.operator {
            Operator::In => value.is_some_and(listed),
            Operator::NotIn => !value.is_some_and(listed),
            Operator::Exists => value.is_some(),
            Operator::Absent => value.is_none(),
            Operator::Greater => number(i64::gt),
            Operator::Less => number(i64::lt),
        }
    }
}

impl FieldTerm {
    fn matches(&self, object: &Stored) -> bool {
        let equal = match self.path.as_str() {
            "metadata.name" => object.name == self.value,
            "metadata.namespace" => object.namespace == self.value,
            "status.phase" => object.phase == self.value,
            "spec.nodeName" | "spec.host" => object.node == self.value,
            other => self.equals_in_tree(object, other),
        };
        equal == self.equal
    }

    /// Rare fields are read from the stored bytes.
    fn equals_in_tree(&self, object: &Stored, path: &str) -> bool {
        let path = match path {
            "status.successful" => "status.succeeded",
            "source" => "source.component",
            other => other,
        };
        let tree = Value::Object(object.tree());
        let value = path
            .split('.')
            .try_fold(&tree, |value, part| value.get(part));
        let text = match value {
            None | Some(Value::Null) if path == "status.succeeded" => "0".to_owned(),
            None | Some(Value::Null) if path == "spec.hostNetwork" => "false".to_owned(),
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        text == self.value
    }
}

fn supported_fields(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Pod => &[
            "spec.nodeName",
            "spec.host",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ],
        Kind::Job => &["status.successful"],
        Kind::Namespace => &["status.phase"],
        Kind::Node => &["spec.unschedulable"],
        Kind::Event => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        Kind::Secret => &["type"],
        Kind::Lease
        | Kind::CronJob
        | Kind::ServiceAccount
        | Kind::ConfigMap
        | Kind::Workload
        | Kind::PodGroup
        | Kind::ResourceQuota => &[],
    }
}

fn parse_fields(text: &str, kind: Kind) -> Result<Vec<FieldTerm>> {
    let mut terms = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (path, value, equal) = if let Some((path, value)) = part.split_once("!=") {
            (path, value, false)
        } else if let Some((path, value)) = part.split_once("==") {
            (path, value, true)
        } else if let Some((path, value)) = part.split_once('=') {
            (path, value, true)
        } else {
            let why = format!("invalid selector: '{text}'; can't understand '{part}'");
            return Err(ApiError::bad_request(why));
        };
        let everywhere = ["metadata.name", "metadata.namespace"];
        if !everywhere.contains(&path) && !supported_fields(kind).contains(&path) {
            return Err(ApiError::bad_request(unsupported_field(kind, path)));
        }
        terms.push(FieldTerm {
            path: path.to_owned(),
            value: unescape(value),
            equal,
        });
    }
    Ok(terms)
}

fn unsupported_field(kind: Kind, path: &str) -> String {
    match kind {
        Kind::Job => format!("field label {path:?} not supported for Job"),
        Kind::Pod | Kind::Namespace | Kind::Node | Kind::Event | Kind::Secret => {
            format!("field label not supported: {path}")
        }
        Kind::Lease
        | Kind::CronJob
        | Kind::ServiceAccount
        | Kind::ConfigMap
        | Kind::Workload
        | Kind::PodGroup
        | Kind::ResourceQuota => format!(
            "{path:?} is not a known field selector: only \"metadata.name\", \
             \"metadata.namespace\""
        ),
    }
}

fn unescape(value: &str) -> String {
    value
        .replace("\\,", ",")
        .replace("\\=", "=")
        .replace("\\\\", "\\")
}

/// Reads a label selector.
fn parse_labels(text: &str) -> Result<Vec<Requirement>, String> {
    let tokens = tokenize(text);
    let mut tokens = tokens.iter().map(String::as_str).peekable();
    let mut requirements = Vec::new();
    while tokens.peek().is_some() {
        requirements.push(parse_requirement(&mut tokens)?);
        match tokens.next() {
            None => break,
            Some(",") if tokens.peek().is_none() => {
                return Err("found '', expected: identifier after ','".to_owned());
            }
            Some(",") => {}
            Some(other) => {
                return Err(format!("found '{other}', expected: ',' or 'end of string'"));
            }
        }
    }
    Ok(requirements)
}

fn parse_requirement<'a>(
    tokens: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>,
) -> Result<Requirement, String> {
    let first = tokens.next().unwrap_or_default();
    let absent = first == "!";
    let key = if absent {
        tokens.next().unwrap_or_default()
    } else {
        first
    };
    if key.is_empty() || is_symbol(key) {
        return Err(format!(
            "found '{key}', expected: !, identifier, or 'end of string'"
        ));
    }
    if let Some(problem) = names::qualified_name_problems(key).first() {
        return Err(format!(
            "{UNPARSED}<nil>: Invalid value: {key:?}: {problem}"
        ));
    }
    let bare = |operator| Requirement {
        key: key.to_owned(),
        operator,
        values: Vec::new(),
    };
    if absent {
        return Ok(bare(Operator::Absent));
    }
    let operator = match tokens.peek().copied() {
        None | Some(",") => return Ok(bare(Operator::Exists)),
        Some(operator) => operator,
    };
    tokens.next();
    let (operator, set) = match operator {
        "=" | "==" => (Operator::In, false),
        "!=" => (Operator::NotIn, false),
        ">" | "gt" => (Operator::Greater, false),
        "<" | "lt" => (Operator::Less, false),
        "in" => (Operator::In, true),
        "notin" => (Operator::NotIn, true),
        other => {
            return Err(format!(
                "{UNPARSED}found '{other}', expected: in, notin, =, ==, !=, gt, lt"
            ));
        }
    };
    let values = if set {
        parse_set(tokens)?
    } else {
        vec![parse_value(tokens)]
    };
    check_values(operator, &values)?;
    Ok(Requirement {
        key: key.to_owned(),
        operator,
        values,
    })
}

/// How errors about one requirement begin.
const UNPARSED: &str = "unable to parse requirement: ";

fn check_values(operator: Operator, values: &[String]) -> Result<(), String> {
    let ordered = matches!(operator, Operator::Greater | Operator::Less);
    for (index, value) in values.iter().enumerate() {
        let problem = if ordered && value.parse::<i64>().is_err() {
            Some("for 'Gt', 'Lt' operators, the value must be an integer".to_owned())
        } else {
            names::label_value_problems(value).into_iter().next()
        };
        if let Some(problem) = problem {
            return Err(format!(
                "{UNPARSED}values[{index}]: Invalid value: {value:?}: {problem}"
            ));
        }
    }
    Ok(())
}

fn parse_value<'a>(tokens: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>) -> String {
    match tokens.peek().copied() {
        Some(value) if !is_symbol(value) => {
            tokens.next();
            value.to_owned()
        }
        _ => String::new(),
    }
}

fn parse_set<'a>(
    tokens: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>,
) -> Result<Vec<String>, String> {
    match tokens.next() {
        Some("(") => {}
        other => {
            return Err(format!(
                "{UNPARSED}found '{}' expected: '('",
                other.unwrap_or_default()
            ));
        }
    }
    let mut values = Vec::new();
    loop {
        values.push(parse_value(tokens));
        match tokens.next() {
            Some(")") => return Ok(values),
            Some(",") => {}
            other => {
                return Err(format!(
                    "{UNPARSED}found '{}', expected: ',', ')' or identifier",
                    other.unwrap_or_default()
                ));
            }
        }
    }
}

fn is_symbol(token: &str) -> bool {
    matches!(token, "," | "(" | ")" | "=" | "==" | "!=" | "!" | "<" | ">")
}

fn tokenize(text: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut word = String::new();
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let symbol = match letter {
            '=' | '!' if letters.peek() == Some(&'=') => {
                letters.next();
                format!("{letter}=")
            }
            '=' | '!' | ',' | '(' | ')' | '<' | '>' => letter.to_string(),
            _ if letter.is_whitespace() => String::new(),
            _ => {
                word.push(letter);
                continue;
            }
        };
        if !word.is_empty() {
            tokens.push(std::mem::take(&mut word));
        }
        if !symbol.is_empty() {
            tokens.push(symbol);
        }
    }
    if !word.is_empty() {
        tokens.push(word);
    }
    tokens
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod() -> Stored {
        let Value::Object(tree) = json!({
            "metadata": {"name": "p", "namespace": "n", "uid": "u",
                         "labels": {"app": "web", "tier": "5"}},
            "spec": {"nodeName": "n1", "restartPolicy": "Never"},
            "status": {"phase": "Running"},
        }) else {
            unreachable!()
        };
        Stored::encode(Kind::Pod, 1, &tree)
    }

    #[test]
    fn selectors_select() {
        let check = |labels: &str, fields: &str, expected: bool| {
            let encode = |text: &str| text.replace('=', "%3D").replace(' ', "+");
            let query = format!(
                "labelSelector={}&fieldSelector={}",
                encode(labels),
                encode(fields)
            );
            let selector = Selector::read(&Query::parse(&query), Kind::Pod).unwrap();
            assert_eq!(selector.matches(&pod()), expected, "{labels:?} {fields:?}");
        };
        check("", "", true);
        check("app=web", "", true);
        check("app==web,tier", "", true);
        check("app!=web", "", false);
        check("missing!=web", "", true);
        check("!missing", "", true);
        check("!app", "", false);
        check("app in (db, web)", "", true);
        check("app notin (db,web)", "", false);
        check("tier>4,tier<6", "", true);
        check("app=", "", false);
        check("", "spec.nodeName=n1,status.phase!=Pending", true);
        check("", "spec.restartPolicy=Always", false);
        check("", "spec.hostNetwork=false", true);
    }

    #[test]
    fn bad_selectors_are_refused() {
        let check = |query: &str, expected: &str| {
            let error = Selector::read(&Query::parse(query), Kind::Pod).unwrap_err();
            assert_eq!(error.to_string(), expected, "{query}");
        };
        check(
            "labelSelector=a+in",
            "unable to parse requirement: found '' expected: '('",
        );
        check(
            "labelSelector=A+B",
            "unable to parse requirement: found 'B', expected: in, notin, =, ==, !=, gt, lt",
        );
        check(
            "fieldSelector=metadata.uid%3Da",
            "field label not supported: metadata.uid",
        );
        check(
            "fieldSelector=metadata.name",
            "invalid selector: 'metadata.name'; can't understand 'metadata.name'",
        );
    }
}
