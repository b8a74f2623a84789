//! Tests the dashboard and the alerts below deploy/monitoring. A running controller must expose each metric that they
//! query, with the same labels. If promtool is installed, it tests the alerts.

#![allow(clippy::print_stdout, reason = "what is not tried is told")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    process::Command,
    time::Duration,
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{
    client, cluster, create, http_get, indexed_job, is, job_when,
    logged::Logged,
    npm::npm,
    project,
    promql::{self, Matcher, Query, Selector},
    proxy::{self, Fate, Proxy},
    python::{chromium, python},
    wait_until, write_kubeconfig,
};

/// Labels that Prometheus adds to each target: the first two always, the third by its configuration.
const OF_THE_TARGET: &[&str] = &["instance", "job", "namespace"];

/// Metrics that Prometheus itself records for each target.
const OF_PROMETHEUS: &[&str] = &["up"];

/// Built-in variables of Grafana.
const OF_GRAFANA: &[&str] = &["__range", "__rate_interval"];

/// Metrics without samples until their first event. The run has one of each.
const LATE: &[&str] = &[
    "job_controller_job_finished_indexes_total",
    "job_controller_jobs_by_external_controller_total",
    "job_controller_jobs_finished_total",
    "job_controller_pod_failures_handled_by_failure_policy_total",
    "lakh_unreadable_objects_total",
];

