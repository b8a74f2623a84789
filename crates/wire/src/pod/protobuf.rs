//! Decodes the needed parts of a Pod from protobuf, by field numbers.
//!
//! Source: `generated.proto` of `k8s.io/api/core/v1` and `k8s.io/apimachinery/pkg/apis/meta/v1`.
//! Must not: decide which fields are kept; JSON and protobuf share that decision.

use lakh_model::{COMPLETION_INDEX, INDEX_FAILURES, INDEX_IGNORED_FAILURES};

use crate::protobuf::{Fields, Malformed, ProtobufMessage, Value, field};

use super::{
    AckMetadata, Marks, RawContainerState, RawContainerStatus, RawInitContainer, RawPod,
    RawPodAnnotations, RawPodCondition, RawPodMetadata, RawPodOwnerReference, RawPodSpec,
    RawPodStatus, RawTerminated, RawTimestamp, Text,
};

pub(crate) fn text(value: Value<'_>) -> Result<Text<'_>, Malformed> {
    value.text().map(|text| Text(text.into()))
}

pub(crate) fn timestamp(value: Value<'_>) -> Result<RawTimestamp, Malformed> {
    let seconds: i64 = field(value.bytes()?, 1)?.map_or(Ok(0), Value::number)?;
    Ok(RawTimestamp(u32::try_from(seconds).unwrap_or(0)))
}

/// A map entry: key and value.
pub(crate) fn entry(value: Value<'_>) -> Result<(&str, &str), Malformed> {
    let (mut key, mut content) = ("", "");
    let mut fields = Fields::of(value.bytes()?);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => key = value.text()?,
            2 => content = value.text()?,
            _ => {}
        }
    }
    Ok((key, content))
}

impl<'a> ProtobufMessage<'a> for RawPod<'a> {
    fn set(&mut self, number: u64, value: Value<'a>) -> Result<(), Malformed> {
        match number {
            1 => self.metadata.merge(value),
            2 => self.spec.merge(value),
            3 => self.status.merge(value),
            _ => Ok(()),
        }
    }
}

impl<'a> ProtobufMessage<'a> for RawPodMetadata<'a> {
    fn set(&mut self, number: u64, value: Value<'a>) -> Result<(), Malformed> {
        match number {
            1 => self.name = text(value)?,
            3 => self.namespace = text(value)?,
            5 => self.uid = text(value)?,
            6 => self.resource_version = text(value)?,
            8 => self.creation_timestamp = timestamp(value)?,
            9 => self.deletion_timestamp = Some(timestamp(value)?),
            10 => self.deletion_grace_period_seconds = Some(value.number()?),
            11 => {
                let (key, content) = entry(value)?;
                self.labels.push(key, content);
            }
            12 => {
                let (key, content) = entry(value)?;
                self.annotations.set(key, content);
            }
            13 => self
                .owner_references
                .push(RawPodOwnerReference::read(value)?),
            14 => self.finalizers.push(text(value)?),
            _ => {}
        }
        Ok(())
    }
}

impl<'a> ProtobufMessage<'a> for AckMetadata<'a> {
    fn set(&mut self, number: u64, value: Value<'a>) -> Result<(), Malformed> {
        match number {
            1 => self.name = text(value)?,
            5 => self.uid = text(value)?,
            6 => self.resource_version = text(value)?,
            9 => self.deletion_timestamp = Some(timestamp(value)?),
            _ => {}
        }
        Ok(())
    }
}

impl<'a> ProtobufMessage<'a> for Marks<'a> {
    fn set(&mut self, number: u64, value: Value<'a>) -> Result<(), Malformed> {
        match number {
            11 => {
                let (key, content) = entry(value)?;
                self.labels.push(key, content);
            }
            14 => self.finalizers.push(text(value)?),
            _ => {}
        }
        Ok(())
    }
}

impl<'a> RawPodAnnotations<'a> {
    pub(crate) fn set(&mut self, key: &str, content: &'a str) {
        let place = match key {
            COMPLETION_INDEX => &mut self.index,
            INDEX_FAILURES => &mut self.failures,
            INDEX_IGNORED_FAILURES => &mut self.ignored_failures,
            _ => return,
        };
        *place = Some(Text(content.into()));
    }
}

impl<'a> ProtobufMessage<'a> for RawPodOwnerReference<'a> {
    fn set(&mut self, number: u64, value: Value<'a>) -> Result<(), Malformed> {
        match number {
            1 => self.kind = text(value)?,
            3 => self.name = text(value)?,
            4 => self.uid = text(value)?,
            5 => self.api_version = text(value)?,
            6 => self.controller = Some(value.number::<i64>()? != 0),
            _ => {}
        }
        Ok(())
    }
}

impl<'a> ProtobufMessage<'a> for RawPodSpec<'a> {
    fn set(&mut self, number: u64, value: Value<'a>) -> Result<(), Malformed> {
        match number {
            10 => self.node_name = text(value)?,
            20 => self.init_containers.push(RawInitContainer::read(value)?),
            _ => {}
        }
        Ok(())
    }
}

