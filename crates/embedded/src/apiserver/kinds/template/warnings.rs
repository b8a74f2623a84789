//! Warns about pod specs that are valid but probably a mistake.
//!
//! Responsible for: each warning of upstream's `warningsForPodSpecAndMeta`, in its order and words. Must not: reject
//! anything.

use core::net::{IpAddr, Ipv4Addr};
use std::collections::BTreeMap;

use crate::apiserver::object::{JsonView, Quantity, Tree, names};

/// Deprecated node labels, each with the advice.
const DEPRECATED_LABELS: [(&str, &str); 8] = [
    (
        "beta.kubernetes.io/arch",
        r#"deprecated since v1.14; use "kubernetes.io/arch" instead"#,
    ),
    (
        "beta.kubernetes.io/os",
        r#"deprecated since v1.14; use "kubernetes.io/os" instead"#,
    ),
    (
        "failure-domain.beta.kubernetes.io/region",
        r#"deprecated since v1.17; use "topology.kubernetes.io/region" instead"#,
    ),
    (
        "failure-domain.beta.kubernetes.io/zone",
        r#"deprecated since v1.17; use "topology.kubernetes.io/zone" instead"#,
    ),
    (
        "beta.kubernetes.io/instance-type",
        r#"deprecated since v1.17; use "node.kubernetes.io/instance-type" instead"#,
    ),
    ("app.kubernetes.io/created-by", "deprecated since v1.9"),
    (
        "scheduler.alpha.kubernetes.io/preferAvoidPods",
        "deprecated since v1.22; use Taints and Tolerations instead",
    ),
    (
        "node-role.kubernetes.io/master",
        r#"use "node-role.kubernetes.io/control-plane" instead"#,
    ),
];

/// Annotations without effect, each with the version and the field that replaces it.
const DEAD_ANNOTATIONS: [(&str, &str, &str); 3] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "v1.16",
        "priorityClassName",
    ),
    ("security.alpha.kubernetes.io/sysctls", "v1.11", "sysctls"),
    (
        "security.alpha.kubernetes.io/unsafe-sysctls",
        "v1.11",
        "sysctls",
    ),
];

const SECCOMP_OF_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_OF_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const APPARMOR_OF_CONTAINER: &str = "container.apparmor.security.beta.kubernetes.io/";

/// Removed volume sources, each with its warning: those reported before and after the warnings about ephemeral volume
/// claims.
const REMOVED_VOLUMES: [&[(&str, &str)]; 2] = [
    &[
        (
            "photonPersistentDisk",
            "deprecated in v1.11, non-functional in v1.16+",
        ),
        (
            "gitRepo",
            "deprecated in v1.11, and disabled by default in v1.33+",
        ),
        ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
        ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
        ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
        ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
        ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ],
    &[
        ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
        ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
    ],
];

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const NULL_SELECTOR: &str = "a null labelSelector results in matching no pod";

/// Warnings for a Pod, or for a pod template at `path`.
#[doc(alias = "GetWarningsForPodTemplate")]
pub(crate) fn warnings(path: &str, pod: &Tree) -> Vec<String> {
    let pod = JsonView::from(pod);
    let mut warnings = Warnings {
        root: match path {
            "" => String::new(),
            path => format!("{path}."),
        },
        found: Vec::new(),
    };
    let (spec, annotations) = (pod.at("spec"), pod.at("metadata.annotations"));
    warnings.check_scheduling(spec);
    for (name, since, instead) in DEAD_ANNOTATIONS {
        if annotations.entry(name).is_set() {
            let why = format!(r#"non-functional in {since}+; use the "{instead}" field instead"#);
            warnings.add(format_args!("metadata.annotations[{name}]"), &why);
        }
    }
    warnings.check_volumes(spec);
    warnings.check_lists(spec);
    for resource in ["memory", "ephemeral-storage"] {
        warnings.check_bytes("spec.overhead", resource, spec.at("overhead"));
    }
    if !spec.at("securityContext.seccompProfile").is_set()
        && annotations.entry(SECCOMP_OF_POD).is_set()
    {
        warnings.dead_seccomp(SECCOMP_OF_POD);
    }
    warnings.check_containers(spec, annotations);
    warnings.check_ports(spec);
    if spec.at("terminationGracePeriodSeconds").number() < 0 {
        warnings.add(
            "spec.terminationGracePeriodSeconds",
            "must be >= 0; negative values are invalid and will be treated as 1",
        );
    }
    warnings.check_pod_affinities(spec);
    for (index, server) in spec.at("dnsConfig.nameservers").items().enumerate() {
        warnings.check_ip(
            &format!("spec.dnsConfig.nameservers[{index}]"),
            server.text(),
        );
    }
    for (index, alias) in spec.at("hostAliases").items().enumerate() {
        let path = format!("spec.hostAliases[{index}].ip");
        warnings.check_ip(&path, alias.at("ip").text());
    }
    warnings.found
}

struct Warnings {
    /// The path of the template, with a trailing dot.
    root: String,
    found: Vec<String>,
}

/// The containers of a pod spec in upstream's order, each with its path.
fn containers(spec: JsonView<'_>) -> impl Iterator<Item = (String, JsonView<'_>)> {
    ["initContainers", "containers", "ephemeralContainers"]
        .into_iter()
        .flat_map(move |list| {
            let containers = spec.at(list).items().enumerate();
            containers.map(move |(index, it)| (format!("spec.{list}[{index}]"), it))
        })
}

fn deprecated_label(name: &str) -> Option<&'static str> {
    let mut rows = DEPRECATED_LABELS.iter();
    rows.find(|(known, _)| *known == name).map(|(_, why)| *why)
}

