//! Reads amounts of resources: a hollow node's capacity and a Pod's requests.
//!
//! Responsible for: reading both in the scheduler's units: thousandths of a CPU, otherwise whole units. Must not: know
//! the free amounts of nodes; `allocatable` does.

use std::{borrow::Cow, collections::BTreeMap, str::FromStr};

use compact_str::CompactString;
use serde::{Deserialize, Serialize};

use super::decode::DecodeError;
use crate::{
    json::read_json,
    model::{Suffix, WrittenQuantity},
};

/// Capacity of every hollow node for its Pods.
///
/// Written as `cpu=8,memory=32Gi,pods=110`. Omitted CPU, memory, ephemeral storage and Pods are plentiful; other
/// omitted resources are zero.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeCapacity(BTreeMap<String, String>);

/// Error in the text of a capacity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CapacityError {
    /// A part is not of the form `RESOURCE=QUANTITY`.
    #[error("{0:?} must be RESOURCE=QUANTITY, as in cpu=8,memory=32Gi,pods=110")]
    Form(String),
    /// A resource name is invalid.
    #[error(
        "there is no resource {0:?}; there are cpu, memory, ephemeral-storage, pods, and those with a \
         domain, as in example.com/gpu"
    )]
    Name(String),
    /// A resource's amount is not a quantity.
    #[error("{0}={1}: not a quantity, as in 8, 500m, 32Gi")]
    Quantity(String, String),
    /// A resource appears twice.
    #[error("{0} is given twice")]
    Twice(String),
}

impl NodeCapacity {
    /// Returns the default capacity of a node.
    pub(super) fn plenty() -> Self {
        Self(
            PLENTY
                .map(|(name, it)| (name.to_owned(), it.to_owned()))
                .into(),
        )
    }

    /// Returns the amounts, by resource.
    pub(super) fn amounts(&self) -> Vec<Amount> {
        let quantities = self.0.iter();
        in_order(quantities.map(|(name, text)| (name.as_str(), amount(name, text).unwrap_or(0))))
    }
}

impl FromStr for NodeCapacity {
    type Err = CapacityError;

    fn from_str(text: &str) -> Result<Self, CapacityError> {
        let mut given = BTreeMap::new();
        for part in text.split(',') {
            let Some((name, quantity)) = part.split_once('=') else {
                return Err(CapacityError::Form(part.to_owned()));
            };
            let is_plain = PLENTY.iter().any(|(plain, _)| *plain == name);
            let has_domain = name
                .split_once('/')
                .is_some_and(|(domain, rest)| !domain.is_empty() && !rest.is_empty());
            if !is_plain && !has_domain {
                return Err(CapacityError::Name(name.to_owned()));
            }
            if amount(name, quantity).is_none_or(|amount| amount < 0) {
                return Err(CapacityError::Quantity(name.into(), quantity.into()));
            }
            if given.insert(name.to_owned(), quantity.to_owned()).is_some() {
                return Err(CapacityError::Twice(name.to_owned()));
            }
        }
        let mut all = Self::plenty();
        all.0.extend(given);
        Ok(all)
    }
}

/// A resource and its amount.
pub(super) type Amount = (CompactString, i64);

/// The requests of a Pod, including one place among the node's Pods. Equal for all Pods of a template.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Demand(Box<[Amount]>);

impl Demand {
    /// Reads a Pod's requests, summed as by the scheduler.
    pub(super) fn read(json: &[u8]) -> Result<Self, DecodeError> {
        let view: RawPodRequests<'_> = read_json(json)?;
        Ok(view.spec.demand())
    }

    pub(super) fn amounts(&self) -> &[Amount] {
        &self.0
    }
}

#[derive(Deserialize)]
struct RawPodRequests<'a> {
    #[serde(borrow)]
    spec: RawSpecRequests<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawSpecRequests<'a> {
    #[serde(borrow, default)]
    containers: Vec<RawContainerRequests<'a>>,
    #[serde(borrow)]
    init_containers: Option<Vec<RawContainerRequests<'a>>>,
    #[serde(borrow)]
    overhead: Option<Quantities<'a>>,
    #[serde(borrow)]
    resources: Option<RawResources<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawContainerRequests<'a> {
    #[serde(borrow)]
    restart_policy: Option<Cow<'a, str>>,
    #[serde(borrow)]
    resources: Option<RawResources<'a>>,
}

