//! Decodes Pod details from protobuf, by field numbers.
//!
//! Source: `generated.proto` of `k8s.io/api/core/v1` and `k8s.io/apimachinery/pkg/apis/meta/v1`.
//! Must not: decide which fields are kept; JSON and protobuf share that decision.

use crate::{
    pod::protobuf::{entry, text, timestamp},
    protobuf::{Malformed, ProtobufMessage, Value},
};

use super::{
    RawContainerDetails, RawDetailsCondition, RawDetailsMetadata, RawDetailsOwner, RawDetailsSpec,
    RawDetailsState, RawDetailsStatus, RawEnd, RawGate, RawPodDetails, RawWaiting,
};

impl<'a> ProtobufMessage<'a> for RawPodDetails<'a> {
    fn set(&mut self, number: u64, value: Value<'a>) -> Result<(), Malformed> {
        match number {
            1 => self.metadata.merge(value),
            2 => self.spec.merge(value),
            3 => self.status.merge(value),
            _ => Ok(()),
        }
    }
}

impl<'a> ProtobufMessage<'a> for RawDetailsMetadata<'a> {
    fn set(&mut self, number: u64, value: Value<'a>) -> Result<(), Malformed> {
        match number {
            1 => self.name = text(value)?,
            5 => self.uid = text(value)?,
            8 => self.creation_timestamp = timestamp(value)?,
            9 => self.deletion_timestamp = timestamp(value)?,
            12 => {
                let (key, content) = entry(value)?;
                self.annotations.set(key, content);
            }
            13 => self.owner_references.push(RawDetailsOwner::read(value)?),
            14 => self.finalizers.push(text(value)?),
            _ => {}
        }
        Ok(())
    }
}

impl<'a> ProtobufMessage<'a> for RawDetailsOwner<'a> {
    fn set(&mut self, number: u64, value: Value<'a>) -> Result<(), Malformed> {
        match number {
            4 => self.uid = text(value)?,
            6 => self.controller = Some(value.number::<i64>()? != 0),
            _ => {}
        }
        Ok(())
    }
}

impl<'a> ProtobufMessage<'a> for RawDetailsSpec<'a> {
    fn set(&mut self, number: u64, value: Value<'a>) -> Result<(), Malformed> {
        match number {
            10 => self.node_name = text(value)?,
            38 => self.scheduling_gates.push(RawGate::read(value)?),
            _ => {}
        }
        Ok(())
    }
}

impl<'a> ProtobufMessage<'a> for RawGate<'a> {
    fn set(&mut self, number: u64, value: Value<'a>) -> Result<(), Malformed> {
        if number == 1 {
            self.name = text(value)?;
        }
        Ok(())
    }
}

impl<'a> ProtobufMessage<'a> for RawDetailsStatus<'a> {
    fn set(&mut self, number: u64, value: Value<'a>) -> Result<(), Malformed> {
        match number {
            1 => self.phase = text(value)?,
            2 => self.conditions.push(RawDetailsCondition::read(value)?),
            3 => self.message = text(value)?,
            4 => self.reason = text(value)?,
            7 => self.start_time = timestamp(value)?,
            8 => self
                .container_statuses
                .push(RawContainerDetails::read(value)?),
            10 => {
                let statuses = &mut self.init_container_statuses;
                statuses.push(RawContainerDetails::read(value)?);
            }
            _ => {}
        }
        Ok(())
    }
}

impl<'a> ProtobufMessage<'a> for RawDetailsCondition<'a> {
    fn set(&mut self, number: u64, value: Value<'a>) -> Result<(), Malformed> {
        match number {
            1 => self.kind = text(value)?,
            2 => self.status = text(value)?,
            4 => self.last_transition_time = timestamp(value)?,
            5 => self.reason = text(value)?,
            6 => self.message = text(value)?,
            _ => {}
        }
        Ok(())
    }
}

impl<'a> ProtobufMessage<'a> for RawContainerDetails<'a> {
    fn set(&mut self, number: u64, value: Value<'a>) -> Result<(), Malformed> {
        match number {
            1 => self.name = text(value)?,
            2 => self.state.merge(value)?,
            3 => self.last_state.merge(value)?,
            5 => self.restart_count = value.count()?,
            _ => {}
        }
        Ok(())
    }
}

impl<'a> ProtobufMessage<'a> for RawDetailsState<'a> {
    fn set(&mut self, number: u64, value: Value<'a>) -> Result<(), Malformed> {
        match number {
            1 => self.waiting.get_or_insert_default().merge(value),
            3 => self.terminated.get_or_insert_default().merge(value),
            _ => Ok(()),
        }
    }
}

impl<'a> ProtobufMessage<'a> for RawWaiting<'a> {
    fn set(&mut self, number: u64, value: Value<'a>) -> Result<(), Malformed> {
        match number {
            1 => self.reason = text(value)?,
            2 => self.message = text(value)?,
            _ => {}
        }
        Ok(())
    }
}

impl<'a> ProtobufMessage<'a> for RawEnd<'a> {
    fn set(&mut self, number: u64, value: Value<'a>) -> Result<(), Malformed> {
        match number {
            1 => self.exit_code = value.number()?,
            2 => self.signal = value.number()?,
            3 => self.reason = text(value)?,
            4 => self.message = text(value)?,
            6 => self.finished_at = timestamp(value)?,
            _ => {}
        }
        Ok(())
    }
}
