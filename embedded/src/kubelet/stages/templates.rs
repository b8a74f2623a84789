//! Statuses as kwok's templates.
//!
//! Responsible for: the same statuses that `kubelet::status` writes, in kwok's language, as far as it
//! goes. Must not: say when.
//!
//! The first container has the exit code; the others end with it, with 0.

use super::{Disruption, init_templates};

/// The Pod has begun, and its containers run.
pub(super) fn running(ready: bool) -> String {
    let containers = running_containers(ready);
    format!("{NOW}phase: Running\n{ADDRESSES}{containers}{INITS}")
}

/// Conditions and statuses of containers that have just been started.
pub(super) fn running_containers(ready: bool) -> String {
    let readiness = match ready {
        true => all_ready(),
        false => unready("ContainersNotReady"),
    };
    let running = "    running:\n      startedAt: {{ $now | Quote }}\n";
    format!(
        "conditions:\n{}{}{readiness}{}",
        condition("PodReadyToStartContainers", "\"True\"", ""),
        condition("Initialized", "\"True\"", NO_REASON),
        first_statuses(ready, true, running),
    )
}

/// Containers that run have become ready.
pub(super) fn ready() -> String {
    let state = "  state:\n    running:\n      startedAt: {{ .state.running.startedAt | Quote }}\n";
    format!(
        "{NOW}conditions:\n{}{}",
        all_ready(),
        statuses(true, &format!("{state}{LAST}")),
    )
}

/// The containers have ended by themselves: for good, or until they are started again.
pub(super) fn ended(code: u8, reason: &str) -> String {
    if code == 0 {
        return terminal("Succeeded", "0", "Completed", "PodCompleted", "");
    }
    let first = format!("{{{{ if eq $nth 0 }}}}{code}{{{{ else }}}}0{{{{ end }}}}");
    let why = format!("{{{{ if eq $nth 0 }}}}{reason}{{{{ else }}}}Completed{{{{ end }}}}");
    let failed = terminal("Failed", &first, &why, "PodFailed", "");
    let waiting = format!(
        "  {{{{ if eq $nth 0 }}}}
  state:
    waiting:
      reason: CrashLoopBackOff
  lastState:
{}  {{{{ else }}}}
  state:
{}  {{{{ end }}}}
",
        terminated(&code.to_string(), reason),
        terminated("0", "Completed"),
    );
    let again = format!(
        "{NOW}phase: Running\nconditions:\n{}{}",
        unready("ContainersNotReady"),
        statuses(false, &waiting),
    );
    format!(
        "{{{{ if eq .spec.restartPolicy \"Never\" }}}}\n{failed}{{{{ else }}}}\n{again}{{{{ end }}}}\n"
    )
}

/// What has crashed runs again; what has ended well stays so.
pub(super) fn restarted() -> String {
    format!(
        "{NOW}conditions:
{}containerStatuses:
{{{{ range .status.containerStatuses }}}}
- name: {{{{ .name | Quote }}}}
  image: {{{{ .image | Quote }}}}
  {{{{ if .state.waiting }}}}
  ready: true
  started: true
  restartCount: {{{{ add1 .restartCount }}}}
  state:
    running:
      startedAt: {{{{ $now | Quote }}}}
  {LAST_INDENTED}
  {{{{ else }}}}
  ready: false
  started: false
  restartCount: {{{{ .restartCount }}}}
  state:
    {{{{ YAML .state 2 }}}}
  {{{{ end }}}}
{{{{ end }}}}
",
        all_ready(),
    )
}

/// A Pod that is being deleted has been stopped, before it ever began or later.
pub(super) fn stopped(code: u8) -> String {
    let (phase, reason, why) = match code {
        0 => ("Succeeded", "Completed", "PodCompleted"),
        _ => ("Failed", "Error", "PodFailed"),
    };
    let ran = terminal(phase, &code.to_string(), reason, why, "");
    let began = init_templates::stopped(code);
    let lost = "    terminated:
      exitCode: 137
      reason: ContainerStatusUnknown
      message: The container could not be located when the pod was terminated
";
    let never_began = first_statuses(false, false, lost);
    format!(
        "{{{{ if eq .status.phase \"Running\" }}}}\n{ran}{{{{ else if .status.podIP }}}}\n{began}{{{{ else }}}}
phase: Failed
{never_began}{{{{ end }}}}
"
    )
}

/// Somebody takes the Pod away: its kubelet ends it; others only say why, and delete it.
pub(super) fn disrupted(cause: Disruption) -> String {
    let container = "{{ (index .spec.containers 0).name }}";
    let target = cause.condition(container).map(|(reason, message)| {
        let more = format!("  reason: {reason}\n  message: {message:?}\n");
        condition("DisruptionTarget", "\"True\"", &more)
    });
    let target = target.unwrap_or_default();
    match (cause.by(), cause.status(container)) {
        (super::By::Kubelet, status) => {
            let (reason, message) = status.unwrap_or_default();
            let head = format!("reason: {reason}\nmessage: {message:?}\n");
            let text = terminal("Failed", "143", "Error", "PodFailed", &target);
            text.replacen("phase:", &format!("{head}phase:"), 1)
        }
        (super::By::PodGc, _) => format!("{NOW}phase: Failed\nconditions:\n{target}"),
        (super::By::Deletion | super::By::EvictionApi, _) => {
            format!("{NOW}conditions:\n{target}")
        }
    }
}

