//! Caches TokenReviews and SubjectAccessReviews for a short time.
//!
//! The times are those of Kubernetes' own servers: 10 s for an authenticated token and an allowed access (`CacheTTL`
//! and `AllowCacheTTL` in `pkg/server/options/authentication.go` and `authorization.go` of `k8s.io/apiserver`), 30 s
//! for a denied access (`authorization.webhook.cacheUnauthorizedTTL` of the kubelet). Nothing is stored on disk, and
//! tokens are sent to the API server only.
//!
//! Must not: know the content of the page.

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

use super::auth::Denied;

/// Time to cache an authenticated token and an allowed access.
const ALLOWED_TTL: Duration = Duration::from_secs(10);

/// Time to cache a denied access.
const DENIED_TTL: Duration = Duration::from_secs(30);

/// Maximum number of cached tokens: as many as streams. The oldest review is evicted first.
const TOKENS_MAX: usize = 64;

/// Maximum number of cached accesses of one token: several kinds in the maximum number of namespaces.
const RIGHTS_MAX: usize = 2_000;

/// Maximum number of reviews in flight.
const CALLS: usize = 8;

/// Maximum number of reviews of unknown tokens per second, so that guessing does not load the API server.
const UNKNOWN_TOKENS_PER_SECOND: u32 = 20;

/// Maximum number of streams of one token, for a user's browser tabs.
const STREAMS_OF_ONE: usize = 16;

/// A bearer token.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Token(pub(super) Arc<str>);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// A kind that the page lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ListedKind {
    Jobs,
    CronJobs,
    Pods,
    Events,
}

impl ListedKind {
    /// Returns the API group and the resource name.
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

/// A kind and its namespace; no namespace means cluster-wide.
type ListRight = (ListedKind, Option<CompactString>);

/// The cache. A review is sent when no fresh result is cached.
#[derive(Debug)]
pub(super) struct AccessReviews {
    client: Client,
    known: Mutex<HashMap<Token, KnownToken>>,
    calls: Semaphore,
    unknown_tokens: Mutex<UnknownTokens>,
}

#[derive(Debug)]
struct KnownToken {
    at: Instant,
    /// None if the API server rejected the token.
    user: Option<Arc<UserInfo>>,
    rights: HashMap<ListRight, (Instant, bool)>,
    streams: Arc<Semaphore>,
}

/// The number of reviews of unknown tokens in the second since `since`.
#[derive(Debug)]
struct UnknownTokens {
    since: Instant,
    count: u32,
}

impl AccessReviews {
    /// Returns an empty cache.
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            known: Mutex::default(),
            calls: Semaphore::new(CALLS),
            unknown_tokens: Mutex::new(UnknownTokens {
                since: instant(),
                count: 0,
            }),
        }
    }

    /// Returns the user of a token.
    pub(super) async fn user(&self, token: &Token) -> Result<Arc<UserInfo>, Denied> {
        if let Some(known) = self.known.lock().get(token)
            && known.at.elapsed() < ALLOWED_TTL
        {
            return known.user.clone().ok_or(Denied::InvalidToken);
        }
        if !self.has_user(token) {
            self.count_unknown_token()?;
        }
        let answer = self.ask(token_review(&token.0)).await?;
        let user = decode_token_review(&answer)
            .map_err(undecodable)?
            .map(Arc::new);
        self.store(token, user.clone());
        user.ok_or(Denied::InvalidToken)
    }

    fn has_user(&self, token: &Token) -> bool {
        let known = self.known.lock();
        known.get(token).is_some_and(|known| known.user.is_some())
    }

    fn count_unknown_token(&self) -> Result<(), Denied> {
        let mut unknown_tokens = self.unknown_tokens.lock();
        if unknown_tokens.since.elapsed() >= Duration::from_secs(1) {
            *unknown_tokens = UnknownTokens {
                since: instant(),
                count: 0,
            };
        }
        unknown_tokens.count += 1;
        match unknown_tokens.count > UNKNOWN_TOKENS_PER_SECOND {
            true => Err(Denied::TooManyTokens),
            false => Ok(()),
        }
    }

    fn store(&self, token: &Token, user: Option<Arc<UserInfo>>) {
        let mut known = self.known.lock();
        if let Some(before) = known.get_mut(token) {
            if before.user != user {
                before.rights.clear();
            }
            (before.at, before.user) = (instant(), user);
            return;
        }
        if known.len() >= TOKENS_MAX {
            // Rejected tokens are evicted before tokens in use.
            let first = known
                .iter()
                .min_by_key(|(_, it)| (it.user.is_some(), it.at));
            let first = first.map(|(token, _)| token.clone());
            first.and_then(|first| known.remove(&first));
        }
        let stored = KnownToken {
            at: instant(),
            user,
            rights: HashMap::new(),
            streams: Arc::new(Semaphore::new(STREAMS_OF_ONE)),
        };
        known.insert(token.clone(), stored);
    }

    /// Returns true if the token's user may list the kind in one namespace, or cluster-wide.
    pub(super) async fn may_list(
        &self,
        token: &Token,
        kind: ListedKind,
        namespace: Option<&str>,
    ) -> Result<bool, Denied> {
        let user = self.user(token).await?;
        let right: ListRight = (kind, namespace.map(CompactString::from));
        if let Some(known) = self.known.lock().get(token)
            && let Some((at, may)) = known.rights.get(&right)
            && at.elapsed() < if *may { ALLOWED_TTL } else { DENIED_TTL }
        {
            return Ok(*may);
        }
        let (group, resource) = kind.resource();
        let call = access_review(&user, group, resource, namespace);
        let may = decode_access_review(&self.ask(call).await?).map_err(undecodable)?;
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

    /// Takes one of the token's stream permits.
    pub(super) fn stream(&self, token: &Token) -> Result<OwnedSemaphorePermit, Denied> {
        let known = self.known.lock();
        let streams = known.get(token).map(|known| Arc::clone(&known.streams));
        let streams = streams.ok_or(Denied::InvalidToken)?;
        streams
            .try_acquire_owned()
            .map_err(|_| Denied::TooManyStreams)
    }

    async fn ask(&self, call: Call) -> Result<bytes::Bytes, Denied> {
        // The semaphore is never closed.
        let _one_of_few = self.calls.acquire().await;
        let answer = self.client.send(&call).await;
        answer.map_err(|error| Denied::ReviewFailed(describe(&error)))
    }
}

/// Describes a failed review. For 403 it names the right that lakh lacks.
fn describe(error: &ApiError) -> String {
    match error.code {
        403 => {
            format!("lakh lacks the right to create tokenreviews or subjectaccessreviews: {error}")
        }
        _ => error.to_string(),
    }
}

fn undecodable(error: serde_json::Error) -> Denied {
    Denied::ReviewFailed(format!("invalid response to a review: {error}"))
}
