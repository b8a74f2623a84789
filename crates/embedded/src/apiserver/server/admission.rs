//! Implements the admission plugins that depend on other objects.
//!
//! Responsible for: JobValidation and PodGroupWorkloadExists, which belong to gang scheduling, and the call to the
//! quota rules in `quota`. Must not: change anything.
//!
//! Different from a real server: both plugins are always enabled; without PodGroups they have no effect.

use super::state::ApiServer;
use crate::apiserver::object::{ApiError, JsonView, Kind, Result, Tree, tree};

impl ApiServer {
    /// Admits a new object.
    pub(crate) fn admit_create(&self, kind: Kind, namespace: &str, tree: &Tree) -> Result<()> {
        if kind == Kind::PodGroup {
            self.workload_exists(namespace, tree)?;
        }
        self.admit_by_quota(kind, namespace, tree)
    }

    /// Requires that the Workload and the template of a PodGroup exist.
    fn workload_exists(&self, namespace: &str, tree: &Tree) -> Result<()> {
        let reference = JsonView::from(tree).at("spec.podGroupTemplateRef.workload");
        if !reference.is_set() {
            return Ok(());
        }
        let workload = reference.at("workloadName").text();
        let template = reference.at("podGroupTemplateName").text();
        let refuse = |why: String| {
            let name = tree::text(tree, "metadata.name");
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
        let mut templates = JsonView::from(&found).at("spec.podGroupTemplates").items();
        if templates.any(|known| known.at("name").text() == template) {
            return Ok(());
        }
        refuse(format!(
            "PodGroupTemplate {template:?} not found in Workload {workload:?}"
        ))
    }

    /// Admits an update of the main resource. The parallelism of a gang's Job is immutable, because the PodGroup waits
    /// for that number of Pods.
    pub(crate) fn admit_update(
        &self,
        kind: Kind,
        namespace: &str,
        tree: &Tree,
        old: &Tree,
    ) -> Result<()> {
        let (new, old) = (JsonView::from(tree), JsonView::from(old));
        let size = |job: JsonView<'_>| job.at("spec.parallelism").int();
        if kind != Kind::Job || size(new) == size(old) {
            return Ok(());
        }
        let named = old
            .at("spec.template.spec.schedulingGroup.podGroupName")
            .text();
        let gang = if named.is_empty() {
            let uid = old.at("metadata.uid").text();
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
        let name = tree::text(tree, "metadata.name");
        let why = format!(
            "cannot change parallelism for a Job referencing gang-scheduled PodGroup {:?}",
            gang.name
        );
        Err(ApiError::forbidden(Kind::Job, name, &why))
    }
}

fn is_gang_of(group: &Tree, job: &str) -> bool {
    let mut owners = JsonView::from(group).at("metadata.ownerReferences").items();
    owners.any(|owner| owner.at("controller").flag() && owner.at("uid").text() == job)
        && has_gang_policy(group)
}

fn has_gang_policy(group: &Tree) -> bool {
    JsonView::from(group)
        .at("spec.schedulingPolicy.gang")
        .is_set()
}
