//! Which field of Kubernetes' protobuf messages has which number.
//!
//! Responsible for: the tables, as far as people set the fields of what kubectl and Kubernetes' own
//! controllers send in protobuf.
//! Must not: read anything.

use super::{
    message::{
        Fields, REFERENCE,
        Type::{
            BytesMap, Flag, Ignored, Inline, Int, IntOrText, Map, Message, MicroTime, OptionalFlag,
            OptionalInt, OptionalText, Quantities, Quantity, Text, Time,
        },
    },
    statuses::{CRON_JOB_STATUS, JOB_STATUS, POD_STATUS},
};

/// The table of a kind that is sent in protobuf.
pub(super) fn table(kind: &str) -> Option<Fields> {
    Some(match kind {
        "Namespace" => NAMESPACE,
        "ServiceAccount" => SERVICE_ACCOUNT,
        "ConfigMap" => CONFIG_MAP,
        "Secret" => SECRET,
        "Job" => JOB,
        "CronJob" => CRON_JOB,
        "Pod" => POD,
        "ResourceQuota" => RESOURCE_QUOTA,
        "Event" => EVENT,
        "Lease" => LEASE,
        "DeleteOptions" => DELETE_OPTIONS,
        "Eviction" => EVICTION,
        "SelfSubjectAccessReview" | "SubjectAccessReview" => ACCESS_REVIEW,
        "SelfSubjectRulesReview" => RULES_REVIEW,
        _ => return None,
    })
}

