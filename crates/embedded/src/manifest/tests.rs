//! Tests the loader with data, and the examples that come with lakh.

use std::{fs, path::Path};

use super::*;

/// Loads a text and prints the result: a line per object, or the error.
fn outcome(text: &str) -> String {
    match load(&[Source::new("f.yaml", text)]) {
        Ok(documents) => documents
            .iter()
            .map(describe)
            .collect::<Vec<_>>()
            .join("\n"),
        Err(error) => error.to_string(),
    }
}

fn describe(document: &Document) -> String {
    let Document {
        location,
        field_prefix,
        api_version,
        kind,
        name,
        namespace,
        ..
    } = document;
    let namespace = namespace.as_deref().unwrap_or("-");
    format!("{location} {field_prefix}{api_version} {kind} {namespace} {name}")
}

#[track_caller]
fn check(text: &str, want: &str) {
    assert_eq!(outcome(text), want, "\n{text}");
}

const JOB: &str = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: pi}\n";

#[test]
fn objects_are_found_with_their_places() {
    check("", "");
    check("---\n# only a comment\n---\nnull\n", "");
    check(JOB, "f.yaml: document 1, line 1 batch/v1 Job - pi");
    check(
        &format!("# two\n---\n{JOB}---\n\n---\n# the second\n{JOB}"),
        "f.yaml: document 1, line 3 batch/v1 Job - pi\n\
         f.yaml: document 2, line 10 batch/v1 Job - pi",
    );
    check(
        "{\n\t\"apiVersion\": \"v1\", \"kind\": \"Pod\",\n\t\"metadata\": {\"generateName\": \"p-\", \
         \"namespace\": \"n\"}}",
        "f.yaml: document 1, line 1 v1 Pod n p-*",
    );
    check(
        "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: a}}\n\
         - {apiVersion: batch/v1, kind: Job, metadata: {name: b}}",
        "f.yaml: document 1, line 1 items[0].v1 Pod - a\n\
         f.yaml: document 1, line 1 items[1].batch/v1 Job - b",
    );
    check("apiVersion: v1\nkind: List\n", "");
}

#[test]
fn a_list_of_one_kind_gives_its_kind_to_its_items() {
    let item = "{metadata: {name: a, namespace: team}}";
    for list in ["JobList", "CronJobList"] {
        let kind = list.trim_end_matches("List");
        check(
            &format!("{{apiVersion: batch/v1, kind: {list}, metadata: {{}}, items: [{item}]}}"),
            &format!("f.yaml: document 1, line 1 items[0].batch/v1 {kind} team a"),
        );
        check(
            &format!("{{apiVersion: batch/v1, kind: {list}, items: null}}"),
            "",
        );
    }
    check(
        "{apiVersion: v1, kind: PodList, items: [{apiVersion: a/v1, kind: X, metadata: {name: b}}]}",
        "f.yaml: document 1, line 1 items[0].a/v1 X - b",
    );
    // Without items it is an ordinary object.
    check(
        "{apiVersion: a.b/v1, kind: AllowList, metadata: {name: c}}",
        "f.yaml: document 1, line 1 a.b/v1 AllowList - c",
    );
}

