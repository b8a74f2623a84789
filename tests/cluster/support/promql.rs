//! Parses the metrics and labels that Prometheus queries select. Samples have the same syntax, so it parses them, too.
//!
//! It supports only the part of the language that our own queries use, and rejects everything else. promtool checks the
//! rest of a query. Must not: know any metric.

use std::collections::BTreeSet;

/// Functions that our queries use.
const FUNCTIONS: &[&str] = &[
    "absent",
    "changes",
    "histogram_quantile",
    "increase",
    "last_over_time",
    "rate",
    "time",
];

/// Functions that aggregate samples by labels.
const AGGREGATIONS: &[&str] = &["count", "max", "sum"];

/// A metric that a query selects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    pub metric: String,
    pub matchers: Vec<Matcher>,
    /// Labels without which the query makes no sense.
    pub needs: BTreeSet<String>,
}

/// A label matcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matcher {
    pub label: String,
    pub operator: String,
    pub value: String,
}

/// A query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    pub selectors: Vec<Selector>,
    /// The labels that aggregations keep; none if there is no aggregation.
    pub kept: Option<BTreeSet<String>>,
}

/// Parses a query.
pub fn read(text: &str) -> Result<Query, String> {
    let mut reader = Reader {
        tokens: tokens(text)?,
        next: 0,
        query: Query::default(),
        on: BTreeSet::new(),
    };
    reader.expression()?;
    match reader.take() {
        None => Ok(reader.query),
        Some(token) => Err(format!("{token:?} is out of place")),
    }
}

