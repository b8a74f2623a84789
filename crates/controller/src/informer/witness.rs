//! Detects a restored server: compares the version of one object, the witness, with the last one received.
//!
//! Must not: send requests.

use compact_str::CompactString;

use lakh_wire::paths;

use super::news::{Change, Kind, News, Observed};

/// Result of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Testimony {
    /// The history is the same, as far as this object shows.
    Same,
    /// The history is another: the server has an older version of the object than we received.
    Other,
    /// The object is missing. It may have been deleted meanwhile; if it never existed in this history, the whole cache
    /// may be wrong.
    Unknown,
}

/// The object that is compared with the server's version of it.
#[derive(Debug)]
pub(super) struct Witness {
    namespace: CompactString,
    name: CompactString,
    version: u64,
    is_gone: bool,
}

impl Witness {
    /// Returns the witness of an event's object.
    pub(super) fn of(news: &News<'_>) -> Option<Self> {
        let witness = Self::there(&news.object)?;
        Some(Self {
            is_gone: news.change == Change::Deleted,
            ..witness
        })
    }

    /// Returns the witness of an object that exists.
    pub(super) fn there(object: &Observed<'_>) -> Option<Self> {
        let (namespace, name) = match object {
            Observed::Job(read) => (&read.job.key.namespace, &read.job.key.name),
            Observed::Pod(pod) => (&pod.namespace, &pod.name),
            // No irreversible write depends on their cache alone.
            Observed::CronJob(_)
            | Observed::Workload(_)
            | Observed::PodGroup(_)
            | Observed::TooLong(_) => return None,
        };
        let (_, _, version) = object.identity();
        Some(Self {
            namespace: namespace.clone(),
            name: name.clone(),
            version,
            is_gone: false,
        })
    }

    /// Returns the newer of two witnesses.
    pub(super) fn later(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        [one, other]
            .into_iter()
            .flatten()
            .max_by_key(|witness| witness.version)
    }

    /// Returns the path of a list of this object alone. To find it by name costs the server as much as a get.
    pub(super) fn path(&self, kind: Kind) -> String {
        let Self {
            namespace, name, ..
        } = self;
        let namespace = Some(namespace.as_str());
        let collection = match kind {
            Kind::Pod => paths::pods(namespace),
            _ => paths::jobs(namespace),
        };
        format!("{collection}?fieldSelector=metadata.name%3D{name}")
    }

    /// Compares the witness with the version that the server has of the object, if any.
    pub(super) fn speaks(&self, found: Option<u64>) -> Testimony {
        match found {
            Some(version) if version < self.version => Testimony::Other,
            None if !self.is_gone => Testimony::Unknown,
            _ => Testimony::Same,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_version_is_of_another_history() {
        let witness = |is_gone| Witness {
            namespace: "a".into(),
            name: "j".into(),
            version: 7,
            is_gone,
        };
        let there = witness(false);
        assert_eq!(there.speaks(Some(6)), Testimony::Other);
        assert_eq!(there.speaks(Some(7)), Testimony::Same);
        assert_eq!(there.speaks(Some(9)), Testimony::Same);
        assert_eq!(there.speaks(None), Testimony::Unknown);
        assert_eq!(witness(true).speaks(None), Testimony::Same);
        assert_eq!(witness(true).speaks(Some(6)), Testimony::Other);
        let path = there.path(Kind::Job);
        assert_eq!(
            path,
            "/apis/batch/v1/namespaces/a/jobs?fieldSelector=metadata.name%3Dj"
        );
    }

    /// An object that was deleted is missing in the same history, too.
    #[test]
    fn a_deletion_is_no_doubt() {
        let json = r#"{"metadata":{"name":"j","namespace":"a","resourceVersion":"7",
            "uid":"00000000-0000-0000-0000-000000000001"},"spec":{"template":{"spec":{}}}}"#;
        for (change, missing) in [
            (Change::Applied, Testimony::Unknown),
            (Change::Deleted, Testimony::Same),
        ] {
            let job = lakh_wire::decode_job(json).expect("a good Job");
            let object = Observed::Job(Box::new(job));
            let witness = Witness::of(&News { change, object }).expect("a Job is one");
            assert_eq!(witness.speaks(None), missing);
        }
    }
}