#[test]
fn json_objects_one_after_the_other_are_documents() {
    let job = |name: &str| {
        format!(r#"{{"apiVersion":"batch/v1","kind":"Job","metadata":{{"name":"{name}"}}}}"#)
    };
    let lines = format!("{}\n{}\n\n{}{}\n", job("a"), job("b"), job("c"), job("d"));
    check(
        &lines,
        "f.yaml: document 1, line 1 batch/v1 Job - a\n\
         f.yaml: document 2, line 2 batch/v1 Job - b\n\
         f.yaml: document 3, line 4 batch/v1 Job - c\n\
         f.yaml: document 4, line 4 batch/v1 Job - d",
    );
    check(
        &format!("{}\n{{\"kind\": 1}}", job("a")),
        "f.yaml: document 2, line 2: apiVersion: is missing",
    );
    check(
        &format!("{}\n\n{{]\n", job("a")),
        "f.yaml: document 2, line 3, column 1: mismatched bracket '{' closed by ']'",
    );
}

#[test]
fn files_may_be_utf_8_or_utf_16_and_folders() {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("it is in the folder")).expect("it can be made");
        fs::write(&path, bytes).expect("it can be written");
        path
    };
    let job = |name: &str| JOB.replace("{name: pi}", &format!("{{name: {name}}}"));
    let utf_16 = |text: &str, bytes: fn(u16) -> [u8; 2]| -> Vec<u8> {
        let units = "\u{feff}".encode_utf16().chain(text.encode_utf16());
        units.flat_map(bytes).collect()
    };
    write("a.yaml", format!("\u{feff}{}", job("bom-é")).as_bytes());
    write("b.yml", &utf_16(&job("little-é"), u16::to_le_bytes));
    write("c.json", &utf_16(&job("big-é"), u16::to_be_bytes));
    write("below/d.yaml", job("below").as_bytes());
    write("notes.txt", b"no manifest");
    let names = |recursive: bool| {
        let sources = Source::read_path(folder.path(), recursive).expect("they can be read");
        let documents = load(&sources).expect("they are good").into_iter();
        let names: Vec<String> = documents.map(|it| it.name.to_string()).collect();
        names.join(" ")
    };
    assert_eq!(names(false), "bom-é little-é big-é");
    assert_eq!(names(true), "bom-é little-é below big-é");

    let refused = |path: &Path, words: &str| {
        let error = Source::read_path(path, false).expect_err(words).to_string();
        assert!(error.contains(words), "{error}");
        assert!(error.starts_with(&path.display().to_string()), "{error}");
    };
    refused(&write("latin-1", b"name: caf\xe9"), "byte 10 is not UTF-8");
    refused(&write("odd", b"\xff\xfea\0b"), "begins as UTF-16");
    refused(&write("lone", b"\xff\xfe\0\xd8"), "begins as UTF-16");
    let empty = folder.path().join("empty");
    fs::create_dir(&empty).expect("it can be made");
    refused(&empty, "no .json, .yaml or .yml file");
}

/// A Job as printed by `kubectl get job -o yaml`.
const EXPORTED: &str = "
apiVersion: batch/v1
kind: Job
metadata:
  annotations: {a: b}
  creationTimestamp: '2026-11-28T10:00:00Z'
  generation: 2
  labels: {app: x, batch.kubernetes.io/controller-uid: u, batch.kubernetes.io/job-name: pi, controller-uid: u, job-name: pi}
  managedFields: [{manager: kubectl}]
  name: pi
  namespace: default
  ownerReferences: [{apiVersion: batch/v1, kind: CronJob, name: c, uid: w, controller: true}]
  resourceVersion: '7'
  selfLink: /x
  uid: u
spec:
  manualSelector: false
  selector: {matchLabels: {batch.kubernetes.io/controller-uid: u}}
  suspend: true
  template:
    metadata:
      creationTimestamp: null
      labels: {app: x, batch.kubernetes.io/controller-uid: u, batch.kubernetes.io/job-name: pi, controller-uid: u, job-name: pi}
    spec: {restartPolicy: Never}
status: {succeeded: 1}
";

#[test]
fn server_set_fields_are_removed_from_an_exported_object() {
    let cleared = |text: &str| {
        let mut documents = load(&[Source::new("f.yaml", text)]).expect(text);
        let mut document = documents.remove(0);
        document.clear_server_fields();
        document.body
    };
    let job = cleared(EXPORTED);
    assert_eq!(
        job,
        serde_json::json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "annotations": {"a": "b"}, "labels": {"app": "x"}, "name": "pi", "namespace": "default",
            },
            "spec": {
                "manualSelector": false,
                "suspend": true,
                "template": {
                    "metadata": {"creationTimestamp": null, "labels": {"app": "x"}},
                    "spec": {"restartPolicy": "Never"},
                },
            },
        })
    );
    // The user's own selector stays, and so does one that only looks generated.
    for own in [
        EXPORTED.replace("manualSelector: false", "manualSelector: true"),
        EXPORTED.replace(
            "matchLabels: {batch.kubernetes.io/controller-uid: u}",
            "matchLabels: {app: x}",
        ),
    ] {
        let job = cleared(&own);
        assert!(job["spec"]["selector"].is_object(), "{job}");
        assert_eq!(
            job["spec"]["template"]["metadata"]["labels"]["job-name"],
            "pi"
        );
        assert!(job["metadata"].get("uid").is_none(), "{job}");
    }
    let bare = EXPORTED.replace("app: x, ", "");
    assert!(cleared(&bare)["metadata"].get("labels").is_none());
    // A manifest written by hand stays word for word.
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples"))
        .expect("examples")
    {
        let path = entry.expect("an example").path();
        if path
            .extension()
            .is_some_and(|extension| extension == "yaml")
        {
            let source = Source::read_file(&path).expect("examples can be read");
            for mut document in load(&[source]).expect("examples can be loaded") {
                let before = document.clone();
                document.clear_server_fields();
                assert_eq!(document, before, "{}", path.display());
            }
        }
    }
}

