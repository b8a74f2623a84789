//! Stores the entries of `metadata.managedFields`: each manager with its fields.
//!
//! Responsible for: their JSON form, their order, and their maximum number. Must not: assign fields to managers.

use serde_json::Value;

use super::set::FieldSet;
use crate::apiserver::object::Tree;

/// The largest number of entries with the operation `Update`; the oldest are merged into one.
const MAX_UPDATERS: usize = 10;

/// The manager name of the merged entry.
const ANCIENT: &str = "ancient-changes";

/// The operation by which a manager owns fields. `Apply` sorts first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[doc(alias = "ManagedFieldsOperationType")]
pub(super) enum ManagerOperation {
    Apply,
    Update,
}

/// The owner of fields: the identity of an entry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[doc(alias = "managerIdentifier")]
pub(super) struct FieldManager {
    pub(super) operation: ManagerOperation,
    pub(super) manager: String,
    pub(super) api_version: String,
    pub(super) subresource: String,
}

/// The fields of one manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) owner: FieldManager,
    /// The time of the manager's last change; empty if it has changed none.
    pub(super) time: String,
    pub(super) fields: FieldSet,
}

/// The only supported format of fields.
const FIELDS_TYPE: &str = "FieldsV1";

/// All entries of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Entries(pub(super) Vec<Entry>);

impl Entries {
    /// Parses `managedFields`; `None` if an entry is invalid.
    pub(super) fn read(value: &Value) -> Option<Self> {
        let entries = value.as_array()?.iter().map(Entry::read);
        Some(Self(entries.collect::<Option<_>>()?))
    }

    /// Returns true if the `managedFields` of a request reset all managers.
    pub(super) fn is_reset(value: &Value) -> bool {
        match value.as_array().map(Vec::as_slice) {
            Some([]) => true,
            Some([only]) => only.as_object().is_some_and(Tree::is_empty),
            _ => false,
        }
    }

    /// The entry of an owner.
    pub(super) fn get(&self, owner: &FieldManager) -> Option<&Entry> {
        self.0.iter().find(|entry| entry.owner == *owner)
    }

    /// Inserts an entry and removes the owner's previous one.
    pub(super) fn set(&mut self, entry: Entry) {
        self.0.retain(|known| known.owner != entry.owner);
        self.0.push(entry);
    }

    /// Removes entries without fields.
    pub(super) fn drop_empty(&mut self) {
        self.0.retain(|entry| !entry.fields.is_empty());
    }

    /// Merges the oldest `Update` entries if there are too many.
    pub(super) fn cap(&mut self) {
        let (mut updaters, mut rest): (Vec<Entry>, Vec<Entry>) = std::mem::take(&mut self.0)
            .into_iter()
            .partition(|entry| entry.owner.operation == ManagerOperation::Update);
        if updaters.len() > MAX_UPDATERS {
            updaters.sort_by(|a, b| (&a.time, &a.owner.manager).cmp(&(&b.time, &b.owner.manager)));
            let many = updaters.len() - MAX_UPDATERS + 1;
            let mut oldest = updaters.drain(..many);
            if let Some(mut bucket) = oldest.next() {
                bucket.owner.manager = ANCIENT.to_owned();
                bucket.owner.subresource.clear();
                for entry in oldest {
                    bucket.fields.add(entry.fields);
                    bucket.time = entry.time;
                }
                rest.push(bucket);
            }
        }
        rest.append(&mut updaters);
        self.0 = rest;
    }

    /// The sorted entries as `managedFields`.
    pub(super) fn write(mut self) -> Value {
        self.0.sort_by(|a, b| a.place().cmp(&b.place()));
        self.0.into_iter().map(Entry::write).collect()
    }
}

impl Entry {
    /// Parses an entry by hand, because every write of a Job does this: a derived `Deserialize` would read and copy an
    /// entry twice.
    fn read(entry: &Value) -> Option<Self> {
        let text = |name: &str| match entry.get(name) {
            None => Some(String::new()),
            Some(text) => text.as_str().map(str::to_owned),
        };
        if entry.get("fieldsType")?.as_str()? != FIELDS_TYPE {
            return None;
        }
        Some(Self {
            owner: FieldManager {
                operation: match entry.get("operation")?.as_str()? {
                    "Apply" => ManagerOperation::Apply,
                    "Update" => ManagerOperation::Update,
                    _ => return None,
                },
                manager: text("manager")?,
                api_version: text("apiVersion")?,
                subresource: text("subresource")?,
            },
            time: text("time")?,
            fields: FieldSet::read(entry.get("fieldsV1")?)?,
        })
    }

    fn write(self) -> Value {
        let operation = match self.owner.operation {
            ManagerOperation::Apply => "Apply",
            ManagerOperation::Update => "Update",
        };
        let mut entry = Tree::new();
        let mut put = |name: &str, value: Value| entry.insert(name.to_owned(), value);
        put("apiVersion", self.owner.api_version.into());
        put("fieldsType", FIELDS_TYPE.into());
        put("fieldsV1", self.fields.into());
        put("manager", self.owner.manager.into());
        put("operation", operation.into());
        if !self.owner.subresource.is_empty() {
            put("subresource", self.owner.subresource.into());
        }
        if !self.time.is_empty() {
            put("time", self.time.into());
        }
        Value::Object(entry)
    }

    fn place(&self) -> (ManagerOperation, &str, &str, &str, &str) {
        let FieldManager {
            operation,
            manager,
            api_version,
            subresource,
        } = &self.owner;
        (*operation, &self.time, manager, api_version, subresource)
    }
}

/// Returns true if both have the same entries apart from their times.
pub(crate) fn same_but_for_times(one: Option<&Value>, other: Option<&Value>) -> bool {
    let parts = |value: Option<&Value>| {
        let mut list = value.and_then(Value::as_array).cloned().unwrap_or_default();
        for entry in list.iter_mut().filter_map(Value::as_object_mut) {
            entry.remove("time");
        }
        list
    };
    one == other || parts(one) == parts(other)
}

impl FieldManager {
    /// The owner as error texts print it.
    pub(super) fn shown(&self) -> String {
        let mut text = format!("{:?}", self.manager);
        if !self.subresource.is_empty() {
            text.push_str(&format!(" with subresource {:?}", self.subresource));
        }
        if self.operation == ManagerOperation::Update {
            text.push_str(&format!(" using {}", self.api_version));
        }
        text
    }
}
