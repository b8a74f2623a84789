//! Keeps credentials and trusted certificates current while files change and credentials expire.
//!
//! Files are read again every minute, an exec plug-in is run again before its credential expires. A refusal by the
//! server (401, or a failed handshake) triggers both at once. Calls share the current credentials; the first call that
//! finds them outdated renews them, while the others wait.
//!
//! Must not: make a call, or repeat one.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use futures::FutureExt as _;
use http::{HeaderMap, HeaderValue, Request, Response, header};
use kube::{Config, client::ConfigExt as _};
use parking_lot::RwLock;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tower::{Layer as _, Service, ServiceExt as _, service_fn};

use lakh_clock::instant;

use super::{
    connection::Body,
    dial::{Dial, dial},
    exec::{ExecCredential, Plugin},
    transport::TransportError,
};

/// Interval at which files are read again: client-go's period for tokens.
const READ_EVERY: Duration = Duration::from_secs(60);

/// A credential is replaced this long before it expires; one that lasts less than twice as long, half-way.
const LEEWAY: Duration = Duration::from_secs(10);

/// Minimum time between renewals after a plug-in failed or the server refused: many calls may be refused at once.
const REST: Duration = Duration::from_secs(2);

/// Headers and TLS settings for calls.
pub(super) struct Current {
    /// Number of the certificates; changes with them. A connection belongs to those that it was opened with.
    pub(super) tls: u64,
    /// The headers of each request.
    pub(super) headers: HeaderMap,
    pub(super) dial: Dial,
}

/// The settings that calls use now.
struct Shown {
    current: Arc<Current>,
    /// Time of the next check for renewal.
    look_at: Option<Instant>,
}

/// Reason for a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// The credentials expire, or files may have changed.
    Due,
    /// The server refused them.
    Unauthorized,
    /// A TLS handshake failed.
    Handshake,
}

/// The credentials of one kubeconfig.
#[doc(alias = "cachingTokenSource")]
pub(super) struct Credentials {
    fixed: Fixed,
    sources: Sources,
    shown: RwLock<Shown>,
    renewing: Arc<Mutex<Renewing>>,
}

/// The settings that do not change with the credentials.
struct Fixed {
    /// Without the values that `Sources` provides.
    config: Config,
    /// The headers that each request has.
    headers: HeaderMap,
}

/// Sources of credentials and certificates.
#[derive(Default)]
struct Sources {
    authority: Option<PathBuf>,
    /// Files of the certificate and its key.
    identity: Option<(PathBuf, PathBuf)>,
    token: Option<PathBuf>,
    plugin: Option<Plugin>,
}

/// The values from these sources; certificates and keys in PEM.
#[derive(Clone, Default, PartialEq, Eq)]
struct Found {
    authority: Option<String>,
    identity: Option<(String, String)>,
    token: Option<String>,
}

impl Found {
    fn has_same_tls(&self, other: &Self) -> bool {
        (&self.authority, &self.identity) == (&other.authority, &other.identity)
    }
}

struct Renewing {
    found: Found,
    /// Time to run the plug-in because its credential expires.
    plugin_due: Option<Instant>,
    /// No renewal before this time, after the server refused or the plug-in failed.
    rests_until: Option<Instant>,
    /// The plug-in's last error, until it succeeds.
    failed: Option<String>,
}

impl Credentials {
    /// Creates the credentials of a configuration; `authority` is a file with trusted certificates. Files are read at
    /// once, a plug-in is run with the first call.
    pub(super) fn new(
        mut config: Config,
        authority: Option<PathBuf>,
        headers: HeaderMap,
    ) -> Result<Self, TransportError> {
        let sources = Sources::taken_out_of(&mut config, authority);
        if let Some(problem) = sources.plugin.as_ref().and_then(Plugin::problem) {
            return Err(problem.into());
        }
        let mut found = Found::default();
        sources.read(&mut found)?;
        let headers = with_fixed(headers, &config)?;
        let fixed = Fixed { config, headers };
        let current = Arc::new(fixed.made_of(&found, None)?);
        let look_at = match sources.plugin {
            Some(_) => Some(instant()),
            None => sources.next_look(),
        };
        Ok(Self {
            fixed,
            sources,
            shown: RwLock::new(Shown { current, look_at }),
            renewing: Arc::new(Mutex::new(Renewing {
                found,
                plugin_due: Some(instant()),
                rests_until: None,
                failed: None,
            })),
        })
    }

