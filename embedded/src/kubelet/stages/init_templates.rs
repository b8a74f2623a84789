//! Statuses of Pods whose init containers run, as kwok's templates.
//!
//! Responsible for: the same as `templates`, from the first init container to the last. Must not: say
//! when.
//!
//! Statuses of init containers are in the order of the spec, as this writes them.

use super::templates::{
    ADDRESSES, LAST, NOW, condition, first_statuses, running_containers, terminated, unready,
};

/// The Pod has begun: sidecars up to the first other init container run, and so does that.
pub(super) fn started() -> String {
    format!(
        "{NOW}phase: Pending
{ADDRESSES}conditions:
{}{}{}{}{{{{ $open := true }}}}
initContainerStatuses:
{{{{ range .spec.initContainers }}}}
{{{{ $sidecar := {IS_SIDECAR} }}}}
- name: {{{{ .name | Quote }}}}
  image: {{{{ .image | Quote }}}}
  restartCount: 0
  {{{{ if $open }}}}
{OPEN}{RUNS}  {{{{ else }}}}
  ready: false
  started: false
  state:
{INITIALIZING}  {{{{ end }}}}
{{{{ end }}}}
",
        condition("PodReadyToStartContainers", "\"True\"", ""),
        condition("Initialized", "\"False\"", NOT_INITIALIZED),
        unready("ContainersNotReady"),
        first_statuses(false, false, INITIALIZING),
    )
}

/// The init container that runs has done its part: what is next runs, the Pod after the last.
pub(super) fn done(ready: bool) -> String {
    let done = format!(
        "  {{{{ $open = true }}}}
  ready: true
  started: false
  state:
{}{LAST}",
        terminated("0", "Completed")
    );
    let next = format!(
        "  {{{{ else if and $open .state.waiting }}}}
{OPEN}{RUNS}"
    );
    format!(
        "{NOW}{{{{ $open := false }}}}
{}{{{{ if $open }}}}
phase: Running
{}{{{{ end }}}}
",
        inits(&done, &next),
        running_containers(ready),
    )
}

/// The init container that runs has failed: for good, or until it is started again.
pub(super) fn failed(code: u8, reason: &str) -> String {
    let exit = terminated(&code.to_string(), reason);
    let waits = format!(
        "  ready: false
  started: false
  state:
    waiting:
      reason: CrashLoopBackOff
  lastState:
{exit}"
    );
    format!(
        "{{{{ if eq .spec.restartPolicy \"Never\" }}}}
{}{{{{ else }}}}
{NOW}{}{{{{ end }}}}
",
        failed_for_good(&exit),
        inits(&waits, ""),
    )
}

/// A Pod that is being deleted has been stopped before its containers ran.
pub(super) fn stopped(code: u8) -> String {
    let reason = if code == 0 { "Completed" } else { "Error" };
    failed_for_good(&terminated(&code.to_string(), reason))
}

/// The init container that failed runs again.
pub(super) fn restarted() -> String {
    format!(
        "{NOW}initContainerStatuses:
{{{{ range .status.initContainerStatuses }}}}
- name: {{{{ .name | Quote }}}}
  image: {{{{ .image | Quote }}}}
  {{{{ if {HAS_CRASHED} }}}}
  restartCount: {{{{ add1 .restartCount }}}}
{RUNS}  ready: false
{LAST}  {{{{ else }}}}
  restartCount: {{{{ .restartCount }}}}
{AS_IT_IS}{LAST}  {{{{ end }}}}
{{{{ end }}}}
"
    )
}

/// The Pod has Failed before its containers ran; `exit` is that of the init container that ran.
fn failed_for_good(exit: &str) -> String {
    let ended = format!("  ready: false\n  started: false\n  state:\n{exit}{LAST}");
    let others = format!(
        "  {{{{ else if .state.running }}}}
  ready: false
  started: false
  state:
{}  {{{{ else if {HAS_CRASHED} }}}}
  ready: false
  started: false
  state:
    {{{{ YAML .lastState 2 }}}}
",
        terminated("0", "Completed")
    );
    format!(
        "{NOW}phase: Failed
conditions:
{}{}{}{}",
        condition("PodReadyToStartContainers", "\"False\"", ""),
        condition("Initialized", "\"False\"", NOT_INITIALIZED),
        unready("PodFailed"),
        inits(&ended, &others),
    )
}

/// The statuses of all init containers: `turn` is what becomes of the one that runs and is no
/// sidecar; `others` are further cases, of which those that none means stay as they are.
fn inits(turn: &str, others: &str) -> String {
    format!(
        "initContainerStatuses:
{{{{ range $nth, $init := .spec.initContainers }}}}
{{{{ $sidecar := {IS_SIDECAR} }}}}
{{{{ with index $.status.initContainerStatuses $nth }}}}
- name: {{{{ .name | Quote }}}}
  image: {{{{ .image | Quote }}}}
  restartCount: {{{{ .restartCount }}}}
  {{{{ if and .state.running (not $sidecar) }}}}
{turn}{others}  {{{{ else }}}}
{AS_IT_IS}{LAST}  {{{{ end }}}}
{{{{ end }}}}
{{{{ end }}}}
"
    )
}

const NOT_INITIALIZED: &str = "  reason: ContainersNotInitialized\n";

const INITIALIZING: &str = "    waiting:\n      reason: PodInitializing\n";

/// Of an init container.
const IS_SIDECAR: &str = "eq ( or .restartPolicy \"\" ) \"Always\"";

/// Of the status of an init container.
const HAS_CRASHED: &str = "and .state.waiting .lastState";

/// The way stays open behind a sidecar, which is ready when it runs.
const OPEN: &str = "  {{ $open = $sidecar }}
  ready: {{ $sidecar }}
";

const RUNS: &str = "  started: true
  state:
    running:
      startedAt: {{ $now | Quote }}
";

/// The state of an init container that nothing happens to.
const AS_IT_IS: &str = "  ready: {{ .ready }}
  started: {{ .started }}
  state:
    {{ YAML .state 2 }}
";