#[derive(Deserialize)]
struct RawResources<'a> {
    #[serde(borrow)]
    requests: Option<Quantities<'a>>,
}

type Quantities<'a> = BTreeMap<Cow<'a, str>, Cow<'a, str>>;

/// Sums of amounts, by resource.
type Sums<'a> = BTreeMap<&'a str, i64>;

impl RawSpecRequests<'_> {
    /// Sums containers and sidecars, which run concurrently. Init containers run one at a time, beside the sidecars
    /// that started before them. Requests of the Pod as a whole replace these sums.
    fn demand(&self) -> Demand {
        let mut sidecars = Sums::new();
        let mut peak = Sums::new();
        for init in self.init_containers.iter().flatten() {
            let mut now = sidecars.clone();
            add(&mut now, requests(init.resources.as_ref()));
            if init.restart_policy.as_deref() == Some("Always") {
                sidecars.clone_from(&now);
            }
            raise(&mut peak, &now);
        }
        let mut sums = sidecars;
        for container in &self.containers {
            add(&mut sums, requests(container.resources.as_ref()));
        }
        raise(&mut sums, &peak);
        sums.extend(requests(self.resources.as_ref()));
        add(&mut sums, amounts(self.overhead.as_ref()));
        sums.insert(PODS, 1);
        let wanted = sums.into_iter().filter(|(_, amount)| *amount > 0);
        Demand(in_order(wanted).into())
    }
}

fn requests<'a>(resources: Option<&'a RawResources<'a>>) -> impl Iterator<Item = (&'a str, i64)> {
    amounts(resources.and_then(|resources| resources.requests.as_ref()))
}

/// An amount that cannot be read counts as zero; the API server accepts no such object.
fn amounts<'a>(quantities: Option<&'a Quantities<'a>>) -> impl Iterator<Item = (&'a str, i64)> {
    let quantities = quantities.into_iter().flatten();
    quantities.map(|(name, text)| (&**name, amount(name, text).unwrap_or(0)))
}

fn add<'a>(sums: &mut Sums<'a>, more: impl Iterator<Item = (&'a str, i64)>) {
    for (name, amount) in more {
        let sum = sums.entry(name).or_default();
        *sum = sum.saturating_add(amount);
    }
}

fn raise<'a>(sums: &mut Sums<'a>, to: &Sums<'a>) {
    for (name, amount) in to {
        let sum = sums.entry(name).or_default();
        *sum = (*sum).max(*amount);
    }
}

/// Sorts resources in the order in which the scheduler and the kubelet check them.
fn in_order<'a>(amounts: impl Iterator<Item = (&'a str, i64)>) -> Vec<Amount> {
    let mut all: Vec<Amount> = amounts
        .map(|(name, amount)| (CompactString::new(name), amount))
        .collect();
    let place = |name: &str| {
        let first = [PODS, CPU, "memory", "ephemeral-storage"];
        let place = first.iter().position(|it| *it == name);
        place.unwrap_or(first.len())
    };
    all.sort_by(|(a, _), (b, _)| (place(a), a).cmp(&(place(b), b)));
    all
}

/// Returns the amount that a quantity of a resource stands for, rounded up.
fn amount(name: &str, quantity: &str) -> Option<i64> {
    let thousandths = if name == CPU { 3 } else { 0 };
    let written = WrittenQuantity::read(quantity)?;
    let (binary, decimal) = match written.suffix {
        Suffix::Binary(power) => (power, 0),
        Suffix::Decimal(power) => (0, power),
        Suffix::Exponent(power) => (0, (-100..=100).contains(&power).then_some(power)?),
    };
    let power = decimal + thousandths - i32::try_from(written.fraction).ok()?;
    let factor = 10_i128.checked_pow(power.unsigned_abs());
    let scaled = written.digits.checked_mul(1 << binary)?;
    let exact = match (power, factor) {
        (0.., factor) => factor.and_then(|factor| scaled.checked_mul(factor)),
        // The value is below one unit.
        (_, None) => Some(scaled.signum()),
        (_, Some(factor)) => Some(scaled.div_euclid(factor) + i128::from(scaled % factor != 0)),
    };
    // Larger values are clamped.
    let most = i128::from(i64::MAX);
    Some(i64::try_from(exact.unwrap_or(most).min(most)).unwrap_or(i64::MIN))
}

