//! Defines the fields of a Pod that are decoded, borrowed from the input.
//!
//! The controller decodes each Pod many times, so it skips the fields that only [`PodDetails`] needs: they are
//! [`Detail`]s. Lists have inline capacity for most Pods, to avoid allocations.
//!
//! Source of the field numbers: `generated.proto` of `k8s.io/api/core/v1` and `k8s.io/apimachinery/pkg/apis/meta/v1`.
//! Must not: interpret a field; the projections do.

use serde::{Deserialize, Deserializer, de::IgnoredAny};
use smallvec::SmallVec;

use lakh_model::{
    COMPLETION_INDEX, FailureCounts, INDEX_FAILURES, INDEX_IGNORED_FAILURES, PodLabels, PodRecord,
};

use super::PodDetails;
use crate::{
    Object, OddAnswer,
    field::{Count, Text, Timestamp},
    labels::labels,
    message::message,
    protobuf::{Malformed, ProtobufField, ProtobufMessage as _, Value},
};

/// A type that is made from a [`PodView`].
pub(super) trait Projection: Default {
    /// The decoded value of a [`Detail`], or `()` if this projection skips details.
    type Detail<T: Default>: Default;

    /// Decodes or skips a detail in JSON.
    fn json<'de, T, D>(from: D) -> Result<Self::Detail<T>, D::Error>
    where
        T: Deserialize<'de> + Default,
        D: Deserializer<'de>;

    /// Decodes or skips a detail in protobuf.
    fn protobuf<'a, T: ProtobufField<'a> + Default>(
        detail: &mut Self::Detail<T>,
        value: Value<'a>,
    ) -> Result<(), Malformed>;
}

impl Projection for PodRecord {
    type Detail<T: Default> = ();

    fn json<'de, T, D: Deserializer<'de>>(from: D) -> Result<(), D::Error> {
        IgnoredAny::deserialize(from).map(|_| ())
    }

    fn protobuf<'a, T: ProtobufField<'a>>((): &mut (), _: Value<'a>) -> Result<(), Malformed> {
        Ok(())
    }
}

impl Projection for PodDetails {
    type Detail<T: Default> = T;

    fn json<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
        T::deserialize(from)
    }

    fn protobuf<'a, T: ProtobufField<'a>>(
        detail: &mut T,
        value: Value<'a>,
    ) -> Result<(), Malformed> {
        detail.take(value)
    }
}

/// A field that only [`PodDetails`] needs.
pub(super) struct Detail<T: Default, P: Projection>(pub(super) P::Detail<T>);

impl<T: Default, P: Projection> Default for Detail<T, P> {
    fn default() -> Self {
        Self(P::Detail::default())
    }
}

impl<'de, T: Deserialize<'de> + Default, P: Projection> Deserialize<'de> for Detail<T, P> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        P::json(from).map(Self)
    }
}

impl<'a, T: ProtobufField<'a> + Default, P: Projection> ProtobufField<'a> for Detail<T, P> {
    fn take(&mut self, value: Value<'a>) -> Result<(), Malformed> {
        P::protobuf(&mut self.0, value)
    }
}

/// A line of a watch of Pods.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct PodLine<'a, P: Projection> {
    #[serde(rename = "type")]
    pub(super) kind: &'a str,
    pub(super) object: PodView<'a, P>,
}