#[test]
fn errors_name_the_file_the_document_and_the_line() {
    check(
        &format!("{JOB}---\n# c\na: 1\nb: [1, 2\nc: 3\n"),
        "f.yaml: document 2, line 8, column 2: illegal placement of ':' indicator",
    );
    check(
        &format!("{JOB}---\nkind: Job\nspec:\n  a: 1\n  b: 2\n  a: 3\n"),
        "f.yaml: document 2, line 9, column 3: duplicate mapping key: a not allowed here",
    );
    check(
        "a: *x",
        "f.yaml: document 1, line 1, column 4: reference to unknown value",
    );
    check(
        "a: .inf",
        "f.yaml: document 1, line 1, column 4: value `.inf` is not a finite number",
    );
    check(
        "# c\n- 1\n",
        "f.yaml: document 1, line 2: \
         must be an object with apiVersion, kind and metadata, but is a list",
    );
    check(
        "hello",
        "f.yaml: document 1, line 1: \
         must be an object with apiVersion, kind and metadata, but is a text",
    );
}

#[test]
fn errors_name_the_field() {
    let cases = [
        ("{}", "apiVersion: is missing"),
        ("{apiVersion: ''}", "apiVersion: is missing"),
        (
            "{apiVersion: 1}",
            "apiVersion: must be a text, but is a number: put it in quotes",
        ),
        ("{apiVersion: v1}", "kind: is missing"),
        (
            "{apiVersion: v1, kind: yes}",
            "kind: must be a text, but is a boolean: put it in quotes",
        ),
        ("{apiVersion: v1, kind: Pod}", "metadata.name: is missing"),
        (
            "{apiVersion: v1, kind: Pod, metadata: x}",
            "metadata: must be an object, but is a text",
        ),
        (
            "{apiVersion: v1, kind: Pod, metadata: {}}",
            "metadata.name: is missing; so is generateName",
        ),
        (
            "{apiVersion: v1, kind: Pod, metadata: {name: 5}}",
            "metadata.name: must be a text, but is a number: put it in quotes",
        ),
        (
            "{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: []}}",
            "metadata.namespace: must be a text, but is a list",
        ),
        (
            "{apiVersion: v1, kind: List, items: 5}",
            "items: must be a list, but is a number",
        ),
        (
            "{apiVersion: v1, kind: List, items: [5]}",
            "items[0]: must be an object, but is a number",
        ),
        (
            "{apiVersion: v1, kind: List, items: [{apiVersion: v1}]}",
            "items[0].kind: is missing",
        ),
    ];
    for (text, want) in cases {
        check(text, &format!("f.yaml: document 1, line 1: {want}"));
    }
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = Source::read_file(Path::new("no/such.yaml")).expect_err("no such file");
    assert!(error.to_string().starts_with("no/such.yaml: "), "{error}");
}

