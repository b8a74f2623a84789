//! Writes of a Job controller that the API server refused, as its Warning Events report them: which write, and why.
//!
//! Must not: judge whether a refusal still matters.

use k8s_openapi::api::core::v1::Event;

use crate::words::cut;

/// The longest message that is shown.
const LONGEST: usize = 300;

/// A kind of write that a Job controller makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RefusedWrite {
    PodCreation,
    PodDeletion,
    StatusUpdate,
    FinalizerRemoval,
}

/// The reasons of the Events. The built-in controller has the first two.
const REASONS: [(&str, RefusedWrite); 4] = [
    ("FailedCreate", RefusedWrite::PodCreation),
    ("FailedDelete", RefusedWrite::PodDeletion),
    ("FailedUpdateStatus", RefusedWrite::StatusUpdate),
    ("FailedRemoveFinalizer", RefusedWrite::FinalizerRemoval),
];

impl RefusedWrite {
    /// The write that an Event reports as refused.
    pub(crate) fn of(event: &Event) -> Option<Self> {
        let reason = event.reason.as_deref()?;
        let (_, write) = REASONS.iter().find(|(known, _)| *known == reason)?;
        Some(*write)
    }

    /// The writes, as the object of a sentence about one Job.
    pub(crate) fn of_one_job(self) -> &'static str {
        match self {
            Self::PodCreation => "new Pods of the Job",
            Self::PodDeletion => "deletions of the Job's Pods",
            Self::StatusUpdate => "updates of the Job's status",
            Self::FinalizerRemoval => "removals of the tracking finalizer from the Job's Pods",
        }
    }

    /// The subject of a sentence about several Jobs.
    pub(crate) fn of_jobs(self) -> &'static str {
        match self {
            Self::PodCreation => "Pods",
            Self::PodDeletion => "Deletions of Pods",
            Self::StatusUpdate => "Status updates",
            Self::FinalizerRemoval => "Finalizer removals from Pods",
        }
    }
}

/// The reason why a write was refused. The first one with its words in the message applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Refuser {
    /// A quota that is used up.
    Quota,
    /// A quota of something for which the Pod has no request.
    QuotaWithoutRequests,
    /// A webhook that does not answer.
    WebhookAway,
    Webhook,
    PodSecurity,
    /// A ValidatingAdmissionPolicy.
    Policy,
    /// The controller lacks the permission.
    Rights,
    /// The service account does not exist.
    ServiceAccount,
    /// The priority class does not exist.
    PriorityClass,
    /// etcd has reached its quota.
    StoreFull,
    /// The server, or a server behind it, responds with 429.
    Busy,
    /// No response, or none from an API server.
    NoAnswer,
    Other,
}

/// Words of the server's messages. Source: the admission plugins, the authorizer and the filters of kube-apiserver 1.36,
/// and `api/v3rpc/rpctypes/error.go` of etcd 3.6.
const KNOWN_BY: [(&str, Refuser); 14] = [
    ("exceeded quota: ", Refuser::Quota),
    ("failed quota: ", Refuser::QuotaWithoutRequests),
    ("failed calling webhook", Refuser::WebhookAway),
    ("admission webhook", Refuser::Webhook),
    ("violates PodSecurity", Refuser::PodSecurity),
    ("ValidatingAdmissionPolicy", Refuser::Policy),
    ("\" cannot ", Refuser::Rights),
    ("error looking up service account", Refuser::ServiceAccount),
    ("no PriorityClass with name", Refuser::PriorityClass),
    ("database space exceeded", Refuser::StoreFull),
    (": no answer", Refuser::NoAnswer),
    ("Too many requests", Refuser::Busy),
    ("too many requests", Refuser::Busy),
    ("Too Many Requests", Refuser::Busy),
];

/// A refusal's message and its reason.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refusal<'a> {
    pub(crate) refuser: Refuser,
    pub(crate) message: &'a str,
}

impl<'a> Refusal<'a> {
    /// Parses the message of an Event.
    pub(crate) fn of(message: &'a str) -> Self {
        let mut known = KNOWN_BY.iter();
        let refuser = known
            .find(|(words, _)| message.contains(words))
            .map_or(Refuser::Other, |(_, refuser)| *refuser);
        Self { refuser, message }
    }

    /// Returns the part of the message with the reason, without the object names before it.
    pub(crate) fn words(&self) -> String {
        let starts: &[&str] = match self.refuser {
            Refuser::Webhook => &["denied the request: "],
            Refuser::WebhookAway => &["failed to call webhook: ", "is forbidden: "],
            Refuser::NoAnswer => &[": no answer: "],
            _ => &["is forbidden: "],
        };
        let mut starts = starts.iter();
        let found = starts.find_map(|start| self.message.split_once(start));
        let found = found.or_else(|| {
            // `Error creating: `, `Error updating the Job's status: `.
            let after = self.message.strip_prefix("Error ")?;
            after.split_once(": ")
        });
        let words = found.map_or(self.message, |(_, words)| words);
        cut(words.trim_end_matches('.'), LONGEST)
    }

