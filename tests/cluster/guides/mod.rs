//! Runs every command of the documents unchanged against `lakh local`: all blocks of a page in order, in a folder of
//! its own.
//!
//! `pretenders` has stand-ins for programs that cannot run here, with the reasons. The table here has the needs of each
//! page. New pages and commands run without being listed anywhere.

mod blocks;
mod pretenders;
mod stage;

use std::{fs, path::Path, thread};

use crate::support::project;

use blocks::{Block, blocks};
use stage::{Needs, Stage};

/// Places of the documents.
const PLACES: &[&str] = &[
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "deploy",
    "docs",
    "examples",
    "loadtest",
];

/// Pages that need more than an empty cluster.
const NEEDS: &[Needs] = &[
    Needs {
        page: "docs/first-job.md",
        cluster: &[],
        before: "",
        // Otherwise it would take minutes.
        puts: &[
            ("completions: 100000", "completions: 20"),
            ("parallelism: 500", "parallelism: 5"),
            ("maxFailedIndexes: 100", "maxFailedIndexes: 1"),
        ],
        file: Some("frames.yaml"),
        prints_otherwise: false,
    },
    Needs {
        page: "docs/install.md",
        cluster: &["--mode=managed-by"],
        before: "kubectl create namespace lakh-system",
        puts: &[],
        file: None,
        prints_otherwise: false,
    },
    Needs {
        page: "docs/move-over.md",
        cluster: &[],
        before: "kubectl create cronjob nightly --image=busybox:1.37 --schedule='0 2 * * *'",
        puts: &[],
        file: None,
        prints_otherwise: false,
    },
    Needs {
        page: "docs/troubleshooting.md",
        cluster: &["--pod-duration=1m"],
        before: "kubectl create job frames --image=busybox:1.37
                 kubectl wait job frames --for=jsonpath='{.status.active}'=1 --timeout=30s",
        puts: &[("NAMESPACE/NAME", "default/frames"), ("NAME", "frames")],
        file: None,
        prints_otherwise: false,
    },
    Needs {
        page: "docs/debug-jobs.md",
        cluster: &["--pod-duration=1m"],
        before: "kubectl create job render --image=busybox:1.37
                 kubectl wait job render --for=jsonpath='{.status.active}'=1 --timeout=30s",
        puts: &[],
        file: None,
        prints_otherwise: false,
    },
    Needs {
        page: "docs/index-record.md",
        cluster: &[],
        before: r#"printf '{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "render", "annotations":
                       {"lakh.dev/index-record": "true"}}, "spec": {"completionMode": "Indexed", "completions": 3,
                       "template": {"spec": {"restartPolicy": "Never", "containers":
                       [{"name": "main", "image": "busybox"}]}}}}' | kubectl create -f -
                   kubectl wait job render --for=condition=Complete --timeout=30s"#,
        puts: &[],
        file: None,
        prints_otherwise: false,
    },
    Needs {
        page: "docs/doctor.md",
        cluster: &[],
        before: "",
        puts: &[],
        file: None,
        // It is about a cluster with problems.
        prints_otherwise: true,
    },
    Needs {
        page: "docs/status.md",
        cluster: &["--pod-duration=100ms"],
        before: r#"job() {
                       printf '{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "%s"}, "spec": {%s,
                           "template": {"metadata": {"annotations": {"sim.lakh.dev/fail-indexes": "3"}}, "spec":
                           {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}}}}' "$@"
                   }
                   job train '"completionMode": "Indexed", "completions": 8, "backoffLimitPerIndex": 0' | kubectl create -f -
                   job pi '"suspend": true' | kubectl create -f -"#,
        puts: &[
            // The Job fails, so `status` exits with 1.
            ("train --watch", "train --watch || test $? = 1"),
            ("-n ml", "-n default"),
        ],
        file: None,
        // It is about a bigger Job.
        prints_otherwise: true,
    },
    Needs {
        page: "docs/ui.md",
        cluster: &[],
        before: "",
        puts: &[
            // There is no certificate, and there are no remote clients.
            (
                "--ui-tls-cert-file tls.crt --ui-tls-private-key-file tls.key",
                "--ui-plain-http",
            ),
            ("0.0.0.0:8443", "127.0.0.1:0"),
        ],
        file: None,
        prints_otherwise: false,
    },
    Needs {
        page: "docs/embedded-cluster.md",
        cluster: &[],
        before: r#"printf '6f0c1a52,ann,1,"system:masters"\n9b7d33e8,bob,2,"readers"\n' > tokens
                   cp examples/indexed.yaml job.yaml"#,
        puts: &[],
        file: None,
        prints_otherwise: false,
    },
];

/// Returns all documents, by their paths below the project.
fn documents() -> Vec<String> {
    let mut found = Vec::new();
    let mut waiting: Vec<String> = PLACES.iter().map(|&place| place.to_owned()).collect();
    while let Some(place) = waiting.pop() {
        let path = project(&place);
        if Path::new(&path).is_dir() {
            let entries = fs::read_dir(&path).expect("a folder of ours can be read");
            let names = entries.map(|entry| entry.expect("an entry can be read").file_name());
            waiting.extend(names.map(|name| format!("{place}/{}", name.to_string_lossy())));
        } else if place.ends_with(".md") {
            found.push(place);
        }
    }
    found.sort();
    found
}

fn has_commands(page: &str) -> bool {
    let text = fs::read_to_string(project(page)).expect("it can be read");
    blocks(&text).iter().any(Block::has_commands)
}

#[test]
fn every_command_of_the_documents_runs() {
    let mut pages = documents();
    pages.retain(|page| has_commands(page));
    assert!(pages.len() > 15, "{pages:?}");
    let unknown = NEEDS
        .iter()
        .find(|needs| !pages.iter().any(|page| page == needs.page));
    assert!(unknown.is_none(), "{unknown:?}");
    let play = |page: &str| {
        let needs = NEEDS.iter().find(|needs| needs.page == page).copied();
        // A page lives as long as the test.
        let page: &'static str = Box::leak(page.to_owned().into_boxed_str());
        Stage::new(needs.unwrap_or(Needs {
            page,
            ..Needs::default()
        }))
        .play()
    };
    let mut failed = Vec::new();
    // Each page has its own cluster, and most pages spend most of the time waiting.
    for some in pages.chunks(4) {
        thread::scope(|scope| {
            let playing: Vec<_> = some
                .iter()
                .map(|page| (page, scope.spawn(|| play(page))))
                .collect();
            let ended = playing
                .into_iter()
                .map(|(page, played)| (page, played.join()));
            failed.extend(ended.filter_map(|(page, played)| played.is_err().then_some(page)));
        });
    }
    assert!(failed.is_empty(), "{failed:?}");
}
