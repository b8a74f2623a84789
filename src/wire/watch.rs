//! Lists and watches: pages of objects, lines of events.
//!
//! The kinds that are watched differ in what is kept of an object; how a list and a watch
//! work does not.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::ApiError;

/// One page of a list. Items stay as they are in the page's bytes.
#[derive(Debug, Deserialize)]
pub struct ListPage<'a> {
    /// The list's own metadata.
    pub metadata: ListMeta,
    /// The objects.
    #[serde(borrow, default)]
    pub items: Vec<&'a RawValue>,
}

/// What a list says of itself.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ListMeta {
    /// The version that the list shows.
    pub resource_version: String,
    /// Where the next page starts; empty on the last.
    #[serde(rename = "continue")]
    pub continue_token: String,
}

/// Reads a page of a list.
pub fn decode_list_page(body: &[u8]) -> Result<ListPage<'_>, serde_json::Error> {
    serde_json::from_slice(body)
}

/// What a line of a watch says; the object is still JSON.
#[derive(Debug)]
pub enum WatchEvent<'a> {
    /// There is a new version of an object, or a new object.
    Applied(&'a str),
    /// The object is gone; this was its last version.
    Deleted(&'a str),
    /// Nothing changed up to this version.
    Bookmark(String),
    /// The watch is over.
    Error(ApiError),
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct BookmarkObject {
    metadata: ListMeta,
}

/// Reads one line of a watch.
pub fn decode_watch_line(line: &[u8]) -> Result<WatchEvent<'_>, serde_json::Error> {
    let line: Line<'_> = serde_json::from_slice(line)?;
    let object = line.object.get();
    Ok(match line.kind {
        "ADDED" | "MODIFIED" => WatchEvent::Applied(object),
        "DELETED" => WatchEvent::Deleted(object),
        "BOOKMARK" => {
            let bookmark: BookmarkObject = serde_json::from_str(object)?;
            WatchEvent::Bookmark(bookmark.metadata.resource_version)
        }
        _ => WatchEvent::Error(ApiError::from_event(object.as_bytes())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ErrorKind;

    #[test]
    fn each_type_of_event() {
        let line = |text: &'static str| decode_watch_line(text.as_bytes()).expect("a good line");
        assert!(matches!(
            line(r#"{"type":"ADDED","object":{"a":1}}"#),
            WatchEvent::Applied(r#"{"a":1}"#)
        ));
        assert!(matches!(
            line(r#"{"type":"DELETED","object":{}}"#),
            WatchEvent::Deleted("{}")
        ));
        let bookmark = line(r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}"#);
        assert!(matches!(bookmark, WatchEvent::Bookmark(version) if version == "9"));
        let error =
            line(r#"{"type":"ERROR","object":{"kind":"Status","code":410,"message":"old"}}"#);
        assert!(matches!(error, WatchEvent::Error(error) if error.kind == ErrorKind::Expired));
    }

    #[test]
    fn a_page_and_its_token() {
        let body = br#"{"metadata":{"resourceVersion":"5","continue":"t"},"items":[{"x":1}]}"#;
        let page = decode_list_page(body).expect("a good page");
        assert_eq!(
            (page.metadata.resource_version.as_str(), page.items.len()),
            ("5", 1)
        );
        assert_eq!(page.metadata.continue_token, "t");
    }
}
