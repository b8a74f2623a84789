//! Rules about one object that need a look at others: admission plugins of the real server.
//!
//! Responsible for: JobValidation and PodGroupWorkloadExists, which come with gang scheduling; when the
//! rules of ResourceQuotas, in `quota`, are asked. Must not: change anything.
//!
//! Different from a real server: both are always on; without PodGroups they find nothing to say.

use serde_json::Value;

use super::state::ApiServer;
use crate::apiserver::object::{
    error::{ApiError, Result},
    kind::Kind,
    tree::{self, Tree},
};

impl ApiServer {
    /// Checks an object that is to be created.
    pub(crate) fn admit_create(&self, kind: Kind, namespace: &str, tree: &Tree) -> Result<()> {
        if kind == Kind::PodGroup {
            self.workload_exists(namespace, tree)?;
        }
        self.admit_by_quota(kind, namespace, tree)
    }

    /// Checks a change of an object itself, not of its status.
    pub(crate) fn admit_update(
        &self,
        kind: Kind,
        namespace: &str,
        tree: &Tree,
        old: &Tree,
    ) -> Result<()> {
        match kind {
            Kind::Job => self.parallelism_may_change(namespace, tree, old),
            _ => Ok(()),
        }
    }

    /// A PodGroup needs its Workload, and that its template.
    fn workload_exists(&self, namespace: &str, tree: &Tree) -> Result<()> {
        let reference = tree::section(tree::section(tree, "spec"), "podGroupTemplateRef");
        if !reference.contains_key("workload") {
            return Ok(());
        }
        let reference = tree::section(reference, "workload");
        let workload = tree::text(reference, "workloadName");
        let template = tree::text(reference, "podGroupTemplateName");
        let refuse = |why: String| {
            let name = tree::text(tree::metadata(tree), "name");
            let why = format!("PodGroup rejected: {why}");
            Err(ApiError::forbidden(Kind::PodGroup, name, &why))
        };
        let Some(found) = self.store.get(Kind::Workload, namespace, workload) else {
            return refuse(format!("Workload {workload:?} not found"));
        };
        if found.deletion.is_some() {
            return refuse(format!("Workload {workload:?} is being deleted"));
        }
        let found = found.tree();
        let mut templates = tree::items(tree::section(&found, "spec"), "podGroupTemplates").iter();
        if templates.any(|known| known.get("name").is_some_and(|name| name == template)) {
            return Ok(());
        }
        refuse(format!(
            "PodGroupTemplate {template:?} not found in Workload {workload:?}"
        ))
    }

    /// A gang keeps the size that its PodGroup waits for.
    fn parallelism_may_change(&self, namespace: &str, tree: &Tree, old: &Tree) -> Result<()> {
        let spec = tree::section(old, "spec");
        if tree::section(tree, "spec").get("parallelism") == spec.get("parallelism") {
            return Ok(());
        }
        let template = tree::section(tree::section(spec, "template"), "spec");
        let named = tree::text(tree::section(template, "schedulingGroup"), "podGroupName");
        let gang = if named.is_empty() {
            let uid = tree::text(tree::metadata(old), "uid");
            let mut groups = self.store.range(Kind::PodGroup, namespace, None);
            groups.find(|group| {
                let mut owners = group.owners.iter();
                owners.any(|owner| *owner.uid == *uid) && is_gang_of(&group.tree(), uid)
            })
        } else {
            let group = self.store.get(Kind::PodGroup, namespace, named);
            group.filter(|group| has_gang_policy(&group.tree()))
        };
        let Some(gang) = gang else { return Ok(()) };
        let name = tree::text(tree::metadata(tree), "name");
        let why = format!(
            "cannot change parallelism for a Job referencing gang-scheduled PodGroup {:?}",
            gang.name
        );
        Err(ApiError::forbidden(Kind::Job, name, &why))
    }
}

fn is_gang_of(group: &Tree, job: &str) -> bool {
    let owners = tree::items(tree::metadata(group), "ownerReferences").iter();
    let mut owners = owners.filter_map(Value::as_object);
    let controls =
        |owner: &Tree| tree::flag(owner, "controller") && tree::text(owner, "uid") == job;
    owners.any(controls) && has_gang_policy(group)
}

fn has_gang_policy(group: &Tree) -> bool {
    tree::section(tree::section(group, "spec"), "schedulingPolicy").contains_key("gang")
}
