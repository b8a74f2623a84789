//! Splits the stream of a watch into events, by its encoding.

use http::HeaderValue;

mod frames;
mod lines;

pub use frames::TooLong;
pub use lines::Lines;

use frames::Frames;

/// The prefix of the content type of protobuf responses.
const PROTOBUF: &[u8] = b"application/vnd.kubernetes.protobuf";

/// The encoding of the objects in a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// JSON; a watch is lines.
    Json,
    /// Protobuf; a watch is frames.
    Protobuf,
}

impl Encoding {
    /// Derives the encoding from a response's content type.
    pub fn of(content_type: Option<&HeaderValue>) -> Self {
        let protobuf = |kind: &HeaderValue| kind.as_bytes().starts_with(PROTOBUF);
        match content_type {
            Some(kind) if protobuf(kind) => Self::Protobuf,
            _ => Self::Json,
        }
    }
}

/// Splits the stream of a watch into its events.
#[derive(Debug)]
pub enum Splitter {
    /// Each line is an event.
    Lines(Lines),
    /// Each frame is an event.
    #[expect(private_interfaces, reason = "only `push` is for others")]
    Frames(Frames),
}

impl Splitter {
    /// Creates a splitter for a stream in this encoding.
    pub fn new(encoding: Encoding) -> Self {
        match encoding {
            Encoding::Json => Self::Lines(Lines::default()),
            Encoding::Protobuf => Self::Frames(Frames::default()),
        }
    }

    /// Adds a piece of the stream. Calls `each` for every complete event.
    ///
    /// # Errors
    ///
    /// The first error of `each`, or that an event is too long. The rest of the piece is lost in both cases.
    pub fn push<E: From<TooLong>>(
        &mut self,
        piece: &[u8],
        each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        match self {
            Self::Lines(lines) => lines.push(piece, each),
            Self::Frames(frames) => frames.push(piece, each),
        }
    }
}
