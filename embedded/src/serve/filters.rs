//! The filters that each call from outside passes: authentication and authorization, the guard against web
//! pages, and the audit log.
//!
//! Responsible for: that each call passes all of them, whoever answers it. Must not: decide who may do what;
//! that is in [`crate::apiserver`].

use std::time::Duration;

use http::request::Parts;

use super::{
    ServeOptions,
    audit_log::AuditLog,
    shared::SharedApi,
    state_file::{About as _, FileError},
    stranger,
};
use crate::apiserver::{Audited, Label, Prepared, Reply, Request, Response, Users, prepare};

/// How long a body may take to come; as long as hyper gives the head of a request.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// The checks between the network and the server; none are on by default.
#[derive(Debug)]
pub(super) struct Filters {
    users: Option<Users>,
    is_tls: bool,
    body_timeout: Duration,
    audit: Option<AuditLog>,
}

/// A call that has passed the filters and waits for its answer.
#[derive(Debug)]
#[must_use = "a dropped call leaves a client waiting"]
pub(super) struct FilteredCall<'a> {
    api: &'a SharedApi,
    prepared: Prepared,
    /// What depends on nothing but who asks.
    decided: Option<Reply>,
    audit: Option<(&'a AuditLog, Audited)>,
}

impl Filters {
    pub(super) fn new(options: &ServeOptions) -> Result<Self, FileError> {
        // Not the ids of an earlier run in the same file.
        let seed = options.seed ^ options.clock.now().wall.as_millis().cast_unsigned();
        let path = options.audit_log.as_deref();
        let audit = path.map(|path| AuditLog::open(path, seed).about(path));
        Ok(Self {
            users: options.users.clone(),
            is_tls: options.tls.is_some(),
            body_timeout: options.body_timeout.unwrap_or(BODY_TIMEOUT),
            audit: audit.transpose()?,
        })
    }

    /// The token of somebody who may do all, where tokens are asked for.
    pub(super) fn master_token(&self) -> Option<&str> {
        self.users.as_ref().and_then(Users::master_token)
    }

    /// How long a body may take to come.
    pub(super) fn body_timeout(&self) -> Duration {
        self.body_timeout
    }

    /// Takes a call in. Who may not make it is known from here on, whatever the call is about.
    pub(super) fn receive<'a>(
        &'a self,
        request: Request<'_>,
        parts: &Parts,
        api: &'a SharedApi,
    ) -> FilteredCall<'a> {
        let user = self
            .users
            .as_ref()
            .and_then(|users| users.find(request.authorization));
        let audit = self.audit.as_ref().map(|log| {
            let audited = log.received(request, user.as_ref(), api.now().wall);
            (log, audited)
        });
        let decided = match &self.users {
            Some(users) => users.answer(user.as_ref(), request).map(Reply::Complete),
            None => stranger::refusal(&parts.headers, &parts.uri, self.is_tls)
                .map(|why| Reply::forbidden(&why)),
        };
        FilteredCall {
            api,
            prepared: prepare(request),
            decided,
            audit,
        }
    }
}

impl FilteredCall<'_> {
    pub(super) fn label(&self) -> Label {
        self.prepared.label()
    }

    /// The server's answer; a read's as of so many changes ago, if that is wanted.
    pub(super) async fn answer(self, stale: Option<u64>) -> Reply {
        let label = self.label();
        let reply = match (self.decided, stale) {
            (Some(reply), _) => {
                self.api.count(label, reply.code());
                reply
            }
            (None, Some(changes)) => self.api.answer_stale(self.prepared, changes).await,
            (None, None) => self.api.answer(self.prepared).await,
        };
        note(self.audit, &reply, self.api);
        reply
    }

    /// The answer of somebody other than the server, who is asked only if the caller may ask.
    pub(super) fn answer_by(self, answer: impl FnOnce() -> Response) -> Reply {
        let reply = self.decided.unwrap_or_else(|| Reply::Complete(answer()));
        note(self.audit, &reply, self.api);
        reply
    }

    /// An answer in place of the server's, which never sees the call.
    pub(super) fn answer_instead(self, response: Response) -> Reply {
        let label = self.label();
        let reply = Reply::Complete(response);
        self.api.count(label, reply.code());
        note(self.audit, &reply, self.api);
        reply
    }
}

fn note(audit: Option<(&AuditLog, Audited)>, reply: &Reply, api: &SharedApi) {
    if let Some((log, audited)) = audit {
        let stream = matches!(reply, Reply::Watch(_));
        log.write(audited.answered(reply.code(), stream, api.now().wall));
    }
}
