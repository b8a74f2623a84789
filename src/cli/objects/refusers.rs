//! What refuses a Job's Pods, by the message of a FailedCreate Event.
//!
//! Must not: say what to do about it.

/// What refuses a Pod. In the order in which the words are looked for: the first that is there is it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::cli) enum PodRefuser {
    /// A quota that is used up.
    Quota,
    /// A quota that counts what the Pod does not ask for.
    QuotaWithoutRequests,
    /// A webhook that does not answer.
    WebhookAway,
    Webhook,
    PodSecurity,
    /// A ValidatingAdmissionPolicy.
    Policy,
    /// The controller may not make Pods.
    Rights,
    /// There is no such service account.
    ServiceAccount,
    /// There is no such priority class.
    PriorityClass,
    Other,
}

/// By which words of the server's message each is known. Source: the admission plugins and the authorizer of
/// kube-apiserver 1.36.
const KNOWN_BY: [(&str, PodRefuser); 9] = [
    ("exceeded quota: ", PodRefuser::Quota),
    ("failed quota: ", PodRefuser::QuotaWithoutRequests),
    ("failed calling webhook", PodRefuser::WebhookAway),
    ("admission webhook", PodRefuser::Webhook),
    ("violates PodSecurity", PodRefuser::PodSecurity),
    ("ValidatingAdmissionPolicy", PodRefuser::Policy),
    ("cannot create resource", PodRefuser::Rights),
    (
        "error looking up service account",
        PodRefuser::ServiceAccount,
    ),
    ("no PriorityClass with name", PodRefuser::PriorityClass),
];

impl PodRefuser {
    /// Who refuses with this message.
    pub(in crate::cli) fn of(message: &str) -> Self {
        let mut known = KNOWN_BY.iter();
        known
            .find(|(words, _)| message.contains(words))
            .map_or(Self::Other, |(_, refuser)| *refuser)
    }
}
