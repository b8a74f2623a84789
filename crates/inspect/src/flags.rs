//! Defines flags that several commands have.

use std::time::Duration;

use clap::ValueEnum;
use lakh_core::ownership::{ManagerName, Mode};
use lakh_model::{OWN_MANAGER, parse_go_duration};

use crate::Problem;

/// The modes of the controller, as flag values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ModeName {
    /// Replaces the built-in Job controller, which must not run. Manages Jobs without spec.managedBy.
    Replace,
    /// Runs beside the built-in Job controller. Manages only Jobs whose spec.managedBy names this controller.
    ManagedBy,
    /// Both kinds of Jobs, where no other Job controller can be.
    #[value(skip)]
    Both,
}

/// Returns the mode of this name, with our name in `spec.managedBy` if one was given.
pub fn mode(name: ModeName, manager: Option<ManagerName>) -> Result<Mode, Problem> {
    match (name, manager) {
        // Without the mode the name would have no effect, and all other Jobs would be taken.
        (ModeName::Replace | ModeName::Both, Some(_)) => {
            Err("--managed-by-name needs --mode managed-by".into())
        }
        (ModeName::Replace, None) => Ok(Mode::Replace),
        (ModeName::Both, None) => Ok(Mode::Both),
        (ModeName::ManagedBy, name) => {
            let default = || ManagerName::parse(OWN_MANAGER).expect("the default is good");
            Ok(Mode::ManagedBy(name.unwrap_or_else(default)))
        }
    }
}

/// Reads a duration as Kubernetes writes it: `200ms`, `1m30s`.
pub fn duration(text: &str) -> Result<Duration, String> {
    parse_go_duration(text)
        .ok_or_else(|| "must be a duration such as 200ms, 10s or 1m30s".to_owned())
}
