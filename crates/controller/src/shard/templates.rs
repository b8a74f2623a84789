//! Keeps the Pod templates of Jobs and the Job templates of CronJobs in bounded memory.
//!
//! A template may have a MiB or more, and a tenant may have thousands of objects. So there is a limit for all
//! namespaces together, and half of it for each namespace. A template that is not kept is read from the API server when
//! needed, by a write in its own namespace's queue.
//!
//! A template from an event is kept if there is room, or if larger namespaces give way. A template that had to be read
//! replaces the ones that its namespace has not used for longest. So a namespace with small templates keeps them,
//! whatever the others have.
//!
//! Must not: read anything, or know the content of a template.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use compact_str::CompactString;
use hashbrown::HashMap;
use serde_json::value::RawValue;

use lakh_model::{Job, Uid};
use lakh_wire::PodTemplate;

use crate::metrics::Metrics;

/// A template in memory.
#[derive(Clone, Debug)]
pub(super) enum Template {
    /// A Job's template, parsed, or the reason why it makes no Pods.
    Pods(Arc<Result<PodTemplate, String>>),
    /// A CronJob's template, as received.
    Jobs(Arc<RawValue>),
}

impl Template {
    /// Returns its size in bytes.
    fn bytes(&self) -> usize {
        match self {
            Self::Pods(template) => match &**template {
                Ok(template) => template.bytes(),
                Err(message) => message.len(),
            },
            Self::Jobs(template) => template.get().len(),
        }
    }
}

/// The templates of a shard, by the UIDs of their objects.
#[derive(Debug, Default)]
pub(super) struct Templates {
    /// The limit in bytes.
    most: usize,
    used: usize,
    kept: HashMap<Uid, Kept>,
    namespaces: HashMap<CompactString, OfNamespace>,
    /// Namespaces by their bytes; the last has the most.
    by_size: BTreeSet<(usize, CompactString)>,
    /// Incremented for each new position.
    clock: u64,
    metrics: Arc<Metrics>,
}

#[derive(Debug)]
struct Kept {
    template: Template,
    generation: i64,
    namespace: CompactString,
    bytes: usize,
    /// Position in the order of its namespace.
    at: u64,
    /// Used since it was put at this position.
    is_used: bool,
}

/// The templates of a namespace.
#[derive(Debug, Default)]
struct OfNamespace {
    bytes: usize,
    /// The oldest first.
    order: BTreeMap<u64, Uid>,
}

impl Templates {
    /// Creates an empty cache of this many bytes.
    pub(super) fn new(most: usize, metrics: Arc<Metrics>) -> Self {
        Self {
            most,
            used: 0,
            kept: HashMap::new(),
            namespaces: HashMap::new(),
            by_size: BTreeSet::new(),
            clock: 0,
            metrics,
        }
    }

    /// The most bytes of one namespace, and so of any template.
    pub(super) fn most_of_namespace(&self) -> usize {
        self.most / 2
    }

    fn get(&mut self, uid: Uid) -> Option<Template> {
        let kept = self.kept.get_mut(&uid)?;
        kept.is_used = true;
        Some(kept.template.clone())
    }

    /// Returns true if the template of this generation of an object is kept.
    pub(super) fn has(&self, uid: Uid, generation: i64) -> bool {
        let kept = self.kept.get(&uid);
        kept.is_some_and(|kept| kept.generation == generation)
    }

    /// Applies the template of a Job version: keeps it if there is room, and drops the previous one. None means that
    /// the Job makes no Pods.
    pub(super) fn handle_job(&mut self, job: &Job, template: Option<&RawValue>, finalizer: &str) {
        let namespace = &job.key.namespace;
        let Some(template) = template else {
            return self.forget(job.uid);
        };
        if self.has(job.uid, job.generation) {
            return;
        }
        self.forget(job.uid);
        // Do not parse a template that would not be kept.
        if self.has_room(namespace, template.get().len()) {
            let template = rendered(job, template, finalizer);
            self.offer(
                namespace,
                (job.uid, job.generation),
                Template::Pods(template),
            );
        }
    }

    /// Returns the Pod template of a Job, if it is kept.
    pub(super) fn pods_of(&mut self, job: Uid) -> Option<Arc<Result<PodTemplate, String>>> {
        match self.get(job)? {
            Template::Pods(template) => Some(template),
            Template::Jobs(_) => None,
        }
    }

