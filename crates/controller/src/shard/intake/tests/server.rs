//! The API server of these random histories: Jobs and Pods as JSON, the effects of requests, and pending watch events.
//!
//! It implements only the requests that a shard makes. Must not: know the client, or check it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use http::Method;
use serde_json::{Value, json};

use lakh_model::{JobId, JobKey, Uid};
use lakh_wire::{ApiError, Call};

/// Namespace and name.
pub(super) type Place = (String, String);

/// Indexes of Jobs and Pods in [`Server::news`].
pub(super) const JOBS: usize = 0;
pub(super) const PODS: usize = 1;

/// A small API server in memory. Every change has a version and is queued for the watch of its kind.
#[derive(Debug, Default)]
pub(super) struct Server {
    pub(super) version: u64,
    uids: u128,
    pub(super) jobs: BTreeMap<Place, Value>,
    pub(super) pods: BTreeMap<Place, Value>,
    /// Pending watch events of Jobs and of Pods.
    pub(super) news: [VecDeque<(&'static str, Value)>; 2],
    /// Pods that succeeded while a Job owned them. A Pod that leaves its Job and comes back may count once more,
    /// because no component remembers it.
    pub(super) succeeded: BTreeSet<(JobId, Uid, u32)>,
    /// The number of owner changes of each Pod.
    moves: BTreeMap<Uid, u32>,
    /// The number of deletions and finalizer removals by requests.
    pub(super) written: usize,
}

pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or("")
}

pub(super) fn place(object: &Value) -> Place {
    let name = |of| text(object, of).to_owned();
    (name("/metadata/namespace"), name("/metadata/name"))
}

pub(super) fn uid(object: &Value) -> Uid {
    Uid::parse(text(object, "/metadata/uid")).expect("a UID")
}

pub(super) fn version(object: &Value) -> u64 {
    let version = text(object, "/metadata/resourceVersion").parse();
    version.expect("a version")
}

/// Returns the Job that a Pod names as its owner.
pub(super) fn owner(pod: &Value) -> Option<JobId> {
    Some(JobId {
        uid: Uid::parse(text(pod, "/metadata/ownerReferences/0/uid"))?,
        key: JobKey {
            namespace: text(pod, "/metadata/namespace").into(),
            name: text(pod, "/metadata/ownerReferences/0/name").into(),
        },
    })
}

pub(super) fn is_held(pod: &Value) -> bool {
    !pod["metadata"]["finalizers"]
        .as_array()
        .is_none_or(Vec::is_empty)
}

pub(super) fn is_deleting(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

pub(super) fn has_ended(pod: &Value) -> bool {
    matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
}

/// RFC 7386.
fn merge(target: &mut Value, patch: &Value) {
    let Some(members) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, change) in members {
        match change {
            Value::Null => drop(target.as_object_mut().and_then(|all| all.remove(key))),
            change => merge(&mut target[key], change),
        }
    }
}

fn refusal(code: u16, reason: &str, message: &str) -> ApiError {
    let status = json!({"code": code, "reason": reason, "message": message});
    ApiError::from_response(code, status.to_string().as_bytes(), None)
}

fn not_found() -> ApiError {
    refusal(404, "NotFound", "not found")
}

fn of_another() -> ApiError {
    refusal(409, "Conflict", "Precondition failed: UID in precondition")
}

fn modified() -> ApiError {
    refusal(409, "Conflict", "the object has been modified")
}

impl Server {
    pub(super) fn next_uid(&mut self) -> Uid {
        self.uids += 1;
        Uid::from_u128(self.uids)
    }

    /// Stores a version of an object, and queues its watch event.
    pub(super) fn put(&mut self, kind: usize, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let works =
            kind == PODS && (is_held(&object) || text(&object, "/status/phase") == "Running");
        let gone = is_deleting(&object) && !works;
        let all = if kind == JOBS {
            &mut self.jobs
        } else {
            &mut self.pods
        };
        if gone {
            all.remove(&place(&object));
        } else {
            all.insert(place(&object), object.clone());
        }
        let event = if gone { "DELETED" } else { "MODIFIED" };
        self.news[kind].push_back((event, object.clone()));
        object
    }