impl Warnings {
    fn add(&mut self, path: impl std::fmt::Display, why: &str) {
        self.found.push(format!("{}{path}: {why}", self.root));
    }

    fn dead_seccomp(&mut self, annotation: &str) {
        let why = r#"non-functional in v1.27+; use the "seccompProfile" field instead"#;
        self.add(format_args!("metadata.annotations[{annotation}]"), why);
    }

    fn check_scheduling(&mut self, spec: JsonView<'_>) {
        for name in spec.at("nodeSelector").tree().keys() {
            if let Some(why) = deprecated_label(name) {
                self.add(format_args!("spec.nodeSelector[{name}]"), why);
            }
        }
        let affinity = spec.at("affinity.nodeAffinity");
        let terms = affinity.at(REQUIRED).at("nodeSelectorTerms");
        for (index, term) in terms.items().enumerate() {
            let path = format!("spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[{index}]");
            self.check_term(&path, term, false);
        }
        for (index, term) in affinity.at(PREFERRED).items().enumerate() {
            let path = format!("spec.affinity.nodeAffinity.{PREFERRED}[{index}].preference");
            self.check_term(&path, term.at("preference"), true);
        }
        for (index, spread) in spec.at("topologySpreadConstraints").items().enumerate() {
            let path = format!("spec.topologySpreadConstraints[{index}]");
            let key = spread.at("topologyKey").text();
            if let Some(why) = deprecated_label(key) {
                self.add(
                    format_args!("{path}.topologyKey"),
                    &format!("{key} is {why}"),
                );
            }
            if !spread.at("labelSelector").is_set() {
                self.add(format_args!("{path}.labelSelector"), NULL_SELECTOR);
            }
        }
    }

    fn check_term(&mut self, path: &str, term: JsonView<'_>, checks_values: bool) {
        for (index, expression) in term.at("matchExpressions").items().enumerate() {
            let path = format!("{path}.matchExpressions[{index}]");
            let key = expression.at("key").text();
            if let Some(why) = deprecated_label(key) {
                self.add(format_args!("{path}.key"), &format!("{key} is {why}"));
            }
            let values = expression.at("values").items().enumerate();
            for (index, value) in values.filter(|_| checks_values) {
                let value = value.text();
                for problem in names::label_value_problems(value) {
                    let why = format!("{value} is invalid, {problem}");
                    self.add(format_args!("{path}.values[{index}]"), &why);
                }
            }
        }
    }

    fn check_volumes(&mut self, spec: JsonView<'_>) {
        for (index, volume) in spec.at("volumes").items().enumerate() {
            let path = format!("spec.volumes[{index}]");
            let removed = |warnings: &mut Self, sources: &[(&str, &str)]| {
                for (source, why) in sources {
                    if volume.at(source).is_set() {
                        // Upstream uses the field name of its internal type.
                        let source = source.replace("storageos", "storageOS");
                        warnings.add(format_args!("{path}.{source}"), why);
                    }
                }
            };
            removed(self, REMOVED_VOLUMES[0]);
            let claim = volume.at("ephemeral.volumeClaimTemplate.spec.resources");
            for side in ["requests", "limits"] {
                let path = format!("{path}.ephemeral.volumeClaimTemplate.spec.resources.{side}");
                self.check_bytes(&path, "storage", claim.at(side));
            }
            removed(self, REMOVED_VOLUMES[1]);
        }
        for volume in spec.at("volumes").items() {
            self.check_overlaps(volume);
        }
    }

