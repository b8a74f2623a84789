//! Reviews permissions: our own, or a service account's.

use futures::{StreamExt as _, stream};
use serde_json::{Value, json};

use lakh_wire::{ApiError, ErrorKind, paths};

use crate::ask::Asker;

use crate::doctor::{
    facts::{RightFacts, Sight, Unseen},
    patient::Patient,
    rights,
};

const API: &str = "/apis/authorization.k8s.io/v1";

/// Concurrent reviews: the server should not notice us.
const AT_ONCE: usize = 4;

pub(super) async fn look(asker: &Asker, patient: &Patient) -> Sight<RightFacts> {
    let needed = rights::needed(patient);
    let reviews = needed.into_iter().map(async |right| {
        let is_allowed = review(asker, patient, &right).await?;
        Ok::<_, ApiError>(RightFacts {
            is_allowed,
            ..right
        })
    });
    let mut answers = stream::iter(reviews).buffered(AT_ONCE);
    let mut sight = Sight::default();
    while let Some(answer) = answers.next().await {
        let is_last = answer.is_err();
        sight.take("rights", answer.map(|right| vec![right]));
        if is_last {
            break;
        }
    }
    sight
}

/// Gets the controller's service account, because a review of its permissions does not check that it exists.
pub(super) async fn account(asker: &Asker, patient: &Patient) -> Option<Result<bool, Unseen>> {
    let account = patient.account.as_ref()?;
    let accounts = paths::collection("/api/v1", Some(&account.namespace), "serviceaccounts");
    let found = asker
        .get::<Value>(&format!("{accounts}/{}", account.name))
        .await;
    Some(match found {
        Ok(_) => Ok(true),
        Err(error) if error.kind == ErrorKind::NotFound => {
            // A server without the kind gives the same response for each name.
            match asker.get::<Value>(&format!("{accounts}?limit=1")).await {
                Err(error) if error.kind == ErrorKind::NotFound => {
                    Err(Unseen::new("service accounts", &error))
                }
                Ok(_) | Err(_) => Ok(false),
            }
        }
        Err(error) => {
            let what = format!("service account {}/{}", account.namespace, account.name);
            Err(Unseen::new(&what, &error))
        }
    })
}

async fn review(asker: &Asker, patient: &Patient, right: &RightFacts) -> Result<bool, ApiError> {
    let (resource, part) = right
        .resource
        .split_once('/')
        .unwrap_or((right.resource, ""));
    let mut spec = json!({"resourceAttributes": {
        "namespace": right.namespace.as_deref().unwrap_or_default(),
        "verb": right.verb,
        "group": right.group,
        "resource": resource,
        "subresource": part,
        "name": right.name.as_deref().unwrap_or_default(),
    }});
    let kind = match &patient.account {
        None => "SelfSubjectAccessReview",
        Some(account) => {
            spec["user"] = account.to_string().into();
            spec["groups"] = json!(account.groups());
            "SubjectAccessReview"
        }
    };
    let body = json!({"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec});
    let path = format!("{API}/{}s", kind.to_lowercase());
    let answer = asker.review(&path, &body).await?;
    Ok(answer["status"]["allowed"] == Value::Bool(true))
}
