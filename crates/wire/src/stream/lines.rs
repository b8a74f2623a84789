//! Assembles the lines of a stream from the pieces in which they arrive.

use super::frames::{EVENT_MAX, TooLong};

/// Buffers an incomplete line.
#[derive(Debug, Default)]
pub struct Lines {
    rest: Vec<u8>,
}

impl Lines {
    /// Adds a piece of the stream. Calls `each` for every complete line, without its line end.
    ///
    /// # Errors
    ///
    /// The first error of `each`, or that a line is too long. The rest of the piece is lost in both cases.
    pub fn push<E: From<TooLong>>(
        &mut self,
        piece: &[u8],
        mut each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut piece = piece;
        while let Some(end) = memchr::memchr(b'\n', piece) {
            let (line, after) = (&piece[..end], &piece[end + 1..]);
            piece = after;
            if self.rest.is_empty() {
                each(line)?;
            } else {
                self.rest.extend_from_slice(line);
                let result = each(&self.rest);
                self.rest.clear();
                result?;
            }
        }
        self.rest.extend_from_slice(piece);
        if self.rest.len() > EVENT_MAX {
            return Err(TooLong.into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_whole_however_they_were_cut() {
        let text = b"one\ntwo\n\nthree\nfou";
        for size in 1..=text.len() {
            let mut lines = Lines::default();
            let mut seen: Vec<String> = Vec::new();
            for piece in text.chunks(size) {
                let taken_in = lines.push(piece, |line| {
                    seen.push(String::from_utf8_lossy(line).into_owned());
                    Ok::<_, TooLong>(())
                });
                taken_in.expect("they are short");
            }
            assert_eq!(seen, ["one", "two", "", "three"], "pieces of {size}");
        }
    }

    #[test]
    fn a_line_without_end_is_given_up() {
        let mut lines = Lines::default();
        let piece = vec![b'a'; EVENT_MAX / 4];
        let mut push = || lines.push(&piece, |_| Ok::<_, TooLong>(()));
        assert!((0..4).all(|_| push().is_ok()));
        assert!(push().is_err());
    }
}