    /// Returns the Job template of a CronJob, if it is kept.
    pub(super) fn jobs_of(&mut self, cron_job: Uid) -> Option<Arc<RawValue>> {
        match self.get(cron_job)? {
            Template::Jobs(template) => Some(template),
            Template::Pods(_) => None,
        }
    }

    /// Returns true if there is room for a template of about this size.
    pub(super) fn has_room(&self, namespace: &str, bytes: usize) -> bool {
        let after = self.bytes_of(namespace) + bytes;
        let over = (self.used + bytes).saturating_sub(self.most);
        after <= self.most_of_namespace() && (over == 0 || self.larger_than(after) >= over)
    }

    /// Sums the bytes that namespaces have beyond this size.
    fn larger_than(&self, bytes: usize) -> usize {
        let larger = self.by_size.iter().rev();
        let larger = larger.take_while(|(size, _)| *size > bytes);
        larger.map(|(size, _)| size - bytes).sum()
    }

    /// Keeps a template from an event, in place of the previous one, if there is room.
    pub(super) fn offer(
        &mut self,
        namespace: &CompactString,
        (uid, generation): (Uid, i64),
        template: Template,
    ) {
        self.forget(uid);
        if self.has_room(namespace, template.bytes()) {
            self.insert(namespace, (uid, generation), template);
        }
    }

    /// Keeps a template that had to be read. The ones that its namespace has not used for longest give way.
    pub(super) fn keep(
        &mut self,
        namespace: &CompactString,
        (uid, generation): (Uid, i64),
        template: Template,
    ) {
        self.forget(uid);
        let bytes = template.bytes();
        if bytes > self.most_of_namespace() {
            return;
        }
        while self.bytes_of(namespace) + bytes > self.most_of_namespace() {
            self.evict_from(&namespace.clone());
        }
        self.insert(namespace, (uid, generation), template);
    }

    fn insert(
        &mut self,
        namespace: &CompactString,
        (uid, generation): (Uid, i64),
        template: Template,
    ) {
        let bytes = template.bytes();
        while self.used + bytes > self.most
            && let Some((_, largest)) = self.by_size.last().cloned()
        {
            self.evict_from(&largest);
        }
        self.clock += 1;
        self.resize(namespace, |of| {
            of.bytes += bytes;
        });
        let of = self.namespaces.entry(namespace.clone()).or_default();
        of.order.insert(self.clock, uid);
        self.used += bytes;
        self.note(1, bytes);
        let kept = Kept {
            template,
            generation,
            namespace: namespace.clone(),
            bytes,
            at: self.clock,
            is_used: false,
        };
        self.kept.insert(uid, kept);
    }

    /// Drops the template of an object.
    pub(super) fn forget(&mut self, uid: Uid) {
        let Some(kept) = self.kept.remove(&uid) else {
            return;
        };
        self.used -= kept.bytes;
        self.resize(&kept.namespace, |of| {
            of.bytes -= kept.bytes;
            of.order.remove(&kept.at);
        });
        self.metrics.templates.dec();
        self.metrics.template_bytes.dec_by(signed(kept.bytes));
    }

    /// Drops the template that a namespace has not used for longest (second chance: one that was used since it was put
    /// at its position moves to the end).
    fn evict_from(&mut self, namespace: &CompactString) {
        while let Some(of) = self.namespaces.get_mut(namespace)
            && let Some((_, oldest)) = of.order.pop_first()
        {
            let kept = self
                .kept
                .get_mut(&oldest)
                .expect("what is in order is kept");
            if std::mem::take(&mut kept.is_used) {
                self.clock += 1;
                kept.at = self.clock;
                of.order.insert(self.clock, oldest);
            } else {
                self.metrics.templates_evicted.inc();
                return self.forget(oldest);
            }
        }
    }

    fn bytes_of(&self, namespace: &str) -> usize {
        self.namespaces.get(namespace).map_or(0, |of| of.bytes)
    }

    /// Changes the size of a namespace, and its position among all.
    fn resize(&mut self, namespace: &CompactString, change: impl FnOnce(&mut OfNamespace)) {
        let of = self.namespaces.entry(namespace.clone()).or_default();
        let before = of.bytes;
        change(of);
        let after = of.bytes;
        self.by_size.remove(&(before, namespace.clone()));
        if of.bytes == 0 && of.order.is_empty() {
            self.namespaces.remove(namespace);
        } else {
            self.by_size.insert((after, namespace.clone()));
        }
    }