    /// Warns about files of a volume with overlapping paths.
    #[doc(alias = "warningsForOverlappingVirtualPaths")]
    fn check_overlaps(&mut self, volume: JsonView<'_>) {
        let name = volume.at("name").text();
        let config_map = volume.at("configMap");
        let secret = volume.at("secret");
        for (source, described) in [
            (
                config_map,
                format!("ConfigMap {:?}", config_map.at("name").text()),
            ),
            (
                secret,
                format!("Secret {:?}", secret.at("secretName").text()),
            ),
            (volume.at("downwardAPI"), "DownwardAPI".to_owned()),
        ] {
            let paths = source
                .at("items")
                .items()
                .map(|item| File::new(item.at("path"), ""));
            for (file, other) in overlaps(paths) {
                self.found.push(format!(
                    "volume {name:?} ({described}): overlapping paths: {file} with {other}"
                ));
            }
        }
        let mut files = Vec::new();
        for source in volume.at("projected.sources").items() {
            if source.tree().is_empty() {
                let why = format!("volume {name:?} (Projected) has no sources provided");
                self.found.push(why);
            }
            files.extend(projected_files(source));
        }
        for (file, other) in overlaps(files.into_iter()) {
            self.found.push(format!(
                "volume {name:?} (Projected): overlapping paths: {file} with {other}"
            ));
        }
    }

    fn check_lists(&mut self, spec: JsonView<'_>) {
        for (list, field, word) in [
            ("hostAliases", "ip", "duplicate ip"),
            ("imagePullSecrets", "name", "duplicate name"),
        ] {
            let mut seen = Vec::new();
            for (index, item) in spec.at(list).items().enumerate() {
                let value = item.at(field).text();
                if seen.contains(&value) {
                    let why = format!("{word} {value:?}");
                    self.add(format_args!("spec.{list}[{index}].{field}"), &why);
                }
                seen.push(value);
            }
        }
        for (index, secret) in spec.at("imagePullSecrets").items().enumerate() {
            if secret.at("name").text().is_empty() {
                let path = format!("spec.imagePullSecrets[{index}].name");
                self.add(path, "invalid empty name \"\"");
            }
        }
    }

    /// Warns about a fractional number of bytes.
    fn check_bytes(&mut self, path: &str, resource: &str, list: JsonView<'_>) {
        let text = list.entry(resource).text();
        if Quantity::parse(text).is_some_and(|quantity| !quantity.is_whole()) {
            let why = format!("fractional byte value {text:?} is invalid, must be an integer");
            self.add(format_args!("{path}[{resource}]"), &why);
        }
    }

    fn check_containers(&mut self, spec: JsonView<'_>, annotations: JsonView<'_>) {
        for (path, container) in containers(spec) {
            let name = container.at("name").text();
            let context = container.at("securityContext");
            let seccomp = format!("{SECCOMP_OF_CONTAINER}{name}");
            if annotations.entry(&seccomp).is_set() && !context.at("seccompProfile").is_set() {
                self.dead_seccomp(&seccomp);
            }
            let armor = format!("{APPARMOR_OF_CONTAINER}{name}");
            let annotation = annotations.entry(&armor);
            let is_template = !self.root.is_empty();
            if is_template
                && annotation.is_set()
                && !context.at("appArmorProfile").is_set()
                && !is_profile(
                    spec.at("securityContext.appArmorProfile"),
                    annotation.text(),
                )
            {
                let why = r#"deprecated since v1.30; use the "appArmorProfile" field instead"#;
                self.add(format_args!("metadata.annotations[{armor}]"), why);
            }
            for resource in ["memory", "ephemeral-storage"] {
                for side in ["limits", "requests"] {
                    let list = container.at("resources").at(side);
                    self.check_bytes(&format!("{path}.resources.{side}"), resource, list);
                }
            }
            self.check_variables(&path, container);
        }
    }

