//! Authenticates requests for the page: loopback clients see everything; others present a bearer token and see what
//! SubjectAccessReviews allow.
//!
//! A browser keeps the token in a cookie that scripts cannot read (`HttpOnly`), that is sent over TLS only (`Secure`),
//! to this host only (`__Host-`), and with no cross-site request (`SameSite=Strict`). So a reload or another replica
//! needs no new login, and lakh keeps no sessions. Other clients send the header `Authorization`.
//!
//! Must not: know the content of the page.

use std::{collections::BTreeSet, net::IpAddr, sync::Arc};

use compact_str::CompactString;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::{HeaderValue, Response, StatusCode, header, request::Parts};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;

use super::{
    super::debug::is_from_this_machine,
    JSON, ResponseBody, TEXT,
    access_reviews::{AccessReviews, ListedKind, Token},
    denied_response, response,
};

/// The cookie that holds the token.
const COOKIE: &str = "__Host-lakh-token";

/// Maximum size of a cookie in browsers, including its name. Source: RFC 6265, 6.1.
const COOKIE_MAX: usize = 4096;

/// Maximum size of a login body in bytes.
const BODY_MAX: usize = 16 * 1024;

/// Maximum number of namespaces to review for a principal without cluster-wide access. With denials cached for 30 s
/// this causes seven reviews a second.
const NAMESPACES_MAX: usize = 200;

/// Maximum number of concurrent namespace reviews of one request.
const AT_ONCE: usize = 4;

/// The authentication of a port.
#[derive(Clone, Debug)]
pub(super) enum Auth {
    /// Loopback clients, such as `kubectl port-forward`, that use a loopback host name.
    Loopback,
    /// Clients from any address, with a bearer token.
    Tokens(Arc<AccessReviews>),
}

/// The authenticated client of a request.
#[derive(Clone, Debug)]
pub(super) enum Principal {
    /// A loopback client, which sees everything that the controller sees.
    Operator,
    /// The user of this token.
    Bearer(Arc<AccessReviews>, Token),
}

/// The reason why a request is denied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Denied {
    #[error("only loopback clients may open this page; use kubectl port-forward")]
    NotLoopback,
    #[error("another site sent this request")]
    CrossSite,
    #[error("a bearer token is required")]
    NoToken,
    #[error("the API server does not accept this token; it may have expired")]
    InvalidToken,
    #[error("you may not list {0} in namespace {1}")]
    Forbidden(ListedKind, CompactString),
    #[error("too many pages are open on this controller; close some")]
    TooManyStreams,
    #[error("too many invalid tokens were tried; wait a few seconds")]
    TooManyTokens,
    #[error("could not check your rights: {0}")]
    ReviewFailed(String),
}

impl Denied {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::NotLoopback | Self::CrossSite | Self::Forbidden(..) => StatusCode::FORBIDDEN,
            Self::NoToken | Self::InvalidToken => StatusCode::UNAUTHORIZED,
            Self::TooManyStreams => StatusCode::SERVICE_UNAVAILABLE,
            Self::TooManyTokens => StatusCode::TOO_MANY_REQUESTS,
            Self::ReviewFailed(_) => StatusCode::BAD_GATEWAY,
        }
    }

    /// Returns true if an open stream must end because of it.
    pub(super) fn is_final(&self) -> bool {
        matches!(
            self,
            Self::NoToken | Self::InvalidToken | Self::Forbidden(..)
        )
    }
}

/// The namespaces in which a principal may list a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum VisibleNamespaces {
    /// All namespaces.
    All,
    /// These namespaces, and whether there were too many to review all.
    Some(BTreeSet<CompactString>, bool),
}

impl VisibleNamespaces {
    pub(super) fn has(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::Some(namespaces, _) => namespaces.contains(namespace),
        }
    }
}

#[derive(Deserialize)]
struct Login {
    token: String,
}

impl Auth {
    /// Checks the origin of a request, before authentication.
    pub(super) fn check_origin(&self, request: &Parts, from: IpAddr) -> Result<(), Denied> {
        match self {
            Self::Loopback if !is_from_this_machine(request, from) => Err(Denied::NotLoopback),
            Self::Loopback if is_cross_site(request) => Err(Denied::NotLoopback),
            // A link on any site may open the page: the page itself has no data of the cluster.
            Self::Tokens(_) if is_cross_site(request) && !is_navigation(request) => {
                Err(Denied::CrossSite)
            }
            Self::Loopback | Self::Tokens(_) => Ok(()),
        }
    }

