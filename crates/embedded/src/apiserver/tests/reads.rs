//! Tests watches, tables and discovery.

use super::*;

/// Opens a watch and returns it with its first events.
fn watch(cluster: &mut Cluster, path: &str, accept: &str) -> Box<WatchCursor> {
    let (path, query) = path.split_once('?').unwrap();
    let request = Request {
        method: "GET",
        path,
        query,
        accept,
        content_type: "",
        body: b"",
        ..Request::default()
    };
    match cluster.server.handle(request, cluster.now) {
        Reply::Watch(cursor) => cursor,
        Reply::Complete(response) => {
            panic!("{}", String::from_utf8(response.into_bytes()).unwrap())
        }
    }
}

/// All events that a watch has now, as `TYPE name`.
fn frames(cluster: &Cluster, cursor: &mut WatchCursor) -> Vec<String> {
    let mut out = Vec::new();
    loop {
        let pulled = cluster.server.pull(cursor, 2);
        if pulled.is_empty() {
            break;
        }
        cursor.encode(pulled, cluster.now, &mut out);
    }
    String::from_utf8(out)
        .unwrap()
        .lines()
        .map(|line| {
            let event: Value = serde_json::from_str(line).unwrap();
            let object = &event["object"];
            let name = object["metadata"]["name"]
                .as_str()
                .or(object["reason"].as_str());
            format!(
                "{} {}",
                event["type"].as_str().unwrap(),
                name.unwrap_or("-")
            )
        })
        .collect()
}

#[test]
fn objects_enter_and_leave_a_selection() {
    let mut cluster = Cluster::new();
    for name in ["a", "b"] {
        cluster.ok("POST", PODS, &pod(name));
    }
    let path = format!("{PODS}?watch=1&labelSelector=x%3Dy");
    let mut cursor = watch(&mut cluster, &path, "");
    assert!(frames(&cluster, &mut cursor).is_empty());
    let mut label = |value: Value| {
        cluster.ok(
            "PATCH",
            &format!("{PODS}/a"),
            &json!({"metadata": {"labels": {"x": value}}}),
        );
        frames(&cluster, &mut cursor)
    };
    assert_eq!(label(json!("y")), ["ADDED a"]);
    assert!(label(json!("y")).is_empty());
    assert_eq!(label(json!("n")), ["DELETED a"]);
}

#[test]
fn one_object_is_watched_by_its_name() {
    let mut cluster = Cluster::new();
    for name in ["a", "b"] {
        cluster.ok("POST", PODS, &pod(name));
    }
    for path in [
        "/api/v1/watch/namespaces/default/pods/b?".to_owned(),
        format!("{PODS}?watch=1&fieldSelector=metadata.name%3Db"),
    ] {
        let mut cursor = watch(&mut cluster, &path, "");
        assert_eq!(frames(&cluster, &mut cursor), ["ADDED b"], "{path}");
    }
}