const CPU: &str = "cpu";
const PODS: &str = "pods";

/// Default capacity of a hollow node.
const PLENTY: [(&str, &str); 4] = [
    (CPU, "1k"),
    ("ephemeral-storage", "1Ti"),
    ("memory", "1Ti"),
    (PODS, "1M"),
];

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn quantities_are_amounts_rounded_up() {
        let cases = [
            ("cpu", "8", Some(8000)),
            ("cpu", "100m", Some(100)),
            ("cpu", "0.1", Some(100)),
            ("cpu", "1.0005", Some(1001)),
            ("cpu", "1n", Some(1)),
            ("cpu", "0", Some(0)),
            ("cpu", "2e-1", Some(200)),
            ("memory", "32Gi", Some(32 << 30)),
            ("memory", "1.5Ki", Some(1536)),
            ("memory", "1E", Some(1_000_000_000_000_000_000)),
            ("memory", "1e3", Some(1000)),
            ("memory", "100m", Some(1)),
            ("memory", "9999E", Some(i64::MAX)),
            ("memory", "-1", Some(-1)),
            ("pods", "1M", Some(1_000_000)),
            ("pods", "many", None),
            ("pods", "", None),
            ("pods", "1x", None),
            ("pods", "1.-5", None),
            ("memory", "1e999", None),
        ];
        for (name, text, want) in cases {
            assert_eq!(amount(name, text), want, "{name}={text}");
        }
    }

    #[test]
    fn capacities_are_read_and_written() {
        let capacity: NodeCapacity = "cpu=8,memory=32Gi,example.com/gpu=2".parse().expect("good");
        assert_eq!(
            serde_json::to_string(&capacity).expect("texts"),
            r#"{"cpu":"8","ephemeral-storage":"1Ti","example.com/gpu":"2","memory":"32Gi","pods":"1M"}"#
        );
        let names: Vec<_> = capacity
            .amounts()
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(
            names,
            [
                "pods",
                "cpu",
                "memory",
                "ephemeral-storage",
                "example.com/gpu"
            ]
        );
        for bad in [
            "",
            "cpu",
            "cpu=",
            "cpu=-1",
            "disk=1",
            "/x=1",
            "cpu=1,cpu=2",
            "cpu=1,",
        ] {
            assert!(bad.parse::<NodeCapacity>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_pod_requests_the_sum_of_concurrent_containers() {
        let asks = |cpu: &str| serde_json::json!({"requests": {"cpu": cpu}});
        let mut pod = serde_json::json!({"spec": {
            "containers": [{"resources": asks("1")}, {"resources": asks("500m")}, {}],
            "initContainers": [
                {"resources": asks("1")},
                {"restartPolicy": "Always", "resources": asks("200m")},
                {"resources": asks("2")},
            ],
        }});
        let cpu = |pod: &Value| {
            let demand = Demand::read(pod.to_string().as_bytes()).expect("a Pod");
            assert_eq!(demand.amounts()[0], ("pods".into(), 1));
            demand.amounts()[1..].to_vec()
        };
        assert_eq!(cpu(&pod), [("cpu".into(), 2200)]);
        pod["spec"]["initContainers"][2]["resources"] = asks("1");
        assert_eq!(cpu(&pod), [("cpu".into(), 1700)]);
        pod["spec"]["overhead"] = serde_json::json!({"cpu": "50m", "memory": "1Ki"});
        assert_eq!(cpu(&pod), [("cpu".into(), 1750), ("memory".into(), 1024)]);
        pod["spec"]["resources"] = asks("3");
        assert_eq!(cpu(&pod), [("cpu".into(), 3050), ("memory".into(), 1024)]);
    }
}