    fn note(&self, count: i64, bytes: usize) {
        self.metrics.templates.inc_by(count);
        self.metrics.template_bytes.inc_by(signed(bytes));
    }
}

impl Drop for Templates {
    fn drop(&mut self) {
        self.metrics.templates.dec_by(signed(self.kept.len()));
        self.metrics.template_bytes.dec_by(signed(self.used));
    }
}

/// Parses a Job's template. Returns the error if it makes no Pods.
pub(super) fn rendered(
    job: &Job,
    template: &RawValue,
    finalizer: &str,
) -> Arc<Result<PodTemplate, String>> {
    let template = PodTemplate::new(job, template, finalizer);
    Arc::new(template.map_err(|error| error.to_string()))
}

fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(bytes: usize) -> Template {
        let text = format!("\"{}\"", "x".repeat(bytes - 2));
        Template::Jobs(RawValue::from_string(text).expect("JSON").into())
    }

    fn with_room(most: usize) -> Templates {
        Templates::new(most, Arc::new(Metrics::default()))
    }

    fn offer(templates: &mut Templates, namespace: &str, uid: u128, bytes: usize) {
        let object = (Uid::from_u128(uid), 1);
        templates.offer(&namespace.into(), object, template(bytes));
        assert!(templates.used <= templates.most);
    }

    fn kept(templates: &Templates, uids: impl IntoIterator<Item = u128>) -> Vec<u128> {
        let uids = uids.into_iter();
        uids.filter(|uid| templates.has(Uid::from_u128(*uid), 1))
            .collect()
    }

    #[test]
    fn a_namespace_has_half_of_the_memory_at_most() {
        let mut templates = with_room(1_000);
        for uid in 0..10 {
            offer(&mut templates, "a", uid, 100);
        }
        assert_eq!(kept(&templates, 0..10), [0, 1, 2, 3, 4]);
        offer(&mut templates, "b", 10, 500);
        assert_eq!(kept(&templates, 10..11), [10]);
    }

    #[test]
    fn small_namespaces_keep_what_they_have_whatever_others_bring() {
        let mut templates = with_room(1_000);
        for (namespace, uid) in [("a", 0), ("b", 10)] {
            for uid in uid..uid + 5 {
                offer(&mut templates, namespace, uid, 100);
            }
        }
        offer(&mut templates, "small", 20, 10);
        assert_eq!(kept(&templates, 20..21), [20]);
        assert_eq!(templates.kept.len(), 10, "one large one gave way");
        // A third large namespace gets its share of the memory of the two.
        for uid in 30..40 {
            offer(&mut templates, "c", uid, 100);
        }
        assert_eq!(kept(&templates, 20..21), [20]);
        let counts = [0..5, 10..15, 30..40].map(|uids| kept(&templates, uids).len());
        assert_eq!(counts, [3, 3, 3]);
    }

    #[test]
    fn what_is_read_takes_the_place_of_what_was_not_used_for_longest() {
        let mut templates = with_room(1_000);
        for uid in 0..5 {
            offer(&mut templates, "a", uid, 100);
        }
        let _ = templates.get(Uid::from_u128(0));
        templates.keep(&"a".into(), (Uid::from_u128(9), 1), template(100));
        assert_eq!(kept(&templates, 0..10), [0, 2, 3, 4, 9]);
        assert_eq!(templates.metrics.templates_evicted.get(), 1);
        templates.keep(&"a".into(), (Uid::from_u128(8), 1), template(501));
        assert_eq!(kept(&templates, 0..10), [0, 2, 3, 4, 9], "it is too large");
    }

    #[test]
    fn nothing_is_left_of_what_is_gone() {
        let mut templates = with_room(1_000);
        for uid in 0..5 {
            offer(&mut templates, &format!("n{uid}"), uid, 100);
            offer(&mut templates, &format!("n{uid}"), uid, 50);
        }
        assert_eq!(templates.used, 250);
        assert_eq!(templates.metrics.template_bytes.get(), 250);
        for uid in 0..5 {
            templates.forget(Uid::from_u128(uid));
        }
        assert!(templates.namespaces.is_empty() && templates.by_size.is_empty());
        assert_eq!((templates.used, templates.metrics.templates.get()), (0, 0));
    }
}
