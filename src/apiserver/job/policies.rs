//! Rules of failure and success policies.
