//! Exports the Pod garbage collector's metrics under upstream's names and labels.
//!
//! Must not: decide which Pods go.

use prometheus_client::{
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

use crate::podgc::{Call, PodFacts, Reason};

type Counters = Family<[(&'static str, String); 2], Counter>;

/// The metrics of the Pod garbage collector.
#[derive(Clone, Debug, Default)]
pub(super) struct CollectorMetrics {
    tried: Counters,
    failed: Counters,
}

impl CollectorMetrics {
    /// Registers both counters. The registry's encoder appends `_total` to their names.
    pub(super) fn register(&self, registry: &mut Registry) {
        let own = registry.sub_registry_with_prefix("pod_gc_collector");
        own.register(
            "force_delete_pods",
            "Pods that were to be deleted without a grace period",
            self.tried.clone(),
        );
        own.register(
            "force_delete_pod_errors",
            "Pods of those that could not be",
            self.failed.clone(),
        );
    }

    /// Counts the result of a call. A Pod counts once it is deleted, or once a call for it failed.
    pub(super) fn called(&self, call: &Call, code: u16) {
        let failed = code >= 300;
        let (pod, reason): (&PodFacts, &Reason) = match call {
            Call::Delete { pod, reason } => (pod, reason),
            Call::Fail { pod, reason } if failed => (pod, reason),
            Call::Fail { .. } | Call::GetNode { .. } => return,
        };
        let labels = [
            ("namespace", pod.namespace.to_string()),
            ("reason", reason.to_string()),
        ];
        self.tried.get_or_create(&labels).inc();
        if failed {
            self.failed.get_or_create(&labels).inc();
        }
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;
    use crate::{
        model::{Time, Uid},
        podgc::Phase,
    };

    #[test]
    fn each_pod_counts_once_whatever_came_of_it() {
        let (metrics, mut registry) = (CollectorMetrics::default(), Registry::default());
        metrics.register(&mut registry);
        let pod = PodFacts {
            namespace: "d".into(),
            name: "p".into(),
            uid: Uid::from_u128(1),
            node: "n".into(),
            generation: 1,
            created: Time::from_secs(0),
            phase: Phase::read("Running"),
            evicted: false,
            deleting: true,
        };
        let reason = Reason::Orphaned;
        let fail = Call::Fail {
            pod: pod.clone(),
            reason,
        };
        let delete = Call::Delete { pod, reason };
        let get = Call::GetNode {
            name: "n".into(),
            pods: Vec::new(),
        };
        for (call, code) in [
            (&fail, 200),
            (&delete, 200),
            (&fail, 422),
            (&fail, 200),
            (&delete, 404),
            (&get, 404),
        ] {
            metrics.called(call, code);
        }
        let mut text = String::new();
        encode(&mut text, &registry).expect("it can be written");
        let labels = r#"{namespace="d",reason="orphaned"}"#;
        for (name, count) in [
            ("force_delete_pods_total", 3),
            ("force_delete_pod_errors_total", 2),
        ] {
            let sample = format!("pod_gc_collector_{name}{labels} {count}\n");
            assert!(text.contains(&sample), "{sample}{text}");
        }
    }
}