/// Parses a line of a scrape: the name, and labels as matchers.
pub fn read_sample(line: &str) -> Result<Selector, String> {
    let (series, _value) = line.rsplit_once(' ').ok_or("no value")?;
    let query = read(series)?;
    let [selector] = <[Selector; 1]>::try_from(query.selectors)
        .map_err(|all| format!("{} series in a line", all.len()))?;
    Ok(selector)
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Name(String),
    Number,
    Text(String),
    /// The duration of a range in brackets.
    Range,
    Sign(String),
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (token, length) = if first.is_ascii_alphabetic() || first == '_' {
            let length = length_of(rest, |c| c.is_ascii_alphanumeric() || "_:".contains(c));
            (Token::Name(rest[..length].to_owned()), length)
        } else if first.is_ascii_digit() {
            // A number or a duration.
            let length = length_of(rest, |c| c.is_ascii_alphanumeric() || c == '.');
            (Token::Number, length)
        } else if first == '"' {
            let length = rest[1..].find('"').ok_or("a text does not end")?;
            let inside = &rest[1..=length];
            if inside.contains('\\') {
                return Err(format!("{inside}: no escapes, please"));
            }
            (Token::Text(inside.to_owned()), length + 2)
        } else if first == '[' {
            let length = rest.find(']').ok_or("a range does not end")?;
            (Token::Range, length + 1)
        } else {
            let signs = [
                "==", "!=", ">=", "<=", "=~", "!~", "=", ">", "<", "+", "-", "*", "/", "(", ")",
                "{", "}", ",",
            ];
            let sign = signs.into_iter().find(|sign| rest.starts_with(sign));
            let sign = sign.ok_or_else(|| format!("{first} is no part of a query"))?;
            (Token::Sign(sign.to_owned()), sign.len())
        };
        tokens.push(token);
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

fn length_of(text: &str, belongs: impl Fn(char) -> bool) -> usize {
    text.find(|c| !belongs(c)).unwrap_or(text.len())
}

struct Reader {
    tokens: Vec<Token>,
    next: usize,
    query: Query,
    /// The labels that join the next series to those before.
    on: BTreeSet<String>,
}

impl Reader {
    fn take(&mut self) -> Option<Token> {
        let token = self.tokens.get(self.next).cloned();
        self.next += 1;
        token
    }

    fn is_at(&self, sign: &str) -> bool {
        matches!(self.tokens.get(self.next), Some(Token::Sign(there)) if there == sign)
    }

    fn expect(&mut self, sign: &str) -> Result<(), String> {
        match self.take() {
            Some(Token::Sign(there)) if there == sign => Ok(()),
            other => Err(format!("{sign} is missing before {other:?}")),
        }
    }

    /// Parses up to the end, or to a comma or parenthesis of an enclosing expression.
    fn expression(&mut self) -> Result<(), String> {
        while self.next < self.tokens.len() && !self.is_at(")") && !self.is_at(",") {
            match self.take() {
                Some(Token::Name(name)) => self.name(name)?,
                Some(Token::Sign(sign)) if sign == "(" => {
                    self.expression()?;
                    self.expect(")")?;
                }
                Some(Token::Sign(sign)) if sign == "{" => {
                    return Err("a selector without a metric".to_owned());
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn name(&mut self, name: String) -> Result<(), String> {
        match name.as_str() {
            "and" | "or" | "unless" | "offset" => Ok(()),
            "on" => {
                self.on = self.labels()?;
                Ok(())
            }
            aggregation if AGGREGATIONS.contains(&aggregation) => self.aggregation(),
            function if self.is_at("(") => match FUNCTIONS.contains(&function) {
                true => self.arguments(),
                false => Err(format!("{function} is no function that is known here")),
            },
            _ => self.selector(name),
        }
    }

    /// Parses `sum by (labels) (expression)`, or the same without labels. The labels are those of the first series in
    /// the expression: a part after `and` and the like only filters these.
    fn aggregation(&mut self) -> Result<(), String> {
        let mut labels = BTreeSet::new();
        if self.tokens.get(self.next) == Some(&Token::Name("by".to_owned())) {
            self.next += 1;
            labels = self.labels()?;
        }
        let kept = self.query.kept.get_or_insert_default();
        kept.extend(labels.iter().cloned());
        let first = self.query.selectors.len();
        self.arguments()?;
        let selector = self.query.selectors.get_mut(first);
        let selector = selector.ok_or("an aggregation of nothing")?;
        selector.needs.extend(labels);
        Ok(())
    }

    fn arguments(&mut self) -> Result<(), String> {
        self.expect("(")?;
        self.expression()?;
        while self.is_at(",") {
            self.next += 1;
            self.expression()?;
        }
        self.expect(")")
    }

    fn labels(&mut self) -> Result<BTreeSet<String>, String> {
        let mut labels = BTreeSet::new();
        self.expect("(")?;
        while !self.is_at(")") {
            match self.take() {
                Some(Token::Name(label)) => labels.insert(label),
                other => return Err(format!("{other:?} is no label")),
            };
            if !self.is_at(")") {
                self.expect(",")?;
            }
        }
        self.expect(")")?;
        Ok(labels)
    }

    fn selector(&mut self, metric: String) -> Result<(), String> {
        let mut selector = Selector {
            metric,
            matchers: Vec::new(),
            needs: std::mem::take(&mut self.on),
        };
        if self.is_at("{") {
            self.next += 1;
            while !self.is_at("}") {
                selector.matchers.push(self.matcher()?);
                if !self.is_at("}") {
                    self.expect(",")?;
                }
            }
            self.next += 1;
        }
        let labels = selector
            .matchers
            .iter()
            .map(|matcher| matcher.label.clone());
        selector.needs.extend(labels);
        self.query.selectors.push(selector);
        Ok(())
    }

    fn matcher(&mut self) -> Result<Matcher, String> {
        match (self.take(), self.take(), self.take()) {
            (Some(Token::Name(label)), Some(Token::Sign(operator)), Some(Token::Text(value)))
                if ["=", "!=", "=~", "!~"].contains(&operator.as_str()) =>
            {
                Ok(Matcher {
                    label,
                    operator,
                    value,
                })
            }
            odd => Err(format!("{odd:?} is no matcher")),
        }
    }
}