message! {
    /// A Pod's fields for a projection. In a bookmark most are missing.
    pub(super) struct PodView<'a, P: Projection> {
        metadata: PodMetadata<'a> = 1,
        spec: PodSpec<'a, P> = 2,
        status: PodStatus<'a, P> = 3,
    }

    pub(super) struct PodMetadata<'a> {
        name: Text<'a> = 1,
        namespace: Text<'a> = 3,
        uid: Text<'a> = 5,
        resource_version: Text<'a> = 6,
        creation_timestamp: Timestamp = 8,
        deletion_timestamp: Option<Timestamp> = 9,
        deletion_grace_period_seconds: Option<i64> = 10,
        #[serde(deserialize_with = "labels")]
        labels: PodLabels<'a> = 11,
        annotations: PodAnnotations<'a> = 12,
        owner_references: SmallVec<[PodOwnerReference<'a>; 1]> = 13,
        finalizers: SmallVec<[Text<'a>; 2]> = 14,
    }

    pub(super) struct PodOwnerReference<'a> {
        kind: Text<'a> = 1,
        name: Text<'a> = 3,
        uid: Text<'a> = 4,
        api_version: Text<'a> = 5,
        controller: Option<bool> = 6,
    }

    pub(super) struct PodSpec<'a, P: Projection> {
        node_name: Text<'a> = 10,
        init_containers: Vec<InitContainer<'a>> = 20,
        scheduling_gates: Detail<Vec<SchedulingGate<'a>>, P> = 38,
    }

    pub(super) struct InitContainer<'a> {
        name: Text<'a> = 1,
        restart_policy: Text<'a> = 24,
    }

    pub(super) struct SchedulingGate<'a> {
        name: Text<'a> = 1,
    }

    pub(super) struct PodStatus<'a, P: Projection> {
        phase: Text<'a> = 1,
        conditions: SmallVec<[PodCondition<'a, P>; 6]> = 2,
        message: Detail<Text<'a>, P> = 3,
        reason: Detail<Text<'a>, P> = 4,
        start_time: Detail<Timestamp, P> = 7,
        container_statuses: SmallVec<[ContainerStatus<'a, P>; 2]> = 8,
        init_container_statuses: Vec<ContainerStatus<'a, P>> = 10,
    }

    pub(super) struct PodCondition<'a, P: Projection> {
        #[serde(rename = "type")]
        kind: Text<'a> = 1,
        status: Text<'a> = 2,
        last_transition_time: Timestamp = 4,
        reason: Detail<Text<'a>, P> = 5,
        message: Detail<Text<'a>, P> = 6,
    }

    pub(super) struct ContainerStatus<'a, P: Projection> {
        name: Text<'a> = 1,
        state: ContainerState<'a, P> = 2,
        last_state: Detail<ContainerState<'a, P>, P> = 3,
        restart_count: Count = 5,
    }

    pub(super) struct ContainerState<'a, P: Projection> {
        waiting: Detail<Option<WaitingContainer<'a>>, P> = 1,
        terminated: Option<TerminatedContainer<'a, P>> = 3,
    }

    pub(super) struct WaitingContainer<'a> {
        reason: Text<'a> = 1,
        message: Text<'a> = 2,
    }

    pub(super) struct TerminatedContainer<'a, P: Projection> {
        exit_code: i32 = 1,
        signal: Detail<i32, P> = 2,
        reason: Detail<Text<'a>, P> = 3,
        message: Detail<Text<'a>, P> = 4,
        finished_at: Timestamp = 6,
    }
}

/// The annotations that are read.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct PodAnnotations<'a> {
    #[serde(rename = "batch.kubernetes.io/job-completion-index")]
    pub(super) index: Option<Text<'a>>,
    #[serde(rename = "batch.kubernetes.io/job-index-failure-count")]
    failures: Option<Text<'a>>,
    #[serde(rename = "batch.kubernetes.io/job-index-ignored-failure-count")]
    ignored_failures: Option<Text<'a>>,
}

impl<'a> ProtobufField<'a> for PodAnnotations<'a> {
    fn take(&mut self, value: Value<'a>) -> Result<(), Malformed> {
        let (key, content) = value.entry()?;
        let field = match key {
            COMPLETION_INDEX => &mut self.index,
            INDEX_FAILURES => &mut self.failures,
            INDEX_IGNORED_FAILURES => &mut self.ignored_failures,
            _ => return Ok(()),
        };
        *field = Some(Text(content.into()));
        Ok(())
    }
}

impl PodAnnotations<'_> {
    /// The earlier failures of the Pod's index. A count that is not a number is 0.
    pub(super) fn failure_counts(&self) -> FailureCounts {
        let count = |text: &Option<Text<'_>>| {
            let count = text.as_ref().and_then(|text| text.parse::<i32>().ok());
            count.map_or(0, |count| u32::try_from(count).unwrap_or(0))
        };
        FailureCounts {
            counted: count(&self.failures),
            ignored: count(&self.ignored_failures),
        }
    }
}

impl PodMetadata<'_> {
    /// The owner reference of the controller.
    pub(super) fn controller(&self) -> Option<&PodOwnerReference<'_>> {
        let mut owners = self.owner_references.iter();
        owners.find(|owner| owner.controller == Some(true))
    }
}

impl<'a, P: Projection> PodView<'a, P> {
    /// Decodes a Pod.
    pub(super) fn decode(object: Object<'a>) -> Result<Self, OddAnswer> {
        Ok(match object {
            Object::Json(json) => serde_json::from_str(json)?,
            Object::Protobuf(message) => Self::read(Value::Bytes(message))?,
        })
    }
}