    /// Authenticates a request.
    pub(super) async fn authenticate(&self, request: &Parts) -> Result<Principal, Denied> {
        let Self::Tokens(reviews) = self else {
            return Ok(Principal::Operator);
        };
        if is_cross_site(request) {
            return Err(Denied::CrossSite);
        }
        let token = bearer(request).or_else(|| cookie(request));
        let token = Token(token.ok_or(Denied::NoToken)?.into());
        reviews.user(&token).await?;
        Ok(Principal::Bearer(Arc::clone(reviews), token))
    }

    /// Handles a POST to a path below `/ui`: login or logout.
    pub(super) async fn answer_post(
        &self,
        rest: &str,
        request: &Parts,
        body: Incoming,
    ) -> Response<ResponseBody> {
        let Self::Tokens(reviews) = self else {
            return response(StatusCode::METHOD_NOT_ALLOWED, TEXT, "GET or HEAD");
        };
        if is_cross_site(request) {
            return denied_response(&Denied::CrossSite);
        }
        match rest {
            "/login" => {
                let answer = log_in(reviews, request, body).await;
                answer.unwrap_or_else(|denied| denied_response(&denied))
            }
            "/logout" => with_cookie("", "; Max-Age=0", &json!({"user": null}).to_string()),
            _ => response(StatusCode::NOT_FOUND, TEXT, "not found"),
        }
    }
}

async fn log_in(
    reviews: &AccessReviews,
    request: &Parts,
    body: Incoming,
) -> Result<Response<ResponseBody>, Denied> {
    let bad = |why: &str| Ok(response(StatusCode::BAD_REQUEST, TEXT, why.to_owned()));
    // A form of another site cannot send this content type, and its scripts would need CORS.
    let kind = request.headers.get(header::CONTENT_TYPE);
    if kind.is_none_or(|kind| kind != JSON) {
        return bad("send the token as application/json");
    }
    let Ok(body) = Limited::new(body, BODY_MAX).collect().await else {
        return bad("the request body is too long for a token");
    };
    let Ok(Login { token }) = serde_json::from_slice(&body.to_bytes()) else {
        return bad("expected {\"token\": \"...\"}");
    };
    let token = token.trim();
    if !is_token(token) {
        return bad("this is not a bearer token: it has characters that tokens cannot have");
    }
    if COOKIE.len() + 1 + token.len() > COOKIE_MAX {
        return bad(
            "the token is too long for a cookie; let a proxy send it in the header Authorization",
        );
    }
    let user = reviews.user(&Token(token.into())).await?;
    let body = json!({"user": user.username});
    Ok(with_cookie(token, "", &body.to_string()))
}

