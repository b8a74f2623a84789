//! Runs lakh with exactly the rights that `deploy/` grants: a proxy stands in for the API server's authorizer. A
//! request without a grant is refused and fails the test with the verb's name. A grant that is never used fails it,
//! too.
//!
//! Admission is simulated as well: creating an object that blocks its owner's deletion needs `update` of the owner's
//! finalizers, as the plug-in OwnerReferencesPermissionEnforcement requires it.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use lakh::{
    client::{Client, Patch},
    embedded::{
        apiserver::{Attributes, Request, RequestTarget, ResourceAttributes},
        manifest::Document,
    },
};
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::support::{
    self, Running, get, indexed_job, is, listed,
    manifests::{Variant, added_arguments, read, rendered_file},
    proxy::{Fate, Proxy, answer, refusal},
    seen_when, wait_until,
};

const BATCH: &str = "/apis/batch/v1/namespaces";

/// The work of a controller. CronJobs and gangs need a component, or a mode.
#[derive(Clone, Copy)]
struct Work {
    namespace: &'static str,
    manager: Option<&'static str>,
    cron_jobs: bool,
}

const MANAGER: Option<&str> = Some("lakh.dev/job-controller");

#[tokio::test(flavor = "multi_thread")]
async fn mode_managed_by_needs_exactly_its_rights() {
    let work = Work {
        namespace: "default",
        manager: MANAGER,
        cron_jobs: false,
    };
    under_its_rights(("managed-by", &[]), work).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mode_replace_needs_exactly_its_rights() {
    let work = Work {
        namespace: "default",
        manager: None,
        cron_jobs: true,
    };
    under_its_rights(("replace", &[]), work).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_namespace_needs_exactly_its_rights() {
    let work = Work {
        namespace: "team-a",
        manager: MANAGER,
        cron_jobs: false,
    };
    under_its_rights(("namespaced", &[]), work).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cron_jobs_and_gangs_need_exactly_their_components_rights() {
    let work = Work {
        namespace: "default",
        manager: MANAGER,
        cron_jobs: true,
    };
    under_its_rights(("managed-by", &["cron-jobs", "gang-scheduling"]), work).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_remote_page_needs_exactly_its_components_rights() {
    let work = Work {
        namespace: "default",
        manager: MANAGER,
        cron_jobs: false,
    };
    under_its_rights(("managed-by", &["ui"]), work).await;
}

async fn under_its_rights(variant: Variant, work: Work) {
    let (overlay, components) = variant;
    let mut documents = read(&rendered_file(&format!("overlays/{overlay}")));
    for component in components {
        documents.extend(read(&rendered_file(&format!("components/{component}"))));
    }
    let rights = Arc::new(Rights::granted(&documents));
    let cluster = support::cluster(Duration::ZERO).await;
    let client = support::client(&cluster).await;
    for name in ["lakh-system", "team-a"] {
        make(
            &client,
            "/api/v1/namespaces",
            &json!({"metadata": {"name": name}}),
        )
        .await;
    }
    let asked = Arc::clone(&rights);
    let first = AtomicBool::new(true);
    let line = Proxy::start(&cluster.url(), move |piece| {
        let Some(attributes) = attributes(piece) else {
            return Fate::Passed;
        };
        if let Err(refused) = asked.ask(&attributes) {
            return Fate::Answered(refusal(403, "Forbidden", &refused));
        }
        // The embedded server has no tokens here, so the proxy answers reviews.
        if Grant::of(&attributes).is_some_and(|it| it.resource == "tokenreviews") {
            let user = json!({"authenticated": true, "user": {"username": "ann"}});
            let review = json!({"metadata": {}, "spec": {}, "status": user});
            return Fate::Answered(answer(201, "", &review.to_string()));
        }
        // The first creation of a Pod is sent twice, so that its response is a conflict of names.
        let creation = "create pods";
        match Grant::of(&attributes).is_some_and(|it| it.to_string() == creation)
            && first.swap(false, Ordering::SeqCst)
        {
            true => Fate::SentTwice,
            false => Fate::Passed,
        }
    })
    .await;
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let path = |name: &str| folder.path().join(name);
    support::write_kubeconfig(&path("config"), &line.url());
    let args = arguments(&documents, components);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let process = support::lakh(&args)
        .args(["--listen=127.0.0.1:0", "--kubeconfig"])
        .arg(path("config"))
        .stdout(Stdio::null())
        .stderr(File::create(path("log")).expect("it can be written"))
        .spawn();
    let mut process = Running(process.expect("the binary runs"));
    tokio::select! {
        () = async {
            live(&client, work).await;
            if components.contains(&"ui") {
                see_the_page(&path("log")).await;
            }
            take_the_lead(&client, &args).await;
        } => {}
        refused = rights.refused() => panic!("{variant:?}: {refused}"),
    }
    // The controller releases the Lease at its end.
    let id = Pid::from_child(&process.0);
    kill_process(id, Signal::TERM).expect("it is there");
    wait_until("it ends", || {
        process.0.try_wait().is_ok_and(|end| end.is_some())
    })
    .await;
    for owner in owners(&client, work).await {
        // A refusal is reported below.
        let _ = rights.ask(&owner);
    }
    let refusals = rights.refusals.lock().clone();
    assert!(refusals.is_empty(), "{variant:?}: {refusals:?}");
    let unused = rights.unused();
    assert!(
        unused.is_empty(),
        "{variant:?}: granted and never used: {unused:?}"
    );
}

/// Returns the Deployment's arguments, except for the listening address.
fn arguments(documents: &[Document], components: &[&str]) -> Vec<String> {
    let mut deployments = documents.iter().filter(|it| it.kind == "Deployment");
    let deployment = &deployments.next().expect("a Deployment").body;
    let args = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
    let args = args.as_array().expect("arguments").iter();
    let args = args.filter_map(Value::as_str).map(str::to_owned);
    let added = components.iter().flat_map(|it| added_arguments(it));
    let mut all: Vec<String> = args.chain(added).collect();
    all.retain(|arg| !arg.starts_with("--listen="));
    for arg in &mut all {
        if arg.starts_with("--ui-listen=") {
            "--ui-listen=127.0.0.1:0".clone_into(arg);
        }
    }
    all
}

/// Requests the UI with a token.
async fn see_the_page(log: &Path) {
    const SHOWN: &str = "serving /ui to clients with a bearer token";
    let address = || {
        let log = fs::read_to_string(log).ok()?;
        let line = log.lines().find(|line| line.contains(SHOWN))?;
        let (_, address) = line.rsplit_once("listen=")?;
        address.trim().parse::<SocketAddr>().ok()
    };
    wait_until("it is shown", || address().is_some()).await;
    let address = address().expect("it is shown");
    let answer = tokio::task::block_in_place(|| {
        let mut stream = TcpStream::connect(address).expect("it listens");
        let request = "GET /ui/jobs/default/counted/failures HTTP/1.1\r\nHost: lakh\r\n\
                       Authorization: Bearer anns\r\n\r\n";
        stream.write_all(request.as_bytes()).expect("it is sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    });
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

/// Returns the attributes of a request, if one begins here.
fn attributes(piece: &str) -> Option<Attributes> {
    let line = piece.split("\r\n").next()?.strip_suffix(" HTTP/1.1")?;
    let (method, path) = line.split_once(' ')?;
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    Some(Attributes::of(Request {
        method,
        path,
        query,
        ..Request::default()
    }))
}

/// All grants, the used ones, and the refusals.
struct Rights {
    grants: Vec<Scoped>,
    used: Mutex<BTreeSet<Scoped>>,
    refusals: Mutex<BTreeSet<String>>,
    news: Notify,
}

/// A verb on a resource, such as `patch jobs/status.batch`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Grant {
    verb: String,
    resource: String,
    group: String,
}

/// A grant with its namespace and object; `None` stands for all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Scoped {
    grant: Grant,
    namespace: Option<String>,
    name: Option<String>,
}

impl std::fmt::Display for Grant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            verb,
            resource,
            group,
        } = self;
        let dot = if group.is_empty() { "" } else { "." };
        write!(f, "{verb} {resource}{dot}{group}")
    }
}

impl Grant {
    /// Returns the grant that a request needs; `None` if it is for no resource.
    fn of(asked: &Attributes) -> Option<Self> {
        let RequestTarget::Resource(target) = &asked.target else {
            return None;
        };
        let resource = match target.subresource.as_str() {
            "" => target.resource.clone(),
            part => format!("{}/{part}", target.resource),
        };
        Some(Self {
            verb: asked.verb.clone(),
            resource,
            group: target.group.clone(),
        })
    }

    /// Returns true for reviews of a user's own identity and rights, which the ClusterRole system:basic-user grants to
    /// all.
    fn is_granted_to_every_user(&self) -> bool {
        self.verb == "create" && self.resource.starts_with("selfsubject")
    }
}

impl Rights {
    /// Returns the grants of all roles that are bound to the Deployment's account.
    fn granted(documents: &[Document]) -> Self {
        let of = |kind: &'static str| documents.iter().filter(move |it| it.kind == kind);
        let account = of("ServiceAccount").next().expect("an account");
        let pod = &of("Deployment").next().expect("a Deployment").body["spec"]["template"]["spec"];
        assert_eq!(pod["serviceAccountName"], account.body["metadata"]["name"]);
        let mut grants = Vec::new();
        for (role, binding) in [
            ("Role", "RoleBinding"),
            ("ClusterRole", "ClusterRoleBinding"),
        ] {
            for bound in of(binding) {
                let subject = &bound.body["subjects"][0];
                for field in ["name", "namespace"] {
                    assert_eq!(subject[field], account.body["metadata"][field]);
                }
                assert_eq!(bound.body["roleRef"]["kind"], role);
                let is_meant = |it: &&Document| {
                    it.namespace == bound.namespace
                        && it.body["metadata"]["name"] == bound.body["roleRef"]["name"]
                };
                let role = of(role).find(is_meant).expect("a role");
                add_rules(&mut grants, &role.body["rules"], role.namespace.as_deref());
            }
        }
        let roles = of("Role").chain(of("ClusterRole")).count();
        let bindings = of("RoleBinding").chain(of("ClusterRoleBinding")).count();
        assert_eq!(roles, bindings);
        Self {
            grants,
            used: Mutex::default(),
            refusals: Mutex::default(),
            news: Notify::new(),
        }
    }

    /// Decides as the server's authorizer would. The error is the message of the refusal.
    fn ask(&self, asked: &Attributes) -> Result<(), String> {
        let (Some(grant), RequestTarget::Resource(target)) = (Grant::of(asked), &asked.target)
        else {
            // Discovery and the version, by the ClusterRole system:discovery.
            return Ok(());
        };
        if grant.is_granted_to_every_user() {
            return Ok(());
        }
        let fits = |it: &&Scoped| {
            let in_place = |place: &Option<String>, asked: &str| {
                place.as_ref().is_none_or(|place| place == asked)
            };
            it.grant == grant
                && in_place(&it.namespace, &target.namespace)
                && in_place(&it.name, &target.name)
        };
        if let Some(found) = self.grants.iter().find(fits) {
            self.used.lock().insert(found.clone());
            return Ok(());
        }
        let place = [&*target.namespace, &*target.name].join("/");
        let refusal = format!("not granted: {grant} of {place}");
        self.refusals.lock().insert(refusal.clone());
        self.news.notify_one();
        Err(refusal)
    }

    /// Waits for the first refusal.
    async fn refused(&self) -> String {
        loop {
            if let Some(first) = self.refusals.lock().first() {
                return first.clone();
            }
            self.news.notified().await;
        }
    }

    fn unused(&self) -> Vec<String> {
        let used = self.used.lock();
        let unused = self.grants.iter().filter(|grant| !used.contains(*grant));
        unused.map(|it| it.grant.to_string()).collect()
    }
}

/// Adds the grants of a role's rules, without duplicates.
fn add_rules(grants: &mut Vec<Scoped>, rules: &Value, namespace: Option<&str>) {
    let texts = |value: &Value| -> Vec<String> {
        let all = value.as_array().into_iter().flatten();
        all.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    for rule in rules.as_array().expect("rules") {
        let mut names: Vec<_> = texts(&rule["resourceNames"])
            .into_iter()
            .map(Some)
            .collect();
        if names.is_empty() {
            names.push(None);
        }
        for group in texts(&rule["apiGroups"]) {
            for resource in texts(&rule["resources"]) {
                for verb in texts(&rule["verbs"]) {
                    for name in names.clone() {
                        let granted = Scoped {
                            grant: Grant {
                                verb: verb.clone(),
                                resource: resource.clone(),
                                group: group.clone(),
                            },
                            namespace: namespace.map(str::to_owned),
                            name,
                        };
                        assert!(!grants.contains(&granted), "twice: {}", granted.grant);
                        grants.push(granted);
                    }
                }
            }
        }
    }
}

/// Takes the Lease for a moment as another holder: the controller stands by, and leads again.
async fn take_the_lead(client: &Client, args: &[&str]) {
    let value = |flag: &str| {
        let mut values = args.iter().filter_map(|arg| arg.strip_prefix(flag));
        values.next().expect("the flag is given")
    };
    let namespace = value("--leader-elect-resource-namespace=");
    let name = value("--leader-elect-resource-name=");
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}");
    let other = json!({"spec": {"holderIdentity": "another", "leaseDurationSeconds": 1}});
    let taken = client.patch(&path, Patch::Merge, other.to_string().into_bytes());
    taken.await.expect("the Lease is there");
    let is_ours = |lease: &Value| lease["spec"]["holderIdentity"] != "another";
    seen_when(client, &path, is_ours).await;
}

/// Makes the controller use all its verbs. The chart has the reason for each.
async fn live(client: &Client, work: Work) {
    // Pods are counted. The creation of the first one conflicts, so that the controller reads that Pod. With the gate
    // the Jobs are gangs.
    make_job(client, work, "counted", &json!({})).await;
    job_when(client, work, "counted", |job| is(job, "Complete")).await;
    // Pods are deleted, and an Event is repeated.
    let long = json!({"template": {"metadata": {"annotations": {"sim.lakh.dev/duration": "1h"}}}});
    make_job(client, work, "held", &long).await;
    let runs = |job: &Value| job["status"]["active"] == 3 && !is(job, "Suspended");
    for times in [1, 2] {
        job_when(client, work, "held", runs).await;
        suspend(client, work, true).await;
        told(client, work, "Job", "Suspended", times).await;
        job_when(client, work, "held", |job| is(job, "Suspended")).await;
        suspend(client, work, false).await;
    }
    make_job(client, work, "gone", &json!({"ttlSecondsAfterFinished": 0})).await;
    let jobs = format!("{BATCH}/{}/jobs", work.namespace);
    let is_gone = |list: &Value| {
        let mut jobs = listed(list).iter();
        !jobs.any(|job| job["metadata"]["name"] == "gone")
    };
    seen_when(client, &jobs, is_gone).await;
    if work.cron_jobs {
        run_cron_job(client, work).await;
    }
}

/// Makes two runs, of which one Job is kept, and a Job that its CronJob does not know.
async fn run_cron_job(client: &Client, work: Work) {
    let cron_jobs = format!("{BATCH}/{}/cronjobs", work.namespace);
    let spec = json!({"schedule": "0 0 1 1 *", "suspend": true, "successfulJobsHistoryLimit": 1});
    let mut cron_job = support::cron_job("c", [&spec, &json!({})]);
    cron_job["spec"]["jobTemplate"]["spec"]["managedBy"] = json!(work.manager);
    make(client, &cron_jobs, &cron_job).await;
    let path = format!("{cron_jobs}/c");
    let made = get(client, &path).await;
    let stranger = json!({"suspend": true});
    let owner = json!([{
        "apiVersion": "batch/v1", "kind": "CronJob", "name": "c",
        "uid": made["metadata"]["uid"], "controller": true,
    }]);
    make_job_of(client, work, "stranger", &stranger, &owner).await;
    told(client, work, "CronJob", "UnexpectedJob", 1).await;
    // Each run has another scheduled time, so that its Job has another name. The schedule is patched first: as
    // upstream, earlier runs of a new schedule are not made up for. The status patch then triggers a sync.
    for schedule in ["0 0 1 1 *", "0 0 1 2 *"] {
        let run = json!({"spec": {"suspend": false, "schedule": schedule}});
        patch(client, &path, &run).await;
        let last = json!({"status": {"lastScheduleTime": "2020-06-01T00:00:00Z"}});
        patch(client, &format!("{path}/status"), &last).await;
        let has_run = |seen: &Value| {
            let status = &seen["status"];
            let last = status["lastScheduleTime"].as_str();
            last.is_some_and(|last| !last.starts_with("2020")) && status["active"].is_null()
        };
        seen_when(client, &path, has_run).await;
    }
    told(client, work, "CronJob", "SuccessfulDelete", 1).await;
}

async fn make(client: &Client, path: &str, object: &Value) {
    let made = client.create(path, object.to_string().into_bytes()).await;
    made.unwrap_or_else(|error| panic!("{path}: {error}"));
}

async fn make_job(client: &Client, work: Work, name: &str, spec: &Value) {
    make_job_of(client, work, name, spec, &Value::Null).await;
}

async fn make_job_of(client: &Client, work: Work, name: &str, spec: &Value, owners: &Value) {
    let mut job = indexed_job(name, 3, 3);
    job["spec"]["managedBy"] = json!(work.manager);
    job["metadata"]["ownerReferences"] = owners.clone();
    for (field, value) in spec.as_object().expect("members") {
        match field.as_str() {
            "template" => job["spec"]["template"]["metadata"] = value["metadata"].clone(),
            _ => job["spec"][field] = value.clone(),
        }
    }
    make(client, &format!("{BATCH}/{}/jobs", work.namespace), &job).await;
}

async fn job_when(client: &Client, work: Work, name: &str, holds: impl Fn(&Value) -> bool) {
    let path = format!("{BATCH}/{}/jobs/{name}", work.namespace);
    seen_when(client, &path, holds).await;
}

async fn patch(client: &Client, path: &str, patch: &Value) {
    let body = patch.to_string().into_bytes();
    let patched = client.patch(path, Patch::Merge, body).await;
    patched.expect("a good patch");
}

async fn suspend(client: &Client, work: Work, suspend: bool) {
    let path = format!("{BATCH}/{}/jobs/held", work.namespace);
    patch(client, &path, &json!({"spec": {"suspend": suspend}})).await;
}

/// Waits until an Event on an object of this kind has this reason and at least this count.
async fn told(client: &Client, work: Work, kind: &str, reason: &str, times: u64) {
    let path = format!("/api/v1/namespaces/{}/events", work.namespace);
    let is_it = |event: &Value| {
        event["involvedObject"]["kind"] == kind
            && event["reason"] == reason
            && event["count"].as_u64() >= Some(times)
    };
    seen_when(client, &path, |list| listed(list).iter().any(is_it)).await;
}

/// Returns the `update` of the owner's finalizers that admission requires, for each owner reference that blocks
/// deletion.
async fn owners(client: &Client, work: Work) -> Vec<Attributes> {
    let namespace = work.namespace;
    let mut owners = Vec::new();
    for path in [
        format!("/api/v1/namespaces/{namespace}/pods"),
        format!("{BATCH}/{namespace}/jobs"),
        format!("/apis/scheduling.k8s.io/v1alpha2/namespaces/{namespace}/workloads"),
        format!("/apis/scheduling.k8s.io/v1alpha2/namespaces/{namespace}/podgroups"),
    ] {
        for object in listed(&get(client, &path).await) {
            let references = object["metadata"]["ownerReferences"].as_array();
            let holding = references.into_iter().flatten();
            for owner in holding.filter(|owner| owner["blockOwnerDeletion"] == true) {
                let text = |field: &str| owner[field].as_str().unwrap_or_default().to_owned();
                let group = text("apiVersion");
                let (group, version) = group.split_once('/').unwrap_or(("", &group));
                owners.push(Attributes {
                    verb: "update".to_owned(),
                    target: RequestTarget::Resource(ResourceAttributes {
                        group: group.to_owned(),
                        version: version.to_owned(),
                        resource: format!("{}s", text("kind").to_lowercase()),
                        subresource: "finalizers".to_owned(),
                        namespace: namespace.to_owned(),
                        name: text("name"),
                    }),
                });
            }
        }
    }
    owners
}