#[test]
fn scalars_keep_the_types_that_kubernetes_gives_them() {
    let cases = [
        ("5", "5"),
        ("\"5\"", "\"5\""),
        ("'yes'", "\"yes\""),
        ("yes", "true"),
        ("on", "true"),
        ("y", "true"),
        ("off", "false"),
        ("N", "false"),
        ("true", "true"),
        ("yesterday", "\"yesterday\""),
        ("0644", "420"),
        ("0o644", "420"),
        ("0x10", "16"),
        ("1_000", "1000"),
        ("1e3", "1000"),
        ("5.0", "5"),
        ("1.5", "1.5"),
        ("-1", "-1"),
        ("~", "null"),
        ("", "null"),
        ("null", "null"),
        ("2026-01-01", "\"2026-01-01\""),
        ("1:20", "\"1:20\""),
        ("100m", "\"100m\""),
        ("1.2.3", "\"1.2.3\""),
        ("!!str 5", "\"5\""),
        ("|\n    a\n    ---\n    b", "\"a\\n---\\nb\\n\""),
        (
            "[&x {a: 1}, *x, {<<: *x, b: 2}]",
            "[{\"a\":1},{\"a\":1},{\"a\":1,\"b\":2}]",
        ),
        ("{<<: {a: 1}, a: 2}", "{\"a\":2}"),
    ];
    for (scalar, want) in cases {
        let text = format!("{JOB}value: {scalar}\n");
        let documents = load(&[Source::new("f.yaml", text)]).expect(scalar);
        assert_eq!(documents[0].body["value"].to_string(), want, "{scalar}");
    }
}

#[test]
fn a_list_may_be_longer_than_a_request() {
    let note = "x".repeat(250_000);
    let item = format!("{JOB}note: {note}\n").replace('\n', "\n  ");
    let list = format!(
        "apiVersion: v1\nkind: List\nitems:\n{}",
        format!("- {item}\n").repeat(70)
    );
    assert_eq!(outcome(&list).lines().count(), 70);
}

#[test]
fn a_bomb_of_aliases_is_an_error() {
    let mut text = String::from("a: &a [x,x,x,x,x,x,x,x,x,x]\n");
    for (one, next) in "abcdefgh".chars().zip("bcdefghi".chars()) {
        let row = format!("*{one},").repeat(10);
        text.push_str(&format!("{next}: &{next} [{row}]\n"));
    }
    let got = outcome(&text);
    assert!(got.starts_with("f.yaml: document 1, line "), "{got}");
}

#[test]
fn kinds_have_paths_and_typos_are_detected() {
    let cases = [
        (
            "{apiVersion: batch/v1, kind: Job, metadata: {name: a}}",
            "/apis/batch/v1/namespaces/team/jobs a".to_owned(),
        ),
        (
            "{apiVersion: v1, kind: Pod, metadata: {generateName: a-, namespace: 'n'}}",
            "/api/v1/namespaces/n/pods -".to_owned(),
        ),
        (
            "{apiVersion: v1, kind: Namespace, metadata: {name: 'n'}}",
            "/api/v1/namespaces n".to_owned(),
        ),
        (
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}",
            "/api/v1/namespaces/team/configmaps c".to_owned(),
        ),
        (
            "{apiVersion: v1, kind: ServiceAccount, metadata: {name: s}}",
            "/api/v1/namespaces/team/serviceaccounts s".to_owned(),
        ),
        (
            "{apiVersion: v1, kind: ResourceQuota, metadata: {name: q}}",
            "/api/v1/namespaces/team/resourcequotas q".to_owned(),
        ),
        (
            "{apiVersion: batch/v1, kind: CronJob, metadata: {name: a}}",
            "/apis/batch/v1/namespaces/team/cronjobs a".to_owned(),
        ),
        (
            "{apiVersion: v1, kind: Node, metadata: {name: a, namespace: team}}",
            "/api/v1/nodes a".to_owned(),
        ),
        // Other kinds are skipped; their names are not checked.
        (
            "{apiVersion: a.b/v1, kind: Deployment, metadata: {name: 5}}",
            "not served".to_owned(),
        ),
        (
            "{apiVersion: kustomize.config.k8s.io/v1beta1, kind: Kustomization}",
            "not served".to_owned(),
        ),
        (
            "{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, metadata: {name: a}}",
            "not served".to_owned(),
        ),
        (
            "{apiVersion: v1, kind: List, items: [{apiVersion: batch/v1, kind: X, metadata: {name: a}}]}",
            "f.yaml: document 1, line 1: items[0].kind: batch/v1 has no X, only Job and CronJob"
                .to_owned(),
        ),
        (
            "{apiVersion: v1, kind: CronJob, metadata: {name: a}}",
            "f.yaml: document 1, line 1: apiVersion: CronJob is supported as batch/v1, not as v1"
                .to_owned(),
        ),
        (
            "{apiVersion: batch/v1beta1, kind: Job, metadata: {name: a}}",
            "f.yaml: document 1, line 1: apiVersion: Job is supported as batch/v1, \
             not as batch/v1beta1"
                .to_owned(),
        ),
    ];
    for (text, want) in cases {
        let documents = load(&[Source::new("f.yaml", text)]).expect(text);
        let got = match resource_path(&documents[0], "team") {
            Ok(None) => "not served".to_owned(),
            Ok(Some(ResourcePath { collection, object })) => {
                let name = match &object {
                    Some(object) => object
                        .strip_prefix(&format!("{collection}/"))
                        .expect("below"),
                    None => "-",
                };
                format!("{collection} {name}")
            }
            Err(error) => error.to_string(),
        };
        assert_eq!(got, want, "{text}");
    }
}

