//! Who may look at the page: whoever asks from this machine, or whoever brings a token that the API server knows, and then
//! no more than that user may list.
//!
//! A browser keeps the token in a cookie that no script can read (`HttpOnly`), that goes over TLS alone (`Secure`) and to
//! this host alone (`__Host-`), and along with no request that another page makes (`SameSite=Strict`). So it is not lost when
//! the page is loaded again or another replica answers, and lakh keeps no sessions. Everybody else sends the header
//! `Authorization`.
//!
//! Must not: know what is shown.

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
    JSON, ResponseBody, TEXT, refusal,
    reviews::{ListedKind, Reviews, Token},
    whole,
};

/// The cookie with the token.
const COOKIE: &str = "__Host-lakh-token";

/// What browsers keep of a cookie, its name included. Source: RFC 6265, 6.1.
const COOKIE_MAX: usize = 4096;

/// How long a body with a token may be.
const BODY_MAX: usize = 16 * 1024;

/// In how many namespaces it is asked at most whether a viewer may list, who may not in all: at 30 s for a refusal, seven
/// reviews a second.
const NAMESPACES_MAX: usize = 200;

/// How many of these questions are asked at once.
const AT_ONCE: usize = 4;

/// Where who looks comes in.
#[derive(Clone, Debug)]
pub(super) enum Door {
    /// From this machine, such as by `kubectl port-forward`, under one of its names.
    ThisMachine,
    /// From anywhere, with a token.
    Tokens(Arc<Reviews>),
}

/// Who looks.
#[derive(Clone, Debug)]
pub(super) enum Viewer {
    /// Somebody who sees what the controller sees.
    Operator,
    /// Whoever has this token.
    Bearer(Arc<Reviews>, Token),
}

/// Why somebody is not shown something.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refused {
    #[error("only for who asks from this machine, as by kubectl port-forward")]
    NotThisMachine,
    #[error("asked for by another page")]
    AnotherPage,
    #[error("a token is needed")]
    NoToken,
    #[error("the API server does not know this token, or it has expired")]
    NobodysToken,
    #[error("you may not list {0} in namespace {1}")]
    Forbidden(ListedKind, CompactString),
    #[error("too many pages look at this controller; close some")]
    Full,
    #[error("too many unknown tokens were tried; wait a moment")]
    TooManyTokens,
    #[error("it is not known what you may see: {0}")]
    Unknown(String),
}

impl Refused {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::NotThisMachine | Self::AnotherPage | Self::Forbidden(..) => StatusCode::FORBIDDEN,
            Self::NoToken | Self::NobodysToken => StatusCode::UNAUTHORIZED,
            Self::Full => StatusCode::SERVICE_UNAVAILABLE,
            Self::TooManyTokens => StatusCode::TOO_MANY_REQUESTS,
            Self::Unknown(_) => StatusCode::BAD_GATEWAY,
        }
    }

    /// Whether a page that was told of changes is to be told of no more.
    pub(super) fn is_final(&self) -> bool {
        matches!(
            self,
            Self::NoToken | Self::NobodysToken | Self::Forbidden(..)
        )
    }
}

/// In which namespaces somebody sees something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SeenNamespaces {
    /// In all.
    All,
    /// In these; and whether there were too many to ask about all.
    Some(BTreeSet<CompactString>, bool),
}

impl SeenNamespaces {
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

impl Door {
    /// Looks at where a request comes from.
    pub(super) fn look_at(&self, request: &Parts, from: IpAddr) -> Result<(), Refused> {
        match self {
            Self::ThisMachine if !is_from_this_machine(request, from) => {
                Err(Refused::NotThisMachine)
            }
            Self::ThisMachine if is_of_another_page(request) => Err(Refused::NotThisMachine),
            // By a link one may come from anywhere: what is shown then has nothing of a cluster yet.
            Self::Tokens(_) if is_of_another_page(request) && !is_visit(request) => {
                Err(Refused::AnotherPage)
            }
            Self::ThisMachine | Self::Tokens(_) => Ok(()),
        }
    }

    /// Who makes a request.
    pub(super) async fn viewer(&self, request: &Parts) -> Result<Viewer, Refused> {
        let Self::Tokens(reviews) = self else {
            return Ok(Viewer::Operator);
        };
        if is_of_another_page(request) {
            return Err(Refused::AnotherPage);
        }
        let token = bearer(request).or_else(|| cookie(request));
        let token = Token(token.ok_or(Refused::NoToken)?.into());
        reviews.user(&token).await?;
        Ok(Viewer::Bearer(Arc::clone(reviews), token))
    }

