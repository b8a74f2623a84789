//! Encodes protobuf messages as the API server does, for tests and benchmarks.
//!
//! Must not: be used for requests, which are JSON.

use crate::protobuf::MAGIC;

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(0x80 | u8::try_from(number & 0x7f).expect("seven bits"));
        number >>= 7;
    }
    bytes.push(u8::try_from(number).expect("seven bits"));
    bytes
}

/// A field with text, bytes or a message.
pub fn bytes(number: u64, value: impl AsRef<[u8]>) -> Vec<u8> {
    let value = value.as_ref();
    let length = varint(value.len() as u64);
    [varint(number << 3 | 2), length, value.to_vec()].concat()
}

/// A field with a number.
pub fn number(number: u64, value: i64) -> Vec<u8> {
    [varint(number << 3), varint(value.cast_unsigned())].concat()
}

/// An object in its envelope.
pub fn object(message: &[u8]) -> Vec<u8> {
    let kind = bytes(1, [bytes(1, "v1"), bytes(2, "Thing")].concat());
    [MAGIC.to_vec(), kind, bytes(2, message)].concat()
}