fn with_cookie(token: &str, more: &str, body: &str) -> Response<ResponseBody> {
    let mut response = response(StatusCode::OK, JSON, body.to_owned());
    let cookie = format!("{COOKIE}={token}; Path=/; Secure; HttpOnly; SameSite=Strict{more}");
    if let Ok(mut cookie) = HeaderValue::from_str(&cookie) {
        cookie.set_sensitive(true);
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

/// Returns true if the text has the syntax of a bearer token. Source: RFC 6750, 2.1.
fn is_token(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    !text.is_empty() && text.bytes().all(is_plain)
}

fn bearer(request: &Parts) -> Option<String> {
    let header = request.headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = header.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && is_token(token)).then(|| token.to_owned())
}

fn cookie(request: &Parts) -> Option<String> {
    let headers = request.headers.get_all(header::COOKIE).iter();
    let texts = headers.filter_map(|header| header.to_str().ok());
    let mut pairs = texts.flat_map(|text| text.split(';'));
    pairs.find_map(|pair| {
        let (name, token) = pair.trim().split_once('=')?;
        (name == COOKIE && is_token(token)).then(|| token.to_owned())
    })
}

/// Returns true if another site's page caused the request, as reported by the browser.
fn is_cross_site(request: &Parts) -> bool {
    let site = request.headers.get("sec-fetch-site");
    site.is_some_and(|site| site != "same-origin" && site != "none")
}

/// Returns true if the request opens the page in a window, as reported by the browser.
fn is_navigation(request: &Parts) -> bool {
    let is = |name: &str, value: &str| request.headers.get(name).is_some_and(|it| it == value);
    is("sec-fetch-mode", "navigate") && is("sec-fetch-dest", "document")
}

impl Principal {
    /// Returns the user name; none for a loopback client.
    pub(super) async fn name(&self) -> Result<Option<String>, Denied> {
        match self {
            Self::Operator => Ok(None),
            Self::Bearer(reviews, token) => Ok(reviews.user(token).await?.username.clone()),
        }
    }

    /// Returns true if the principal may list the kind in a namespace.
    pub(super) async fn may_list(&self, kind: ListedKind, namespace: &str) -> Result<bool, Denied> {
        match self {
            Self::Operator => Ok(true),
            // Cluster-wide access includes each namespace.
            Self::Bearer(reviews, token) => Ok(reviews.may_list(token, kind, None).await?
                || reviews.may_list(token, kind, Some(namespace)).await?),
        }
    }

    /// Fails unless the principal may list the kind in a namespace.
    pub(super) async fn require(&self, kind: ListedKind, namespace: &str) -> Result<(), Denied> {
        match self.may_list(kind, namespace).await? {
            true => Ok(()),
            false => Err(Denied::Forbidden(kind, namespace.into())),
        }
    }

    /// Returns those namespaces in which the principal may list the kind.
    pub(super) async fn visible(
        &self,
        kind: ListedKind,
        namespaces: BTreeSet<CompactString>,
    ) -> Result<VisibleNamespaces, Denied> {
        let Self::Bearer(reviews, token) = self else {
            return Ok(VisibleNamespaces::All);
        };
        if reviews.may_list(token, kind, None).await? {
            return Ok(VisibleNamespaces::All);
        }
        let are_many = namespaces.len() > NAMESPACES_MAX;
        let reviewed = namespaces.into_iter().take(NAMESPACES_MAX);
        let reviewed = stream::iter(reviewed).map(|namespace| async move {
            let may = reviews.may_list(token, kind, Some(&namespace)).await?;
            Ok::<_, Denied>(may.then_some(namespace))
        });
        let allowed: Vec<Option<CompactString>> = reviewed.buffered(AT_ONCE).try_collect().await?;
        Ok(VisibleNamespaces::Some(
            allowed.into_iter().flatten().collect(),
            are_many,
        ))
    }

    /// Takes one of the principal's stream permits; none is needed for a loopback client.
    pub(super) fn stream(&self) -> Result<Option<OwnedSemaphorePermit>, Denied> {
        match self {
            Self::Operator => Ok(None),
            Self::Bearer(reviews, token) => reviews.stream(token).map(Some),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn parts(headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::get("/ui");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).expect("a request").into_parts().0
    }

    #[test]
    fn cross_site_requests_are_detected() {
        let from = |site: &str| is_cross_site(&parts(&[("sec-fetch-site", site)]));
        assert!(from("cross-site") && from("same-site"));
        assert!(!from("same-origin") && !from("none"));
        // Clients other than browsers do not send this header.
        assert!(!is_cross_site(&parts(&[])));
    }

    #[test]
    fn a_token_is_read_from_header_and_cookie() {
        let bearer_of = |text: &str| bearer(&parts(&[("authorization", text)]));
        assert_eq!(bearer_of("Bearer a.b-c").as_deref(), Some("a.b-c"));
        assert_eq!(bearer_of("bearer  x=").as_deref(), Some("x="));
        for none in ["Basic x", "Bearer", "Bearer ", "Bearer a b", "Bearer a;b"] {
            assert_eq!(bearer_of(none), None, "{none}");
        }
        let cookie_of = |text: &str| cookie(&parts(&[("cookie", text)]));
        let other = "a=b; __Host-lakh-token=x.y; c=d";
        assert_eq!(cookie_of(other).as_deref(), Some("x.y"));
        assert_eq!(cookie_of("lakh-token=x"), None);
        assert_eq!(cookie_of("__Host-lakh-token="), None);
        let debugged = format!("{:?}", Token("secret".into()));
        assert!(!debugged.contains("secret"));
    }
}