/// All containers have ended.
fn terminal(phase: &str, code: &str, reason: &str, why: &str, more_conditions: &str) -> String {
    let state = format!("  state:\n{}{LAST}", terminated(code, reason));
    format!(
        "{NOW}phase: {phase}
conditions:
{more_conditions}{}{}{}{SIDECARS_END}",
        condition("PodReadyToStartContainers", "\"False\"", ""),
        unready(why),
        statuses(false, &state),
    )
}

/// The containers are ready, and so is the Pod.
fn all_ready() -> String {
    ["ContainersReady", "Ready"]
        .map(|kind| condition(kind, "\"True\"", NO_REASON))
        .concat()
}

/// Neither the containers nor the Pod are ready.
pub(super) fn unready(why: &str) -> String {
    let why = format!("  reason: {why}\n  message: null\n");
    ["ContainersReady", "Ready"]
        .map(|kind| condition(kind, "\"False\"", &why))
        .concat()
}

pub(super) fn condition(kind: &str, status: &str, more: &str) -> String {
    format!(
        "- type: {kind}\n  status: {status}\n  lastTransitionTime: {{{{ $now | Quote }}}}\n{more}"
    )
}

/// Statuses of containers that had none, all in one state.
pub(super) fn first_statuses(ready: bool, started: bool, state: &str) -> String {
    format!(
        "containerStatuses:
{{{{ range .spec.containers }}}}
- name: {{{{ .name | Quote }}}}
  image: {{{{ .image | Quote }}}}
  ready: {ready}
  started: {started}
  restartCount: 0
  state:
{state}{{{{ end }}}}
"
    )
}

/// All container statuses anew: the list is replaced as a whole.
fn statuses(ready: bool, state: &str) -> String {
    format!(
        "containerStatuses:
{{{{ range $nth, $container := .status.containerStatuses }}}}
{{{{ with $container }}}}
- name: {{{{ .name | Quote }}}}
  image: {{{{ .image | Quote }}}}
  ready: {ready}
  started: {ready}
  restartCount: {{{{ .restartCount }}}}
{state}{{{{ end }}}}
{{{{ end }}}}
"
    )
}

/// A state of a container whose status is at hand.
pub(super) fn terminated(code: &str, reason: &str) -> String {
    format!(
        "    terminated:
      exitCode: {code}
      reason: {reason}
      {{{{ with .state.running }}}}
      startedAt: {{{{ .startedAt | Quote }}}}
      {{{{ end }}}}
      finishedAt: {{{{ $now | Quote }}}}
"
    )
}

pub(super) const NOW: &str = "{{ $now := Now }}\n";

/// When and where the Pod began.
pub(super) const ADDRESSES: &str = "startTime: {{ $now | Quote }}
hostIP: {{ NodeIPWith .spec.nodeName | Quote }}
podIP: {{ PodIPWith .spec.nodeName ( or .spec.hostNetwork false ) ( or .metadata.uid \"\" ) ( or .metadata.name \"\" ) ( or .metadata.namespace \"\" ) | Quote }}
";

/// What is said of a condition that holds.
const NO_REASON: &str = "  reason: null\n  message: null\n";

/// The conditions of a node that takes Pods.
pub(super) const NODE_READY: &str = "{{ $now := Now }}
conditions:
{{ range NodeConditions }}
- type: {{ .type | Quote }}
  status: {{ .status | Quote }}
  reason: {{ .reason | Quote }}
  message: {{ .message | Quote }}
  lastHeartbeatTime: {{ $now | Quote }}
  lastTransitionTime: {{ $now | Quote }}
{{ end }}
";

/// How the latest try but one ended, as it was.
pub(super) const LAST: &str = "  {{ if .lastState }}
  lastState:
    {{ YAML .lastState 2 }}
  {{ end }}
";

const LAST_INDENTED: &str = "{{ if .lastState }}
  lastState:
    {{ YAML .lastState 2 }}
  {{ end }}";

/// Regular init containers are done, sidecars run.
const INITS: &str = "{{ if .spec.initContainers }}
initContainerStatuses:
{{ range .spec.initContainers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  ready: true
  restartCount: 0
  {{ if eq ( or .restartPolicy \"\" ) \"Always\" }}
  started: true
  state:
    running:
      startedAt: {{ $now | Quote }}
  {{ else }}
  started: false
  state:
    terminated:
      exitCode: 0
      reason: Completed
      startedAt: {{ $now | Quote }}
      finishedAt: {{ $now | Quote }}
  {{ end }}
{{ end }}
{{ end }}
";

/// Sidecars end with their Pod.
const SIDECARS_END: &str = "{{ if .status.initContainerStatuses }}
initContainerStatuses:
{{ range .status.initContainerStatuses }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  ready: {{ if .state.running }}false{{ else }}true{{ end }}
  started: false
  restartCount: {{ .restartCount }}
  state:
    {{ if .state.running }}
    terminated:
      exitCode: 0
      reason: Completed
      startedAt: {{ .state.running.startedAt | Quote }}
      finishedAt: {{ $now | Quote }}
    {{ else }}
    {{ YAML .state 2 }}
    {{ end }}
{{ end }}
{{ end }}
";