#[test]
fn metadata_watches_and_old_versions() {
    let mut cluster = Cluster::new();
    let created = cluster.ok("POST", PODS, &pod("a"));
    let accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    let mut cursor = watch(&mut cluster, "/api/v1/pods?watch=1", accept);
    let mut out = Vec::new();
    let pulled = cluster.server.pull(&mut cursor, 10);
    cursor.encode(pulled, cluster.now, &mut out);
    let event: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(event["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(event["object"]["metadata"], created["metadata"]);
    assert!(event["object"].get("spec").is_none());

    for number in 0..1001 {
        let patch = json!({"metadata": {"labels": {"n": number.to_string()}}});
        cluster.ok("PATCH", &format!("{PODS}/a"), &patch);
    }
    let mut cursor = watch(&mut cluster, "/api/v1/pods?watch=1&resourceVersion=2", "");
    // Events that it missed precede this one, so it must not receive this one, either.
    cluster.ok("POST", PODS, &pod("b"));
    assert_eq!(frames(&cluster, &mut cursor), ["ERROR Expired"]);
    assert!(cursor.ended());
}

#[test]
fn bookmarks_move_on_with_other_kinds() {
    let mut cluster = Cluster::new();
    let path = "/api/v1/pods?watch=1&resourceVersion=5&allowWatchBookmarks=true";
    let mut cursor = watch(&mut cluster, path, "");
    cluster.ok("POST", JOBS, &job("j"));
    assert!(frames(&cluster, &mut cursor).is_empty());
    let mut out = Vec::new();
    cursor.encode_bookmark(&mut out);
    let event: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(event["type"], "BOOKMARK");
    assert_eq!(
        event["object"]["metadata"]["resourceVersion"],
        cluster.server.version().to_string()
    );
    out.clear();
    cursor.encode_bookmark(&mut out);
    assert!(out.is_empty());
}

#[test]
fn bad_list_options() {
    let mut cluster = Cluster::new();
    let mut check = |query: &str, code: u16, expected: &str| {
        let (status, answer) = cluster.send("GET", &format!("{PODS}?{query}"), &Value::Null);
        assert_eq!(
            (status, answer["message"].as_str().unwrap()),
            (code, expected),
            "{query}"
        );
    };
    check(
        "limit=abc",
        400,
        "strconv.ParseInt: parsing \"abc\": invalid syntax",
    );
    check(
        "resourceVersion=99999",
        504,
        "Timeout: Too large resource version: 99999, current: 13",
    );
    check(
        "resourceVersion=abc",
        400,
        "invalid resource version: resourceVersion: Invalid value: \"abc\": strconv.ParseUint: \
         parsing \"abc\": invalid syntax",
    );
    check(
        "watch=1&sendInitialEvents=true",
        422,
        "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: \
         sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
    );
}

#[test]
fn tables() {
    let mut cluster = Cluster::new();
    cluster.ok(
        "POST",
        JOBS,
        &with(job("j"), &json!({"spec": {"completions": 5}})),
    );
    cluster.now = cluster.now + std::time::Duration::from_secs(125);
    let request = Request {
        method: "GET",
        path: JOBS,
        query: "",
        accept: "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
        content_type: "",
        body: b"",
        ..Request::default()
    };
    let Reply::Complete(response) = cluster.server.handle(request, cluster.now) else {
        panic!("a list is complete")
    };
    let table: Value = serde_json::from_slice(&response.into_bytes()).unwrap();
    assert_eq!(table["kind"], "Table");
    assert_eq!(table["columnDefinitions"][0]["format"], "name");
    let cells = table["rows"][0]["cells"].as_array().unwrap();
    assert_eq!(
        cells[..5],
        [
            json!("j"),
            json!("Running"),
            json!("0/5"),
            json!(""),
            json!("2m5s")
        ]
    );
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
}

#[test]
fn every_kind_is_discovered() {
    let mut cluster = Cluster::new();
    for kind in KINDS.iter() {
        let path = match kind.group {
            "" => "/api/v1".to_owned(),
            _ => format!("/apis/{}", kind.api_version),
        };
        let list = cluster.get(&path);
        let names: Vec<&str> = list["resources"]
            .as_array()
            .unwrap()
            .iter()
            .map(|resource| resource["name"].as_str().unwrap())
            .collect();
        assert!(names.contains(&kind.plural), "{path}: {names:?}");
        let (status, _) = cluster.send("GET", &format!("{path}/{}", kind.plural), &Value::Null);
        assert_eq!(status, 200, "{}", kind.plural);
    }
}

#[test]
fn unknown_places_and_methods() {
    let mut cluster = Cluster::new();
    let mut check = |method: &str, path: &str, media: &str, code: u16, expected: &str| {
        let response = cluster.request(method, path, media, "{}");
        let status = response.status;
        let text = String::from_utf8(response.into_bytes()).unwrap();
        assert_eq!(status, code, "{method} {path}: {text}");
        assert!(text.contains(expected), "{method} {path}: {text}");
    };
    let json = "application/json";
    check("GET", "/nowhere", json, 404, "404 page not found\n");
    check(
        "GET",
        "/apis/nope/v1/things",
        json,
        404,
        "404 page not found\n",
    );
    check(
        "GET",
        "/apis/batch/v1/things",
        json,
        404,
        "the server could not find the requested",
    );
    check(
        "PUT",
        JOBS,
        json,
        405,
        "the server does not allow this method",
    );
    check(
        "DELETE",
        &format!("{JOBS}/a/status"),
        json,
        405,
        "MethodNotAllowed",
    );
    check(
        "POST",
        JOBS,
        "text/plain",
        415,
        "the body of the request was in an unknown format",
    );
    check(
        "PATCH",
        &format!("{JOBS}/a"),
        json,
        415,
        "415: Unsupported Media Type",
    );
}
