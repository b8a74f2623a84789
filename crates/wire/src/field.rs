//! Types of fields that messages have in JSON and in protobuf.

use std::{borrow::Cow, ops::Deref};

use compact_str::CompactString;
use serde::{Deserialize, Deserializer};

use lakh_model::Time;

use super::{
    protobuf::{Malformed, ProtobufField, Value, field},
    timestamp::seconds,
};

/// A count that the server does not validate. A negative count becomes 0, so that it cannot make an object unreadable.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Count(pub(super) u32);

impl Count {
    fn new(number: i64) -> Self {
        Self(u32::try_from(number.max(0)).unwrap_or(u32::MAX))
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        i64::deserialize(from).map(Self::new)
    }
}

impl<'a> ProtobufField<'a> for Count {
    fn take(&mut self, value: Value<'a>) -> Result<(), Malformed> {
        *self = Self::new(value.number()?);
        Ok(())
    }
}

/// Text, borrowed from the input unless JSON escapes it. Within lists and options serde would copy a plain `Cow`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

impl Text<'_> {
    /// The text without borrowed data.
    pub(super) fn to_compact(&self) -> CompactString {
        CompactString::new(&self.0)
    }
}

impl<'a> ProtobufField<'a> for Text<'a> {
    fn take(&mut self, value: Value<'a>) -> Result<(), Malformed> {
        self.0 = value.text()?.into();
        Ok(())
    }
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl PartialEq<&str> for Text<'_> {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

/// Whole seconds since the epoch; 0 if the value is not a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Timestamp(pub(super) u32);

impl Timestamp {
    /// The time, unless it is 0.
    pub(super) fn time(self) -> Option<Time> {
        (self.0 > 0).then(|| Time::from_secs(self.0.into()))
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = Option::<Text<'_>>::deserialize(from)?;
        Ok(Self(text.map_or(0, |text| seconds(&text))))
    }
}

impl<'a> ProtobufField<'a> for Timestamp {
    fn take(&mut self, value: Value<'a>) -> Result<(), Malformed> {
        let seconds: i64 = field(value.bytes()?, 1)?.map_or(Ok(0), Value::number)?;
        self.0 = u32::try_from(seconds).unwrap_or(0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    #[test]
    fn text_stays_where_it_is_unless_it_is_escaped() {
        let texts: Vec<Text<'_>> = json::read(br#"["as it is","\u0061"]"#).expect("good JSON");
        assert!(matches!(texts[0].0, Cow::Borrowed("as it is")));
        assert!(matches!(&texts[1].0, Cow::Owned(text) if text == "a"));
    }

    #[test]
    fn a_count_below_0_is_0() {
        let mut count = Count(7);
        let below = Value::Number((-7_i64).cast_unsigned());
        assert_eq!((count.take(below), count.0), (Ok(()), 0));
        assert_eq!((count.take(Value::Number(7)), count.0), (Ok(()), 7));
    }
}