impl<'a> ProtobufMessage<'a> for RawInitContainer<'a> {
    fn set(&mut self, number: u64, value: Value<'a>) -> Result<(), Malformed> {
        match number {
            1 => self.name = text(value)?,
            24 => self.restart_policy = text(value)?,
            _ => {}
        }
        Ok(())
    }
}

impl<'a> ProtobufMessage<'a> for RawPodStatus<'a> {
    fn set(&mut self, number: u64, value: Value<'a>) -> Result<(), Malformed> {
        match number {
            1 => self.phase = text(value)?,
            2 => self.conditions.push(RawPodCondition::read(value)?),
            8 => self
                .container_statuses
                .push(RawContainerStatus::read(value)?),
            10 => {
                let statuses = &mut self.init_container_statuses;
                statuses.push(RawContainerStatus::read(value)?);
            }
            _ => {}
        }
        Ok(())
    }
}

impl<'a> ProtobufMessage<'a> for RawPodCondition<'a> {
    fn set(&mut self, number: u64, value: Value<'a>) -> Result<(), Malformed> {
        match number {
            1 => self.kind = text(value)?,
            2 => self.status = text(value)?,
            4 => self.last_transition_time = timestamp(value)?,
            _ => {}
        }
        Ok(())
    }
}

impl<'a> ProtobufMessage<'a> for RawContainerStatus<'a> {
    fn set(&mut self, number: u64, value: Value<'a>) -> Result<(), Malformed> {
        match number {
            1 => self.name = text(value)?,
            2 => self.state.merge(value)?,
            5 => self.restart_count = value.count()?,
            _ => {}
        }
        Ok(())
    }
}

impl<'a> ProtobufMessage<'a> for RawContainerState {
    fn set(&mut self, number: u64, value: Value<'a>) -> Result<(), Malformed> {
        match number {
            3 => self.terminated.get_or_insert_default().merge(value),
            _ => Ok(()),
        }
    }
}

impl<'a> ProtobufMessage<'a> for RawTerminated {
    fn set(&mut self, number: u64, value: Value<'a>) -> Result<(), Malformed> {
        match number {
            1 => self.exit_code = value.number()?,
            6 => self.finished_at = timestamp(value)?,
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Object, PodDecoder, ack_of_write,
        protobuf_writer::{bytes, number, object},
    };
    use lakh_model::{DecodedPod, TRACKING_FINALIZER};

    const UID: &str = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9";

    fn decode(object: Object<'_>) -> Option<DecodedPod<'_>> {
        let finalizer = TRACKING_FINALIZER;
        PodDecoder { finalizer }.decode(object).ok()
    }

    fn pair(field: u64, key: &str, value: &str) -> Vec<u8> {
        bytes(field, [bytes(1, key), bytes(2, value)].concat())
    }

    fn time(field: u64, seconds: i64) -> Vec<u8> {
        bytes(field, [number(1, seconds), number(2, 0)].concat())
    }

    /// A failed Pod with many kinds of fields, some of which are skipped.
    fn failed_pod() -> Vec<u8> {
        let owner = |name: &str, controller| {
            let fields = [
                bytes(1, "Job"),
                bytes(3, name),
                bytes(4, UID),
                bytes(5, "batch/v1"),
                number(6, controller),
                number(7, 1),
            ];
            bytes(13, fields.concat())
        };
        let metadata = [
            bytes(1, "train-7-bcdfg"),
            bytes(2, "train-7-"),
            bytes(3, "ml"),
            bytes(5, UID),
            bytes(6, "77"),
            time(8, 1),
            time(9, 50),
            number(10, 30),
            pair(11, "a", "1"),
            pair(11, "b", ""),
            pair(12, COMPLETION_INDEX, "7"),
            pair(12, INDEX_FAILURES, "2"),
            pair(12, INDEX_IGNORED_FAILURES, "3"),
            pair(12, "other", "x"),
            owner("other", 0),
            owner("train", 1),
            bytes(14, "x"),
            bytes(14, TRACKING_FINALIZER),
            bytes(17, [bytes(1, "kubelet"), bytes(2, "Update")].concat()),
        ];
        let side = [bytes(1, "side"), bytes(24, "Always")].concat();
        let spec = [
            bytes(2, bytes(1, "main")),
            bytes(10, "node"),
            bytes(20, side),
            bytes(20, bytes(1, "init")),
        ];
        let condition = |kind: &str, status: &str, at| {
            bytes(2, [bytes(1, kind), bytes(2, status), time(4, at)].concat())
        };
        let ended = |field, name: &str, code, at| {
            let end = bytes(3, [number(1, code), time(5, 3), time(6, at)].concat());
            let last = bytes(3, bytes(3, number(1, 99)));
            let fields = [
                bytes(1, name),
                bytes(2, end),
                last,
                number(4, 0),
                number(5, 4),
            ];
            bytes(field, fields.concat())
        };
        let status = [
            bytes(1, "Failed"),
            condition("Ready", "False", 40),
            condition("DisruptionTarget", "True", 41),
            ended(8, "main", -9, 20),
            ended(10, "side", 0, 30),
            ended(10, "init", 0, 10),
        ];
        [
            bytes(1, metadata.concat()),
            bytes(2, spec.concat()),
            bytes(3, status.concat()),
        ]
        .concat()
    }

    const SAME_IN_JSON: &str = r#"{"metadata":{"name":"train-7-bcdfg","namespace":"ml",
        "uid":"0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9","resourceVersion":"77",
        "creationTimestamp":"1970-01-01T00:00:01Z","deletionTimestamp":"1970-01-01T00:00:50Z",
        "deletionGracePeriodSeconds":30,"labels":{"a":"1","b":""},"annotations":{
        "batch.kubernetes.io/job-completion-index":"7","batch.kubernetes.io/job-index-failure-count":"2",
        "batch.kubernetes.io/job-index-ignored-failure-count":"3","other":"x"},
        "ownerReferences":[{"apiVersion":"batch/v1","kind":"Job","name":"other","controller":false,
        "uid":"0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"},{"apiVersion":"batch/v1","kind":"Job",
        "name":"train","controller":true,"uid":"0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"}],
        "finalizers":["x","batch.kubernetes.io/job-tracking"]},
        "spec":{"nodeName":"node","containers":[{"name":"main"}],
        "initContainers":[{"name":"side","restartPolicy":"Always"},{"name":"init"}]},
        "status":{"phase":"Failed","conditions":[
        {"type":"Ready","status":"False","lastTransitionTime":"1970-01-01T00:00:40Z"},
        {"type":"DisruptionTarget","status":"True","lastTransitionTime":"1970-01-01T00:00:41Z"}],
        "containerStatuses":[{"name":"main","restartCount":4,"state":{"terminated":
        {"exitCode":-9,"finishedAt":"1970-01-01T00:00:20Z"}}}],
        "initContainerStatuses":[{"name":"side","restartCount":4,"state":{"terminated":
        {"exitCode":0,"finishedAt":"1970-01-01T00:00:30Z"}}},{"name":"init","restartCount":4,
        "state":{"terminated":{"exitCode":0,"finishedAt":"1970-01-01T00:00:10Z"}}}]}}"#;

