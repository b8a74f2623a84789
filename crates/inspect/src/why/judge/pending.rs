//! Judges Pods that exist and do not run.

use std::time::Duration;

use crate::{
    objects::event_time,
    one_job::{JobSight, PendingGroup, PendingKind},
    words::{count, span},
};

use super::super::reason::Reason;

/// The scheduler, the kubelet and the runtime may take this long without a problem.
const PATIENCE: Duration = Duration::from_secs(30);

/// The order of kinds: those that need an action first.
const KINDS: [PendingKind; 9] = [
    PendingKind::Gates,
    PendingKind::Config,
    PendingKind::Image,
    PendingKind::Start,
    PendingKind::Crash,
    PendingKind::Node,
    PendingKind::Making,
    PendingKind::Scheduler,
    PendingKind::Kubelet,
];

/// Reports the first kind of pending Pods that is a problem.
pub(super) fn judge(sight: &JobSight) -> Option<Reason> {
    let mut kinds = KINDS.into_iter();
    kinds.find_map(|kind| {
        let (number, group) = sight.pods.waiting_for(kind)?;
        reason(sight, kind, number, group)
    })
}

fn reason(
    sight: &JobSight,
    kind: PendingKind,
    number: u32,
    group: &PendingGroup,
) -> Option<Reason> {
    let age = group.example.created.map(|at| sight.now.since(at));
    let is_old = age.is_none_or(|age| age >= PATIENCE);
    let since = age.map_or_else(String::new, |age| format!(" for {}", span(age)));
    let key = &sight.job.job.key;
    let pod = &group.example.name;
    let describe = format!("kubectl describe pod -n {} {pod}", key.namespace);
    let pods = count(number as usize, "Pod");
    let are = if number == 1 { "is" } else { "are" };
    let words = most(number, group);
    Some(match kind {
        PendingKind::Gates => Reason::new(
            "scheduling-gates",
            format!("{pods} {are} kept from the scheduler by scheduling gates: {words}."),
            "Whoever set these gates has to take them off.",
        ),
        PendingKind::Node => Reason::new(
            "no-node-fits",
            format!("{pods} {are} pending because no node fits: {words}."),
            format!(
                "Add nodes, or make the Job again with smaller requests or other node selectors and tolerations \
                 ({describe})."
            ),
        ),
        PendingKind::Scheduler if is_old => Reason::new(
            "no-scheduler",
            format!("No scheduler has looked at {pods}{since}."),
            format!("See whether the scheduler runs that the Pods name ({describe})."),
        ),
        PendingKind::Config => Reason::new(
            "missing-config",
            format!("{pods} cannot start: {words}."),
            "Create what is missing; the Pods go on by themselves.",
        ),
        PendingKind::Image => Reason::new(
            "image",
            format!("{pods} cannot get an image: {words}."),
            format!(
                "Correct the name in a new Job (a Job's Pod template stays as it is), push the image, or give its \
                 Pods the registry's imagePullSecrets ({describe})."
            ),
        ),
        PendingKind::Start => Reason::new(
            "container-start",
            format!("Containers of {pods} cannot be started: {words}."),
            format!("Correct the command, mounts or securityContext in a new Job ({describe})."),
        ),
        PendingKind::Crash => crash(sight, &pods, group),
        PendingKind::Making if is_old => making(sight, &pods, group, &since, &describe),
        PendingKind::Kubelet if is_old => Reason::new(
            "node-away",
            format!("The node {words} has not taken up {pods}{since}."),
            format!(
                "See whether it is Ready: kubectl get node {}.",
                group.example.node
            ),
        ),
        PendingKind::Scheduler | PendingKind::Making | PendingKind::Kubelet => return None,
    })
}

/// Formats the most frequent description, and the number of Pods that it is about.
fn most(number: u32, group: &PendingGroup) -> String {
    match group.count == number {
        true => group.words.clone(),
        false => format!("{} ({} of them)", group.words, group.count),
    }
}

fn crash(sight: &JobSight, pods: &str, group: &PendingGroup) -> Reason {
    let ends = group.example.containers.iter();
    let end = ends.filter_map(|it| it.ended_before.as_ref()).next();
    let end = end.map_or_else(String::new, |end| {
        format!(" with exit code {}", end.exit_code)
    });
    let namespace = &sight.job.job.key.namespace;
    Reason::new(
        "crash-loop",
        format!(
            "Containers of {pods} end{end} again and again, and wait longer before each next start (CrashLoopBackOff)."
        ),
        format!(
            "See why with kubectl logs -n {namespace} {} --previous; restarts count against spec.backoffLimit.",
            group.example.name
        ),
    )
}

/// Only a Pod's Events explain why its containers are not created.
fn making(
    sight: &JobSight,
    pods: &str,
    group: &PendingGroup,
    since: &str,
    describe: &str,
) -> Reason {
    let warnings = sight.pod_events.found.iter();
    let warnings = warnings.filter(|event| event.type_.as_deref() == Some("Warning"));
    let last = warnings.max_by_key(|event| event_time(event));
    let Some(last) = last else {
        let words = &group.words;
        return Reason::new(
            "containers-made",
            format!("Containers of {pods} are being made{since} ({words})."),
            format!("Images may be large or volumes slow: {describe}."),
        );
    };
    let message = last.message.as_deref().unwrap_or_default();
    let message = message
        .lines()
        .next()
        .unwrap_or_default()
        .trim_end_matches('.');
    if message.contains("not found") {
        return Reason::new(
            "missing-config",
            format!("{pods} cannot start: {message}."),
            "Create what is missing; the Pods go on by themselves.",
        );
    }
    Reason::new(
        "containers-made",
        format!("Containers of {pods} are not made{since}: {message}."),
        format!("See {describe}, and the node's kubelet."),
    )
}
