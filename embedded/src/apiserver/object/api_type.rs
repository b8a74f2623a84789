//! The API type of each kind.
//!
//! Responsible for: from a kind to the Rust type that has its fields. Must not: keep objects in
//! these types; trees are what is stored.

use k8s_openapi::{
    api::{
        batch::v1 as batch, coordination::v1 as coordination, core::v1 as core,
        scheduling::v1alpha2 as scheduling,
    },
    schemars::JsonSchema,
    serde::de::DeserializeOwned,
};

use super::kind::Kind;

/// Something done with the type of a kind.
pub(crate) trait Visitor {
    /// What comes of it.
    type Answer;

    /// Does it with the type.
    fn visit<T: DeserializeOwned + JsonSchema>(self) -> Self::Answer;
}

/// Hands the type of a kind to a visitor.
pub(crate) fn visit<V: Visitor>(kind: Kind, visitor: V) -> V::Answer {
    match kind {
        Kind::Pod => visitor.visit::<core::Pod>(),
        Kind::Job => visitor.visit::<batch::Job>(),
        Kind::Namespace => visitor.visit::<core::Namespace>(),
        Kind::Node => visitor.visit::<core::Node>(),
        Kind::Event => visitor.visit::<core::Event>(),
        Kind::Lease => visitor.visit::<coordination::Lease>(),
        Kind::CronJob => visitor.visit::<batch::CronJob>(),
        Kind::ServiceAccount => visitor.visit::<core::ServiceAccount>(),
        Kind::ConfigMap => visitor.visit::<core::ConfigMap>(),
        Kind::Secret => visitor.visit::<core::Secret>(),
        Kind::Workload => visitor.visit::<scheduling::Workload>(),
        Kind::PodGroup => visitor.visit::<scheduling::PodGroup>(),
        Kind::ResourceQuota => visitor.visit::<core::ResourceQuota>(),
    }
}
