//! The events of a watch, as its encoding divides them.

use http::HeaderValue;

mod frames;
mod lines;

pub use frames::TooLong;
pub use lines::Lines;

use frames::Frames;

/// What the content type of an answer in protobuf starts with.
const PROTOBUF: &[u8] = b"application/vnd.kubernetes.protobuf";

/// How objects are encoded in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// JSON; a watch is lines.
    Json,
    /// Protobuf; a watch is frames.
    Protobuf,
}

impl Encoding {
    /// What the content type of an answer says.
    pub fn of(content_type: Option<&HeaderValue>) -> Self {
        let protobuf = |kind: &HeaderValue| kind.as_bytes().starts_with(PROTOBUF);
        match content_type {
            Some(kind) if protobuf(kind) => Self::Protobuf,
            _ => Self::Json,
        }
    }
}

/// Divides the stream of a watch into its events.
#[derive(Debug)]
pub enum Splitter {
    /// Each line is one.
    Lines(Lines),
    /// Each frame is one.
    #[expect(private_interfaces, reason = "only `push` is for others")]
    Frames(Frames),
}

impl Splitter {
    /// For a stream in this encoding.
    pub fn new(encoding: Encoding) -> Self {
        match encoding {
            Encoding::Json => Self::Lines(Lines::default()),
            Encoding::Protobuf => Self::Frames(Frames::default()),
        }
    }

    /// Takes a piece of the stream in, and gives each event that is whole now.
    ///
    /// # Errors
    ///
    /// The first error of `each`, or that an event is too long; the rest of the piece is lost then.
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
