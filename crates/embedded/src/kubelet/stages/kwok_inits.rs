//! Renders the lives of init containers for kwok.
//!
//! Responsible for: the `Stage` objects from the start of the first init container to the end of the last. Must not:
//! write statuses; `templates` has those.
//!
//! The Pod is Pending during this time, and its statuses show the current init container.

use serde_json::Value;

use super::{
    ExitReason, InitEnd, Stage,
    kwok::{KwokStageBuilder, Renderer},
    templates::render,
};

impl Renderer<'_> {
    /// Returns the objects for Pods of a stage with init containers. `ready` says whether the containers are ready as
    /// soon as they run.
    pub(super) fn inits(&self, stage: &Stage, ready: &str) -> Vec<Value> {
        let name = &stage.name;
        let mut started = self.running(&format!("lakh-pod-init-{name}"), name);
        started.expect(REGULAR_INITS, "Exists", &[]);
        started.expect(INIT_STATUSES, "DoesNotExist", &[]);
        started.delay(stage.start.unwrap_or_default());
        let mut objects = vec![started.next(&render("init-started", &[]))];

        let named = stage.inits.iter().filter_map(|init| init.name.as_deref());
        let named: Vec<&str> = named.collect();
        let ends = |what: &str, nth: usize, meant: Option<&str>| {
            let mut object = self.running(&format!("lakh-pod-init-{what}-{name}-{nth}"), name);
            object.expect(&turn("true"), "Exists", &[]);
            match meant {
                Some(meant) => object.expect(&turn("true"), "In", &[meant]),
                None if named.is_empty() => {}
                None => object.expect(&turn("true"), "NotIn", &named),
            }
            object
        };
        for (nth, init) in stage.inits.iter().enumerate() {
            let meant = init.name.as_deref();
            let wait = init.end().after().unwrap_or_default();
            if let Some(code) = init.end().exit_code.filter(|code| *code != 0) {
                let mut failed = ends("failed", nth, meant);
                failed.delay(wait);
                if let Some(failures) = init.failures {
                    failed.expect(&tries_below(failures), "Exists", &[]);
                }
                let reason = init.end().reason.map_or("Error", ExitReason::text);
                let code = code.to_string();
                let values = [("code", code.as_str()), ("reason", reason)];
                objects.push(failed.next(&render("init-failed", &values)));
            }
            if init.may_succeed() {
                let mut done = ends("done", nth, meant);
                done.delay(wait);
                if let Some(failures) = init.failures {
                    done.expect(&tries_below(failures), "DoesNotExist", &[]);
                }
                objects.push(done.next(&render("init-done", &[("ready", ready)])));
            }
        }
        if named.len() == stage.inits.len() {
            let others = ends("done", stage.inits.len(), None);
            objects.push(others.next(&render("init-done", &[("ready", ready)])));
        }
        objects
    }
}

impl InitEnd {
    fn may_succeed(&self) -> bool {
        self.failures.is_some() || self.end().exit_code.is_none_or(|code| code == 0)
    }
}

/// Restarts an init container after the kubelet's backoff.
pub(super) fn init_restarted() -> Value {
    let mut restarted = KwokStageBuilder::alive("lakh-pod-init-restarted", "Pending");
    restarted.expect(INIT_WAITING, "In", &["CrashLoopBackOff"]);
    restarted.back_off(
        "([.status.initContainerStatuses[]? | select(.state.waiting and .lastState) \
         | .restartCount] | max // 0)",
    );
    restarted.next(&render("init-restarted", &[]))
}

/// Returns the jq expression for the name of the running init container that is no sidecar, if its status meets the
/// condition.
fn turn(holds: &str) -> String {
    format!(
        "[{REGULAR_INITS}] as $regular | .status.initContainerStatuses[]? \
         | select(.state.running and (.name | IN($regular[])) and {holds}) | .name"
    )
}

fn tries_below(failures: u32) -> String {
    turn(&format!(".restartCount < {failures}"))
}

/// Names of init containers that are no sidecars.
pub(super) const REGULAR_INITS: &str =
    ".spec.initContainers[]? | select(.restartPolicy != \"Always\") | .name";
const INIT_STATUSES: &str = ".status.initContainerStatuses[]?.name";
const INIT_WAITING: &str = ".status.initContainerStatuses[]?.state.waiting.reason";
