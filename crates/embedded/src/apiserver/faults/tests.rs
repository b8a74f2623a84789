//! Tests both notations of rules, and the result of each kind of fault.

use std::time::Duration;

use super::*;
use crate::{
    apiserver::{
        http::{Request, prepare},
        server::{ApiServer, Limits, Reply},
    },
    model::Time,
};

fn rule(text: &str) -> Rule {
    text.parse().expect(text)
}

fn faults(rules: &[&str]) -> Faults {
    let rules = rules.iter().map(|text| rule(text)).collect();
    Faults::new(7, rules, at(0)).expect("good rules")
}

fn at(secs: u64) -> Monotonic {
    Monotonic::from_secs(secs)
}

fn asked(text: &str) -> ObservedRequest {
    let (method, url) = text.split_once(' ').expect("METHOD URL");
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    let request = Request {
        method,
        path,
        query,
        accept: "",
        user_agent: "",
        authorization: "",
        content_type: "application/json",
        body: b"{}",
    };
    ObservedRequest {
        label: prepare(request).label(),
        path: path.to_owned(),
        query: query.to_owned(),
        client: "lakh/1".to_owned(),
    }
}

const PODS: &str = "/api/v1/namespaces/default/pods";

/// The outcome of a request as text.
fn outcome(faults: &mut Faults, text: &str) -> String {
    let verdict = faults.judge(&asked(text), at(0));
    let outcome = match verdict.outcome {
        RequestOutcome::Answered => "answered".to_owned(),
        RequestOutcome::Refused(response) => {
            let headers = response
                .headers
                .iter()
                .map(|(name, value)| format!(" {name}={value}"));
            format!("{}{}", response.status, headers.collect::<String>())
        }
        RequestOutcome::TimedOut(when, delay, response) => {
            format!("{when:?} {delay:?} {}", response.status)
        }
        RequestOutcome::Dropped(when) => format!("{when:?} dropped"),
    };
    let latency = match verdict.latency.as_millis() {
        0 => String::new(),
        millis => format!(" after {millis}ms"),
    };
    let stale = verdict
        .stale
        .map_or_else(String::new, |changes| format!(" {changes} ago"));
    outcome + &latency + &stale
}

#[test]
fn each_fault_decides_the_outcome_of_a_request() {
    let create = &format!("POST {PODS}");
    let list = &format!("GET {PODS}");
    let watch = &format!("GET {PODS}?watch=true");
    let page = &format!("GET {PODS}?limit=5&continue=abc");
    let cases = [
        ("latency=50ms", create, "answered after 50ms"),
        ("refuse=409", create, "409"),
        ("refuse=429", create, "429 Retry-After=1"),
        ("refuse=429,retryAfter=2500ms", create, "429 Retry-After=3"),
        ("refuse=500", create, "500"),
        ("refuse=503", watch, "503"),
        ("timeout-before=2s", create, "Before 2s 504"),
        ("timeout-after", create, "After 0ns 504"),
        ("timeout-after", watch, "answered"),
        ("drop-before", list, "Before dropped"),
        ("drop-after", create, "After dropped"),
        ("drop-after", watch, "answered"),
        ("expire", list, "answered"),
        ("expire", page, "410"),
        ("stale=9", list, "answered 9 ago"),
        ("stale=9", create, "answered"),
        ("close-watch", watch, "answered"),
        ("duplicate-events", watch, "answered"),
        ("partition", create, "answered"),
    ];
    for (text, request, want) in cases {
        assert_eq!(
            outcome(&mut faults(&[text]), request),
            want,
            "{text}: {request}"
        );
    }
}

#[test]
fn latencies_add_up_and_the_first_rule_decides_the_rest() {
    let rules = [
        "latency=10ms",
        "refuse=500,times=1",
        "latency=5ms",
        "refuse=409",
    ];
    let mut faults = faults(&rules);
    let create = &format!("POST {PODS}");
    assert_eq!(outcome(&mut faults, create), "500 after 15ms");
    assert_eq!(outcome(&mut faults, create), "409 after 15ms");
    let hits = |faults: &Faults, nth: usize| faults.to_json()["rules"][nth]["hits"].clone();
    let counted: Vec<_> = (0..4).map(|nth| hits(&faults, nth)).collect();
    assert_eq!(counted, [2, 1, 2, 1], "what came too late was not met");
}