    /// Has connections opened by another service.
    pub(super) fn dial_by(&self, dial: Dial) {
        let (before, look_at) = self.shown();
        let current = Current {
            tls: before.tls,
            headers: before.headers.clone(),
            dial,
        };
        self.show(Arc::new(current), look_at);
    }

    /// Returns the settings for a call, renewed if that is due.
    pub(super) async fn current(self: &Arc<Self>) -> Result<Arc<Current>, TransportError> {
        let (current, look_at) = self.shown();
        match look_at {
            Some(at) if instant() >= at => self.renewed(&current, Why::Due).await,
            _ => Ok(current),
        }
    }

    fn shown(&self) -> (Arc<Current>, Option<Instant>) {
        let shown = self.shown.read();
        (Arc::clone(&shown.current), shown.look_at)
    }

    /// Returns renewed credentials after a refusal, if they differ from the refused ones.
    pub(super) async fn instead_of(
        self: &Arc<Self>,
        used: &Arc<Current>,
        why: Why,
    ) -> Option<Arc<Current>> {
        if self.sources.are_none() {
            return None;
        }
        let renewed = self.renewed(used, why).await.ok()?;
        (!Arc::ptr_eq(&renewed, used)).then_some(renewed)
    }

    async fn renewed(
        self: &Arc<Self>,
        used: &Arc<Current>,
        why: Why,
    ) -> Result<Arc<Current>, TransportError> {
        let renewing = Arc::clone(&self.renewing).lock_owned().await;
        if self.sources.plugin.is_none() {
            return self.renew(renewing, used, why);
        }
        // A caller that gives up leaves the plug-in running, and the lock keeps others from starting a second run.
        let (this, used) = (Arc::clone(self), Arc::clone(used));
        tokio::task::spawn_blocking(move || this.renew(renewing, &used, why)).await?
    }

    fn renew(
        &self,
        mut renewing: OwnedMutexGuard<Renewing>,
        used: &Arc<Current>,
        why: Why,
    ) -> Result<Arc<Current>, TransportError> {
        let (current, look_at) = self.shown();
        let now = instant();
        let is_over = |at: Option<Instant>| at.is_some_and(|at| now >= at);
        // Another call may have renewed them meanwhile.
        if !Arc::ptr_eq(&current, used) || (why == Why::Due && !is_over(look_at)) {
            return Ok(current);
        }
        let rests = renewing.rests_until.is_some_and(|until| now < until);
        match &renewing.failed {
            Some(failed) if rests && why == Why::Due => return Err(failed.clone().into()),
            _ if rests && why != Why::Due => return Ok(current),
            _ => {}
        }
        if why != Why::Due {
            renewing.rests_until = Some(now + REST);
        }
        let mut found = renewing.found.clone();
        if let Err(error) = self.sources.read(&mut found) {
            // Some environments provide files for the start only, and files may be exchanged just now.
            tracing::warn!(%error, "could not read the credentials; the previous ones stay in use");
        }
        let asks = match why {
            Why::Due => is_over(renewing.plugin_due),
            Why::Unauthorized => true,
            Why::Handshake => self.is_by_plugin(&found.identity),
        };
        if let Some(plugin) = self.sources.plugin.as_ref().filter(|_| asks) {
            match plugin.ask() {
                Ok(given) => {
                    renewing.failed = None;
                    renewing.plugin_due = given.lasts.map(|lasts| instant() + before_end(lasts));
                    let ExecCredential {
                        token, identity, ..
                    } = given;
                    found.token = token;
                    found.identity = identity;
                }
                Err(error) => {
                    tracing::warn!(
                        error,
                        "the exec plug-in returned no credentials; will retry"
                    );
                    renewing.rests_until = Some(instant() + REST);
                    renewing.failed = Some(error.clone());
                    let gave_once = found.token.is_some() || self.is_by_plugin(&found.identity);
                    if !gave_once {
                        return Err(error.into());
                    }
                    // It may be valid for some seconds more, and a 401 shows when it is not.
                    return Ok(self.show(current, renewing.rests_until));
                }
            }
        }
        let mut next = Arc::clone(&current);
        if found != renewing.found {
            let before = Some((&*current, &renewing.found));
            next = match self.fixed.made_of(&found, before) {
                Ok(next) => Arc::new(next),
                Err(error) => {
                    // A certificate may arrive before its key.
                    tracing::warn!(%error, "the new credentials are invalid; the previous ones stay in use");
                    return Ok(self.show(current, Some(instant() + REST)));
                }
            };
            tracing::info!("using changed credentials or certificates");
            renewing.found = found;
        }
        let looks = [self.sources.next_look(), renewing.plugin_due];
        Ok(self.show(next, looks.into_iter().flatten().min()))
    }

