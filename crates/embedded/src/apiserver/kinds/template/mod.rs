//! Implements the rules of pod specs in Pods and in Job templates.
//!
//! Responsible for: defaults and validation that both share. Must not: hold rules of Jobs or Pods alone.

mod containers;
mod defaults;
mod scheduling;
mod validate;
mod warnings;

pub(crate) use defaults::default_spec;
pub(crate) use validate::{check_images, container_names, validate_metadata, validate_spec};
pub(crate) use warnings::warnings;