#[test]
fn rules_are_for_some_requests_only() {
    let cases = [
        ("verbs=create+patch", true, false),
        ("verbs=list", false, true),
        ("resources=pods", true, true),
        ("resources=pods/status+jobs", false, false),
        ("path=/api/v1/namespaces/default", true, true),
        ("path=/apis", false, false),
        ("client=lakh/", true, true),
        ("client=kubectl", false, false),
        ("probability=0", false, false),
    ];
    for (more, create, list) in cases {
        let mut faults = faults(&[&format!("refuse=500,{more}")]);
        assert_eq!(
            outcome(&mut faults, &format!("POST {PODS}")) == "500",
            create,
            "{more}"
        );
        assert_eq!(
            outcome(&mut faults, &format!("GET {PODS}")) == "500",
            list,
            "{more}"
        );
    }
    let mut status = faults(&["refuse=500,resources=pods/status"]);
    assert_eq!(
        outcome(&mut status, &format!("PATCH {PODS}/p/status")),
        "500"
    );
    assert_eq!(outcome(&mut status, &format!("PATCH {PODS}/p")), "answered");
}

#[test]
fn rules_end_after_their_time_and_number() {
    let mut faults = faults(&["refuse=500,for=10s", "refuse=409,times=2"]);
    let asked = asked(&format!("POST {PODS}"));
    let codes: Vec<u16> = [0, 9, 10, 11, 12]
        .map(|secs| match faults.judge(&asked, at(secs)).outcome {
            RequestOutcome::Refused(response) => response.status,
            _ => 200,
        })
        .into();
    assert_eq!(codes, [500, 500, 409, 409, 200]);
}

#[test]
fn chances_follow_from_the_seed() {
    let play = |seed| {
        let rules = vec![rule("refuse=500,probability=0.3")];
        let mut faults = Faults::new(seed, rules, at(0)).expect("a good rule");
        let asked = asked(&format!("POST {PODS}"));
        let mut met = || {
            matches!(
                faults.judge(&asked, at(0)).outcome,
                RequestOutcome::Refused(_)
            )
        };
        (0..2000).map(|_| met()).collect::<Vec<bool>>()
    };
    let hits = play(1).iter().filter(|met| **met).count();
    assert!((530..670).contains(&hits), "{hits} of 2000");
    assert_eq!(play(1), play(1));
    assert_ne!(play(1), play(2));
}

#[test]
fn watches_are_closed_expired_and_held() {
    let watch = asked(&format!("GET {PODS}?watch=1"));
    let course = |text: &str, now: u64| faults(&[text]).judge_watch(&watch, at(0), at(now));
    assert_eq!(course("close-watch", 0), Course::Closed);
    assert_eq!(course("close-watch=5s", 2), Course::On(Some(at(5))));
    assert_eq!(course("close-watch=5s", 5), Course::Closed);
    assert_eq!(course("expire=1s", 1), Course::Expired);
    assert_eq!(course("partition", 1), Course::Held(None));
    assert_eq!(course("partition,for=5s", 1), Course::Held(Some(at(5))));
    assert_eq!(course("partition,for=5s", 5), Course::On(None));
    assert_eq!(course("partition,client=kubectl", 1), Course::On(None));
    let two = faults(&["partition,for=5s", "partition,for=9s"]);
    assert_eq!(two.held(&watch, at(1)), Some(Some(at(9))));
    let for_ever = faults(&["partition,for=5s", "partition"]);
    assert_eq!(for_ever.held(&watch, at(1)), Some(None));
    let mut once = faults(&["close-watch,times=1"]);
    assert_eq!(once.judge_watch(&watch, at(0), at(0)), Course::Closed);
    assert_eq!(once.judge_watch(&watch, at(0), at(0)), Course::On(None));
}

#[test]
fn events_come_twice_and_later() {
    let watch = asked(&format!("GET {PODS}?watch=1"));
    let mut faults = faults(&["duplicate-events", "delay-events=20ms", "delay-events=1ms"]);
    let sending = faults.judge_events(&watch, at(0));
    let delay = Duration::from_millis(21);
    assert_eq!(sending, Sending { delay, twice: true });
}