#[test]
fn a_refusal_is_reported_by_field() {
    let text = format!("---\n{JOB}");
    let documents = load(&[Source::new("job.yaml", text)]).expect("a Job");
    let mut in_list = documents[0].clone();
    in_list.field_prefix = "items[3].".to_owned();
    in_list.namespace = Some("team".to_owned());
    let invalid = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",
        "message":"Job.batch \"pi\" is invalid: ...","reason":"Invalid","details":{"name":"pi","causes":[
        {"reason":"FieldValueInvalid","message":"Invalid value: -1: must be at least 0","field":"spec.completions"},
        {"reason":"FieldValueInvalid","message":"Invalid value: -1: must be at least 0","field":"spec.completions"},
        {"reason":"FieldValueRequired","message":"Required value","field":"spec.template"}]},"code":422}"#;
    let bad = r#"{"kind":"Status","message":"strict decoding error: unknown field \"spec.x\"","reason":"BadRequest","code":400}"#;
    let cases = [
        (
            &documents[0],
            422,
            invalid,
            "job.yaml: document 1, line 2: Job pi was refused (422 Invalid)\n\
             \x20 spec.completions: Invalid value: -1: must be at least 0\n\
             \x20 spec.template: Required value",
        ),
        (
            &in_list,
            422,
            invalid,
            "job.yaml: document 1, line 2: Job team/pi was refused (422 Invalid)\n\
             \x20 items[3].spec.completions: Invalid value: -1: must be at least 0\n\
             \x20 items[3].spec.template: Required value",
        ),
        (
            &documents[0],
            400,
            bad,
            "job.yaml: document 1, line 2: Job pi was refused (400 BadRequest)\n\
             \x20 strict decoding error: unknown field \"spec.x\"",
        ),
        (
            &documents[0],
            502,
            "Bad Gateway\n",
            "job.yaml: document 1, line 2: Job pi was refused (502)\n  Bad Gateway",
        ),
        (
            &documents[0],
            500,
            "",
            "job.yaml: document 1, line 2: Job pi was refused (500)",
        ),
    ];
    for (document, code, body, want) in cases {
        assert_eq!(
            Rejection::new(document, code, body.as_bytes()).to_string(),
            want
        );
    }
}

