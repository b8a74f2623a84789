//! Decodes protobuf as API servers send it: fields by number, and the envelope around an object.
//!
//! It only reads, and skips fields that the caller does not use. [`message`](super::message) defines messages. Must not:
//! know any kind of object.
//!
//! Source: protobuf's encoding guide; the prefix and the message `runtime.Unknown` of Kubernetes.

use smallvec::{Array, SmallVec};

/// The prefix of every object in protobuf.
pub(crate) const MAGIC: &[u8] = b"k8s\0";

/// The bytes are not the expected message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed protobuf")]
pub struct Malformed;

/// A field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    /// An integer or boolean.
    Number(u64),
    /// Text, bytes or a message.
    Bytes(&'a [u8]),
    /// A number of fixed width. No field that lakh reads has one.
    Fixed,
}

/// An iterator over the fields of a message.
#[derive(Clone, Debug)]
pub(super) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub(super) fn of(message: &'a [u8]) -> Self {
        Self(message)
    }

    /// The next field's number and value; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(u64, Value<'a>)>, Malformed> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let value = match key & 7 {
            0 => Value::Number(self.varint()?),
            1 => self.skip(8)?,
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| Malformed)?;
                Value::Bytes(self.take(length)?)
            }
            5 => self.skip(4)?,
            _ => return Err(Malformed),
        };
        Ok(Some((key >> 3, value)))
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for (at, byte) in self.0.iter().enumerate().take(10) {
            number |= u64::from(byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                self.0 = &self.0[at + 1..];
                return Ok(number);
            }
        }
        Err(Malformed)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn skip(&mut self, length: usize) -> Result<Value<'a>, Malformed> {
        self.take(length).map(|_| Value::Fixed)
    }
}

impl<'a> Value<'a> {
    /// The value as text.
    pub(super) fn text(self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Malformed)
    }

    /// The value as bytes or a message.
    pub(super) fn bytes(self) -> Result<&'a [u8], Malformed> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Number(_) | Self::Fixed => Err(Malformed),
        }
    }

    /// The value as a number; negative ones are 64 bits wide.
    pub(super) fn number<T: TryFrom<i64>>(self) -> Result<T, Malformed> {
        match self {
            Self::Number(number) => T::try_from(number.cast_signed()).map_err(|_| Malformed),
            Self::Bytes(_) | Self::Fixed => Err(Malformed),
        }
    }

    /// The value as an entry of a map: key and value.
    pub(super) fn entry(self) -> Result<(&'a str, &'a str), Malformed> {
        let (mut key, mut content) = ("", "");
        let mut fields = Fields::of(self.bytes()?);
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => key = value.text()?,
                2 => content = value.text()?,
                _ => {}
            }
        }
        Ok((key, content))
    }
}

/// A message that is decoded field by field. A message in several pieces is the merge of its pieces.
pub(super) trait ProtobufMessage<'a>: Default {
    fn set(&mut self, number: u64, value: Value<'a>) -> Result<(), Malformed>;

    fn merge(&mut self, value: Value<'a>) -> Result<(), Malformed> {
        let mut fields = Fields::of(value.bytes()?);
        while let Some((number, value)) = fields.next()? {
            self.set(number, value)?;
        }
        Ok(())
    }

    fn read(value: Value<'a>) -> Result<Self, Malformed> {
        let mut message = Self::default();
        message.merge(value)?;
        Ok(message)
    }
}

/// A type of a message's field.
pub(super) trait ProtobufField<'a> {
    /// Takes one value from the input. It replaces a scalar, is merged into a message, and is added to a list.
    fn take(&mut self, value: Value<'a>) -> Result<(), Malformed>;
}

impl<'a, M: ProtobufMessage<'a>> ProtobufField<'a> for M {
    fn take(&mut self, value: Value<'a>) -> Result<(), Malformed> {
        self.merge(value)
    }
}

