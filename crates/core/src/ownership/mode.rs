//! Decides which Jobs this controller manages, and which finalizer tracks their Pods. No other module does.
//!
//! Must not: read JSON, or know how a Job is handled.

use std::fmt;

use crate::model::{
    CronJob, DEFAULT_MANAGER, Job, OWN_MANAGER, OWN_TRACKING_FINALIZER, TRACKING_FINALIZER,
};

/// The maximum length of `spec.managedBy` in the API.
const NAME_MAX: usize = 63;

/// The relation between this controller and the cluster's built-in one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[doc(alias = "managedBy")]
pub enum Mode {
    /// Replaces the built-in controller, which must not run. Manages its Jobs and uses its finalizer.
    #[default]
    Replace,
    /// Runs beside the built-in controller. Manages only Jobs that name this controller in `spec.managedBy`, and has
    /// its own finalizer.
    ManagedBy(ManagerName),
    /// The only Job controller of its cluster: as [`Self::Replace`], and it also manages Jobs that name lakh.
    Both,
}

impl Mode {
    /// Returns true if this controller manages the Job. The field is immutable.
    pub fn manages(&self, job: &Job) -> bool {
        self.manages_name(job.spec.managed_by.as_deref())
    }

    /// Returns true if this controller manages Jobs with this `spec.managedBy`.
    pub fn manages_name(&self, named: Option<&str>) -> bool {
        let replaces = named.is_none_or(|name| name == DEFAULT_MANAGER);
        match self {
            Self::Replace => replaces,
            Self::ManagedBy(own) => named == Some(own.as_str()),
            Self::Both => replaces || named == Some(OWN_MANAGER),
        }
    }

    /// Returns true if it replaces the built-in controllers.
    pub fn replaces_built_in(&self) -> bool {
        match self {
            Self::Replace | Self::Both => true,
            Self::ManagedBy(_) => false,
        }
    }

    /// Returns true if this controller runs the CronJob. In place of the built-in controllers it runs all; beside them,
    /// only those with Jobs that it manages.
    pub fn manages_jobs_of(&self, cron_job: &CronJob) -> bool {
        let named = cron_job.spec.managed_by.as_deref();
        match self {
            Self::Replace | Self::Both => true,
            Self::ManagedBy(own) => named == Some(own.as_str()),
        }
    }

    /// The finalizer that keeps a Pod until it is counted. A Pod with another mode's finalizer must not lose it here.
    pub fn finalizer(&self) -> &'static str {
        match self {
            Self::Replace | Self::Both => TRACKING_FINALIZER,
            Self::ManagedBy(_) => OWN_TRACKING_FINALIZER,
        }
    }

    /// The source component of Events.
    pub fn component(&self) -> &'static str {
        match self {
            Self::Replace | Self::Both => "job-controller",
            Self::ManagedBy(_) => "lakh-job-controller",
        }
    }

    /// The source component of Events on CronJobs.
    pub fn cron_job_component(&self) -> &'static str {
        match self {
            Self::Replace | Self::Both => "cronjob-controller",
            Self::ManagedBy(_) => "lakh-cronjob-controller",
        }
    }
}

/// The mode as on the command line, with the manager's name.
impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Replace => f.write_str("replace"),
            Self::ManagedBy(name) => write!(f, "managed-by {name}"),
            Self::Both => f.write_str("both"),
        }
    }
}

/// A controller's name as in a Job's `spec.managedBy`: a domain, a slash, a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagerName(String);

/// The reason why a text is not a valid controller name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadManagerName {
    /// There is no slash, or no text before or after it.
    #[error("must be a domain-prefixed path, such as lakh.dev/job-controller")]
    NoDomain,
    /// The part before the first slash is not a domain.
    #[error("must begin with a domain: lower-case letters, digits, '-' and '.'")]
    OddDomain,
    /// The part after the first slash has characters that a path cannot have.
    #[error("must have only a URL's characters behind the domain")]
    OddPath,
    /// It exceeds the API's maximum length.
    #[error("must be no longer than {NAME_MAX} bytes")]
    TooLong,
    /// It is the built-in controller's name.
    #[error(
        "must not be {DEFAULT_MANAGER}, which is the built-in controller's: see --mode replace"
    )]
    Reserved,
}

impl ManagerName {
    /// Parses a name by the API's rules for the field.
    pub fn parse(text: &str) -> Result<Self, BadManagerName> {
        let (domain, path) = text.split_once('/').ok_or(BadManagerName::NoDomain)?;
        if domain.is_empty() || path.is_empty() {
            return Err(BadManagerName::NoDomain);
        }
        if !domain.split('.').all(is_label) {
            return Err(BadManagerName::OddDomain);
        }
        let in_path =
            |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte);
        if !path.bytes().all(in_path) {
            return Err(BadManagerName::OddPath);
        }
        if text.len() > NAME_MAX {
            return Err(BadManagerName::TooLong);
        }
        if text == DEFAULT_MANAGER {
            return Err(BadManagerName::Reserved);
        }
        Ok(Self(text.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ManagerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns true if a text is a label of a domain name.
fn is_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::JobSpec;

    fn managed_by(name: Option<&str>) -> Job {
        Job {
            spec: JobSpec {
                managed_by: name.map(Into::into),
                ..JobSpec::default()
            },
            ..Job::default()
        }
    }

    #[test]
    fn every_job_has_one_manager() {
        let own = ManagerName::parse("lakh.dev/job-controller").expect("a good name");
        let modes = [Mode::Replace, Mode::ManagedBy(own), Mode::Both];
        for (name, ours) in [
            (None, [true, false, true]),
            (Some(DEFAULT_MANAGER), [true, false, true]),
            (Some("lakh.dev/job-controller"), [false, true, true]),
            (Some("example.com/other"), [false, false, false]),
            (Some(""), [false, false, false]),
        ] {
            let job = managed_by(name);
            assert_eq!(
                modes.clone().map(|mode| mode.manages(&job)),
                ours,
                "{name:?}"
            );
        }
        assert_ne!(modes[0].finalizer(), modes[1].finalizer());
    }

    #[test]
    fn names_are_domain_prefixed_paths() {
        for good in ["lakh.dev/job-controller", "a/b", "x-1.y/b/c:d"] {
            assert_eq!(
                ManagerName::parse(good)
                    .map(|name| name.to_string())
                    .as_deref(),
                Ok(good)
            );
        }
        let long = format!("a/{}", "b".repeat(62));
        for (bad, why) in [
            ("", BadManagerName::NoDomain),
            ("lakh", BadManagerName::NoDomain),
            ("/b", BadManagerName::NoDomain),
            ("a/", BadManagerName::NoDomain),
            ("A/b", BadManagerName::OddDomain),
            ("a..b/c", BadManagerName::OddDomain),
            ("-a/b", BadManagerName::OddDomain),
            ("a/b c", BadManagerName::OddPath),
            (long.as_str(), BadManagerName::TooLong),
            (DEFAULT_MANAGER, BadManagerName::Reserved),
        ] {
            assert_eq!(ManagerName::parse(bad), Err(why), "{bad}");
        }
    }
}