    pub(super) fn change_pod(&mut self, at: &Place, change: impl FnOnce(&mut Value)) -> Value {
        let mut pod = self.pods[at].clone();
        let before = owner(&pod);
        change(&mut pod);
        let moves = self.moves.entry(uid(&pod)).or_default();
        *moves += u32::from(owner(&pod) != before);
        if let Some(owner) = owner(&pod).filter(|_| text(&pod, "/status/phase") == "Succeeded") {
            self.succeeded.insert((owner, uid(&pod), *moves));
        }
        self.put(PODS, pod)
    }

    pub(super) fn delete_pod(&mut self, at: &Place) -> Value {
        self.change_pod(at, |pod| {
            pod["metadata"]["deletionTimestamp"] = json!("2020-01-01T00:00:00Z");
        })
    }

    /// Applies a request. Returns the object after it.
    pub(super) fn handle(&mut self, call: &Call) -> Result<Value, ApiError> {
        let (path, _) = call.path.split_once('?').unwrap_or((&call.path, ""));
        let parts: Vec<&str> = path.split('/').collect();
        let (_, parts) = parts.split_at(if parts[1] == "api" { 3 } else { 4 });
        let body = serde_json::from_slice(&call.body).unwrap_or_default();
        let at = |name: &str| (parts[1].to_owned(), name.to_owned());
        match (&call.method, &parts[2..]) {
            (&Method::GET, ["jobs", name]) => {
                self.jobs.get(&at(name)).cloned().ok_or_else(not_found)
            }
            (&Method::GET, ["pods", name]) => {
                self.pods.get(&at(name)).cloned().ok_or_else(not_found)
            }
            (&Method::PATCH, ["jobs", name, "status"]) => self.write_status(&at(name), &body),
            (&Method::POST, ["pods"]) => self.create_pod(parts[1], body),
            (&Method::PATCH, ["pods", name]) => self.free_pod(&at(name), &body),
            (&Method::DELETE, ["pods", name]) => {
                let meant = text(&body, "/preconditions/uid");
                self.meant(&at(name), meant)?;
                self.written += 1;
                Ok(self.delete_pod(&at(name)))
            }
            (_, ["events", ..]) => Ok(body),
            other => panic!("{other:?}"),
        }
    }

    /// Checks that the request's UID is that of the Pod; another Pod of the name is not touched.
    fn meant(&self, at: &Place, meant: &str) -> Result<&Value, ApiError> {
        let pod = self.pods.get(at).ok_or_else(not_found)?;
        match Uid::parse(meant) == Some(uid(pod)) {
            true => Ok(pod),
            false => Err(of_another()),
        }
    }

    fn create_pod(&mut self, namespace: &str, mut pod: Value) -> Result<Value, ApiError> {
        let name = text(&pod, "/metadata/name").to_owned();
        if self
            .pods
            .contains_key(&(namespace.to_owned(), name.clone()))
        {
            let message = format!("pods {name:?} already exists");
            return Err(refusal(409, "AlreadyExists", &message));
        }
        let id = self.next_uid();
        let made = json!({"metadata": {"namespace": namespace, "uid": id.to_string()},
            "status": {"phase": "Pending"}});
        merge(&mut pod, &made);
        Ok(self.put(PODS, pod))
    }

    fn free_pod(&mut self, at: &Place, patch: &Value) -> Result<Value, ApiError> {
        let pod = self.meant(at, text(patch, "/metadata/uid"))?;
        let meant = text(patch, "/metadata/resourceVersion");
        if !meant.is_empty() && meant != text(pod, "/metadata/resourceVersion") {
            return Err(modified());
        }
        let freed = &patch["metadata"]["$deleteFromPrimitiveList/finalizers"];
        assert!(freed.is_array(), "{patch}");
        self.written += 1;
        Ok(self.change_pod(at, |pod| pod["metadata"]["finalizers"] = json!([])))
    }

    fn write_status(&mut self, at: &Place, patch: &Value) -> Result<Value, ApiError> {
        let mut job = self.jobs.get(at).cloned().ok_or_else(not_found)?;
        if uid(&job) != uid(patch) {
            return Err(of_another());
        }
        if version(&job) != version(patch) {
            return Err(modified());
        }
        merge(&mut job["status"], &patch["status"]);
        Ok(self.put(JOBS, job))
    }
}
