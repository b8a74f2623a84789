//! Assembles the frames of a stream from the pieces in which they arrive.
//!
//! A frame is its length, as a big-endian number of four bytes, followed by that many bytes. Protobuf watches use this
//! framing.

use crate::ApiError;

/// Bytes of the length prefix.
const HEAD: usize = 4;

/// The maximum size of a watch event: ten times the largest object that an API server accepts, 3 MiB.
pub(super) const EVENT_MAX: usize = 32 << 20;

/// An event exceeds the maximum size, so the stream is not a watch.
#[derive(Debug)]
pub struct TooLong;

impl From<TooLong> for ApiError {
    fn from(_: TooLong) -> Self {
        Self::too_long(EVENT_MAX)
    }
}

/// Buffers an incomplete frame.
#[derive(Debug, Default)]
pub(super) struct Frames {
    rest: Vec<u8>,
}

impl Frames {
    /// Adds a piece of the stream. Calls `each` for every complete frame, without its length.
    ///
    /// # Errors
    ///
    /// The first error of `each`, or that a frame is too long. The rest of the piece is lost in both cases.
    pub(super) fn push<E: From<TooLong>>(
        &mut self,
        piece: &[u8],
        mut each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut piece = piece;
        while !self.rest.is_empty() {
            let missing = size(&self.rest)?.unwrap_or(HEAD) - self.rest.len();
            let (now, later) = piece.split_at(missing.min(piece.len()));
            self.rest.extend_from_slice(now);
            piece = later;
            if size(&self.rest)? == Some(self.rest.len()) {
                let result = each(&self.rest[HEAD..]);
                self.rest.clear();
                result?;
            } else if piece.is_empty() {
                return Ok(());
            }
        }
        while let Some((frame, later)) = size(piece)?.and_then(|size| piece.split_at_checked(size))
        {
            each(&frame[HEAD..])?;
            piece = later;
        }
        self.rest.extend_from_slice(piece);
        Ok(())
    }
}

/// The size of a frame including its length prefix, once that has arrived.
fn size(bytes: &[u8]) -> Result<Option<usize>, TooLong> {
    let Some(head) = bytes.first_chunk() else {
        return Ok(None);
    };
    match usize::try_from(u32::from_be_bytes(*head)) {
        Ok(length) if length <= EVENT_MAX => Ok(Some(HEAD + length)),
        _ => Err(TooLong),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_whole_however_they_were_cut() {
        let text: Vec<u8> = [&b"one"[..], b"", b"three", &[7; 300]]
            .iter()
            .flat_map(|frame| {
                let length = u32::try_from(frame.len())
                    .expect("it is short")
                    .to_be_bytes();
                [&length[..], frame].concat()
            })
            .chain(
                *b"\0\0\0\x09not whole"[..12]
                    .first_chunk::<12>()
                    .expect("so many"),
            )
            .collect();
        for size in 1..=text.len() {
            let mut frames = Frames::default();
            let mut seen: Vec<Vec<u8>> = Vec::new();
            for piece in text.chunks(size) {
                let taken_in = frames.push(piece, |frame| {
                    seen.push(frame.to_vec());
                    Ok::<_, TooLong>(())
                });
                taken_in.expect("they are short");
            }
            assert_eq!(
                seen,
                [&b"one"[..], b"", b"three", &[7; 300]],
                "pieces of {size}"
            );
        }
    }

    #[test]
    fn no_frame_is_believed_to_be_longer_than_an_object_can_be() {
        for pieces in [&[&[255; 8][..]][..], &[&[255][..], &[255; 3]]] {
            let mut frames = Frames::default();
            let mut push = |piece: &&[u8]| frames.push(piece, |_| Ok::<_, TooLong>(()));
            assert!(pieces.iter().any(|piece| push(piece).is_err()));
        }
    }
}