    fn check_variables(&mut self, path: &str, container: JsonView<'_>) {
        let variables = container.at("env");
        for (index, variable) in variables.items().enumerate() {
            let name = variable.at("name").text();
            let mut before = variables.items().take(index);
            if !before.any(|earlier| earlier.at("name").text() == name) {
                continue;
            }
            // A value that extends the earlier one does not hide it.
            let reference = format!("$({name})");
            let value = variable.at("value").text();
            let goes_on = value.contains(&reference) && value != reference;
            if !goes_on || variable.at("valueFrom").is_set() {
                let why = format!(
                    "hides previous definition of {name:?}, which may be dropped when using apply"
                );
                self.add(format_args!("{path}.env[{index}]"), &why);
            }
        }
    }

    fn check_ports(&mut self, spec: JsonView<'_>) {
        let ports: Vec<(String, JsonView<'_>)> = containers(spec)
            .flat_map(|(path, container)| {
                let ports = container.at("ports").items().enumerate();
                ports.map(move |(index, port)| (format!("{path}.ports[{index}]"), port))
            })
            .collect();
        for (place, (path, port)) in ports.iter().enumerate() {
            let (ip, on_host) = (port.at("hostIP").text(), port.at("hostPort").number());
            let (number, protocol) = (
                port.at("containerPort").number(),
                port.at("protocol").text(),
            );
            if !ip.is_empty() && on_host == 0 {
                let name = port.at("name").text();
                let why = format!(
                    "hostIP set without hostPort: {{Name:{name} HostPort:0 \
                     ContainerPort:{number} Protocol:{protocol} HostIP:{ip}}}"
                );
                self.add(path, &why);
            }
            for (other_path, other) in &ports[..place] {
                if other.at("containerPort").number() != number
                    || other.at("protocol").text() != protocol
                {
                    continue;
                }
                let (other_ip, other_on_host) =
                    (other.at("hostIP").text(), other.at("hostPort").number());
                let word = if (ip, on_host) == (other_ip, other_on_host) {
                    "duplicate"
                } else if on_host == 0 || other_on_host == 0 {
                    "overlapping"
                } else if on_host == other_on_host && ip.is_empty() != other_ip.is_empty() {
                    "dangerously ambiguous"
                } else {
                    continue;
                };
                let why = format!("{word} port definition with {}{other_path}", self.root);
                self.add(path, &why);
            }
        }
        let mut named: BTreeMap<&str, &String> = BTreeMap::new();
        for (path, port) in &ports {
            let name = port.at("name").text();
            if name.is_empty() {
                continue;
            }
            if let Some(first) = named.get(name) {
                let first = format!("{}{first}", self.root);
                let why = format!(
                    "duplicate port name {name:?} with {first}, services and probes that select \
                     ports by name will use {first}"
                );
                self.add(path, &why);
            } else {
                named.insert(name, path);
            }
        }
    }

    fn check_pod_affinities(&mut self, spec: JsonView<'_>) {
        for side in ["podAffinity", "podAntiAffinity"] {
            for (list, inside) in [(REQUIRED, ""), (PREFERRED, "podAffinityTerm.")] {
                let terms = spec.at("affinity").at(side).at(list);
                for (index, term) in terms.items().enumerate() {
                    let field = format!("{inside}labelSelector");
                    if !term.at(&field).is_set() {
                        let path = format!("spec.affinity.{side}.{list}[{index}].{field}");
                        self.add(path, NULL_SELECTOR);
                    }
                }
            }
        }
    }

    /// Warns about an IP address that is not in canonical form.
    #[doc(alias = "GetWarningsForIP")]
    fn check_ip(&mut self, path: &str, text: &str) {
        match text.parse::<IpAddr>() {
            Ok(IpAddr::V6(ip)) => {
                if let Some(ip) = ip.to_ipv4_mapped() {
                    self.non_standard(path, text, ip);
                } else if ip.to_string() != text {
                    let why = format!(
                        "IPv6 address {text:?} should be in RFC 5952 canonical format ({:?})",
                        ip.to_string()
                    );
                    self.add(path, &why);
                }
            }
            Ok(IpAddr::V4(_)) => {}
            Err(_) => {
                if let Some(ip) = with_leading_zeros(text) {
                    self.non_standard(path, text, ip);
                }
            }
        }
    }

    fn non_standard(&mut self, path: &str, text: &str, ip: Ipv4Addr) {
        let ip = ip.to_string();
        let why = format!("non-standard IP address {text:?} is invalid: use {ip:?}");
        self.add(path, &why);
    }
}

/// Parses an IPv4 address with leading zeros, which older versions accepted.
pub(super) fn with_leading_zeros(text: &str) -> Option<Ipv4Addr> {
    let parts: Vec<&str> = text.split('.').collect();
    let digits = |part: &&str| !part.is_empty() && part.bytes().all(|it| it.is_ascii_digit());
    let numbers: Option<Vec<u8>> = parts
        .iter()
        .map(|part| digits(part).then(|| part.parse().ok())?)
        .collect();
    let numbers: [u8; 4] = numbers?.try_into().ok()?;
    Some(numbers.into())
}

/// Returns true if an annotation requests this AppArmor profile.
fn is_profile(profile: JsonView<'_>, annotation: &str) -> bool {
    let (kind, local) = match annotation {
        "unconfined" => ("Unconfined", None),
        "runtime/default" => ("RuntimeDefault", None),
        other => match other.strip_prefix("localhost/") {
            Some(local) if !local.is_empty() => ("Localhost", Some(local)),
            _ => return false,
        },
    };
    profile.at("type").text() == kind && profile.at("localhostProfile").as_text() == local
}

/// A file of a volume.
#[derive(Clone, Debug, PartialEq)]
struct File {
    path: String,
    source: String,
}

impl File {
    fn new(path: JsonView<'_>, source: &str) -> Self {
        Self {
            path: path.text().trim_end_matches('/').to_owned(),
            source: source.to_owned(),
        }
    }
}

impl std::fmt::Display for File {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.source.as_str() {
            "" => write!(out, "{:?}", self.path),
            source => write!(out, "{:?} ({source})", self.path),
        }
    }
}

