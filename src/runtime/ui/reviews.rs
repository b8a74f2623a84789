//! Whose a token is, and what they may list, as the API server says: asked for, and believed for a short time.
//!
//! As long as Kubernetes' own servers believe it that ask for the same: 10 s for a token and a right (`CacheTTL` and
//! `AllowCacheTTL` in `pkg/server/options/authentication.go` and `authorization.go` of `k8s.io/apiserver`), and 30 s for a
//! right that is refused, as kubelets do (`authorization.webhook.cacheUnauthorizedTTL`). Nothing is kept on disk, and no
//! token is told to anybody but the API server.
//!
//! Must not: know what is shown.

use std::{
    collections::HashMap,
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use compact_str::CompactString;
use k8s_openapi::api::authentication::v1::UserInfo;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    client::Client,
    clock::instant,
    wire::{
        ApiError, Call, access_review, decode_access_review, decode_token_review, token_review,
    },
};

use super::door::Refused;

/// How long it is believed whose a token is, and that somebody may do something.
const BELIEVED: Duration = Duration::from_secs(10);

/// How long it is believed that somebody may not.
const REFUSED: Duration = Duration::from_secs(30);

/// How many tokens are known at once: as many as pages are told of changes. The one asked about first goes.
const TOKENS_MAX: usize = 64;

/// How many rights of one user are known at once: so many namespaces, several times over.
const RIGHTS_MAX: usize = 2_000;

/// How many reviews are asked for at once.
const CALLS: usize = 8;

/// How many tokens that nobody knows are asked about in a second: so that who guesses keeps the API server from nothing.
const STRANGERS: u32 = 20;

/// How many pages of one token are told of changes: a person's tabs.
const STREAMS_OF_ONE: usize = 16;

/// A bearer token.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Token(pub(super) Arc<str>);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// What somebody may list, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ListedKind {
    Jobs,
    CronJobs,
    Pods,
    Events,
}

impl ListedKind {
    /// Its group and its name.
    fn resource(self) -> (&'static str, &'static str) {
        match self {
            Self::Jobs => ("batch", "jobs"),
            Self::CronJobs => ("batch", "cronjobs"),
            Self::Pods => ("", "pods"),
            Self::Events => ("", "events"),
        }
    }
}

impl fmt::Display for ListedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.resource() {
            ("", resource) => f.write_str(resource),
            (group, resource) => write!(f, "{resource}.{group}"),
        }
    }
}

/// What is listed, and in which namespace if not in all.
type ListRight = (ListedKind, Option<CompactString>);

/// See the module's text.
#[derive(Debug)]
pub(super) struct Reviews {
    client: Client,
    known: Mutex<HashMap<Token, KnownToken>>,
    calls: Semaphore,
    strangers: Mutex<Strangers>,
}

#[derive(Debug)]
struct KnownToken {
    at: Instant,
    /// None if it is nobody's.
    user: Option<Arc<UserInfo>>,
    rights: HashMap<ListRight, (Instant, bool)>,
    streams: Arc<Semaphore>,
}

/// How many were asked about in the second that began then.
#[derive(Debug)]
struct Strangers {
    since: Instant,
    count: u32,
}

impl Reviews {
    /// Nothing is known yet.
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            known: Mutex::default(),
            calls: Semaphore::new(CALLS),
            strangers: Mutex::new(Strangers {
                since: instant(),
                count: 0,
            }),
        }
    }

    /// Whose a token is.
    pub(super) async fn user(&self, token: &Token) -> Result<Arc<UserInfo>, Refused> {
        if let Some(known) = self.known.lock().get(token)
            && known.at.elapsed() < BELIEVED
        {
            return known.user.clone().ok_or(Refused::NobodysToken);
        }
        if !self.is_somebodys(token) {
            self.count_stranger()?;
        }
        let answer = self.ask(token_review(&token.0)).await?;
        let user = decode_token_review(&answer).map_err(odd)?.map(Arc::new);
        self.learn(token, user.clone());
        user.ok_or(Refused::NobodysToken)
    }

    fn is_somebodys(&self, token: &Token) -> bool {
        let known = self.known.lock();
        known.get(token).is_some_and(|known| known.user.is_some())
    }

    fn count_stranger(&self) -> Result<(), Refused> {
        let mut strangers = self.strangers.lock();
        if strangers.since.elapsed() >= Duration::from_secs(1) {
            *strangers = Strangers {
                since: instant(),
                count: 0,
            };
        }
        strangers.count += 1;
        match strangers.count > STRANGERS {
            true => Err(Refused::TooManyTokens),
            false => Ok(()),
        }
    }

    fn learn(&self, token: &Token, user: Option<Arc<UserInfo>>) {
        let mut known = self.known.lock();
        if let Some(before) = known.get_mut(token) {
            if before.user != user {
                before.rights.clear();
            }
            (before.at, before.user) = (instant(), user);
            return;
        }
        if known.len() >= TOKENS_MAX {
            // One that is nobody's goes before one that somebody uses.
            let first = known
                .iter()
                .min_by_key(|(_, it)| (it.user.is_some(), it.at));
            let first = first.map(|(token, _)| token.clone());
            first.and_then(|first| known.remove(&first));
        }
        let learned = KnownToken {
            at: instant(),
            user,
            rights: HashMap::new(),
            streams: Arc::new(Semaphore::new(STREAMS_OF_ONE)),
        };
        known.insert(token.clone(), learned);
    }

    /// Whether whoever has this token may list something, in one namespace or in all.
    pub(super) async fn may(
        &self,
        token: &Token,
        what: ListedKind,
        namespace: Option<&str>,
    ) -> Result<bool, Refused> {
        let user = self.user(token).await?;
        let right: ListRight = (what, namespace.map(CompactString::from));
        if let Some(known) = self.known.lock().get(token)
            && let Some((at, may)) = known.rights.get(&right)
            && at.elapsed() < if *may { BELIEVED } else { REFUSED }
        {
            return Ok(*may);
        }
        let (group, resource) = what.resource();
        let call = access_review(&user, group, resource, namespace);
        let may = decode_access_review(&self.ask(call).await?).map_err(odd)?;
        if let Some(known) = self.known.lock().get_mut(token)
            && known.user.as_ref() == Some(&user)
        {
            if known.rights.len() >= RIGHTS_MAX {
                known.rights.clear();
            }
            known.rights.insert(right, (instant(), may));
        }
        Ok(may)
    }

    /// Room for one more page of whoever has this token.
    pub(super) fn stream(&self, token: &Token) -> Result<OwnedSemaphorePermit, Refused> {
        let known = self.known.lock();
        let streams = known.get(token).map(|known| Arc::clone(&known.streams));
        let streams = streams.ok_or(Refused::NobodysToken)?;
        streams.try_acquire_owned().map_err(|_| Refused::Full)
    }

    async fn ask(&self, call: Call) -> Result<bytes::Bytes, Refused> {
        // It is never closed.
        let _one_of_few = self.calls.acquire().await;
        let answer = self.client.send(&call).await;
        answer.map_err(|error| Refused::Unknown(told(&error)))
    }
}

/// What went wrong with a review. Whoever runs lakh is to know what is missing.
fn told(error: &ApiError) -> String {
    match error.code {
        403 => format!("lakh itself may not ask whose tokens are and what they may: {error}"),
        _ => error.to_string(),
    }
}

fn odd(error: serde_json::Error) -> Refused {
    Refused::Unknown(format!("the answer to a review cannot be read: {error}"))
}