    #[test]
    fn a_pod_is_the_same_in_both() {
        let message = failed_pod();
        let read = decode(Object::Protobuf(&message)).expect("a good Pod");
        let json = decode(Object::Json(SAME_IN_JSON)).expect("a good Pod");
        assert_eq!(read.record, json.record);
        assert_eq!(read.record.restarts, 12);
        assert!(read.record.failure.is_some());
        assert_eq!((read.namespace, read.name), (json.namespace, json.name));
        assert_eq!(
            (read.controller, read.labels),
            (json.controller, json.labels)
        );
    }

    #[test]
    fn a_pod_of_a_real_server_is_the_same_in_both() {
        let whole = include_bytes!("../../../../tests/fixtures/pod.pb");
        let message = crate::protobuf::object(whole).expect("an object");
        let read = decode(Object::Protobuf(message)).expect("a good Pod");
        let json = include_str!("../../../../tests/fixtures/pod.json");
        let json = decode(Object::Json(json)).expect("a good Pod");
        assert_eq!(read.record, json.record);
        assert!(read.record.finished > 0 && read.record.index.is_some());
        assert_eq!((read.namespace, read.name), (json.namespace, json.name));
        assert_eq!(
            (read.controller, read.labels.to_labels()),
            (json.controller, json.labels.to_labels())
        );
    }

    #[test]
    fn what_is_cut_short_or_odd_is_no_pod_and_no_panic() {
        let message = failed_pod();
        for length in 0..message.len() {
            // Fields are whole or missing. The metadata comes first, so a truncated Pod may still be valid.
            let _ = decode(Object::Protobuf(&message[..length]));
        }
        for at in 0..message.len() {
            let mut odd = message.clone();
            odd[at] ^= 0xff;
            let _ = decode(Object::Protobuf(&odd));
        }
        assert!(decode(Object::Protobuf(&[])).is_none());
        assert!(decode(Object::Protobuf(&bytes(1, bytes(5, "no UID")))).is_none());
        assert!(decode(Object::Protobuf(&number(1, 5))).is_none());
    }

    #[test]
    fn an_answer_to_a_write() {
        let ack = ack_of_write(&object(&failed_pod())).expect("a good answer");
        assert_eq!((ack.0.to_string().as_str(), ack.1, ack.2), (UID, 77, true));
        assert_eq!(ack_of_write(&object(&[])), None);
    }
}
