//! Parses and matches the label, field and shard selectors of lists and watches.
//!
//! Responsible for: their syntax, and matching. Must not: fetch objects.

use std::{iter::Peekable, vec::IntoIter};

use serde_json::Value;

use super::{query::Query, shard_selector::ShardSelector};
use crate::apiserver::object::{ApiError, JsonView, Kind, Result, Stored, names};

/// All selectors of a list or watch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selector {
    labels: Vec<Requirement>,
    fields: Vec<FieldTerm>,
    shards: Option<ShardSelector>,
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
    /// Parses `labelSelector`, `fieldSelector` and `shardSelector`.
    pub(crate) fn read(query: &Query, kind: Kind) -> Result<Self> {
        let labels = parse_labels(query.text("labelSelector")).map_err(ApiError::bad_request)?;
        let fields = parse_fields(query.text("fieldSelector"), kind)?;
        let shards = ShardSelector::read(query.text("shardSelector"))?;
        Ok(Self {
            labels,
            fields,
            shards,
        })
    }

    /// Returns true if every object matches.
    pub(crate) const fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty() && self.shards.is_none()
    }

    /// The text of the shard selector, if there is one.
    pub(crate) fn of_shards(&self) -> Option<&str> {
        self.shards.as_ref().map(ShardSelector::text)
    }

    /// The object name, if a field selector requires one.
    pub(crate) fn single_name(&self) -> Option<&str> {
        let mut fields = self.fields.iter();
        let term = fields.find(|term| term.equal && term.path == "metadata.name")?;
        Some(&term.value)
    }

    /// Returns true if an object matches.
    pub(crate) fn matches(&self, object: &Stored) -> bool {
        self.labels
            .iter()
            .all(|requirement| requirement.matches(object))
            && self.fields.iter().all(|term| term.matches(object))
            && self
                .shards
                .as_ref()
                .is_none_or(|shards| shards.matches(object))
    }
}

impl Requirement {
    fn matches(&self, object: &Stored) -> bool {
        let value = object.label(&self.key);
        let listed = |value: &str| self.values.iter().any(|have| have == value);
        let number = |compare: fn(&i64, &i64) -> bool| {
            let limit = self.values.first().and_then(|limit| limit.parse().ok());
            let both = value.and_then(|value| value.parse().ok()).zip(limit);
            both.is_some_and(|(have, limit)| compare(&have, &limit))
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

    /// Fields without a copy in [`Stored`] are read from its bytes.
    fn equals_in_tree(&self, object: &Stored, path: &str) -> bool {
        let path = match path {
            "status.successful" => "status.succeeded",
            "source" => "source.component",
            other => other,
        };
        match (JsonView::from(&object.tree()).at(path).value(), path) {
            (Value::Null, "status.succeeded") => self.value == "0",
            (Value::Null, "spec.hostNetwork") => self.value == "false",
            (Value::Null, _) => self.value.is_empty(),
            (Value::String(text), _) => self.value == *text,
            (other, _) => format!("{other}") == self.value,
        }
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
        _ => &[],
    }
}

fn parse_fields(text: &str, kind: Kind) -> Result<Vec<FieldTerm>> {
    let mut terms = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let mut operators = ["!=", "==", "="].into_iter();
        let found = operators.find_map(|operator| Some((operator, part.split_once(operator)?)));
        let Some((operator, (path, value))) = found else {
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
            equal: operator != "!=",
        });
    }
    Ok(terms)
}

fn unsupported_field(kind: Kind, path: &str) -> String {
    match supported_fields(kind) {
        [] => format!(
            "{path:?} is not a known field selector: only \"metadata.name\", \
             \"metadata.namespace\""
        ),
        _ if kind == Kind::Job => format!("field label {path:?} not supported for Job"),
        _ => format!("field label not supported: {path}"),
    }
}

fn unescape(value: &str) -> String {
    value
        .replace("\\,", ",")
        .replace("\\=", "=")
        .replace("\\\\", "\\")
}

/// The tokens of a label selector; the empty string marks the end.
struct SelectorTokens<'a>(Peekable<IntoIter<&'a str>>);

impl<'a> SelectorTokens<'a> {
    fn of(text: &'a str) -> Self {
        let mut tokens = Vec::new();
        let mut rest = text.trim_start();
        while let Some(first) = rest.chars().next() {
            let ends = |letter: char| is_mark(letter) || letter.is_whitespace();
            let end = match first {
                '=' | '!' if rest[1..].starts_with('=') => 2,
                first if is_mark(first) => 1,
                _ => rest.find(ends).unwrap_or(rest.len()),
            };
            tokens.push(&rest[..end]);
            rest = rest[end..].trim_start();
        }
        Self(tokens.into_iter().peekable())
    }

