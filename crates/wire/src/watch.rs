//! Decodes lists and watches: pages of objects, and events.
//!
//! Kinds differ in the parts of an object that are kept, not in the form of lists and watches.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use serde::{Deserialize, de::Error as _};
use serde_json::value::RawValue;

use super::{
    ApiError, json,
    protobuf::{self, Fields, Malformed, Value},
};

/// An object as received, not decoded yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object<'a> {
    /// Its JSON.
    Json(&'a str),
    /// Its protobuf message, without the envelope.
    Protobuf(&'a [u8]),
}

impl<'a> Object<'a> {
    /// Its JSON. Protobuf is an error, because the caller did not request it.
    pub fn json(self) -> Result<&'a str, serde_json::Error> {
        match self {
            Self::Json(json) => Ok(json),
            Self::Protobuf(_) => Err(serde_json::Error::custom("protobuf instead of JSON")),
        }
    }

    /// Its first characters, for error messages.
    pub fn start(self) -> String {
        const SHOWN: usize = 200;
        let text: Cow<'_, str> = match self {
            Self::Json(json) => json.into(),
            Self::Protobuf(message) => message.escape_ascii().to_string().into(),
        };
        text.chars().take(SHOWN).collect()
    }
}

/// The reason why a response could not be decoded.
#[derive(Debug, thiserror::Error)]
pub enum OddAnswer {
    /// It is not the expected JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// It is not the expected message.
    #[error(transparent)]
    Protobuf(#[from] Malformed),
    /// It is not a list: a list has items and a resourceVersion.
    #[error("it is no list: metadata.resourceVersion is odd")]
    List,
    /// It is an object without a valid UID or resourceVersion.
    #[error("metadata.uid or metadata.resourceVersion is odd")]
    Identity,
}

/// One page of a list. Items are slices of the page's bytes.
#[derive(Debug, Default)]
pub struct ListPage<'a> {
    /// The resourceVersion of the list.
    pub resource_version: String,
    /// The continue token of the next page; empty on the last.
    pub continue_token: String,
    /// The objects.
    pub items: Vec<Object<'a>>,
}

#[derive(Deserialize)]
struct RawListPage<'a> {
    metadata: ListMeta,
    /// Null in an empty list of metadata. A body without this field is not a list.
    #[serde(borrow, deserialize_with = "Option::deserialize")]
    items: Option<Vec<&'a RawValue>>,
}

/// Decodes a page of a list, in JSON or protobuf.
pub fn decode_list_page(body: &[u8]) -> Result<ListPage<'_>, OddAnswer> {
    let page = match protobuf::is_object(body) {
        true => list_page(protobuf::object(body)?)?,
        false => {
            let RawListPage { metadata, items } = json::read(body)?;
            let items = items.into_iter().flatten();
            ListPage {
                resource_version: metadata.resource_version.unwrap_or_default(),
                continue_token: metadata.continue_.unwrap_or_default(),
                items: items.map(|item| Object::Json(item.get())).collect(),
            }
        }
    };
    match page.resource_version.parse::<u64>() {
        Ok(_) => Ok(page),
        Err(_) => Err(OddAnswer::List),
    }
}

/// All lists have the same form: metadata, then items.
fn list_page(message: &[u8]) -> Result<ListPage<'_>, Malformed> {
    let mut page = ListPage::default();
    let mut fields = Fields::of(message);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => {
                let mut fields = Fields::of(value.bytes()?);
                while let Some((number, value)) = fields.next()? {
                    match number {
                        2 => page.resource_version = value.text()?.to_owned(),
                        3 => page.continue_token = value.text()?.to_owned(),
                        _ => {}
                    }
                }
            }
            2 => page.items.push(Object::Protobuf(value.bytes()?)),
            _ => {}
        }
    }
    Ok(page)
}

/// The namespace and resourceVersion of a protobuf object, without decoding the rest.
pub fn decode_place(message: &[u8]) -> Option<(&str, u64)> {
    let (mut namespace, mut version) = (None, None);
    let mut fields = Fields::of(protobuf::message(message, 1).ok()?);
    while namespace.is_none() || version.is_none() {
        match fields.next().ok()?? {
            (3, value) => namespace = Some(value.text().ok()?),
            (6, value) => version = Some(value.text().ok()?.parse().ok()?),
            _ => {}
        }
    }
    namespace.zip(version)
}

/// A decoded watch event.
#[derive(Debug)]
pub enum WatchEvent<'a> {
    /// ADDED or MODIFIED: an object is new or has a new version.
    Applied(Object<'a>),
    /// The object is gone; this is its last version.
    Deleted(Object<'a>),
    /// No change up to this resourceVersion.
    Bookmark(String),
    /// The watch has ended with an error.
    Error(ApiError),
}

#[derive(Deserialize)]
#[doc(alias = "WatchEvent")]
struct RawWatchEvent<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct RawBookmark {
    metadata: ListMeta,
}

/// Decodes one line of a JSON watch.
pub fn decode_watch_line(line: &[u8]) -> Result<WatchEvent<'_>, serde_json::Error> {
    let line: RawWatchEvent<'_> = json::read(line)?;
    let object = line.object.get();
    Ok(match line.kind {
        "ADDED" | "MODIFIED" => WatchEvent::Applied(Object::Json(object)),
        "DELETED" => WatchEvent::Deleted(Object::Json(object)),
        "BOOKMARK" => {
            let bookmark: RawBookmark = serde_json::from_str(object)?;
            WatchEvent::Bookmark(bookmark.metadata.resource_version.unwrap_or_default())
        }
        _ => WatchEvent::Error(ApiError::from_event(object.as_bytes())),
    })
}

