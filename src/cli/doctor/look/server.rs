//! Looks at the server itself: its version, its clock, as whom it knows us, and by which priority level it answers.

use http::HeaderMap;
use k8s_openapi::apimachinery::pkg::version::Info;

use crate::{
    cli::ask::{Asker, clock},
    cluster::Result,
    wire::{decode_user_name, self_subject_review},
};

use crate::cli::doctor::facts::{ServerFacts, Unseen};

/// Refusals that leave nothing to look at: there is no answer, or none to these credentials.
const HOPELESS: [u16; 2] = [0, 401];

/// By which objects of API priority and fairness a call was let in.
const FLOW_HEADERS: [&str; 2] = [
    "x-kubernetes-pf-flowschema-uid",
    "x-kubernetes-pf-prioritylevel-uid",
];

/// Looks at the server; an error if nothing can be seen of the whole cluster.
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
    // By now there is a connection, so that the answer takes no longer than the server takes.
    let Ok(reply) = asker.exchange(&self_subject_review()).await else {
        return Ok(facts);
    };
    facts.user = decode_user_name(&reply.body);
    facts.clock = clock(&reply);
    facts.flow = flow(&reply.headers);
    Ok(facts)
}

/// The number that something begins with: some servers put a `+` behind it.
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
