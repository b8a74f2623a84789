//! Checks that the controller has all permissions that it needs.

use std::collections::BTreeMap;

use crate::doctor::{
    facts::{Facts, RightFacts, Unseen},
    patient::{Patient, place},
    report::{Diagnosis, Level},
};

use crate::words::{count, names};

pub(super) fn judge(patient: &Patient, facts: &Facts) -> Diagnosis {
    let rights = &facts.rights;
    let own = facts.server.user.as_deref().unwrap_or("whoever calls");
    let (who, level) = match &patient.account {
        Some(account) => (account.to_string(), Level::Failed),
        // The controller may use another account.
        None => (own.to_owned(), Level::Warning),
    };
    let mut missing: BTreeMap<Option<&str>, Vec<&RightFacts>> = BTreeMap::new();
    for right in rights.found.iter().filter(|right| !right.is_allowed) {
        let namespace = right.namespace.as_deref();
        missing.entry(namespace).or_default().push(right);
    }
    let lacking: usize = missing.values().map(Vec::len).sum();
    let has = rights.found.len() - lacking;
    let mode = patient.mode_words();
    let mut diagnosis = Diagnosis::new("rights").without(&rights.unseen);
    if !rights.found.is_empty() {
        let all = count(rights.found.len(), "right");
        diagnosis.summary = format!("{has} of the {all} that mode {mode} needs, for {who}");
    }
    match (&patient.account, &facts.account) {
        (Some(account), Some(Ok(false))) => {
            diagnosis.find(
                Level::Failed,
                format!("there is no service account {}/{}", account.namespace, account.name),
                "the API server refuses the tokens of an account that is gone (Unauthorized), whatever is bound to its \
                 name",
                "create it again with its roles (deploy/overlays), and restart the controller's Pods for new tokens",
            );
        }
        (_, Some(Err(unseen))) => diagnosis.unseen.push(unseen.clone()),
        _ => {}
    }
    if patient.account.is_none() && lacking > 0 && somebody_leads(patient, facts) {
        diagnosis.unseen.push(Unseen {
            what: "the rights of the controller".to_owned(),
            why: format!(
                "somebody leads, and it is hardly {who}, who lacks {lacking} of them; name the controller's account: \
                 --service-account lakh-system/lakh"
            ),
        });
        return diagnosis;
    }
    // The same missing permissions are reported once for all places.
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (namespace, rights) in missing {
        places
            .entry(listed(&rights))
            .or_default()
            .push(place(namespace));
    }
    for (rights, places) in places {
        let cause = match &patient.account {
            Some(account) => format!("no role that is bound to {account} grants it"),
            None => format!(
                "these are the rights of {who}, as whom you look. If the controller calls as somebody else, name its \
                 account: --service-account lakh-system/lakh"
            ),
        };
        diagnosis.find(
            level,
            format!("missing in {}, for {who}: {rights}", names(places)),
            cause,
            "apply the roles of deploy/overlays (with CronJobs, gangs or --ui-listen those of deploy/components, too) and bind them \
             to the account",
        );
    }
    diagnosis
}

/// Returns true if a controller leads: missing permissions are then not the problem.
fn somebody_leads(patient: &Patient, facts: &Facts) -> bool {
    let mut leases = facts.leases.found.iter();
    leases.any(|lease| patient.leases.contains(&lease.name) && lease.is_live())
}

/// Formats permissions by resource: `create, patch pods; patch jobs/status`.
fn listed(rights: &[&RightFacts]) -> String {
    let mut resources: Vec<(String, Vec<&str>)> = Vec::new();
    for right in rights {
        let name = match right.group {
            "" => right.resource.to_owned(),
            group => format!("{}.{group}", right.resource),
        };
        match resources.iter_mut().find(|(known, _)| *known == name) {
            Some((_, verbs)) => verbs.push(right.verb),
            None => resources.push((name, vec![right.verb])),
        }
    }
    let words = resources.iter();
    let words = words.map(|(name, verbs)| format!("{} {name}", verbs.join(", ")));
    words.collect::<Vec<_>>().join("; ")
}