impl<'a, T: ProtobufField<'a> + Default> ProtobufField<'a> for Option<T> {
    fn take(&mut self, value: Value<'a>) -> Result<(), Malformed> {
        self.get_or_insert_default().take(value)
    }
}

impl<'a, T: ProtobufField<'a> + Default> ProtobufField<'a> for Vec<T> {
    fn take(&mut self, value: Value<'a>) -> Result<(), Malformed> {
        let mut item = T::default();
        item.take(value)?;
        self.push(item);
        Ok(())
    }
}

impl<'a, A: Array<Item: ProtobufField<'a> + Default>> ProtobufField<'a> for SmallVec<A> {
    fn take(&mut self, value: Value<'a>) -> Result<(), Malformed> {
        let mut item = A::Item::default();
        item.take(value)?;
        self.push(item);
        Ok(())
    }
}

impl<'a> ProtobufField<'a> for bool {
    fn take(&mut self, value: Value<'a>) -> Result<(), Malformed> {
        *self = value.number::<i64>()? != 0;
        Ok(())
    }
}

macro_rules! integer_fields {
    ($($integer:ty)*) => {$(
        impl<'a> ProtobufField<'a> for $integer {
            fn take(&mut self, value: Value<'a>) -> Result<(), Malformed> {
                *self = value.number()?;
                Ok(())
            }
        }
    )*};
}

integer_fields!(u16 i32 i64);

/// The value of one field of a message; the last one if it is repeated.
pub(super) fn field(message: &[u8], wanted: u64) -> Result<Option<Value<'_>>, Malformed> {
    let mut fields = Fields::of(message);
    let mut found = None;
    while let Some((number, value)) = fields.next()? {
        if number == wanted {
            found = Some(value);
        }
    }
    Ok(found)
}

/// The nested message in one field; an empty one if the field is missing.
pub(super) fn message(message: &[u8], wanted: u64) -> Result<&[u8], Malformed> {
    field(message, wanted)?.map_or(Ok(&[]), Value::bytes)
}

/// Returns true if the bytes are an object in protobuf, not JSON.
pub(super) fn is_object(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Extracts the object from its envelope.
pub(super) fn object(bytes: &[u8]) -> Result<&[u8], Malformed> {
    message(bytes.strip_prefix(MAGIC).ok_or(Malformed)?, 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protobuf_writer;

    #[test]
    fn fields_of_each_width() {
        let message = [
            protobuf_writer::number(1, -1),
            vec![2 << 3 | 1, 1, 2, 3, 4, 5, 6, 7, 8],
            protobuf_writer::bytes(300, "text"),
            vec![4 << 3 | 5, 1, 2, 3, 4],
            protobuf_writer::number(5, 1),
        ]
        .concat();
        let mut fields = Fields::of(&message);
        let mut next = || fields.next().expect("a good message");
        assert_eq!(next(), Some((1, Value::Number(u64::MAX))));
        assert_eq!(next(), Some((2, Value::Fixed)));
        assert_eq!(next(), Some((300, Value::Bytes(b"text"))));
        assert_eq!(next(), Some((4, Value::Fixed)));
        assert_eq!(next(), Some((5, Value::Number(1))));
        assert_eq!(next(), None);
    }

    #[test]
    fn truncated_messages_are_malformed() {
        let whole = protobuf_writer::object(&protobuf_writer::bytes(1, "abc"));
        assert_eq!(object(&whole), Ok(&protobuf_writer::bytes(1, "abc")[..]));
        for length in 0..whole.len() {
            let cut = object(&whole[..length]);
            // Without its last field the envelope is empty.
            assert!(cut == Err(Malformed) || cut == Ok(&[]), "{length}: {cut:?}");
        }
        assert_eq!(object(b"{}"), Err(Malformed));
        assert_eq!(field(&[0x80; 11], 1), Err(Malformed));
        assert_eq!(field(&[1 << 3 | 3], 1), Err(Malformed));
        let endless = [vec![1 << 3 | 2], vec![0xff; 9], vec![1]].concat();
        assert_eq!(field(&endless, 1), Err(Malformed));
    }
}