    /// Returns the name of the webhook.
    pub(crate) fn webhook(&self) -> &'a str {
        let start = match self.refuser {
            Refuser::WebhookAway => "failed calling webhook \"",
            _ => "admission webhook \"",
        };
        self.between(start, "\"")
    }

    /// Returns the user that lacks a permission.
    pub(crate) fn user(&self) -> &'a str {
        self.between("User \"", "\"")
    }

    /// Returns the permission that the user lacks: `patch jobs/status`.
    pub(crate) fn right(&self) -> String {
        let verb = self.between("\" cannot ", " resource");
        format!("{verb} {}", self.between("resource \"", "\""))
    }

    /// Returns the part of the message between two texts, or up to its end if the second is missing.
    pub(crate) fn between(&self, start: &str, end: &str) -> &'a str {
        let rest = self.message.split_once(start).map_or("", |(_, rest)| rest);
        rest.split_once(end).map_or(rest, |(found, _)| found)
    }

    /// Formats half a sentence: `the admission webhook w refuses updates of the Job's status: no`.
    pub(crate) fn sentence(&self, writes: &str) -> String {
        let words = self.words();
        match self.refuser {
            Refuser::Webhook => {
                format!(
                    "the admission webhook {} refuses {writes}: {words}",
                    self.webhook()
                )
            }
            Refuser::WebhookAway => format!(
                "{writes} fail because the admission webhook {} does not answer: {words}",
                self.webhook()
            ),
            Refuser::Policy => format!("an admission policy refuses {writes}: {words}"),
            Refuser::Rights => format!(
                "the controller, {}, lacks the right to {}, so that {writes} fail",
                self.user(),
                self.right()
            ),
            Refuser::StoreFull => {
                format!("the API server's store is full, so that {writes} fail: {words}")
            }
            Refuser::NoAnswer => {
                format!("the API server does not answer {writes}: {words}")
            }
            Refuser::Busy => format!("the API server is too busy for {writes}: {words}"),
            _ => format!("the API server refuses {writes}: {words}"),
        }
    }

    /// Returns the remedy for a refused write of a controller that works. It never recommends a second controller.
    pub(crate) fn remedy(&self) -> &'static str {
        match self.refuser {
            Refuser::Webhook => {
                "ask the webhook's owners to let the controller do that; it tries again by itself"
            }
            Refuser::WebhookAway => {
                "start the webhook's Pods again, or set its failurePolicy to Ignore; the controller tries again by itself"
            }
            Refuser::Policy => {
                "change the policy so that it lets the controller do that; it tries again by itself"
            }
            Refuser::Rights => {
                "grant it that with the roles of deploy/overlays; lakh doctor --service-account NAMESPACE/NAME names all \
                 that it lacks"
            }
            Refuser::StoreFull => {
                "compact and defragment etcd and disarm its alarm (etcdctl alarm disarm), or raise its \
                 --quota-backend-bytes; the controller tries again by itself"
            }
            Refuser::NoAnswer => {
                "look at what is between the controller and the API server (network, proxy, certificate, open files) and at \
                 the controller's log; it tries again by itself"
            }
            Refuser::Busy => "wait: the controller tries again by itself",
            _ => "do what that message says; the controller tries again by itself",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_classified_by_their_messages() {
        for (message, refuser, words) in [
            (
                r#"Error updating the Job's status: admission webhook "v" denied the request: P-17"#,
                Refuser::Webhook,
                "P-17",
            ),
            (
                r#"Error deleting: pods "j-0" is forbidden: User "ann" cannot delete resource "pods" in API group """#,
                Refuser::Rights,
                r#"User "ann" cannot delete resource "pods" in API group """#,
            ),
            (
                "Error deleting: etcdserver: mvcc: database space exceeded",
                Refuser::StoreFull,
                "etcdserver: mvcc: database space exceeded",
            ),
            (
                "Error creating: Too many requests, please try again later.",
                Refuser::Busy,
                "Too many requests, please try again later",
            ),
            (
                "Error updating the Job's status: no answer: connection reset",
                Refuser::NoAnswer,
                "connection reset",
            ),
            (
                "Error deleting: no answer within 60 s",
                Refuser::NoAnswer,
                "no answer within 60 s",
            ),
            ("no", Refuser::Other, "no"),
        ] {
            let refusal = Refusal::of(message);
            assert_eq!(refusal.refuser, refuser, "{message}");
            assert_eq!(refusal.words(), words, "{message}");
        }
        let lacking = r#"jobs.batch "j" is forbidden: User "ann" cannot patch resource "jobs/status" in API group "batch""#;
        assert_eq!(Refusal::of(lacking).right(), "patch jobs/status");
        assert_eq!(Refusal::of(lacking).user(), "ann");
    }
}
