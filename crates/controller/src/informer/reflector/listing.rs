//! Handles the pages of a list: passes on each object and chooses the next request.
//!
//! A page that failed for its length is requested again with fewer objects; its token stays valid. An object that alone
//! is too long is reported by its metadata and skipped.
//!
//! Must not: decide when a list begins.

use std::time::Duration;

use lakh_wire::{ApiError, ErrorKind, Object, decode_identity, decode_list_page};

use crate::machine::{CallResult, code_of};

use super::{
    Change, Notice, Observed, Outside, Reflector, ReflectorStep, Tell, TooLongObject, Tried,
    Witness, read, tell_of, wait_after,
};

/// Result of a page.
enum Page {
    More(String),
    Last(u64),
    /// The page is older than the cache.
    Older,
}

impl Reflector {
    pub(super) fn listed(&mut self, answer: CallResult, outside: &mut Outside, tell: Tell<'_>) {
        outside.metrics.call("list", self.label(), code_of(&answer));
        let took = outside.now.since(self.asked_at);
        if let Err(error) = &answer
            && self.retries_page(error, took, outside)
        {
            return;
        }
        let page = answer.and_then(|body| self.page(&body, took, outside, tell));
        if page.is_ok() {
            self.contact.listed(outside.now);
        }
        match page {
            Ok(Page::More(token)) => self.turn_to(ReflectorStep::List(token)),
            Ok(Page::Last(version)) => self.complete(version, outside),
            Ok(Page::Older) => {
                self.told_older(outside);
                self.list_anew(&ApiError::behind(), outside);
            }
            Err(error) => {
                self.contact.failed(Tried::List, &error, outside.now);
                self.list_anew(&error, outside);
            }
        }
    }

    /// Requests a failed page once more if a smaller page or its metadata alone may succeed; returns true if so. A
    /// token is valid for a page of any size.
    fn retries_page(&mut self, error: &ApiError, took: Duration, outside: &Outside) -> bool {
        let ReflectorStep::List(token) = &self.step else {
            return false;
        };
        let step = if self.page_size.shrink(error, took) {
            ReflectorStep::List(token.clone())
        } else if error.kind == ErrorKind::TooLong {
            ReflectorStep::PassOver(token.clone())
        } else {
            return false;
        };
        let limit = self.page_size.limit();
        tracing::debug!(kind = self.label(), %error, limit, "retrying the list with another page size");
        match error.kind {
            ErrorKind::TooLong => self.contact.listed(outside.now),
            _ => {
                self.failures += 1;
                self.pause = Some(outside.now + wait_after(error, self.failures));
                self.contact.failed(Tried::List, error, outside.now);
            }
        }
        self.turn_to(step);
        true
    }

    fn page(
        &mut self,
        body: &[u8],
        took: Duration,
        outside: &mut Outside,
        tell: Tell<'_>,
    ) -> Result<Page, ApiError> {
        let page = decode_list_page(body)
            .map_err(|error| ApiError::no_answer(format!("odd list: {error}")))?;
        let version = page.resource_version.parse().unwrap_or(0);
        if version < self.told.newest {
            return Ok(Page::Older);
        }
        // All pages count as the first one's version, also where a server says otherwise: it identifies the list.
        let version = match &self.step {
            ReflectorStep::List(token) | ReflectorStep::PassOver(token) if !token.is_empty() => {
                self.told.listing
            }
            _ => {
                self.told.listed_last = None;
                version
            }
        };
        self.told.listing = version;
        let next = match page.continue_token {
            token if token.is_empty() => Page::Last(version),
            token => Page::More(token),
        };
        if matches!(self.step, ReflectorStep::PassOver(_)) {
            for item in page.items {
                self.pass_over(item, version, outside, tell);
            }
            return Ok(next);
        }
        self.page_size
            .handle_page(page.items.len(), body.len(), took);
        let shown = page.items.iter().filter_map(|item| {
            let shown = self.object(*item, Change::Listed(version), outside, tell)?;
            Some((shown, *item))
        });
        let last = shown.max_by_key(|(shown, _)| *shown);
        let last = last.and_then(|(_, item)| read(self.extent.kind, &self.decoder, item).ok());
        let last = last.and_then(|object| Witness::there(&object));
        self.told.listed_last = Witness::later(self.told.listed_last.take(), last);
        Ok(next)
    }

    /// Reports an object that is too long to be decoded, by its metadata.
    fn pass_over(&self, item: Object<'_>, listed: u64, outside: &mut Outside, tell: Tell<'_>) {
        let (kind, longest) = (self.label(), self.page_size.longest());
        let identity = item.json().and_then(decode_identity);
        outside.metrics.unreadable_object(kind);
        match identity {
            Ok(object) => {
                tracing::error!(kind, object = %object.key, longest, "object exceeds the maximum response size; skipped");
                let object = Observed::TooLong(Box::new(TooLongObject {
                    kind: self.extent.kind,
                    object,
                    longest,
                }));
                tell_of(Change::Listed(listed), object, tell);
            }
            Err(error) => {
                let start = item.start();
                tracing::error!(kind, %error, object = start, "could not decode an object; skipped");
            }
        }
    }

    fn complete(&mut self, version: u64, outside: &mut Outside) {
        outside.asked.complete(&self.extent, version);
        let notice = Notice::Complete(self.extent.clone(), version);
        outside.notices.push_back(notice);
        (self.told.newest, self.told.listed, self.told.version) = (version, version, version);
        self.synced = Some(self.told.history);
        self.listed = Some(self.round);
        self.watch_failures = 0;
        self.told.is_lost = false;
        if self.told.older_since.is_some() {
            // The server may have reached this version in another history.
            return self.turn_to(ReflectorStep::Compare);
        }
        let listed_last = self.told.listed_last.take();
        self.told.witness = Witness::later(self.told.witness.take(), listed_last);
        self.turn_to(ReflectorStep::Watch);
    }
}
