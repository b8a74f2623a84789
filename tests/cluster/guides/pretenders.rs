//! Stand-ins for programs that a test cannot run. **Every command of the documents that is not run is here, with the
//! reason, and nowhere else**; a program without a stand-in is run.
//!
//! Each is a bash script. It can use the original programs, `$PROJECT`, `$LAKH` (the binary under test), and `$API` and
//! `$PROBES` (ports of the cluster). It must fail for unknown arguments.

/// Stand-ins: name, reason and script. The reason says why the program is not run, or is run differently.
pub(super) const PRETENDERS: &[(&str, &str, &str)] = &[
    (
        "docker",
        "an image takes minutes to build, and there is no registry: that the build file is there is checked",
        r#"case "$1" in
             build) test -f "$3" ;;
             push) [[ "$2" == registry.example.com/* ]] ;;
             *) false ;;
           esac"#,
    ),
    (
        "helm",
        "the embedded cluster does not run Deployments: what would be installed is printed, and looked at",
        r#"case "$1 $2" in
             "install lakh") shift; helm template "$@" ;;
             "upgrade --install") shift 2; helm template "$@" ;;
             "uninstall lakh" | "rollback lakh") test "$3 $4 $#" = "--namespace lakh-system 4" ;;
             *) false ;;
           esac"#,
    ),
    (
        "kubectl",
        "against the embedded cluster all is run but: what concerns kinds that it does not have (Deployments, \
         ConfigMaps, ServiceAccounts, roles, those of Prometheus), which is rendered or checked by kubectl alone; \
         connections to a Pod; what is about a cluster of kwok; and what a watch prints after two seconds",
        r#"case "$*" in
             "apply -f -")
               text=$(cat)
               if grep -Eq 'kind: (Deployment|PrometheusRule)' <<<"$text"; then echo "$text"
               else kubectl apply -f - <<<"$text"; fi ;;
             "apply -k "*) kubectl kustomize "$3" ;;
             "delete -k "*) kubectl kustomize "$3" >/dev/null ;;
             "-n lakh-system rollout status deployment lakh") ;;
             "-n lakh-system get lease lakh-managed-by -o jsonpath="*) ;;
             "-n lakh-system port-forward deploy"?*"/lakh 8080") ;;
             *" create configmap "* | *" create serviceaccount "* | "create clusterrolebinding "*)
               kubectl "$@" --dry-run=client --output name ;;
             *" create token "*) echo a-token ;;
             *" label configmap lakh-dashboard grafana_dashboard=1") ;;
             *" target/kwok.kubeconfig "*) ;;
             *" auth can-i "*) kubectl "$@" || test $? = 1 ;;
             "lakh "*) shift; exec lakh "$@" ;;
             *" -w") timeout 2 kubectl "$@" || test $? = 124 ;;
             *)
               # A server that was started just before has a file by which it is found.
               if [[ "$1" == --kubeconfig ]]; then
                 for _ in $(seq 100); do if test -s "$2"; then break; fi; sleep 0.1; done
               fi
               kubectl "$@" ;;
           esac"#,
    ),
    (
        "lakh",
        "all is run; what serves until somebody ends it is asked to end, and the doctor may find something",
        r#"case "$1" in
             controller)
               case "$*" in *" --listen"*) ;; *) set -- "$@" --listen=127.0.0.1:0 ;; esac
               exec timeout --preserve-status 5 "$LAKH" "$@" ;;
             local)
               case "$*" in
                 *" -f "*) exec timeout 120 "$LAKH" "$@" ;;
                 *--kubeconfig-out*) exec timeout --preserve-status 30 "$LAKH" "$@" ;;
                 *) exec timeout --preserve-status 5 "$LAKH" "$@" ;;
               esac ;;
             doctor) "$LAKH" "$@" || test $? = 1 ;;
             *) "$LAKH" "$@" ;;
           esac"#,
    ),
    (
        "curl",
        "all is run; ports of the documents are those of the test's own cluster",
        r#"for argument; do
             argument=${argument//:8080/:$PROBES}
             set -- "$@" "${argument//:41233/:$API}"
             shift
           done
           curl --fail --silent --show-error "$@""#,
    ),
    (
        "cargo",
        "it is what runs this test, and would build everything again: that targets and modules are there is checked; \
         what is to run lakh runs it",
        r#"case "$*" in
             "install --path . --locked" | "install --path crates/inspect --locked") test -f "$PROJECT/Cargo.lock"; exit ;;
             "run --release -- "*) shift 3; exec lakh "$@" ;;
             "run --release -p lakh-loadtest -- "*) shift 5; exec lakh-loadtest "$@" ;;
           esac
           [[ " build bench test " == *" $1 "* ]]
           kind=$1
           shift
           while test $# -gt 0; do
             case "$1" in
               --test) test -f "$PROJECT/tests/$2.rs" -o -f "$PROJECT/tests/$2/main.rs"; shift ;;
               --bench) test -f "$PROJECT/benches/$2.rs"; shift ;;
               -p) test "$2" = lakh-core; shift ;;
               --release | --workspace | --lib | --no-default-features | -- | --ignored | --nocapture) ;;
               FILE:: | real | generated | shards) ;;
               *::*) grep -q "^mod ${1%%::*};" "$PROJECT"/tests/*/main.rs ;;
               *) echo "cargo $kind: unknown: $1" >&2; exit 2 ;;
             esac
             shift
           done"#,
    ),
    (
        "just",
        "its recipes take minutes to hours: that they, and what they are told by the environment, are there is checked",
        r#"grep -Eq "^$1( |:)" "$PROJECT/justfile"
           for name in $(env | grep -oE '^SIM_[A-Z_]+' || true); do
             grep -rq "\"$name\"" "$PROJECT/tests/sim"
           done"#,
    ),
    (
        "lakh-loadtest",
        "a program of another package, with hours of load: `loadtest` checks that it takes these arguments",
        "true",
    ),
    (
        "pgrep",
        "the processes that it looks for are not there",
        "echo 1",
    ),
    ("kwokctl", "it would download and start a cluster", "true"),
    (
        "kube-controller-manager",
        "it would need a real API server",
        "true",
    ),
    (
        "mdbook",
        "it is not installed everywhere; CI runs it where it is",
        r#"test "$*" = build && test -f "$PROJECT/book.toml""#,
    ),
];