#[test]
fn rules_that_make_no_sense_are_refused_by_field() {
    let cases = [
        ("", "fault: unknown fault \"\"; known are latency"),
        (
            "boredom",
            "fault: unknown fault \"boredom\"; known are latency",
        ),
        ("latency", "delay: is missing"),
        (
            "latency=5",
            "delay: \"5\" must be a duration such as 200ms or 1m30s",
        ),
        ("refuse", "code: is missing"),
        ("refuse=200", "code: must be from 400 to 599"),
        (
            "refuse=often",
            "code: invalid type: string \"often\", expected u16",
        ),
        ("drop-after=1s", "fault: drop-after has no value"),
        ("drop-after,delay=1s", "delay: does not apply to this fault"),
        ("stale=1,code=500", "code: does not apply to this fault"),
        (
            "latency=1s,retryAfter=1s",
            "retryAfter: does not apply to this fault",
        ),
        (
            "stale=1,probability=2",
            "probability: must be a number from 0 to 1",
        ),
        (
            "partition,times=1",
            "times: does not apply to a partition, which needs a duration",
        ),
        ("stale=1,verb=get", "verb: unknown field `verb`"),
        ("stale=1,times", "times: must be FIELD=VALUE"),
        ("stale=1,times=1,times=2", "times: is given twice"),
    ];
    for (text, want) in cases {
        let error = text.parse::<Rule>().expect_err(text).to_string();
        assert!(error.starts_with(want), "{text}: {error}");
    }
    let none = faults(&[]);
    let cases = [
        ("{}", "fault: missing field `rules`"),
        (
            r#"{"rules":[{"fault":"stale","changes":1},{"fault":"stale"}]}"#,
            "rules[1].changes: is missing",
        ),
        (
            r#"{"rules":[{"fault":"latency","delay":7}]}"#,
            "rules[0].delay: invalid type: integer `7`",
        ),
        (r#"{"rules":[],"sed":1}"#, "sed: unknown field `sed`"),
        (r#"{"rules":[]} x"#, "body: trailing characters"),
    ];
    for (json, want) in cases {
        let error = none
            .read(json.as_bytes(), at(0))
            .expect_err(json)
            .to_string();
        assert!(error.starts_with(want), "{json}: {error}");
    }
}

#[test]
fn rules_are_shown_as_they_can_be_sent() {
    let typed = "refuse=429,retryAfter=1m30s,verbs=create+patch,resources=pods,path=/api,client=l,\
                 probability=0.5,times=3,for=10s";
    let shown = faults(&[typed, "stale=3", "partition"]).to_json();
    let mut sent = shown.clone();
    for rule in sent["rules"].as_array_mut().expect("a list") {
        assert_eq!(
            rule.as_object_mut().expect("a rule").remove("hits"),
            Some(0.into())
        );
    }
    let read = faults(&[])
        .read(sent.to_string().as_bytes(), at(0))
        .expect("good rules");
    assert_eq!(read.to_json(), shown);
    assert_eq!(shown["seed"], 7);
    assert_eq!(shown["rules"][0]["retryAfter"], "1m30s");
    assert_eq!(shown["rules"][0]["for"], "10s");
}

#[test]
fn stale_reads_return_an_older_state() {
    let mut server = ApiServer::new(1, Limits::default(), Time::default());
    let maps = "/api/v1/namespaces/default/configmaps";
    let mut call = |method: &str, path: &str, body: &str, changes: Option<u64>| {
        let request = Request {
            method,
            path,
            query: "",
            accept: "application/json",
            user_agent: "",
            authorization: "",
            content_type: match method {
                "PATCH" => "application/merge-patch+json",
                _ => "application/json",
            },
            body: body.as_bytes(),
        };
        let reply = match changes {
            None => server.handle(request, Time::default()),
            Some(changes) => server.handle_stale(prepare(request), changes, Time::default()),
        };
        let Reply::Complete(response) = reply else {
            panic!("no watch was asked for");
        };
        let code = response.status;
        let body: Value = serde_json::from_slice(&response.into_bytes()).expect("JSON");
        (code, body)
    };
    let map = |name: &str| format!(r#"{{"metadata":{{"name":"{name}"}},"data":{{"k":"1"}}}}"#);
    let mut versions = Vec::new();
    for name in ["a", "b"] {
        let (code, body) = call("POST", maps, &map(name), None);
        assert_eq!(code, 201);
        versions.push(body["metadata"]["resourceVersion"].clone());
    }
    let (code, _) = call("PATCH", &format!("{maps}/a"), r#"{"data":{"k":"2"}}"#, None);
    assert_eq!(code, 200);
    let (code, _) = call("DELETE", &format!("{maps}/b"), "", None);
    assert_eq!(code, 200);
    let mut listed = |changes: u64| {
        let (_, list) = call("GET", maps, "", Some(changes));
        let items = list["items"].as_array().expect("a list").iter();
        let items = items.filter(|item| item["metadata"]["name"] != "kube-root-ca.crt");
        let shown = items.map(|item| format!("{}={}", item["metadata"]["name"], item["data"]["k"]));
        let shown: Vec<String> = shown.collect();
        let version = list["metadata"]["resourceVersion"].clone();
        (shown.join(" ").replace('"', ""), version)
    };
    assert_eq!(listed(0).0, "a=2");
    assert_eq!(listed(1).0, "a=2 b=1");
    assert_eq!(listed(2), ("a=1 b=1".to_owned(), versions[1].clone()));
    assert_eq!(listed(3), ("a=1".to_owned(), versions[0].clone()));
    assert_eq!(listed(99).0, "");
    let (code, b) = call("GET", &format!("{maps}/b"), "", Some(1));
    assert_eq!((code, &b["data"]["k"]), (200, &Value::from("1")));
    let (code, _) = call("GET", &format!("{maps}/b"), "", None);
    assert_eq!(code, 404, "nothing has changed");
}