/// The head of each body.
pub(super) const TYPE_META: Fields = &[(1, "apiVersion", Text, false), (2, "kind", Text, false)];
const OBJECT_META: Fields = &[
    (1, "name", Text, false),
    (2, "generateName", Text, false),
    (3, "namespace", Text, false),
    (5, "uid", Text, false),
    (6, "resourceVersion", Text, false),
    (7, "generation", Int, false),
    (8, "creationTimestamp", Ignored, false),
    (9, "deletionTimestamp", Ignored, false),
    (10, "deletionGracePeriodSeconds", Ignored, false),
    (11, "labels", Map, false),
    (12, "annotations", Map, false),
    (13, "ownerReferences", Message(OWNER), true),
    (14, "finalizers", Text, true),
    (17, "managedFields", Ignored, true),
];
const OWNER: Fields = &[
    (1, "kind", Text, false),
    (3, "name", Text, false),
    (4, "uid", Text, false),
    (5, "apiVersion", Text, false),
    (6, "controller", OptionalFlag, false),
    (7, "blockOwnerDeletion", OptionalFlag, false),
];
const NAMESPACE: Fields = &[
    (1, "metadata", Message(OBJECT_META), false),
    (2, "spec", Ignored, false),
    (3, "status", Ignored, false),
];
const SERVICE_ACCOUNT: Fields = &[(1, "metadata", Message(OBJECT_META), false)];
const CONFIG_MAP: Fields = &[
    (1, "metadata", Message(OBJECT_META), false),
    (2, "data", Map, false),
    (3, "binaryData", BytesMap, false),
    (4, "immutable", OptionalFlag, false),
];
const SECRET: Fields = &[
    (1, "metadata", Message(OBJECT_META), false),
    (2, "data", BytesMap, false),
    (3, "type", Text, false),
    (4, "stringData", Map, false),
    (5, "immutable", OptionalFlag, false),
];
const JOB: Fields = &[
    (1, "metadata", Message(OBJECT_META), false),
    (2, "spec", Message(JOB_SPEC), false),
    (3, "status", Message(JOB_STATUS), false),
];
const JOB_SPEC: Fields = &[
    (1, "parallelism", OptionalInt, false),
    (2, "completions", OptionalInt, false),
    (3, "activeDeadlineSeconds", OptionalInt, false),
    (4, "selector", Message(SELECTOR), false),
    (5, "manualSelector", OptionalFlag, false),
    (6, "template", Message(TEMPLATE), false),
    (7, "backoffLimit", OptionalInt, false),
    (8, "ttlSecondsAfterFinished", OptionalInt, false),
    (9, "completionMode", Text, false),
    (10, "suspend", OptionalFlag, false),
    (11, "podFailurePolicy", Message(FAILURE_POLICY), false),
    (12, "backoffLimitPerIndex", OptionalInt, false),
    (13, "maxFailedIndexes", OptionalInt, false),
    (14, "podReplacementPolicy", Text, false),
    (15, "managedBy", Text, false),
    (16, "successPolicy", Message(SUCCESS_POLICY), false),
];
const FAILURE_POLICY: Fields = &[(1, "rules", Message(FAILURE_RULE), true)];
const FAILURE_RULE: Fields = &[
    (1, "action", Text, false),
    (2, "onExitCodes", Message(EXIT_CODES), false),
    (3, "onPodConditions", Message(POD_CONDITION), true),
];
const EXIT_CODES: Fields = &[
    (1, "containerName", OptionalText, false),
    (2, "operator", Text, false),
    (3, "values", OptionalInt, true),
];
const POD_CONDITION: Fields = &[(1, "type", Text, false), (2, "status", Text, false)];
const SUCCESS_POLICY: Fields = &[(1, "rules", Message(SUCCESS_RULE), true)];
const SUCCESS_RULE: Fields = &[
    (1, "succeededIndexes", Text, false),
    (2, "succeededCount", OptionalInt, false),
];
const SELECTOR: Fields = &[
    (1, "matchLabels", Map, false),
    (2, "matchExpressions", Message(EXPRESSION), true),
];
const EXPRESSION: Fields = &[
    (1, "key", Text, false),
    (2, "operator", Text, false),
    (3, "values", Text, true),
];
const CRON_JOB: Fields = &[
    (1, "metadata", Message(OBJECT_META), false),
    (2, "spec", Message(CRON_JOB_SPEC), false),
    (3, "status", Message(CRON_JOB_STATUS), false),
];
const CRON_JOB_SPEC: Fields = &[
    (1, "schedule", Text, false),
    (2, "startingDeadlineSeconds", OptionalInt, false),
    (3, "concurrencyPolicy", Text, false),
    (4, "suspend", OptionalFlag, false),
    (5, "jobTemplate", Message(JOB_TEMPLATE), false),
    (6, "successfulJobsHistoryLimit", OptionalInt, false),
    (7, "failedJobsHistoryLimit", OptionalInt, false),
    (8, "timeZone", Text, false),
];
const JOB_TEMPLATE: Fields = &[
    (1, "metadata", Message(OBJECT_META), false),
    (2, "spec", Message(JOB_SPEC), false),
];
const POD: Fields = &[
    (1, "metadata", Message(OBJECT_META), false),
    (2, "spec", Message(POD_SPEC), false),
    (3, "status", Message(POD_STATUS), false),
];
const RESOURCE_QUOTA: Fields = &[
    (1, "metadata", Message(OBJECT_META), false),
    (2, "spec", Message(QUOTA_SPEC), false),
    (3, "status", Message(QUOTA_STATUS), false),
];
const QUOTA_SPEC: Fields = &[
    (1, "hard", Quantities, false),
    (2, "scopes", Text, true),
    (3, "scopeSelector", Message(SCOPE_SELECTOR), false),
];
const SCOPE_SELECTOR: Fields = &[(1, "matchExpressions", Message(SCOPE), true)];
const SCOPE: Fields = &[
    (1, "scopeName", Text, false),
    (2, "operator", Text, false),
    (3, "values", Text, true),
];
const QUOTA_STATUS: Fields = &[
    (1, "hard", Quantities, false),
    (2, "used", Quantities, false),
];
const EVENT: Fields = &[
    (1, "metadata", Message(OBJECT_META), false),
    (2, "involvedObject", Message(REFERENCE), false),
    (3, "reason", Text, false),
    (4, "message", Text, false),
    (5, "source", Message(EVENT_SOURCE), false),
    (6, "firstTimestamp", Time, false),
    (7, "lastTimestamp", Time, false),
    (8, "count", Int, false),
    (9, "type", Text, false),
    (10, "eventTime", MicroTime, false),
    (11, "series", Message(EVENT_SERIES), false),
    (12, "action", Text, false),
    (13, "related", Message(REFERENCE), false),
    (14, "reportingComponent", OptionalText, false),
    (15, "reportingInstance", OptionalText, false),
];
const EVENT_SOURCE: Fields = &[(1, "component", Text, false), (2, "host", Text, false)];
const EVENT_SERIES: Fields = &[
    (1, "count", Int, false),
    (2, "lastObservedTime", MicroTime, false),
];
const LEASE: Fields = &[
    (1, "metadata", Message(OBJECT_META), false),
    (2, "spec", Message(LEASE_SPEC), false),
];
const LEASE_SPEC: Fields = &[
    (1, "holderIdentity", OptionalText, false),
    (2, "leaseDurationSeconds", OptionalInt, false),
    (3, "acquireTime", MicroTime, false),
    (4, "renewTime", MicroTime, false),
    (5, "leaseTransitions", OptionalInt, false),
    (6, "strategy", OptionalText, false),
    (7, "preferredHolder", OptionalText, false),
];
const TEMPLATE: Fields = &[
    (1, "metadata", Message(OBJECT_META), false),
    (2, "spec", Message(POD_SPEC), false),
];
const POD_SPEC: Fields = &[
    (1, "volumes", Message(VOLUME), true),
    (2, "containers", Message(CONTAINER), true),
    (3, "restartPolicy", Text, false),
    (4, "terminationGracePeriodSeconds", OptionalInt, false),
    (5, "activeDeadlineSeconds", OptionalInt, false),
    (6, "dnsPolicy", Text, false),
    (7, "nodeSelector", Map, false),
    (8, "serviceAccountName", Text, false),
    (9, "serviceAccount", Text, false),
    (10, "nodeName", Text, false),
    (11, "hostNetwork", Flag, false),
    (12, "hostPID", Flag, false),
    (13, "hostIPC", Flag, false),
    (14, "securityContext", Message(POD_SECURITY), false),
    (15, "imagePullSecrets", Message(NAME), true),
    (16, "hostname", Text, false),
    (17, "subdomain", Text, false),
    (18, "affinity", Message(AFFINITY), false),
    (19, "schedulerName", Text, false),
    (20, "initContainers", Message(CONTAINER), true),
    (21, "automountServiceAccountToken", OptionalFlag, false),
    (22, "tolerations", Message(TOLERATION), true),
    (24, "priorityClassName", Text, false),
    (25, "priority", OptionalInt, false),
    (27, "shareProcessNamespace", OptionalFlag, false),
    (29, "runtimeClassName", OptionalText, false),
    (30, "enableServiceLinks", OptionalFlag, false),
    (31, "preemptionPolicy", Text, false),
    (33, "topologySpreadConstraints", Message(SPREAD), true),
    (38, "schedulingGates", Message(NAME), true),
];
const NAME: Fields = &[(1, "name", Text, false)];
const POD_SECURITY: Fields = &[
    (2, "runAsUser", OptionalInt, false),
    (3, "runAsNonRoot", OptionalFlag, false),
    (4, "supplementalGroups", OptionalInt, true),
    (5, "fsGroup", OptionalInt, false),
    (6, "runAsGroup", OptionalInt, false),
];
const TOLERATION: Fields = &[
    (1, "key", Text, false),
    (2, "operator", Text, false),
    (3, "value", Text, false),
    (4, "effect", Text, false),
    (5, "tolerationSeconds", OptionalInt, false),
];
const SPREAD: Fields = &[
    (1, "maxSkew", Int, false),
    (2, "topologyKey", Text, false),
    (3, "whenUnsatisfiable", Text, false),
    (4, "labelSelector", Message(SELECTOR), false),
];
const AFFINITY: Fields = &[
    (1, "nodeAffinity", Message(NODE_AFFINITY), false),
    (2, "podAffinity", Message(POD_AFFINITY), false),
    (3, "podAntiAffinity", Message(POD_AFFINITY), false),
];
const NODE_AFFINITY: Fields = &[
    (
        1,
        "requiredDuringSchedulingIgnoredDuringExecution",
        Message(NODE_SELECTOR),
        false,
    ),
    (
        2,
        "preferredDuringSchedulingIgnoredDuringExecution",
        Message(PREFERRED_NODE),
        true,
    ),
];
const NODE_SELECTOR: Fields = &[(1, "nodeSelectorTerms", Message(NODE_TERM), true)];
const NODE_TERM: Fields = &[
    (1, "matchExpressions", Message(EXPRESSION), true),
    (2, "matchFields", Message(EXPRESSION), true),
];
const PREFERRED_NODE: Fields = &[
    (1, "weight", Int, false),
    (2, "preference", Message(NODE_TERM), false),
];
const POD_AFFINITY: Fields = &[
    (
        1,
        "requiredDuringSchedulingIgnoredDuringExecution",
        Message(POD_TERM),
        true,
    ),
    (
        2,
        "preferredDuringSchedulingIgnoredDuringExecution",
        Message(PREFERRED_POD),
        true,
    ),
];
const POD_TERM: Fields = &[
    (1, "labelSelector", Message(SELECTOR), false),
    (2, "namespaces", Text, true),
    (3, "topologyKey", Text, false),
    (4, "namespaceSelector", Message(SELECTOR), false),
];
const PREFERRED_POD: Fields = &[
    (1, "weight", Int, false),
    (2, "podAffinityTerm", Message(POD_TERM), false),
];
const VOLUME: Fields = &[
    (1, "name", Text, false),
    (2, "", Inline(VOLUME_SOURCE), false),
];
const VOLUME_SOURCE: Fields = &[
    (1, "hostPath", Message(HOST_PATH), false),
    (2, "emptyDir", Message(EMPTY_DIR), false),
    (6, "secret", Message(SECRET_VOLUME), false),
    (10, "persistentVolumeClaim", Message(CLAIM), false),
    (19, "configMap", Message(CONFIG_MAP_VOLUME), false),
];
const HOST_PATH: Fields = &[(1, "path", Text, false), (2, "type", OptionalText, false)];
const EMPTY_DIR: Fields = &[
    (1, "medium", Text, false),
    (2, "sizeLimit", Quantity, false),
];
const SECRET_VOLUME: Fields = &[
    (1, "secretName", Text, false),
    (2, "items", Message(KEY_PATH), true),
    (3, "defaultMode", OptionalInt, false),
    (4, "optional", OptionalFlag, false),
];
const KEY_PATH: Fields = &[
    (1, "key", Text, false),
    (2, "path", Text, false),
    (3, "mode", OptionalInt, false),
];
const CLAIM: Fields = &[(1, "claimName", Text, false), (2, "readOnly", Flag, false)];
const CONFIG_MAP_VOLUME: Fields = &[
    (1, "", Inline(NAME), false),
    (2, "items", Message(KEY_PATH), true),
    (3, "defaultMode", OptionalInt, false),
    (4, "optional", OptionalFlag, false),
];
const CONTAINER: Fields = &[
    (1, "name", Text, false),
    (2, "image", Text, false),
    (3, "command", Text, true),
    (4, "args", Text, true),
    (5, "workingDir", Text, false),
    (6, "ports", Message(PORT), true),
    (7, "env", Message(ENV), true),
    (8, "resources", Message(RESOURCES), false),
    (9, "volumeMounts", Message(MOUNT), true),
    (10, "livenessProbe", Message(PROBE), false),
    (11, "readinessProbe", Message(PROBE), false),
    (12, "lifecycle", Message(LIFECYCLE), false),
    (13, "terminationMessagePath", Text, false),
    (14, "imagePullPolicy", Text, false),
    (15, "securityContext", Message(SECURITY), false),
    (16, "stdin", Flag, false),
    (17, "stdinOnce", Flag, false),
    (18, "tty", Flag, false),
    (19, "envFrom", Message(ENV_FROM), true),
    (20, "terminationMessagePolicy", Text, false),
    (22, "startupProbe", Message(PROBE), false),
    (24, "restartPolicy", OptionalText, false),
];
const PORT: Fields = &[
    (1, "name", Text, false),
    (2, "hostPort", Int, false),
    (3, "containerPort", Int, false),
    (4, "protocol", Text, false),
    (5, "hostIP", Text, false),
];
const ENV: Fields = &[
    (1, "name", Text, false),
    (2, "value", Text, false),
    (3, "valueFrom", Message(ENV_SOURCE), false),
];
const ENV_SOURCE: Fields = &[
    (1, "fieldRef", Message(FIELD_REF), false),
    (2, "resourceFieldRef", Message(RESOURCE_REF), false),
    (3, "configMapKeyRef", Message(KEY_REF), false),
    (4, "secretKeyRef", Message(KEY_REF), false),
];
const FIELD_REF: Fields = &[
    (1, "apiVersion", Text, false),
    (2, "fieldPath", Text, false),
];
const RESOURCE_REF: Fields = &[
    (1, "containerName", Text, false),
    (2, "resource", Text, false),
    (3, "divisor", Quantity, false),
];
const KEY_REF: Fields = &[
    (1, "", Inline(NAME), false),
    (2, "key", Text, false),
    (3, "optional", OptionalFlag, false),
];
const ENV_FROM: Fields = &[
    (1, "prefix", Text, false),
    (2, "configMapRef", Message(OPTIONAL_REF), false),
    (3, "secretRef", Message(OPTIONAL_REF), false),
];
const OPTIONAL_REF: Fields = &[
    (1, "", Inline(NAME), false),
    (2, "optional", OptionalFlag, false),
];
const RESOURCES: Fields = &[
    (1, "limits", Quantities, false),
    (2, "requests", Quantities, false),
];
const MOUNT: Fields = &[
    (1, "name", Text, false),
    (2, "readOnly", Flag, false),
    (3, "mountPath", Text, false),
    (4, "subPath", Text, false),
    (5, "mountPropagation", OptionalText, false),
    (6, "subPathExpr", Text, false),
];
const PROBE: Fields = &[
    (1, "", Inline(HANDLER), false),
    (2, "initialDelaySeconds", Int, false),
    (3, "timeoutSeconds", Int, false),
    (4, "periodSeconds", Int, false),
    (5, "successThreshold", Int, false),
    (6, "failureThreshold", Int, false),
    (7, "terminationGracePeriodSeconds", OptionalInt, false),
];
const HANDLER: Fields = &[
    (1, "exec", Message(EXEC), false),
    (2, "httpGet", Message(HTTP_GET), false),
    (3, "tcpSocket", Message(TCP_SOCKET), false),
];
const LIFECYCLE: Fields = &[
    (1, "postStart", Message(HANDLER), false),
    (2, "preStop", Message(HANDLER), false),
];
const EXEC: Fields = &[(1, "command", Text, true)];
const HTTP_GET: Fields = &[
    (1, "path", Text, false),
    (2, "port", IntOrText, false),
    (3, "host", Text, false),
    (4, "scheme", Text, false),
    (5, "httpHeaders", Message(HEADER), true),
];
const TCP_SOCKET: Fields = &[(1, "port", IntOrText, false), (2, "host", Text, false)];
const HEADER: Fields = &[(1, "name", Text, false), (2, "value", Text, false)];
const SECURITY: Fields = &[
    (1, "capabilities", Message(CAPABILITIES), false),
    (2, "privileged", OptionalFlag, false),
    (4, "runAsUser", OptionalInt, false),
    (5, "runAsNonRoot", OptionalFlag, false),
    (6, "readOnlyRootFilesystem", OptionalFlag, false),
    (7, "allowPrivilegeEscalation", OptionalFlag, false),
    (8, "runAsGroup", OptionalInt, false),
    (11, "seccompProfile", Message(PROFILE), false),
];
const CAPABILITIES: Fields = &[(1, "add", Text, true), (2, "drop", Text, true)];
const PROFILE: Fields = &[
    (1, "type", Text, false),
    (2, "localhostProfile", OptionalText, false),
];
const DELETE_OPTIONS: Fields = &[
    (1, "gracePeriodSeconds", OptionalInt, false),
    (2, "preconditions", Message(PRECONDITIONS), false),
    (3, "orphanDependents", OptionalFlag, false),
    (4, "propagationPolicy", Text, false),
    (5, "dryRun", Text, true),
];
const PRECONDITIONS: Fields = &[(1, "uid", Text, false), (2, "resourceVersion", Text, false)];
const EVICTION: Fields = &[
    (1, "metadata", Message(OBJECT_META), false),
    (2, "deleteOptions", Message(DELETE_OPTIONS), false),
];
/// Both kinds of it: of oneself nobody sends what is asked of others only.
const ACCESS_REVIEW: Fields = &[
    (1, "metadata", Message(OBJECT_META), false),
    (2, "spec", Message(ACCESS_REVIEW_SPEC), false),
    (3, "status", Ignored, false),
];
const ACCESS_REVIEW_SPEC: Fields = &[
    (1, "resourceAttributes", Message(RESOURCE_ATTRIBUTES), false),
    (
        2,
        "nonResourceAttributes",
        Message(&[(1, "path", Text, false), (2, "verb", Text, false)]),
        false,
    ),
    (3, "user", Text, false),
    (4, "groups", Text, true),
    (6, "uid", Text, false),
];
const RESOURCE_ATTRIBUTES: Fields = &[
    (1, "namespace", Text, false),
    (2, "verb", Text, false),
    (3, "group", Text, false),
    (4, "version", Text, false),
    (5, "resource", Text, false),
    (6, "subresource", Text, false),
    (7, "name", Text, false),
];
const RULES_REVIEW: Fields = &[
    (1, "metadata", Message(OBJECT_META), false),
    (2, "spec", Message(&[(1, "namespace", Text, false)]), false),
    (3, "status", Ignored, false),
];
