//! Decodes the metadata of the object in a response to a write.
//!
//! Source of the field numbers: `generated.proto` of `k8s.io/apimachinery/pkg/apis/meta/v1`.

use serde::Deserialize;
use smallvec::SmallVec;

use lakh_model::{PodLabels, Uid};

use super::{
    field::{Text, Timestamp},
    json,
    labels::labels,
    message::message,
    protobuf::{self, ProtobufMessage, Value},
};

/// Decodes the response to a write that requested only metadata. Returns the UID, the resourceVersion, and true if the
/// object is being deleted.
pub fn ack_of_write(body: &[u8]) -> Option<(Uid, u64, bool)> {
    let metadata: AckMetadata<'_> = metadata(body)?;
    let uid = Uid::parse(&metadata.uid)?;
    let version = metadata.resource_version.parse().ok()?;
    Some((uid, version, metadata.deletion_timestamp.is_some()))
}

/// Decodes the finalizers and labels of the Pod in a response.
pub(super) fn marks(body: &[u8]) -> Option<Marks<'_>> {
    metadata(body)
}

/// Decodes the metadata of the object in a response.
pub(super) fn metadata<'a, M: ProtobufMessage<'a> + Deserialize<'a>>(body: &'a [u8]) -> Option<M> {
    #[derive(Deserialize)]
    struct RawObject<M> {
        metadata: M,
    }
    if protobuf::is_object(body) {
        // The first field of every object is its metadata.
        let metadata = protobuf::message(protobuf::object(body).ok()?, 1).ok()?;
        return M::read(Value::Bytes(metadata)).ok();
    }
    Some(json::read::<RawObject<M>>(body).ok()?.metadata)
}

message! {
    /// The finalizers and labels by which a Job recognizes its Pod.
    pub(super) struct Marks<'a> {
        #[serde(deserialize_with = "labels")]
        labels: PodLabels<'a> = 11,
        finalizers: SmallVec<[Text<'a>; 2]> = 14,
    }

    /// The metadata that is read from the response to a write.
    pub(super) struct AckMetadata<'a> {
        name: Text<'a> = 1,
        uid: Text<'a> = 5,
        resource_version: Text<'a> = 6,
        deletion_timestamp: Option<Timestamp> = 9,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protobuf_writer::{bytes, number, object};

    const UID: &str = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9";

    #[test]
    fn an_answer_to_a_write() {
        let deletion = bytes(9, number(1, 50));
        let metadata = [bytes(1, "p"), bytes(5, UID), bytes(6, "77"), deletion];
        let ack = ack_of_write(&object(&bytes(1, metadata.concat()))).expect("a good answer");
        assert_eq!((ack.0.to_string().as_str(), ack.1, ack.2), (UID, 77, true));
        assert_eq!(ack_of_write(&object(&[])), None);
    }
}
