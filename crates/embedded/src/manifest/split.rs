//! Splits a text into its YAML documents and JSON values.
//!
//! Responsible for: finding the documents and their lines. Must not: parse YAML. A line that begins with `---` or `...`
//! ends a document anywhere, even in a text block, so parsing is not needed.

use serde::de::IgnoredAny;

/// The text of a document that is not empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece<'a> {
    pub(super) text: &'a str,
    /// Position among the documents that are not empty, from 1.
    pub(super) number: usize,
    /// The line on which `text` begins, from 1.
    pub(super) text_line: usize,
    /// The first line with content, from 1.
    pub(super) first_line: usize,
}

/// Returns the documents that hold more than comments.
pub(super) fn split(text: &str) -> Vec<Piece<'_>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut pieces = Vec::new();
    let (mut start, mut start_line, mut first_line) = (0, 1, None);
    let mut end = 0;
    for (line_number, line) in (1..).zip(text.split_inclusive('\n')) {
        if is_marker(line, "---") || is_marker(line, "...") {
            push(
                &mut pieces,
                &text[start..end],
                start_line,
                first_line.take(),
            );
            (start, start_line) = (end, line_number);
            // The end marker belongs to the document before it, which no longer needs it.
            if is_marker(line, "...") {
                (start, start_line) = (end + line.len(), line_number + 1);
            }
        }
        if first_line.is_none() && says_something(line) {
            first_line = Some(line_number);
        }
        end += line.len();
    }
    push(&mut pieces, &text[start..end], start_line, first_line);
    pieces
}

/// Adds a document, or each value of a document that is a stream of JSON objects.
fn push<'a>(pieces: &mut Vec<Piece<'a>>, text: &'a str, text_line: usize, first: Option<usize>) {
    let Some(first_line) = first else { return };
    let ends = json_ends(text);
    if ends.len() < 2 {
        pieces.push(Piece {
            text,
            number: pieces.len() + 1,
            text_line,
            first_line,
        });
        return;
    }
    let (mut start, mut line) = (0, text_line);
    for end in ends {
        let text = &text[start..end];
        let before = text.find('{').unwrap_or_default();
        pieces.push(Piece {
            text,
            number: pieces.len() + 1,
            text_line: line,
            first_line: line + count_lines(&text[..before]),
        });
        (start, line) = (end, line + count_lines(text));
    }
}

/// Returns the ends of the JSON objects in a text that consists of such objects. A rest that is not JSON is a piece of
/// its own, so that its error names its line. None for YAML.
fn json_ends(text: &str) -> Vec<usize> {
    let mut ends = Vec::new();
    let body = text.strip_prefix("---").unwrap_or(text);
    if !body.trim_start().starts_with('{') {
        return ends;
    }
    let marker = text.len() - body.len();
    let mut values = serde_json::Deserializer::from_str(body).into_iter::<IgnoredAny>();
    while let Some(value) = values.next() {
        match value {
            Ok(_) => ends.push(marker + values.byte_offset()),
            Err(_) if ends.is_empty() => return ends,
            Err(_) => {
                let last = ends.pop().unwrap_or_default();
                let is_comment = !text[last..].lines().any(says_something);
                ends.extend((!is_comment).then_some(last));
                ends.push(text.len());
                break;
            }
        }
    }
    ends
}

fn count_lines(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

fn is_marker(line: &str, marker: &str) -> bool {
    line.strip_prefix(marker)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(BLANK))
}

/// Returns true if a line holds more than a marker, a directive or a comment.
fn says_something(line: &str) -> bool {
    let is_marker = is_marker(line, "---") || is_marker(line, "...");
    let content = if is_marker {
        &line["---".len()..]
    } else {
        line
    }
    .trim();
    !content.is_empty() && !content.starts_with('#') && !line.starts_with('%')
}

const BLANK: [char; 4] = [' ', '\t', '\r', '\n'];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_found_with_their_lines() {
        // Each case: a text, then number:first line:text of each document.
        let cases: &[(&str, &[&str])] = &[
            ("", &[]),
            ("# nothing\n---\n\n---\n# here\n...\n", &[]),
            ("a: 1", &["1:1:a: 1"]),
            (
                "# c\n---\na: 1\n---\nb: 2\n",
                &["1:3:---\na: 1\n", "2:5:---\nb: 2\n"],
            ),
            ("a\n--- \n---\r\n\nb", &["1:1:a\n", "2:5:---\r\n\nb"]),
            (
                "--- {a: 1}\n--- # c\nb",
                &["1:1:--- {a: 1}\n", "2:3:--- # c\nb"],
            ),
            ("%YAML 1.2\n---\na\n...\nb\n", &["1:3:---\na\n", "2:5:b\n"]),
            (
                "a: |\n  ---\n  x\n----\n",
                &["1:1:a: |\n  ---\n  x\n----\n"],
            ),
            ("\u{feff}a", &["1:1:a"]),
            // Flow mappings in YAML may look like JSON.
            ("{a: '} {'}", &["1:1:{a: '} {'}"]),
            ("{\"a\": 1} # c\n", &["1:1:{\"a\": 1} # c\n"]),
            // JSON values without a separator.
            (
                "{\"a\": \"}{\"}{\"b\": 2}\n",
                &["1:1:{\"a\": \"}{\"}", "2:1:{\"b\": 2}"],
            ),
            (
                "a\n---\n\n{\n}\n\n{}\n---\nb",
                &["1:1:a\n", "2:4:---\n\n{\n}", "3:7:\n\n{}", "4:9:---\nb"],
            ),
            (
                "\n{\n}\n\n{}\n{]\n",
                &["1:2:\n{\n}", "2:5:\n\n{}", "3:6:\n{]\n"],
            ),
        ];
        for (text, want) in cases {
            let got: Vec<String> = split(text)
                .iter()
                .map(|piece| format!("{}:{}:{}", piece.number, piece.first_line, piece.text))
                .collect();
            assert_eq!(got, *want, "{text:?}");
        }
    }
}
