//! Hollow kubelet: simulates the life of every Pod on a node, without running containers.
//!
//! Responsible for: binding Pods to hollow nodes, and the status writes and deletes of their whole life, as a machine:
//! Pods and time in, API writes out.
//! Must not: open a socket, read a clock, draw from a random source, or know a Pod's owner.
//! Read first: [`Kubelet`], then `life` (the timeline of a Pod), then `status_manager` (its writes); `stages` holds
//! simulated lives as data.
//!
//! # Differences from a real scheduler and kubelet
//!
//! - A hollow node does not notice that its Node object is gone. It runs its Pods until another component fails or
//!   deletes them; no further Pods are bound to it.
//! - Scheduling is round-robin. It considers resources if nodes have a capacity, but never selectors, affinity, taints
//!   or priorities. The Pod that has waited longest comes first, and no Pod is preempted.
//! - An unschedulable Pod is marked once, with the numbers of that moment.
//! - There is no write while a Pod is still `ContainerCreating`. The first status says Running, or the end if the
//!   containers take no time at all.
//! - The first container carries the simulated duration and exit code. The other containers end with it, with exit code
//!   0, unless they are killed or a stage says otherwise. Sidecars run until then without a restart. They are stopped
//!   as by a kubelet: one after the other, the last first.
//! - Init containers take no time and succeed, unless stages or annotations say otherwise.
//! - A Pod that was already Running when this kubelet first saw it starts its run again.
//! - A stopped container obeys: it exits with 143 after `stop_delay`, or 137 if its grace period is shorter; stages may
//!   say otherwise.
//! - Pods are evicted, preempted or lose their node only where a stage says so; the node itself stays.
//! - Events exist only for Pods that no node takes. There are no probes, image pulls, container-level restart rules or
//!   Node leases.

mod allocatable;
mod attempts;
mod conditions;
mod containers;
mod decode;
mod events;
mod inits;
mod life;
mod machine;
mod node;
mod options;
mod output;
mod pending_queue;
mod plan;
mod pods;
mod ranges;
mod reservation;
mod resources;
mod scheduler;
mod settings;
mod shape;
pub mod stages;
mod status;
mod status_manager;
#[cfg(test)]
mod tests;
mod timers;
mod world;
mod write;

pub use crate::model::{format_go_duration, parse_go_duration};
pub use decode::DecodeError;
pub use machine::Kubelet;
pub use node::node_objects;
pub use options::KubeletOptions;
pub use output::container_output;
pub use resources::{CapacityError, NodeCapacity};
pub use settings::{
    DURATION, EXIT_CODE, FAIL_ATTEMPTS, FAIL_INDEXES, INIT_DURATION, INIT_EXIT_CODE,
    INIT_FAIL_ATTEMPTS, INVALID_ANNOTATION_REASON, OUTPUT,
};
pub use stages::Stage;
pub use write::{Action, PodWrite};
