//! Reads facts about the server itself: its version, its clock, our user name, and the priority level of our requests.

use http::HeaderMap;
use k8s_openapi::apimachinery::pkg::version::Info;

use lakh_client::Result;
use lakh_wire::{decode_user_name, self_subject_review};

use crate::ask::{Asker, clock};

use crate::doctor::facts::{ServerFacts, Unseen};

/// Status codes that leave nothing to examine: there is no response, or the credentials are refused.
const HOPELESS: [u16; 2] = [0, 401];

/// The headers with the objects of API priority and fairness that matched a request.
const FLOW_HEADERS: [&str; 2] = [
    "x-kubernetes-pf-flowschema-uid",
    "x-kubernetes-pf-prioritylevel-uid",
];

/// Reads the server's facts. Fails if nothing in the cluster can be read.
pub(super) async fn look(asker: &Asker) -> Result<ServerFacts> {
    let mut facts = match asker.get::<Info>("/version").await {
        Ok(info) => ServerFacts {
            numbers: number(&info.major).zip(number(&info.minor)),
            version: info.git_version,
            ..ServerFacts::default()
        },
        Err(error) if HOPELESS.contains(&error.code) => return Err(error),
        Err(error) => ServerFacts {
            unseen: Some(Unseen::new("the server's version", &error)),
            ..ServerFacts::default()
        },
    };
    // The connection exists by now, so the response takes only the server's time.
    let Ok(reply) = asker.exchange(&self_subject_review()).await else {
        return Ok(facts);
    };
    facts.user = decode_user_name(&reply.body);
    facts.clock = clock(&reply);
    facts.flow = flow(&reply.headers);
    Ok(facts)
}

/// Parses the number at the start of a text: some servers append a `+`.
fn number(text: &str) -> Option<u32> {
    let digits = text.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    digits.parse().ok()
}

fn flow(headers: &HeaderMap) -> Option<[String; 2]> {
    let uid = |name| Some(headers.get(name)?.to_str().ok()?.to_owned());
    let [schema, level] = FLOW_HEADERS.map(uid);
    Some([schema?, level?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_a_version_may_have_something_behind_them() {
        assert_eq!(
            ["36", "27+", "x", ""].map(number),
            [Some(36), Some(27), None, None]
        );
    }
}
