//! Which Jobs this controller manages, and which finalizer tracks their Pods: decided here and nowhere else.
//!
//! Must not: read JSON, or know what is done to a Job.

use std::fmt;

use crate::model::{
    CronJob, DEFAULT_MANAGER, Job, OWN_MANAGER, OWN_TRACKING_FINALIZER, TRACKING_FINALIZER,
};

/// The longest value that the API takes for `spec.managedBy`.
const NAME_MAX: usize = 63;

/// How the controller stands to the cluster's built-in one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[doc(alias = "managedBy")]
pub enum Mode {
    /// It takes the built-in controller's place, which must not run: its Jobs, its finalizer.
    #[default]
    Replace,
    /// It works beside the built-in controller: only Jobs that name it in `spec.managedBy` are
    /// its own, and it has a finalizer of its own.
    ManagedBy(ManagerName),
    /// It is the only Job controller of its cluster: as [`Self::Replace`], and Jobs that name lakh are its own, too.
    Both,
}

impl Mode {
    /// Whether a Job is ours. The field never changes in a Job's life.
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

    /// Whether a CronJob is ours: instead of the built-in controllers any, beside them those that make
    /// Jobs for us.
    pub fn manages_jobs_of(&self, cron_job: &CronJob) -> bool {
        let named = cron_job.spec.managed_by.as_deref();
        match self {
            Self::Replace | Self::Both => true,
            Self::ManagedBy(own) => named == Some(own.as_str()),
        }
    }

    /// The finalizer by which a Pod is kept until it is counted. A Pod that has another mode's is
    /// not ours to free.
    pub fn finalizer(&self) -> &'static str {
        match self {
            Self::Replace | Self::Both => TRACKING_FINALIZER,
            Self::ManagedBy(_) => OWN_TRACKING_FINALIZER,
        }
    }

    /// What Events name as their source.
    pub fn component(&self) -> &'static str {
        match self {
            Self::Replace | Self::Both => "job-controller",
            Self::ManagedBy(_) => "lakh-job-controller",
        }
    }

    /// What Events on CronJobs name as their source.
    pub fn cron_job_component(&self) -> &'static str {
        match self {
            Self::Replace | Self::Both => "cronjob-controller",
            Self::ManagedBy(_) => "lakh-cronjob-controller",
        }
    }
}

/// The mode as it is typed, with the manager's name.
impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Replace => f.write_str("replace"),
            Self::ManagedBy(name) => write!(f, "managed-by {name}"),
            Self::Both => f.write_str("both"),
        }
    }
}

/// A controller's name as a Job's `spec.managedBy` spells it: a domain, a slash, a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagerName(String);

/// A text cannot be a controller's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadManagerName {
    /// There is no slash, or nothing before or after it.
    #[error("must be a domain-prefixed path, such as lakh.dev/job-controller")]
    NoDomain,
    /// What is before the first slash is no domain.
    #[error("must begin with a domain: lower-case letters, digits, '-' and '.'")]
    OddDomain,
    /// What is behind it has characters that no path has.
    #[error("must have only a URL's characters behind the domain")]
    OddPath,
    /// It is longer than the API takes.
    #[error("must be no longer than {NAME_MAX} bytes")]
    TooLong,
    /// It is the built-in controller's.
    #[error(
        "must not be {DEFAULT_MANAGER}, which is the built-in controller's: see --mode replace"
    )]
    Reserved,
}

impl ManagerName {
    /// Reads a name, by the API's rules for the field.
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

/// Whether a text is one part of a domain's name.
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