/// The files that one source of a projected volume creates.
fn projected_files(source: JsonView<'_>) -> Vec<File> {
    let of_items = |from: &str, described: &str| {
        let items = source.at(from).at("items").items();
        items
            .map(|item| File::new(item.at("path"), described))
            .collect()
    };
    let has_items = |from: &str| source.at(from).at("items").is_set();
    let name = |from: &str| source.at(from).at("name").text();
    if has_items("configMap") {
        of_items("configMap", &format!("ConfigMap {:?}", name("configMap")))
    } else if has_items("secret") {
        of_items("secret", &format!("Secret {:?}", name("secret")))
    } else if has_items("downwardAPI") {
        of_items("downwardAPI", "DownwardAPI")
    } else if source.at("serviceAccountToken").is_set() {
        let path = source.at("serviceAccountToken.path");
        vec![File::new(path, "ServiceAccountToken")]
    } else if source.at("clusterTrustBundle").is_set() {
        let bundle = source.at("clusterTrustBundle");
        let name = bundle.at("name").as_text();
        let name = name.unwrap_or_else(|| bundle.at("signerName").text());
        let described = format!("ClusterTrustBundle {name:?}");
        vec![File::new(bundle.at("path"), &described)]
    } else {
        let certificate = source.at("podCertificate");
        [
            ("certificateChainPath", "PodCertificate chain"),
            ("keyPath", "PodCertificate key"),
            ("credentialBundlePath", "PodCertificate credential bundle"),
        ]
        .into_iter()
        .filter(|(field, _)| !certificate.at(field).text().is_empty())
        .map(|(field, described)| File::new(certificate.at(field), described))
        .collect()
    }
}

/// Pairs each file with the earlier files that have the same path, contain it, or are contained in it.
fn overlaps(files: impl Iterator<Item = File>) -> Vec<(File, File)> {
    let mut found = Vec::new();
    let mut earlier: Vec<File> = Vec::new();
    for file in files {
        let is_in = |inner: &File, outer: &File| {
            format!("{}/", inner.path).starts_with(&format!("{}/", outer.path))
        };
        if !file.path.is_empty() {
            for other in earlier.iter().filter(|other| !other.path.is_empty()) {
                if is_in(other, &file) || is_in(&file, other) {
                    found.push((file.clone(), other.clone()));
                }
            }
        }
        earlier.push(file);
    }
    found
}