    /// Returns true if a plug-in provided the client certificate.
    fn is_by_plugin(&self, identity: &Option<(String, String)>) -> bool {
        identity.is_some() && self.sources.identity.is_none()
    }

    fn show(&self, next: Arc<Current>, look_at: Option<Instant>) -> Arc<Current> {
        let current = Arc::clone(&next);
        *self.shown.write() = Shown { current, look_at };
        next
    }
}

impl Fixed {
    /// Builds headers and TLS; keeps the TLS settings of `before` if its certificates are the same.
    fn made_of(
        &self,
        found: &Found,
        before: Option<(&Current, &Found)>,
    ) -> Result<Current, TransportError> {
        let mut headers = self.headers.clone();
        if let Some(token) = &found.token {
            let mut bearer = HeaderValue::try_from(format!("Bearer {token}"))
                .map_err(|_| "the token has characters that cannot be sent")?;
            bearer.set_sensitive(true);
            headers.insert(header::AUTHORIZATION, bearer);
        }
        let (tls, dial) = match before {
            Some((current, before)) if before.has_same_tls(found) => {
                (current.tls, current.dial.clone())
            }
            _ => {
                let tls = before.map_or(0, |(current, _)| current.tls);
                (tls + 1, dial(&self.with(found)?)?)
            }
        };
        Ok(Current { tls, headers, dial })
    }

    /// Returns the configuration with the certificates that were found.
    fn with(&self, found: &Found) -> Result<Config, TransportError> {
        let mut config = self.config.clone();
        if let Some(text) = &found.authority {
            let blocks = pem::parse_many(text)?.into_iter();
            let certificates = blocks.filter(|block| block.tag() == "CERTIFICATE");
            let certificates: Vec<Vec<u8>> = certificates.map(pem::Pem::into_contents).collect();
            if certificates.is_empty() {
                return Err("the CA data has no certificate".into());
            }
            config.root_cert = Some(certificates);
        }
        if let Some((certificate, key)) = &found.identity {
            let auth = &mut config.auth_info;
            auth.client_certificate_data = Some(BASE64_STANDARD.encode(certificate));
            auth.client_key_data = Some(BASE64_STANDARD.encode(key).into());
        }
        Ok(config)
    }
}