fn monitoring(file: &str) -> String {
    let path = project(&format!("deploy/monitoring/{file}"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A scrape: the labels of each sample, by the metric's name.
#[derive(Default)]
struct Scrape(BTreeMap<String, Vec<BTreeMap<String, String>>>);

impl Scrape {
    fn read(text: &str) -> Self {
        let (_headers, text) = text.split_once("\r\n\r\n").expect("an answer");
        let mut scrape = Self::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Ok(sample) = promql::read_sample(line) else {
                panic!("a sample cannot be read: {line}");
            };
            let labels = sample.matchers.into_iter();
            let labels = labels.map(|matcher| (matcher.label, matcher.value));
            let samples = scrape.0.entry(sample.metric).or_default();
            samples.push(labels.collect());
        }
        scrape
    }

    /// Checks a query. The error is its fault.
    fn check(&self, query: &Query) -> Result<(), String> {
        if query.selectors.is_empty() {
            return Err("it asks for nothing".to_owned());
        }
        query
            .selectors
            .iter()
            .try_for_each(|selector| self.check_selector(selector))
    }

    fn check_selector(&self, selector: &Selector) -> Result<(), String> {
        let name = &selector.metric;
        let nothing = Vec::new();
        let samples = match self.0.get(name) {
            Some(samples) => samples,
            None if OF_PROMETHEUS.contains(&name.as_str()) => &nothing,
            None => return Err(format!("nobody tells {name}")),
        };
        for label in &selector.needs {
            let is_told = samples.iter().any(|labels| labels.contains_key(label));
            if !is_told && !OF_THE_TARGET.contains(&label.as_str()) {
                return Err(format!("{name} has no label {label}"));
            }
        }
        let literal = |matcher: &&Matcher| {
            let is_of_target = OF_THE_TARGET.contains(&matcher.label.as_str());
            !is_of_target && ["=", "!="].contains(&matcher.operator.as_str())
        };
        for Matcher { label, value, .. } in selector.matchers.iter().filter(literal) {
            if !samples
                .iter()
                .any(|labels| labels.get(label) == Some(value))
            {
                return Err(format!("{label} of {name} is never {value}"));
            }
        }
        Ok(())
    }

    /// Checks a text that names labels of a query's results. The error is its fault.
    fn check_text(&self, text: &str, query: &Query) -> Result<(), String> {
        let of_samples = || {
            let first = query.selectors.first();
            let samples = first.and_then(|selector| self.0.get(&selector.metric));
            samples.into_iter().flatten().flat_map(BTreeMap::keys)
        };
        let known: BTreeSet<&str> = match &query.kept {
            Some(kept) => kept.iter().map(String::as_str).collect(),
            None => of_samples()
                .map(String::as_str)
                .chain(OF_THE_TARGET.iter().copied())
                .collect(),
        };
        for label in labels_in(text) {
            if !known.contains(label) {
                return Err(format!("{text:?} names the label {label}"));
            }
        }
        Ok(())
    }
}

/// Returns the labels that a legend (`{{label}}`) or an annotation (`{{ $labels.label }}`) names.
fn labels_in(text: &str) -> impl Iterator<Item = &str> {
    let inside = text.split("{{").skip(1);
    let inside = inside.filter_map(|rest| rest.split_once("}}"));
    let words = inside.map(|(word, _)| word.trim());
    let labels = words.filter(|word| !word.starts_with("$value"));
    labels.map(|word| word.strip_prefix("$labels.").unwrap_or(word))
}

/// A query, its place, and texts about its results.
struct Asked {
    place: String,
    expression: String,
    texts: Vec<String>,
}

fn text_of(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

fn items(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

fn alerts() -> Vec<Value> {
    let rules: Value = serde_saphyr::from_str(&monitoring("rules.yaml")).expect("YAML");
    let groups = items(&rules["groups"]).iter();
    groups
        .flat_map(|group| items(&group["rules"]))
        .cloned()
        .collect()
}

fn asked_by_alerts() -> Vec<Asked> {
    let asked = alerts().into_iter().map(|alert| {
        let annotations = alert["annotations"].as_object().expect("annotations");
        Asked {
            place: text_of(&alert["alert"]),
            expression: text_of(&alert["expr"]),
            texts: annotations.values().map(text_of).collect(),
        }
    });
    asked.collect()
}

fn dashboard() -> Value {
    serde_json::from_str(&monitoring("dashboard.json")).expect("JSON")
}

/// Converts `label_values(SELECTOR, LABEL)` of a variable to a query.
fn values_of(variable: &str) -> String {
    let inside = variable.strip_prefix("label_values(");
    let inside = inside.and_then(|rest| rest.strip_suffix(')'));
    let (selector, label) = inside
        .and_then(|inside| inside.rsplit_once(','))
        .unwrap_or_else(|| panic!("{variable} is not label_values"));
    format!("count by ({}) ({selector})", label.trim())
}

fn asked_by_dashboard() -> Vec<Asked> {
    let dashboard = dashboard();
    let variables = items(&dashboard["templating"]["list"]).iter();
    let variables = variables.filter(|variable| variable["type"] == "query");
    let mut asked: Vec<_> = variables
        .map(|variable| Asked {
            place: format!("variable {}", variable["name"]),
            expression: values_of(&text_of(&variable["query"]["query"])),
            texts: Vec::new(),
        })
        .collect();
    let panels = items(&dashboard["panels"]).iter();
    for panel in panels.filter(|panel| panel["type"] != "row") {
        for target in items(&panel["targets"]) {
            asked.push(Asked {
                place: format!("panel {}", panel["title"]),
                expression: text_of(&target["expr"]),
                texts: vec![text_of(&target["legendFormat"])],
            });
        }
    }
    asked
}

/// Scrapes a leader with a standby, after a run: Jobs ended in different ways, one has another manager, and a CronJob
/// could not be read.
async fn scrape_of_a_run() -> String {
    let cluster = cluster(Duration::from_millis(50)).await;
    let client = client(&cluster).await;
    let odd = json!({
        "kind": "CronJobList", "apiVersion": "batch/v1", "metadata": {"resourceVersion": "1"},
        "items": [{"metadata": {"name": "odd", "namespace": "default"}, "spec": 7}],
    });
    let odd = proxy::answer(200, "", &odd.to_string());
    // Each list has it, not only the first: a replica that gains the lead during a list abandons that.
    let proxy = Proxy::start(&cluster.url(), move |request| {
        let is_list =
            request.starts_with("GET /apis/batch/v1/cronjobs?") && !request.contains("watch=");
        match is_list {
            true => Fate::Answered(odd.clone()),
            false => Fate::Passed,
        }
    })
    .await;
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let told = |replica: &Logged| {
        let answer = replica
            .listens()
            .and_then(|at| http_get(at, "/metrics").ok());
        answer.unwrap_or_default()
    };
    let leader = start(&folder, "leader", &proxy.url());
    let leads =
        |value: u8| format!("leader_election_master_status{{name=\"lakh-replace\"}} {value}\n");
    wait_until("one leads", || told(&leader).contains(&leads(1))).await;
    let standby = start(&folder, "standby", &cluster.url());

    let mut good = indexed_job("good", 30, 10);
    good["metadata"]["annotations"] = json!({"lakh.dev/job-metrics": "true"});
    create(&client, &good).await;
    let mut bad = indexed_job("bad", 2, 2);
    bad["spec"]["backoffLimitPerIndex"] = json!(0);
    bad["spec"]["template"]["metadata"]["annotations"] = json!({"sim.lakh.dev/exit-code": "3"});
    bad["spec"]["podFailurePolicy"] = json!({"rules": [{
        "action": "FailIndex",
        "onExitCodes": {"operator": "In", "values": [3]},
    }]});
    create(&client, &bad).await;
    let mut foreign = indexed_job("foreign", 3, 3);
    foreign["spec"]["managedBy"] = json!("example.com/other");
    create(&client, &foreign).await;
    job_when(&client, "good", |job| is(job, "Complete")).await;
    job_when(&client, "bad", |job| is(job, "Failed")).await;
    wait_until("all is told", || {
        let text = told(&leader);
        let has = |name: &&str| text.contains(&format!("\n{name}{{"));
        LATE.iter().all(has) && told(&standby).contains(&leads(0))
    })
    .await;
    let scrape = told(&leader);
    drop((leader, standby));
    cluster.shutdown().await;
    scrape
}

fn start(folder: &TempDir, name: &str, url: &str) -> Logged {
    let config = folder.path().join(format!("{name}.config"));
    write_kubeconfig(&config, url);
    Logged::start(&config, folder.path().join(format!("{name}.log")), &[])
}

#[tokio::test(flavor = "multi_thread")]
async fn queried_metrics_exist_in_a_run_and_are_documented() {
    let leader = scrape_of_a_run().await;
    let scrape = Scrape::read(&leader);
    let docs = fs::read_to_string(project("docs/metrics.md")).expect("it is there");
    let mut wrong = Vec::new();
    for asked in asked_by_alerts().into_iter().chain(asked_by_dashboard()) {
        let checked = promql::read(&asked.expression).and_then(|query| {
            scrape.check(&query)?;
            let mut texts = asked.texts.iter();
            texts.try_for_each(|text| scrape.check_text(text, &query))?;
            query
                .selectors
                .iter()
                .try_for_each(|selector| is_documented(&selector.metric, &docs))
        });
        if let Err(error) = checked {
            wrong.push(format!("{}: {error}\n  {}", asked.place, asked.expression));
        }
    }
    assert!(wrong.is_empty(), "{}\n\nin\n{leader}", wrong.join("\n"));
    wrong_queries_are_found(&scrape);
}

fn is_documented(metric: &str, docs: &str) -> Result<(), String> {
    let ends = ["_bucket", "_count", "_sum"];
    let family = ends.iter().find_map(|end| metric.strip_suffix(end));
    let family = family.unwrap_or(metric);
    let is_known = OF_PROMETHEUS.contains(&family) || docs.contains(&format!("`{family}`"));
    let undocumented = || format!("docs/metrics.md does not have {family}");
    is_known.then_some(()).ok_or_else(undocumented)
}

/// Checks that the test above finds each of these faults.
fn wrong_queries_are_found(scrape: &Scrape) {
    for (query, error) in [
        ("sum(lakh_job)", "nobody tells lakh_job"),
        ("lakh_turns", "nobody tells lakh_turns"),
        (
            r#"lakh_jobs{state="atwork"}"#,
            "state of lakh_jobs is never atwork",
        ),
        (
            r#"rate(lakh_api_calls_total{code!="2xx"}[5m])"#,
            "code of lakh_api_calls_total is never 2xx",
        ),
        (r#"lakh_jobs{phase=~"a|b"}"#, "lakh_jobs has no label phase"),
        ("sum by (kind) (lakh_jobs)", "lakh_jobs has no label kind"),
        (
            "up == 0 and on (kind) lakh_build_info",
            "lakh_build_info has no label kind",
        ),
        (
            "sum(lakh_jobs) by (state)",
            "by is no function that is known here",
        ),
        (
            "rat(lakh_turns_total[5m])",
            "rat is no function that is known here",
        ),
        ("rate(lakh_turns_total[5m)", "a range does not end"),
        ("sum(lakh_jobs))", r#"Sign(")") is out of place"#),
        ("1", "it asks for nothing"),
    ] {
        let checked = promql::read(query).and_then(|query| scrape.check(&query));
        assert_eq!(checked, Err(error.to_owned()), "{query}");
    }
    let query = promql::read("sum by (state) (lakh_jobs)").expect("a good query");
    assert_eq!(
        scrape.check_text("{{state}} of {{ $value }}", &query),
        Ok(())
    );
    let named = scrape.check_text("{{ $labels.instance }}", &query);
    assert!(named.is_err(), "the sum has no such label");
}

#[test]
fn variables_of_the_dashboard_are_there() {
    let dashboard = dashboard();
    let variables = items(&dashboard["templating"]["list"]).iter();
    let mut known: BTreeSet<_> = variables.map(|one| text_of(&one["name"])).collect();
    known.extend(OF_GRAFANA.iter().map(|&name| name.to_owned()));
    for Asked {
        place, expression, ..
    } in asked_by_dashboard()
    {
        for rest in expression.split('$').skip(1) {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let name = &rest[..end.unwrap_or(rest.len())];
            assert!(known.contains(name), "{place}: ${name}");
        }
    }
}

#[test]
fn panels_have_descriptions_and_do_not_overlap() {
    let dashboard = dashboard();
    let panels = items(&dashboard["panels"]);
    let mut ids = BTreeSet::new();
    let mut taken = BTreeSet::new();
    let mut order = Vec::new();
    for panel in panels {
        let title = text_of(&panel["title"]);
        assert!(ids.insert(panel["id"].as_u64()), "{title}: its id is taken");
        let is_row = panel["type"] == "row";
        let description = panel["description"].as_str().unwrap_or_default();
        assert!(
            is_row || description.ends_with('.'),
            "{title}: a description"
        );
        let of = |name: &str| panel["gridPos"][name].as_u64().expect("a place");
        assert!(of("x") + of("w") <= 24, "{title}: 24 columns");
        for place in (of("x")..of("x") + of("w")).zip(std::iter::repeat(of("y"))) {
            assert!(taken.insert(place), "{title}: its place is taken");
        }
        order.push((of("y"), of("x")));
        for alert in description
            .split_whitespace()
            .filter(|word| word.starts_with("Lakh"))
        {
            let alert = alert.trim_end_matches(['.', ',', ')']);
            let is_there = alerts().iter().any(|one| one["alert"] == alert);
            assert!(is_there, "{title}: {alert} is no alert");
        }
    }
    assert!(order.is_sorted(), "as they are read");
}

#[test]
fn each_alert_is_explained_and_tested() {
    let (readme, tests) = (monitoring("README.md"), monitoring("rules_test.yaml"));
    let runbook = fs::read_to_string(project("docs/runbook.md")).expect("it is there");
    let alerts = alerts();
    for alert in &alerts {
        let name = text_of(&alert["alert"]);
        let url = alert["annotations"]["runbook_url"].as_str();
        let (page, anchor) = url.and_then(|url| url.split_once('#')).unwrap_or_default();
        assert!(page.ends_with("/runbook.html"), "{name}: runbook_url");
        assert_eq!(anchor, name.to_lowercase(), "{name}: runbook_url");
        let section = runbook
            .split("\n## ")
            .find(|it| it.starts_with(&format!("{name}\n")));
        let section = section.unwrap_or_else(|| panic!("{name}: docs/runbook.md"));
        for part in ["**Impact.**", "**Diagnosis.**", "**Remedy.**"] {
            assert!(section.contains(part), "{name}: {part} in docs/runbook.md");
        }
        assert!(
            readme.contains(&format!("| `{name}` |")),
            "{name}: README.md"
        );
        let fires = format!("alertname=\"{name}\"");
        assert!(tests.contains(&fires), "{name}: rules_test.yaml");
        let severity = alert["labels"]["severity"].as_str();
        let known = ["critical", "warning", "info"];
        assert!(severity.is_some_and(|one| known.contains(&one)), "{name}");
        for text in ["summary", "description"] {
            let text = alert["annotations"][text].as_str().unwrap_or_default();
            assert!(text.ends_with('.'), "{name}: a sentence");
        }
    }
    let rows = readme.lines().filter(|line| line.starts_with("| `Lakh"));
    assert_eq!(rows.count(), alerts.len(), "README.md has no others");
    assert_eq!(
        runbook.matches("\n## Lakh").count(),
        alerts.len(),
        "nor has docs/runbook.md"
    );
}

#[test]
fn the_alerts_pass_their_own_tests() {
    for (words, file) in [
        (["check", "rules"], "rules.yaml"),
        (["test", "rules"], "rules_test.yaml"),
    ] {
        let file = project(&format!("deploy/monitoring/{file}"));
        let Ok(output) = Command::new("promtool").args(words).arg(&file).output() else {
            println!("there is no promtool: {file} is not tried");
            continue;
        };
        let said = String::from_utf8_lossy(&output.stderr);
        let all = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{all}{said}");
    }
}

/// The README's command makes a PrometheusRule of the same rules.
#[test]
fn the_rules_can_be_had_as_an_object() {
    let readme = monitoring("README.md");
    let command = readme.split("```sh\n").skip(1);
    let command = command.filter_map(|rest| rest.split_once("```"));
    let mut command = command.filter(|(command, _)| command.contains("kind: PrometheusRule"));
    let (command, _) = command.next().expect("it is there");
    let (command, _) = command
        .rsplit_once('|')
        .expect("kubectl applies what comes out");
    let output = Command::new("sh")
        .args(["-c", command])
        .current_dir(project("."))
        .output();
    let output = output.expect("there is a shell");
    assert!(output.status.success(), "{command}");
    let object = String::from_utf8(output.stdout).expect("a text");
    let object: Value = serde_saphyr::from_str(&object).expect("YAML");
    let rules: Value = serde_saphyr::from_str(&monitoring("rules.yaml")).expect("YAML");
    assert_eq!(object["kind"], "PrometheusRule");
    assert_eq!(object["spec"], rules);
}

/// Grafana silently drops unknown fields.
#[test]
#[ignore = "needs a package index"]
fn grafanas_own_model_knows_each_field_of_the_dashboard() {
    let Some(python) = python("grafana-requirements.txt") else {
        return;
    };
    let output = Command::new(python)
        .arg(project("tests/python/grafana.py"))
        .output()
        .expect("Python runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}

/// Runs the checks of `tests/python/dashboard.py`. It writes its picture into the folder `LAKH_PICTURES`, if that is
/// set.
#[test]
#[ignore = "needs Prometheus, Chromium, npm and package indexes, and takes six minutes"]
fn the_dashboard_has_a_run_of_100_000_pods() {
    let prometheus = "prometheus";
    if Command::new(prometheus).arg("--version").output().is_err() {
        println!("skipped: there is no {prometheus}");
        return;
    }
    let Some(browser) = chromium() else {
        return;
    };
    let Some(python) = python("dashboard-requirements.txt") else {
        return;
    };
    let Some(page) = npm("dashboard") else {
        return;
    };
    let output = Command::new(python)
        .arg(project("tests/python/dashboard.py"))
        .args([env!("CARGO_BIN_EXE_lakh"), prometheus, browser])
        .arg(page)
        .output()
        .expect("Python runs");
    println!("{}", String::from_utf8_lossy(&output.stdout));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}
