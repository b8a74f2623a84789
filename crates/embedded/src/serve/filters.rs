//! Filters each call from outside: authentication, authorization, the guard against web pages, and the audit log.
//!
//! Responsible for: passing each call through all filters, whichever part answers it. Must not: decide permissions;
//! [`crate::apiserver`] does.

use std::time::Duration;

use http::request::Parts;

use super::{
    ServeOptions,
    audit_log::AuditLog,
    browser_guard,
    shared::SharedApi,
    state_file::{About as _, FileError},
};
use crate::apiserver::{Audited, Label, Prepared, Reply, Request, Response, Users, prepare};

/// Default timeout for receiving a body; equals hyper's timeout for a request head.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// The filters between the network and the server; none are on by default.
#[derive(Debug)]
pub(super) struct Filters {
    users: Option<Users>,
    is_tls: bool,
    body_timeout: Duration,
    audit: Option<AuditLog>,
}

/// A call that has passed the filters and awaits its reply.
#[derive(Debug)]
#[must_use = "a dropped call leaves a client waiting"]
pub(super) struct FilteredCall<'a> {
    api: &'a SharedApi,
    prepared: Prepared,
    /// Reply that needs no server: a refusal or an access review.
    decided: Option<Reply>,
    audit: Option<(&'a AuditLog, Audited)>,
}

impl Filters {
    pub(super) fn new(options: &ServeOptions) -> Result<Self, FileError> {
        // The clock is part of the seed, so that audit IDs differ from those of an earlier run in the same file.
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

    /// Returns the token of a user with full access, if tokens are required.
    pub(super) fn master_token(&self) -> Option<&str> {
        self.users.as_ref().and_then(Users::master_token)
    }

    /// Returns the timeout for receiving a body.
    pub(super) fn body_timeout(&self) -> Duration {
        self.body_timeout
    }

    /// Authenticates and authorizes a call and opens its audit entry. A refusal is stored in the call, before it is
    /// routed.
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
            None => browser_guard::refusal(&parts.headers, &parts.uri, self.is_tls)
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

    /// Answers from the server. With `stale`, a read returns the state of that many changes ago.
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

    /// Answers from `answer` instead of the server. It runs only if the caller is authorized.
    pub(super) fn answer_by(self, answer: impl FnOnce() -> Response) -> Reply {
        let reply = self.decided.unwrap_or_else(|| Reply::Complete(answer()));
        note(self.audit, &reply, self.api);
        reply
    }

    /// Answers with `response`; the server never sees the call.
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
