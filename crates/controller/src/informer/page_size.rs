//! Chooses the number of objects per page of a list, so that a page has a few MiB however large its objects are.
//!
//! The last page's object size predicts that of the next ones. Lists are ordered by namespace, so one namespace's large
//! objects shrink its own pages only.
//!
//! Must not: send requests, or know the kind.

use std::time::Duration;

use lakh_wire::{ApiError, ErrorKind};

/// A list that took this long, a third of a call's timeout, may have failed because its page is too long.
const SLOW: Duration = Duration::from_secs(20);

/// Pages shrink by this factor when they are too long. [`PageBounds::longest`] is as many times [`PageBounds::wanted`],
/// so a page that was just too long has the wanted size after one step.
const SHRINK: u32 = 8;

/// Pages grow by this factor at most: objects that follow may be larger than those that came.
const GROW: u32 = 4;

/// The bounds of the pages of lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageBounds {
    /// The most objects per page. As in client-go (`defaultPageSize` of `tools/pager`).
    pub objects: u32,
    /// Target length of a page in bytes.
    pub wanted: usize,
    /// The greatest length in bytes. It exceeds any object that an API server accepts: 3 MiB, times six at worst in
    /// JSON, which escapes each control character.
    pub longest: usize,
}

impl Default for PageBounds {
    fn default() -> Self {
        Self {
            objects: 500,
            wanted: 4 << 20,
            longest: 32 << 20,
        }
    }
}

/// Page size in objects, at least one. Starts at the maximum, adapts to each page, and shrinks after failures that a
/// smaller page may avoid.
#[derive(Debug)]
pub(super) struct PageSize {
    bounds: PageBounds,
    limit: u32,
}

impl PageSize {
    /// Starts with the most objects.
    pub(super) fn new(bounds: PageBounds) -> Self {
        Self {
            limit: bounds.objects.max(1),
            bounds,
        }
    }

    /// Returns the number of objects to ask for.
    pub(super) fn limit(&self) -> u32 {
        self.limit
    }

    /// Returns the greatest length of a page in bytes.
    pub(super) fn longest(&self) -> usize {
        self.bounds.longest
    }

    /// Sets the next limit, given a page's objects, length and duration.
    pub(super) fn handle_page(&mut self, objects: usize, bytes: usize, took: Duration) {
        let fitting = self.bounds.wanted.saturating_mul(objects.max(1)) / bytes.max(1);
        let fitting = u32::try_from(fitting).unwrap_or(u32::MAX);
        let growth = if took < SLOW / 2 { GROW } else { 1 };
        let most = self.limit.saturating_mul(growth).min(self.bounds.objects);
        self.limit = fitting.min(most).max(1);
    }

    /// Makes the next page smaller if this failure may be due to its size; returns whether it did.
    pub(super) fn shrink(&mut self, error: &ApiError, took: Duration) -> bool {
        let is_length = error.kind == ErrorKind::TooLong || error.code == 413;
        let is_slow = took >= SLOW && error.kind == ErrorKind::Failed;
        let may_help = self.limit > 1 && (is_length || is_slow);
        if may_help {
            self.limit = (self.limit / SHRINK).max(1);
        }
        may_help
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Duration = Duration::from_millis(50);

    fn too_long() -> ApiError {
        ApiError::too_long(32 << 20)
    }

    #[test]
    fn pages_of_large_objects_shrink_until_they_fit_and_grow_again() {
        let mut size = PageSize::new(PageBounds::default());
        let (large, small) = (900 << 10, 2 << 10);
        let mut refused = Vec::new();
        while size.limit() as usize * large > size.longest() {
            refused.push(size.limit());
            assert!(size.shrink(&too_long(), QUICK));
        }
        assert_eq!(refused, [500, 62]);
        let mut limits = Vec::new();
        for _ in 0..3 {
            let objects = size.limit() as usize;
            limits.push(objects);
            size.handle_page(objects, objects * large, QUICK);
        }
        assert_eq!(limits, [7, 4, 4], "some 4 MiB each");
        let mut limits = Vec::new();
        while size.limit() < 500 {
            let objects = size.limit() as usize;
            size.handle_page(objects, objects * small, QUICK);
            limits.push(size.limit());
        }
        assert_eq!(limits, [16, 64, 256, 500]);
    }

    #[test]
    fn one_object_that_is_too_long_cannot_be_helped() {
        let mut size = PageSize::new(PageBounds::default());
        while size.shrink(&too_long(), QUICK) {}
        assert_eq!(size.limit(), 1);
    }

    #[test]
    fn only_failures_that_may_be_due_to_size_make_pages_smaller() {
        let mut size = PageSize::new(PageBounds::default());
        let error = |code| ApiError::from_response(code, b"{}", None);
        let unanswered = ApiError::no_answer("no answer within 60 s");
        for (error, took) in [
            (error(403), SLOW),
            (error(410), SLOW),
            (error(500), QUICK),
            (unanswered.clone(), QUICK),
        ] {
            assert!(!size.shrink(&error, took), "{error}");
        }
        for (error, took) in [
            (error(413), QUICK),
            (error(504), SLOW),
            (unanswered, Duration::from_secs(60)),
        ] {
            let before = size.limit();
            assert!(size.shrink(&error, took), "{error}");
            assert!(size.limit() < before);
        }
    }

    #[test]
    fn pages_that_take_long_do_not_grow() {
        let mut size = PageSize::new(PageBounds::default());
        assert!(size.shrink(&ApiError::no_answer("no answer within 60 s"), SLOW));
        assert_eq!(size.limit(), 62);
        size.handle_page(62, 62 << 10, SLOW);
        assert_eq!(size.limit(), 62);
        size.handle_page(62, 62 << 10, QUICK);
        assert_eq!(size.limit(), 248);
        size.handle_page(0, 60, QUICK);
        assert_eq!(size.limit(), 500, "an empty list says nothing of sizes");
    }
}