impl Sources {
    /// Moves the file and plug-in settings out of a configuration.
    fn taken_out_of(config: &mut Config, authority: Option<PathBuf>) -> Self {
        let authority = authority.or_else(|| config.root_cert_file.clone());
        config.root_cert_file = None;
        let auth = &mut config.auth_info;
        // Inline data in the kubeconfig come before files, except for tokens, as in client-go.
        let inline = auth.client_certificate_data.is_some() || auth.client_key_data.is_some();
        // If one of both is missing or inline, kube reads the other, or returns an error.
        let files = match (&auth.client_certificate, &auth.client_key) {
            (Some(certificate), Some(key)) if !inline => {
                let both = (certificate.into(), key.into());
                (auth.client_certificate, auth.client_key) = (None, None);
                Some(both)
            }
            _ => None,
        };
        let token = auth.token_file.take().map(PathBuf::from);
        if token.is_some() {
            auth.token = None;
        }
        let other = token.is_some()
            || auth.token.is_some()
            || auth.username.is_some()
            || auth.auth_provider.is_some();
        let plugin = auth.exec.take().filter(|_| !other);
        Self {
            authority,
            identity: files,
            token,
            plugin: plugin.map(Plugin::new),
        }
    }

    fn are_none(&self) -> bool {
        self.plugin.is_none() && !self.are_files()
    }

    fn are_files(&self) -> bool {
        self.authority.is_some() || self.identity.is_some() || self.token.is_some()
    }

    fn next_look(&self) -> Option<Instant> {
        self.are_files().then(|| instant() + READ_EVERY)
    }

    /// Reads the files; values that cannot be read stay as they were.
    fn read(&self, found: &mut Found) -> Result<(), TransportError> {
        let mut result = Ok(());
        if let Some(path) = &self.authority {
            keep(text_of(path), &mut result, |text| {
                found.authority = Some(text)
            });
        }
        if let Some((certificate, key)) = &self.identity {
            let both = text_of(certificate).and_then(|it| Ok((it, text_of(key)?)));
            keep(both, &mut result, |both| found.identity = Some(both));
        }
        if let Some(path) = &self.token {
            let token = text_of(path).and_then(|text| match text.trim() {
                "" => Err(format!("{}: it is empty", path.display()).into()),
                token => Ok(token.to_owned()),
            });
            keep(token, &mut result, |token| found.token = Some(token));
        }
        result
    }
}

fn keep<T>(
    read: Result<T, TransportError>,
    result: &mut Result<(), TransportError>,
    set: impl FnOnce(T),
) {
    match read {
        Ok(value) => set(value),
        Err(error) => *result = Err(error),
    }
}

fn text_of(path: &Path) -> Result<String, TransportError> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()).into())
}

/// Returns the time after which a credential of this lifetime is replaced.
fn before_end(lasts: Duration) -> Duration {
    lasts - LEEWAY.min(lasts / 2)
}

/// Adds the headers of credentials that never change: a password, or an inline token of the kubeconfig.
fn with_fixed(mut headers: HeaderMap, config: &Config) -> Result<HeaderMap, TransportError> {
    if config.auth_info.auth_provider.is_none()
        && let Some(layer) = config.auth_layer()?
    {
        headers.extend(at_once(layer.layer(service_fn(headers_of))));
    }
    Ok(headers)
}

/// Returns the headers that a service sets, if it is ready at once.
pub(super) fn at_once(headers: impl Service<Request<Body>, Response = Response<()>>) -> HeaderMap {
    let given = headers.oneshot(Request::default()).now_or_never();
    let given = given.and_then(Result::ok).unwrap_or_default();
    given.into_parts().0.headers
}

/// Inner service for kube's layers: answers with the request's headers, to read those that a layer has set.
pub(super) async fn headers_of(request: Request<Body>) -> Result<Response<()>, TransportError> {
    let mut answer = Response::new(());
    *answer.headers_mut() = request.into_parts().0.headers;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A plug-in is not run with each call, however short its credentials last.
    #[test]
    fn credentials_are_used_for_half_of_their_time_at_least() {
        let secs = Duration::from_secs;
        let used = [2, 10, 20, 60].map(|lasts| before_end(secs(lasts)));
        assert_eq!(used, [secs(1), secs(5), secs(10), secs(50)]);
    }
}
