//! Reads the manifests of `lakh local -f` and creates their objects.
//!
//! Responsible for: selecting and ordering the objects to create, and reporting the others. Must not: follow Jobs, or
//! start anything.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Read as _,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::{
    client::Client,
    embedded::manifest::{
        self, DEFAULT_NAMESPACE, Document, Rejection, ResourcePath, Source, resource_path,
    },
    wire::{Call, Patch},
};

use super::{super::Problem, schedule};
use crate::cli::say;

/// An object of a manifest, and its API path.
pub(super) struct NewObject {
    pub(super) document: Document,
    path: ResourcePath,
}

/// Reads all manifests, with the folders below given folders if `recursive`. Warns about objects that are left out.
pub(super) fn read(filenames: &[PathBuf], recursive: bool) -> Result<Vec<NewObject>, Problem> {
    let mut sources = Vec::new();
    for path in filenames {
        match path.to_str() {
            Some("-") => sources.push(read_stdin()?),
            Some(url) if is_url(url) => return Err(url_problem(url).into()),
            _ => sources.extend(Source::read_path(path, recursive)?),
        }
    }
    let (mut objects, mut skipped) = (Vec::new(), Skipped::default());
    for mut document in manifest::load(&sources)? {
        let Some(path) = resource_path(&document, DEFAULT_NAMESPACE)? else {
            skipped.add(&document, SkipReason::Unserved);
            continue;
        };
        if let Some(owner) = document.controller().filter(|_| document.kind != "Job") {
            skipped.add(&document, SkipReason::Controlled(owner));
            continue;
        }
        document.clear_server_fields();
        objects.push(NewObject { document, path });
    }
    skipped.warnings().for_each(|warning| say(&warning));
    let runs = |object: &NewObject| matches!(object.document.kind.as_str(), "Job" | "CronJob");
    if !filenames.is_empty() && !objects.iter().any(runs) {
        let names: BTreeSet<String> = filenames.iter().map(|path| name_of(path)).collect();
        let names: Vec<String> = names.into_iter().collect();
        return Err(format!("{}: no Job found", names.join(", ")).into());
    }
    // A namespace must exist before its objects.
    objects.sort_by_key(|object| object.document.kind != "Namespace");
    Ok(objects)
}

fn read_stdin() -> Result<Source, Problem> {
    let mut bytes = Vec::new();
    std::io::stdin()
        .read_to_end(&mut bytes)
        .map_err(|error| format!("standard input: {error}"))?;
    Ok(Source::stdin(&bytes)?)
}

fn name_of(path: &Path) -> String {
    match path.to_str() {
        Some("-") => "standard input".to_owned(),
        _ => path.display().to_string(),
    }
}

fn is_url(text: &str) -> bool {
    text.starts_with("http://") || text.starts_with("https://")
}

fn url_problem(url: &str) -> String {
    format!("{url}: -f does not accept URLs; try: curl -fsSL {url} | lakh local -f -")
}

/// Objects that are not created, by file and reason.
#[derive(Default)]
struct Skipped(BTreeMap<(String, SkipReason), BTreeMap<String, Vec<String>>>);

/// Reason why an object is not created.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum SkipReason {
    /// The embedded cluster does not serve its kind.
    Unserved,
    /// It is owned by this controller, as of its `ownerReferences`.
    Controlled(String),
}

impl Skipped {
    fn add(&mut self, document: &Document, reason: SkipReason) {
        let Document {
            location,
            field_prefix,
            api_version,
            kind,
            ..
        } = document;
        let place = match field_prefix.strip_suffix('.') {
            Some(item) => format!("{} {item}", location.document),
            None => location.document.to_string(),
        };
        let key = (location.source.clone(), reason);
        let kinds = self.0.entry(key).or_default();
        let places = kinds.entry(format!("{api_version} {kind}")).or_default();
        places.push(place);
    }

    /// Returns one line for each file and reason.
    fn warnings(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|((source, reason), kinds)| {
            let kinds = kinds.iter().map(|(kind, places)| {
                let noun = if places.len() == 1 {
                    "document"
                } else {
                    "documents"
                };
                let more = places.len().saturating_sub(MOST_PLACES);
                let mut places = places[..places.len() - more].join(", ");
                if more > 0 {
                    places.push_str(&format!(" and {more} more"));
                }
                format!("{kind} ({noun} {places})")
            });
            let kinds = kinds.collect::<Vec<_>>().join(", ");
            let why = match reason {
                SkipReason::Unserved => "lakh local does not serve this kind".to_owned(),
                SkipReason::Controlled(owner) => format!("its owner, {owner}, creates its own"),
            };
            format!("Warning: {source}: skipped {kinds}: {why}")
        })
    }
}

/// Maximum number of documents that a warning names.
const MOST_PLACES: usize = 8;

/// Creates all objects, in order, with kubectl's strict validation; returns the Jobs as the server answered. An
/// existing object is patched, as by `kubectl apply`, unless it is a Job, a CronJob or a Pod.
pub(super) async fn create(client: &Client, objects: &[NewObject]) -> Result<Vec<Value>, Problem> {
    make_namespaces(client, objects).await?;
    let mut jobs = Vec::new();
    for NewObject { document, path } in objects {
        let body = document.body.to_string().into_bytes();
        let collection = format!("{}?fieldValidation=Strict", path.collection);
        let (mut code, mut answer) = client.post(&collection, body.clone()).await?;
        let runs = matches!(document.kind.as_str(), "Job" | "CronJob" | "Pod");
        if let (409, false, Some(path)) = (code, runs, &path.object) {
            let path = format!("{path}?fieldValidation=Strict");
            let call = Call::patch(&path, Patch::Merge, body);
            let response = client.exchange(&call).await?;
            (code, answer) = (response.status().as_u16(), response.into_body());
        }
        if !(200..300).contains(&code) {
            return Err(Rejection::new(document, code, &answer).into());
        }
        if document.kind == "Job" {
            jobs.push(serde_json::from_slice(&answer)?);
        }
    }
    Ok(jobs)
}

/// Creates the namespaces that objects refer to: the cluster is the user's own.
async fn make_namespaces(client: &Client, objects: &[NewObject]) -> Result<(), Problem> {
    let documents = || objects.iter().map(|object| &object.document);
    let declared = |name: &str| {
        let is_it = |it: &Document| it.kind == "Namespace" && it.name.to_string() == name;
        documents().any(is_it)
    };
    let named = documents().filter_map(|it| it.namespace.as_deref());
    let named: BTreeSet<&str> = named.collect();
    for name in named.into_iter().filter(|name| !declared(name)) {
        let body = serde_json::json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name},
        });
        // An invalid name is reported with the object that has it.
        client
            .post("/api/v1/namespaces", body.to_string().into_bytes())
            .await?;
    }
    Ok(())
}

/// Prints the schedules of CronJobs, as nothing is run if there are CronJobs and no Job. The server has accepted them,
/// so their schedules are valid.
pub(super) fn report_cron_jobs(objects: &[NewObject]) {
    let documents = objects.iter().map(|object| &object.document);
    let cron_jobs = documents.filter(|it| it.kind == "CronJob");
    for document in cron_jobs.clone() {
        let namespace = document.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
        let runs = schedule::in_words(&document.body["spec"]).unwrap_or_default();
        say(&format!("CronJob {namespace}/{}: {runs}", document.name));
    }
    if cron_jobs.count() > 0 {
        say(
            "The manifests have no Job, so nothing was run. Start `lakh local` without -f and apply",
        );
        say("them with kubectl; kubectl create job NAME --from=cronjob/NAME starts a run at once.");
    }
}
