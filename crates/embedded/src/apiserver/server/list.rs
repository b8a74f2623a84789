//! Lists objects: pages, versions and selectors.
//!
//! Responsible for: the objects and the metadata of a list. Must not: encode items;
//! [`crate::apiserver::print::ListBody`] does that later.
//!
//! Different from a real server: there are no snapshots of the past. A later page has the current objects at the
//! version of the first page; a watch from that version brings the client up to date.

use std::sync::Arc;

use serde_json::json;

use super::state::ApiServer;
use crate::{
    apiserver::{
        http::{ContinueToken, Query, Selector, Target, parse_int, resource_version},
        object::{ApiError, Kind, Result, Stored},
        print::{ListMeta, Response},
    },
    model::Time,
};

/// The objects of one page and the metadata of the list.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) items: Vec<Arc<Stored>>,
    pub(crate) list: ListMeta,
}

impl Page {
    /// The page as a response.
    pub(crate) fn answer(self, target: &Target, now: Time) -> Response {
        Response::list(target.kind, &self.list, self.items, target.form, now)
    }
}

impl ApiServer {
    /// Answers a list.
    pub(crate) fn list(&self, target: &Target, now: Time) -> Result<Response> {
        let selector = Selector::read(&target.query, target.kind)?;
        check_versions(&target.query, self.store.version())?;
        let page = self.page(target, &selector)?;
        Ok(page.answer(target, now))
    }

    /// Collects the objects of one page.
    pub(crate) fn page(&self, target: &Target, selector: &Selector) -> Result<Page> {
        let query = &target.query;
        let limit = match query.text("limit") {
            "" => 0,
            text => usize::try_from(parse_int(text)?).unwrap_or(0),
        };
        let from_cache = query.text("resourceVersion") == "0";
        let limit = Some(limit).filter(|limit| *limit > 0 && !from_cache);
        let token = self.continue_from(query)?;
        let (version, after, seen) = match &token {
            Some(token) => (
                u64::try_from(token.version).unwrap_or(self.store.version()),
                Some(token.after.as_str()),
                token.seen,
            ),
            None => (self.store.version(), None, 0),
        };
        let mut list = ListMeta {
            version,
            token: None,
            remaining: None,
            shard: selector.of_shards().map(str::to_owned),
        };
        let (kind, namespace) = (target.kind, target.namespace.as_str());
        if let Some(name) = selector.single_name().filter(|_| !namespace.is_empty()) {
            let found = self.store.get(kind, namespace, name).into_iter();
            let found = found.filter(|object| selector.matches(object));
            let items = found.cloned().collect();
            return Ok(Page { items, list });
        }
        let objects = self.store.range(kind, namespace, after);
        let mut objects = objects.filter(|object| selector.is_empty() || selector.matches(object));
        let some = objects.by_ref().take(limit.unwrap_or(usize::MAX));
        let items: Vec<_> = some.cloned().collect();
        let more = limit.is_some() && objects.next().is_some();
        let Some(last) = items.last().filter(|_| more) else {
            return Ok(Page { items, list });
        };
        // A client may send any number in its token.
        let seen = seen.saturating_add(items.len() as u64);
        let next = ContinueToken {
            version: version.cast_signed(),
            after: last.key().into(),
            seen,
        };
        let total = self.store.count(kind, namespace) as u64;
        let remaining = total.saturating_sub(seen).max(1);
        list.token = Some(next.encode());
        list.remaining = selector.is_empty().then_some(remaining);
        Ok(Page { items, list })
    }

    fn continue_from(&self, query: &Query) -> Result<Option<ContinueToken>> {
        let text = query.text("continue");
        if text.is_empty() {
            return Ok(None);
        }
        if !matches!(query.text("resourceVersion"), "" | "0") {
            let why = "specifying resource version is not allowed when using continue";
            return Err(ApiError::bad_request(why));
        }
        let invalid = "invalid continue token: continue key is not valid: illegal base64 data or \
                       unexpected content";
        let token = ContinueToken::decode(text).ok_or_else(|| ApiError::bad_request(invalid))?;
        let dropped = Kind::all().map(|kind| self.store.log(kind).dropped_version());
        let oldest = dropped.max().unwrap_or_default();
        if token.version >= 0 && token.version.cast_unsigned() < oldest {
            let rest = ContinueToken {
                version: -1,
                ..token
            };
            return Err(ApiError::expired(EXPIRED_TOKEN).with_continue(rest.encode()));
        }
        Ok(Some(token))
    }
}

const EXPIRED_TOKEN: &str = "The provided continue parameter is too old to display a consistent list result. You can \
     start a new list without the continue parameter, or use the continue token in this response \
     to retrieve the remainder of the results. Continuing with the provided token results in an \
     inconsistent list - objects that were created, modified, or deleted between the time the \
     first chunk was returned and now may show up in the list.";

/// Checks `resourceVersion` and `resourceVersionMatch` of a list.
fn check_versions(query: &Query, current: u64) -> Result<()> {
    let text = query.text("resourceVersion");
    let matching = query.text("resourceVersionMatch");
    let invalid =
        |field: &str, error: &str| Err(ApiError::invalid_option("ListOptions", field, error));
    if query.flag("sendInitialEvents") {
        let error = "Forbidden: sendInitialEvents is forbidden for list";
        return invalid("sendInitialEvents", error);
    }
    let error = match (matching, text) {
        ("", _) => "",
        ("Exact" | "NotOlderThan", "") => {
            "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
        }
        ("Exact", "0") => {
            "Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""
        }
        ("Exact" | "NotOlderThan", _) => "",
        _ => &format!(
            "Unsupported value: {matching:?}: supported values: \"Exact\", \"NotOlderThan\", \"\""
        ),
    };
    if !error.is_empty() {
        return invalid("resourceVersionMatch", error);
    }
    let version = resource_version::parse(text)
        .map_err(|why| ApiError::bad_request(format!("invalid resource version: {why}")))?;
    if version > current {
        return Err(too_large(version, current));
    }
    if matching == "Exact" && version != 0 && version < current {
        // Only the current state is kept; the client repeats the request without a version.
        let message = "The resourceVersion for the provided list is too old.";
        return Err(ApiError::expired(message));
    }
    Ok(())
}

fn too_large(version: u64, current: u64) -> ApiError {
    let message = format!("Timeout: Too large resource version: {version}, current: {current}");
    ApiError::new(504, "Timeout", message)
        .with_details(json!({
            "causes": [{
                "reason": "ResourceVersionTooLarge",
                "message": "Too large resource version",
            }],
            "retryAfterSeconds": 1,
        }))
        .with_header("Retry-After", "1")
}
