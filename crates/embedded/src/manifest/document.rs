//! Reads manifests as objects with their location in the file.
//!
//! Responsible for: the fields that every object needs, and lists of objects.
//! Must not: know kinds, except that lists end in `List` and that [`is_served`] needs names.

use std::fmt;

use serde_json::Value;

use super::{ManifestError, Source, SourceLocation, resource::is_served, split::split, yaml};

/// An object of a manifest.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// Location: the source, the document's number there, and the line where it begins.
    pub location: SourceLocation,
    /// `items[N].` for item N of a `List`, otherwise empty; a prefix of every field path.
    pub field_prefix: String,
    /// `apiVersion`, such as `batch/v1`.
    pub api_version: String,
    /// `kind`, such as `Job`.
    pub kind: String,
    /// `metadata.name` or `metadata.generateName`.
    pub name: ObjectName,
    /// `metadata.namespace`, if given.
    pub namespace: Option<String>,
    /// The whole object.
    pub body: Value,
}

impl Document {
    /// Returns an error about one of its fields.
    pub(super) fn bad(&self, field: &str, problem: impl Into<String>) -> ManifestError {
        let (location, prefix) = (&self.location, &*self.field_prefix);
        Reader { location, prefix }.bad(field, problem)
    }
}

/// Name of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectName {
    /// This name.
    Given(String),
    /// A name that the API server generates from this prefix.
    Prefix(String),
    /// None: a file of another program, such as a Kustomization.
    None,
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given(name) => write!(f, "{name}"),
            Self::Prefix(prefix) => write!(f, "{prefix}*"),
            Self::None => write!(f, "without a name"),
        }
    }
}

/// Reads all objects of all sources, in order. The items of a list, such as `List` or `JobList`, become objects of
/// their own.
///
/// # Errors
///
/// The first document that cannot be read. Then none of the objects should be used: a manifest is applied as a whole or
/// not at all.
pub fn load(sources: &[Source]) -> Result<Vec<Document>, ManifestError> {
    let mut documents = Vec::new();
    for source in sources {
        for piece in split(&source.text) {
            let location = SourceLocation {
                source: source.name.clone(),
                document: piece.number,
                line: piece.first_line,
                column: None,
            };
            let value = yaml::parse(&piece, &location)?;
            add(&mut documents, value, &location, String::new())?;
        }
    }
    Ok(documents)
}

/// Adds an object, or the objects of a list. A document that is `null` is empty.
fn add(
    documents: &mut Vec<Document>,
    mut body: Value,
    location: &SourceLocation,
    field_prefix: String,
) -> Result<(), ManifestError> {
    let reader = Reader {
        location,
        prefix: &field_prefix,
    };
    if !body.is_object() {
        let found = type_name(&body);
        let location = location.clone();
        return match (field_prefix.strip_suffix('.'), body) {
            (None, Value::Null) => Ok(()),
            (None, _) => Err(ManifestError::NotAnObject { location, found }),
            (Some(item), _) => Err(ManifestError::BadField {
                location,
                field: item.to_owned(),
                problem: wanted("an object", found),
            }),
        };
    }
    let api_version = reader.required_text(&body, "apiVersion")?;
    let kind = reader.required_text(&body, "kind")?;
    if let Some(item_kind) = kind.strip_suffix("List")
        && (item_kind.is_empty() || body.get("items").is_some())
    {
        let items = match body["items"].take() {
            Value::Array(items) => items,
            Value::Null => Vec::new(),
            other => return Err(reader.bad("items", wanted("a list", type_name(&other)))),
        };
        for (nth, mut item) in items.into_iter().enumerate() {
            // In a list from the API server, the items have no kind.
            if !item_kind.is_empty() && item.is_object() && item["kind"].is_null() {
                item["kind"] = item_kind.into();
                item["apiVersion"] = api_version.as_str().into();
            }
            let field_prefix = format!("{field_prefix}items[{nth}].");
            add(documents, item, location, field_prefix)?;
        }
        return Ok(());
    }
    let (name, namespace) = match is_served(&api_version, &kind) {
        true => reader.name_and_namespace(&body)?,
        false => reader.some_name(&body),
    };
    let location = location.clone();
    documents.push(Document {
        location,
        field_prefix,
        api_version,
        kind,
        name,
        namespace,
        body,
    });
    Ok(())
}

/// Reads the fields of an object and reports errors with its location.
struct Reader<'a> {
    location: &'a SourceLocation,
    prefix: &'a str,
}

impl Reader<'_> {
    fn name_and_namespace(
        &self,
        body: &Value,
    ) -> Result<(ObjectName, Option<String>), ManifestError> {
        let metadata = &body["metadata"];
        if metadata.is_null() {
            return Err(self.bad("metadata.name", MISSING));
        } else if !metadata.is_object() {
            return Err(self.bad("metadata", wanted("an object", type_name(metadata))));
        }
        let name = match self.text(body, "metadata.name")? {
            Some(name) => ObjectName::Given(name),
            None => match self.text(body, "metadata.generateName")? {
                Some(prefix) => ObjectName::Prefix(prefix),
                None => return Err(self.bad("metadata.name", "is missing; so is generateName")),
            },
        };
        Ok((name, self.text(body, "metadata.namespace")?))
    }

    /// Returns name and namespace of an object of a kind that is not served, as far as it has them.
    fn some_name(&self, body: &Value) -> (ObjectName, Option<String>) {
        let text = |field: &str| body["metadata"][field].as_str().map(str::to_owned);
        let name = text("name").map(ObjectName::Given);
        let name = name.or_else(|| text("generateName").map(ObjectName::Prefix));
        (name.unwrap_or(ObjectName::None), text("namespace"))
    }

    fn required_text(&self, object: &Value, path: &str) -> Result<String, ManifestError> {
        let text = self.text(object, path)?;
        text.ok_or_else(|| self.bad(path, MISSING))
    }

    /// Returns the field's text, if it is present and not empty.
    fn text(&self, object: &Value, path: &str) -> Result<Option<String>, ManifestError> {
        match path.split('.').fold(object, |value, field| &value[field]) {
            Value::Null => Ok(None),
            Value::String(text) => Ok(Some(text.clone()).filter(|text| !text.is_empty())),
            other => {
                let mut problem = wanted("a text", type_name(other));
                if other.is_number() || other.is_boolean() {
                    problem.push_str(": put it in quotes");
                }
                Err(self.bad(path, problem))
            }
        }
    }

    fn bad(&self, field: &str, problem: impl Into<String>) -> ManifestError {
        ManifestError::BadField {
            location: self.location.clone(),
            field: format!("{}{field}", self.prefix),
            problem: problem.into(),
        }
    }
}

fn wanted(wanted: &str, found: &str) -> String {
    format!("must be {wanted}, but is {found}")
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

const MISSING: &str = "is missing";
