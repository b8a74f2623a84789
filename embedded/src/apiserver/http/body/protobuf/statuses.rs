//! The numbers of the fields of statuses that controllers and kubelets write.
//!
//! Responsible for: the tables. Must not: read anything.

use super::message::{
    Fields, REFERENCE,
    Type::{Int, Message, OptionalFlag, OptionalInt, OptionalText, Text, Time},
};

pub(super) const JOB_STATUS: Fields = &[
    (1, "conditions", Message(CONDITION), true),
    (2, "startTime", Time, false),
    (3, "completionTime", Time, false),
    (4, "active", Int, false),
    (5, "succeeded", Int, false),
    (6, "failed", Int, false),
    (7, "completedIndexes", Text, false),
    (8, "uncountedTerminatedPods", Message(UNCOUNTED), false),
    (9, "ready", OptionalInt, false),
    (10, "failedIndexes", OptionalText, false),
    (11, "terminating", OptionalInt, false),
];
/// The same for Jobs and for Pods, which have one member more.
const CONDITION: Fields = &[
    (1, "type", Text, false),
    (2, "status", Text, false),
    (3, "lastProbeTime", Time, false),
    (4, "lastTransitionTime", Time, false),
    (5, "reason", Text, false),
    (6, "message", Text, false),
    (7, "observedGeneration", Int, false),
];
const UNCOUNTED: Fields = &[(1, "succeeded", Text, true), (2, "failed", Text, true)];
pub(super) const CRON_JOB_STATUS: Fields = &[
    (1, "active", Message(REFERENCE), true),
    (4, "lastScheduleTime", Time, false),
    (5, "lastSuccessfulTime", Time, false),
];
pub(super) const POD_STATUS: Fields = &[
    (1, "phase", Text, false),
    (2, "conditions", Message(CONDITION), true),
    (3, "message", Text, false),
    (4, "reason", Text, false),
    (5, "hostIP", Text, false),
    (6, "podIP", Text, false),
    (7, "startTime", Time, false),
    (8, "containerStatuses", Message(CONTAINER_STATUS), true),
    (9, "qosClass", Text, false),
    (10, "initContainerStatuses", Message(CONTAINER_STATUS), true),
    (11, "nominatedNodeName", Text, false),
    (12, "podIPs", Message(IP), true),
    (16, "hostIPs", Message(IP), true),
    (17, "observedGeneration", Int, false),
];
const IP: Fields = &[(1, "ip", Text, false)];
/// Zeros and empty texts are kept here as in JSON: an exit code of 0 is one.
const CONTAINER_STATUS: Fields = &[
    (1, "name", OptionalText, false),
    (2, "state", Message(CONTAINER_STATE), false),
    (3, "lastState", Message(CONTAINER_STATE), false),
    (4, "ready", OptionalFlag, false),
    (5, "restartCount", OptionalInt, false),
    (6, "image", OptionalText, false),
    (7, "imageID", OptionalText, false),
    (8, "containerID", Text, false),
    (9, "started", OptionalFlag, false),
];
const CONTAINER_STATE: Fields = &[
    (1, "waiting", Message(WAITING), false),
    (2, "running", Message(RUNNING), false),
    (3, "terminated", Message(TERMINATED), false),
];
const WAITING: Fields = &[(1, "reason", Text, false), (2, "message", Text, false)];
const RUNNING: Fields = &[(1, "startedAt", Time, false)];
const TERMINATED: Fields = &[
    (1, "exitCode", OptionalInt, false),
    (2, "signal", Int, false),
    (3, "reason", Text, false),
    (4, "message", Text, false),
    (5, "startedAt", Time, false),
    (6, "finishedAt", Time, false),
    (7, "containerID", Text, false),
];