    fn peek(&mut self) -> &'a str {
        self.0.peek().copied().unwrap_or_default()
    }

    fn next(&mut self) -> &'a str {
        self.0.next().unwrap_or_default()
    }

    /// The next word, or an empty value if the next token is punctuation.
    fn value(&mut self) -> String {
        let word = self.0.next_if(|token| !token.starts_with(is_mark));
        word.unwrap_or_default().to_owned()
    }

    fn values(&mut self) -> Result<Vec<String>, String> {
        match self.next() {
            "(" => {}
            other => return Err(format!("{UNPARSED}found '{other}' expected: '('")),
        }
        let mut values = vec![self.value()];
        loop {
            match self.next() {
                ")" => return Ok(values),
                "," => values.push(self.value()),
                other => {
                    return Err(format!(
                        "{UNPARSED}found '{other}', expected: ',', ')' or identifier"
                    ));
                }
            }
        }
    }
}

/// The punctuation of label selectors.
const MARKS: &str = "=!,()<>";

fn is_mark(letter: char) -> bool {
    MARKS.contains(letter)
}

/// Parses a label selector.
fn parse_labels(text: &str) -> Result<Vec<Requirement>, String> {
    let mut tokens = SelectorTokens::of(text);
    let mut requirements = Vec::new();
    while !tokens.peek().is_empty() {
        requirements.push(parse_requirement(&mut tokens)?);
        match tokens.next() {
            "" => break,
            "," if tokens.peek().is_empty() => {
                return Err("found '', expected: identifier after ','".to_owned());
            }
            "," => {}
            other => return Err(format!("found '{other}', expected: ',' or 'end of string'")),
        }
    }
    Ok(requirements)
}

fn parse_requirement(tokens: &mut SelectorTokens<'_>) -> Result<Requirement, String> {
    let first = tokens.next();
    let absent = first == "!";
    let key = if absent { tokens.next() } else { first };
    if key.is_empty() || key.starts_with(is_mark) {
        let expected = "expected: !, identifier, or 'end of string'";
        return Err(format!("found '{key}', {expected}"));
    }
    if let Some(problem) = names::qualified_name_problems(key).first() {
        let why = format!("<nil>: Invalid value: {key:?}: {problem}");
        return Err(format!("{UNPARSED}{why}"));
    }
    let operator = match tokens.peek() {
        _ if absent => Operator::Absent,
        "" | "," => Operator::Exists,
        "=" | "==" | "in" => Operator::In,
        "!=" | "notin" => Operator::NotIn,
        ">" | "gt" => Operator::Greater,
        "<" | "lt" => Operator::Less,
        other => {
            let expected = "expected: in, notin, =, ==, !=, gt, lt";
            return Err(format!("{UNPARSED}found '{other}', {expected}"));
        }
    };
    let values = match operator {
        Operator::Absent | Operator::Exists => Vec::new(),
        _ => match tokens.next() {
            "in" | "notin" => tokens.values()?,
            _ => vec![tokens.value()],
        },
    };
    check_values(operator, &values)?;
    Ok(Requirement {
        key: key.to_owned(),
        operator,
        values,
    })
}

/// The start of errors about one requirement.
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
    fn shards_are_selected_by_the_hash_of_a_field() {
        let selects = |text: &str| {
            let escaped = text.replace('|', "%7C").replace(' ', "+");
            let query = format!("shardSelector={escaped}");
            let selector = Selector::read(&Query::parse(&query), Kind::Pod)?;
            Ok::<_, ApiError>(selector.matches(&pod()))
        };
        // FNV-1a of "n" is af63e34c8601f871.
        let range = |start: &str, end: &str| {
            format!("shardRange(object.metadata.namespace, '0x{start}', '0x{end}')")
        };
        let exact = range("af63e34c8601f871", "af63e34c8601f872");
        let below = range("0000000000000000", "af63e34c8601f871");
        let above = range("af63e34c8601f872", "10000000000000000");
        assert!(selects(&exact).unwrap() && selects(&format!("{below} || {exact}")).unwrap());
        assert!(!selects(&format!("{below} || {above}")).unwrap());
        let all_uids =
            "shardRange(object.metadata.uid, '0x0000000000000000', '0x10000000000000000')";
        assert!(selects(all_uids).unwrap());
        for odd in [
            "x",
            "shardRange(object.metadata.name, '0x0000000000000000', '0x0000000000000001')",
            &range("0", "0000000000000001"),
            &range("0000000000000001", "0000000000000001"),
            &range("0000000000000001", "20000000000000000"),
            &format!("{below} || {all_uids}"),
        ] {
            let error = selects(odd).unwrap_err().to_string();
            assert!(error.starts_with("invalid shard selector: "), "{error}");
        }
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