    /// Lets somebody in, or forgets them: what is posted to a path after `/ui`.
    pub(super) async fn answer_post(
        &self,
        rest: &str,
        request: &Parts,
        body: Incoming,
    ) -> Response<ResponseBody> {
        let Self::Tokens(reviews) = self else {
            return whole(StatusCode::METHOD_NOT_ALLOWED, TEXT, "GET or HEAD");
        };
        if is_of_another_page(request) {
            return refusal(&Refused::AnotherPage);
        }
        match rest {
            "/login" => {
                let answer = log_in(reviews, request, body).await;
                answer.unwrap_or_else(|refused| refusal(&refused))
            }
            "/logout" => with_cookie("", "; Max-Age=0", &json!({"user": null}).to_string()),
            _ => whole(StatusCode::NOT_FOUND, TEXT, "not found"),
        }
    }
}

async fn log_in(
    reviews: &Reviews,
    request: &Parts,
    body: Incoming,
) -> Result<Response<ResponseBody>, Refused> {
    let bad = |why: &str| Ok(whole(StatusCode::BAD_REQUEST, TEXT, why.to_owned()));
    // No form of another page can say so, and its scripts would have to be allowed to.
    let kind = request.headers.get(header::CONTENT_TYPE);
    if kind.is_none_or(|kind| kind != JSON) {
        return bad("the token is to come as application/json");
    }
    let Ok(body) = Limited::new(body, BODY_MAX).collect().await else {
        return bad("no token can be that long");
    };
    let Ok(Login { token }) = serde_json::from_slice(&body.to_bytes()) else {
        return bad("expected {\"token\": \"...\"}");
    };
    let token = token.trim();
    if !is_token(token) {
        return bad("that is not a token: it has other characters than tokens have");
    }
    if COOKIE.len() + 1 + token.len() > COOKIE_MAX {
        return bad(
            "the token is longer than what browsers keep: a proxy may send it as Authorization",
        );
    }
    let user = reviews.user(&Token(token.into())).await?;
    let told = json!({"user": user.username});
    Ok(with_cookie(token, "", &told.to_string()))
}

fn with_cookie(token: &str, more: &str, told: &str) -> Response<ResponseBody> {
    let mut response = whole(StatusCode::OK, JSON, told.to_owned());
    let cookie = format!("{COOKIE}={token}; Path=/; Secure; HttpOnly; SameSite=Strict{more}");
    if let Ok(mut cookie) = HeaderValue::from_str(&cookie) {
        cookie.set_sensitive(true);
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

/// Whether something may be a bearer token. Source: RFC 6750, 2.1.
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

/// Whether another page has made the browser ask: its own address is none of ours, whatever it is called.
fn is_of_another_page(request: &Parts) -> bool {
    let site = request.headers.get("sec-fetch-site");
    site.is_some_and(|site| site != "same-origin" && site != "none")
}

/// Whether somebody goes to the page, in a window of its own.
fn is_visit(request: &Parts) -> bool {
    let is = |name: &str, value: &str| request.headers.get(name).is_some_and(|it| it == value);
    is("sec-fetch-mode", "navigate") && is("sec-fetch-dest", "document")
}

impl Viewer {
    /// What the API server calls them; none of somebody on this machine.
    pub(super) async fn name(&self) -> Result<Option<String>, Refused> {
        match self {
            Self::Operator => Ok(None),
            Self::Bearer(reviews, token) => Ok(reviews.user(token).await?.username.clone()),
        }
    }

    /// Whether they may list something in a namespace.
    pub(super) async fn may(&self, what: ListedKind, namespace: &str) -> Result<bool, Refused> {
        match self {
            Self::Operator => Ok(true),
            // Who may in all namespaces may in each.
            Self::Bearer(reviews, token) => Ok(reviews.may(token, what, None).await?
                || reviews.may(token, what, Some(namespace)).await?),
        }
    }

    /// They may, or are refused.
    pub(super) async fn must(&self, what: ListedKind, namespace: &str) -> Result<(), Refused> {
        match self.may(what, namespace).await? {
            true => Ok(()),
            false => Err(Refused::Forbidden(what, namespace.into())),
        }
    }

    /// In which of these namespaces they may list something.
    pub(super) async fn shown(
        &self,
        what: ListedKind,
        namespaces: BTreeSet<CompactString>,
    ) -> Result<SeenNamespaces, Refused> {
        let Self::Bearer(reviews, token) = self else {
            return Ok(SeenNamespaces::All);
        };
        if reviews.may(token, what, None).await? {
            return Ok(SeenNamespaces::All);
        }
        let are_many = namespaces.len() > NAMESPACES_MAX;
        let asked = namespaces.into_iter().take(NAMESPACES_MAX);
        let asked = stream::iter(asked).map(|namespace| async move {
            let may = reviews.may(token, what, Some(&namespace)).await?;
            Ok::<_, Refused>(may.then_some(namespace))
        });
        let allowed: Vec<Option<CompactString>> = asked.buffered(AT_ONCE).try_collect().await?;
        Ok(SeenNamespaces::Some(
            allowed.into_iter().flatten().collect(),
            are_many,
        ))
    }

    /// Room for one more page of theirs.
    pub(super) fn stream(&self) -> Result<Option<OwnedSemaphorePermit>, Refused> {
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
    fn what_another_page_makes_a_browser_ask_is_known() {
        let from = |site: &str| is_of_another_page(&parts(&[("sec-fetch-site", site)]));
        assert!(from("cross-site") && from("same-site"));
        assert!(!from("same-origin") && !from("none"));
        // Who says nothing is no browser.
        assert!(!is_of_another_page(&parts(&[])));
    }

    #[test]
    fn a_token_is_where_it_may_be() {
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
