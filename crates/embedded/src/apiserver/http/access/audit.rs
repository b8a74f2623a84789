//! Builds the entries of an audit log: user, request and outcome.
//!
//! Responsible for: their form, `audit.k8s.io/v1` Events at level Metadata. Must not: write them to a file.

use serde_json::{Value, json};

use super::{
    attributes::{Attributes, RequestTarget},
    users::User,
};
use crate::{
    apiserver::{
        http::request::Request,
        object::{names, tree},
    },
    model::Time,
    rng::Rng,
};

/// Creates entries.
#[derive(Debug)]
pub struct Auditor(Rng);

/// The entry of a request that has no response yet.
#[derive(Clone, Debug)]
pub struct Audited {
    event: Value,
}

impl Auditor {
    /// An auditor; the seed determines the ids of its entries.
    pub const fn new(seed: u64) -> Self {
        Self(Rng::new(seed))
    }

    /// Records a received request. `user` is `None` if the server does not authenticate, or if the token is unknown.
    pub fn received(&mut self, request: Request<'_>, user: Option<&User>, now: Time) -> Audited {
        let Attributes { verb, target } = Attributes::of(request);
        let uri = match request.query {
            "" => request.path.to_owned(),
            query => format!("{}?{query}", request.path),
        };
        let mut event = json!({
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": "Metadata",
            "auditID": names::new_uid(&mut self.0),
            "requestURI": uri,
            "verb": verb,
            "user": {},
            "sourceIPs": ["127.0.0.1"],
            "requestReceivedTimestamp": micros(now),
        });
        if let Some(user) = user {
            event["user"] = tree::of_texts([("username", &user.name), ("uid", &user.uid)]);
            event["user"]["groups"] = json!(user.groups);
        }
        if !request.user_agent.is_empty() {
            event["userAgent"] = request.user_agent.into();
        }
        if let RequestTarget::Resource(place) = target {
            event["objectRef"] = place.reference();
        }
        Audited { event }
    }
}

impl Audited {
    /// Completes the entry with the response and returns its line. The entry of a stream is written when the stream
    /// starts.
    pub fn answered(mut self, code: u16, stream: bool, now: Time) -> String {
        let stage = if stream {
            "ResponseStarted"
        } else {
            "ResponseComplete"
        };
        self.event["stage"] = stage.into();
        self.event["responseStatus"] = json!({"metadata": {}, "code": code});
        self.event["stageTimestamp"] = micros(now).into();
        self.event.to_string()
    }
}

/// A time in the format of audit logs.
fn micros(time: Time) -> String {
    let seconds = time.whole_secs().to_rfc3339();
    let millis = time.as_millis().rem_euclid(1000);
    format!("{}.{millis:03}000Z", seconds.trim_end_matches('Z'))
}