/// Decodes one frame of a protobuf watch.
pub fn decode_watch_frame(frame: &[u8]) -> Result<WatchEvent<'_>, Malformed> {
    let (mut kind, mut whole): (_, &[u8]) = ("", &[]);
    let mut fields = Fields::of(frame);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => kind = value.text()?,
            2 => whole = protobuf::message(value.bytes()?, 1)?,
            _ => {}
        }
    }
    let object = || protobuf::object(whole).map(Object::Protobuf);
    Ok(match kind {
        "ADDED" | "MODIFIED" => WatchEvent::Applied(object()?),
        "DELETED" => WatchEvent::Deleted(object()?),
        "BOOKMARK" => {
            let metadata = protobuf::message(protobuf::object(whole)?, 1)?;
            let version = protobuf::field(metadata, 6)?.map_or(Ok(""), Value::text)?;
            WatchEvent::Bookmark(version.to_owned())
        }
        _ => WatchEvent::Error(ApiError::from_event(whole)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn each_type_of_event() {
        let line = |text: &'static str| decode_watch_line(text.as_bytes()).expect("a good line");
        assert!(matches!(
            line(r#"{"type":"ADDED","object":{"a":1}}"#),
            WatchEvent::Applied(Object::Json(r#"{"a":1}"#))
        ));
        assert!(matches!(
            line(r#"{"type":"DELETED","object":{}}"#),
            WatchEvent::Deleted(Object::Json("{}"))
        ));
        let bookmark = line(r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}"#);
        assert!(matches!(bookmark, WatchEvent::Bookmark(version) if version == "9"));
        let error =
            line(r#"{"type":"ERROR","object":{"kind":"Status","code":410,"message":"old"}}"#);
        assert!(matches!(error, WatchEvent::Error(error) if error.kind == ErrorKind::Expired));
    }

    #[test]
    fn an_object_without_items_is_no_list() {
        for items in [r#","items":null"#, r#","items":[]"#] {
            let body = format!(r#"{{"metadata":{{"resourceVersion":"5"}}{items}}}"#);
            let page = decode_list_page(body.as_bytes()).expect("a good page");
            assert_eq!((page.items.len(), page.resource_version.as_str()), (0, "5"));
        }
        for body in [
            "",
            "{}",
            r#"{"metadata":{"resourceVersion":"5"}}"#,
            r#"{"metadata":{},"items":[]}"#,
        ] {
            assert!(decode_list_page(body.as_bytes()).is_err(), "{body}");
        }
    }

    #[test]
    fn a_page_and_its_token() {
        let body = br#"{"metadata":{"resourceVersion":"5","continue":"t"},"items":[{"x":1}]}"#;
        let page = decode_list_page(body).expect("a good page");
        assert_eq!(
            (page.resource_version.as_str(), page.continue_token.as_str()),
            ("5", "t")
        );
        assert_eq!(page.items, [Object::Json(r#"{"x":1}"#)]);
    }

    #[test]
    fn the_same_in_protobuf() {
        use crate::protobuf_writer::{bytes, number, object};
        let pod = bytes(1, bytes(6, "9"));
        let event = |kind: &str, whole: &[u8]| [bytes(1, kind), bytes(2, bytes(1, whole))].concat();
        let read = |frame: &[u8]| match decode_watch_frame(frame).expect("a good frame") {
            WatchEvent::Applied(Object::Protobuf(read)) => ("applied", read.to_vec()),
            WatchEvent::Deleted(Object::Protobuf(read)) => ("deleted", read.to_vec()),
            other => panic!("{other:?}"),
        };
        assert_eq!(
            read(&event("ADDED", &object(&pod))),
            ("applied", pod.clone())
        );
        assert_eq!(
            read(&event("MODIFIED", &object(&pod))),
            ("applied", pod.clone())
        );
        assert_eq!(
            read(&event("DELETED", &object(&pod))),
            ("deleted", pod.clone())
        );
        let frame = event("BOOKMARK", &object(&pod));
        let bookmark = decode_watch_frame(&frame).expect("a good frame");
        assert!(matches!(bookmark, WatchEvent::Bookmark(version) if version == "9"));
        let status = [bytes(3, "old"), number(6, 410)].concat();
        let frame = event("ERROR", &object(&status));
        let error = decode_watch_frame(&frame).expect("a good frame");
        assert!(matches!(error, WatchEvent::Error(error) if error.kind == ErrorKind::Expired));
        assert!(decode_watch_frame(&event("ADDED", b"{}")).is_err());

        let metadata = bytes(1, [bytes(2, "5"), bytes(3, "t")].concat());
        let list = object(&[metadata, bytes(2, &pod), bytes(2, "")].concat());
        let page = decode_list_page(&list).expect("a good page");
        assert_eq!(
            (page.resource_version.as_str(), page.continue_token.as_str()),
            ("5", "t")
        );
        assert_eq!(page.items, [Object::Protobuf(&pod), Object::Protobuf(b"")]);
    }
}