#[test]
fn stages_that_make_no_sense_are_named_with_file_object_and_field() {
    let stage = |spec: &str| {
        let head = "apiVersion: sim.lakh.dev/v1alpha1\nkind: Stage\nmetadata: {name: s}\n";
        format!("{head}spec: {{{spec}}}\n")
    };
    let cases = [
        ("", "f.yaml: no Stage found"),
        (JOB, "Job pi: apiVersion: must be sim.lakh.dev/v1alpha1"),
        (
            &stage("endd: {}"),
            "Stage s: spec.endd: unknown field `endd`",
        ),
        (
            &stage("end: {delay: 5}"),
            "Stage s: spec.end.delay: invalid type: integer `5`",
        ),
        (
            &stage("end: {delay: 5 minutes}"),
            "Stage s: spec.end.delay: \"5 minutes\" must be a duration such as 200ms or 1m30s",
        ),
        (
            &stage("end: {exitCode: 256}"),
            "Stage s: spec.end.exitCode: invalid value: integer `256`",
        ),
        (
            &stage("end: {reason: OOMKilled}"),
            "Stage s: spec.end.reason: needs an exitCode other than 0",
        ),
        (
            &stage("end: {jitter: 1s}"),
            "Stage s: spec.end.jitter: needs a delay",
        ),
        (
            &stage("initContainers: [{delay: 1s}, {name: i, failures: 2}]"),
            "Stage s: spec.initContainers[1].failures: needs an exitCode other than 0",
        ),
        (
            &stage("initContainers: [{name: i}, {name: i, delay: 1s}]"),
            "Stage s: spec.initContainers[1].name: selects the same containers as an earlier entry",
        ),
        (
            &stage("sidecars: [{delay: 1s}, {name: s}, {exitCode: 0}]"),
            "Stage s: spec.sidecars[2].name: selects the same containers as an earlier entry",
        ),
        (
            &stage("sidecars: [{exitCode: 0, reason: OOMKilled}]"),
            "Stage s: spec.sidecars[0].reason: needs an exitCode other than 0",
        ),
        (
            &stage("sidecars: [{name: s, jitter: 1s}]"),
            "Stage s: spec.sidecars[0].jitter: needs a delay",
        ),
        (
            &stage("containers: [{name: a}, {name: a}]"),
            "Stage s: spec.containers[1].name: selects the same containers as an earlier entry",
        ),
        (
            &stage("containers: [{reason: OOMKilled}]"),
            "Stage s: spec.containers[0].reason: needs an exitCode other than 0",
        ),
        (
            &stage("containers: [{delay: 1s}]"),
            "Stage s: spec.containers[0].delay: unknown field `delay`",
        ),
        (
            &stage("probability: 1.5"),
            "Stage s: spec.probability: 1.5 must be a number from 0 to 1",
        ),
        (
            &stage("pods: {indexes: 3-1}"),
            "Stage s: spec.pods.indexes: \"3-1\" must be a list of indexes and ranges such as 0-3,7",
        ),
        (
            &stage("pods: {matchExpressions: [{key: a, operator: In}]}"),
            "Stage s: spec.pods.matchExpressions[0].values: must not be empty with this operator",
        ),
        (
            &stage("disruption: {delay: 1s, cause: Boredom}"),
            "Stage s: spec.disruption.cause: unknown variant `Boredom`",
        ),
        (
            &stage("disruption: {cause: NodeLoss}"),
            "Stage s: spec.disruption: missing field `delay`",
        ),
        (
            &format!("{0}---\n{0}", stage("")),
            "document 2, line 6: Stage s: metadata.name: another stage has this name",
        ),
    ];
    for (text, want) in cases {
        let error = read_stages(&[Source::new("f.yaml", text)]).expect_err(text);
        let error = error.to_string();
        assert!(
            error.starts_with("f.yaml: ") && error.contains(want),
            "{text}{error}"
        );
    }
}

#[test]
fn the_examples_load_and_say_how_they_end() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let readme = fs::read_to_string(folder.join("README.md")).expect("examples have a README");
    let mut seen = 0;
    for entry in fs::read_dir(&folder).expect("there are examples") {
        let path = entry.expect("a folder can be listed").path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let source = Source::read_file(&path).expect("examples can be read");
        let first_line = source
            .text
            .lines()
            .next()
            .map(str::to_owned)
            .unwrap_or_default();
        let ends = first_line
            .strip_prefix("# ends: ")
            .expect("line 1 says how the example ends");
        assert!(
            ["Complete", "Failed", "Suspended"].contains(&ends),
            "{}: {ends}",
            source.name
        );
        let documents = load(&[source]).expect("examples can be loaded");
        let jobs = documents.iter().filter(|document| document.kind == "Job");
        assert_eq!(jobs.count(), 1, "{}", path.display());
        for document in &documents {
            resource_path(document, DEFAULT_NAMESPACE).expect("it has a path");
        }
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .expect("plain names");
        let row = readme
            .lines()
            .find(|line| line.contains(&format!("`{name}`")));
        let row = row.unwrap_or_else(|| panic!("README.md does not mention {name}"));
        assert!(row.contains(ends), "README.md and {name} differ: {row}");
        seen += 1;
    }
    assert!(seen >= 19, "{seen} examples");
}
