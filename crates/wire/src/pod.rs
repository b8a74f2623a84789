//! Decodes Pods in two projections of one view: the record that the controller decides by, and the details that explain
//! a Pod's state to users. Read [`view`] first.

mod details;
mod failure;
mod record;
#[cfg(test)]
mod tests;
mod view;

pub use details::{ContainerDetails, ContainerEnd, PodCause, PodConditionDetails, PodDetails};
pub use record::{PodDecoder, PodEvent};

/// The condition that marks a Pod as disrupted, not failed on its own.
const DISRUPTION_TARGET: &str = "DisruptionTarget";
