"""A Job's life by the official Python client: create, watch, patch, delete.

Needs the package `kubernetes` and, in KUBECONFIG, a cluster that runs Jobs. Ends with 0 if all
went as it should.
"""

import time

from kubernetes import client, config, dynamic, utils, watch
from kubernetes.client.exceptions import ApiException

NAMESPACE = "default"
NAME = "from-python"


def job():
    container = client.V1Container(name="main", image="busybox:1.36", command=["true"])
    template = client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels={"app": NAME}),
        spec=client.V1PodSpec(restart_policy="Never", containers=[container]),
    )
    return client.V1Job(
        api_version="batch/v1",
        kind="Job",
        metadata=client.V1ObjectMeta(name=NAME),
        spec=client.V1JobSpec(
            completions=3,
            parallelism=1,
            completion_mode="Indexed",
            suspend=True,
            template=template,
        ),
    )


def refused(status, reason, call, *arguments, **options):
    """The call must be refused in this way."""
    try:
        call(*arguments, **options)
    except ApiException as error:
        assert error.status == status, error
        assert f'"reason":"{reason}"' in error.body.replace('": "', '":"'), error.body
    else:
        raise AssertionError(f"{call.__name__} was not refused")


def conditions(seen):
    return [c.type for c in seen.status.conditions or [] if c.status == "True"]


def watch_until(batch, version, done):
    """Events of the Job from a version on, up to the first of which `done` holds."""
    events = []
    stream = watch.Watch().stream(
        batch.list_namespaced_job,
        NAMESPACE,
        field_selector=f"metadata.name={NAME}",
        resource_version=version,
        timeout_seconds=60,
    )
    for event in stream:
        events.append(event)
        if done(event):
            return events
    raise AssertionError(f"the watch ended after {[event['type'] for event in events]}")


def wait_until(is_so):
    """Until it is so; a minute at most."""
    end = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < end, "it is not so after a minute"
        time.sleep(0.05)


def main():
    config.load_kube_config()
    batch = client.BatchV1Api()
    core = client.CoreV1Api()

    version = client.VersionApi().get_code()
    assert (version.major, version.minor) == ("1", "36"), version
    names = [ns.metadata.name for ns in core.list_namespace().items]
    assert "default" in names and "kube-system" in names, names

    created = batch.create_namespaced_job(NAMESPACE, job(), field_validation="Strict")
    assert created.metadata.uid and created.spec.backoff_limit == 6, created
    assert created.metadata.creation_timestamp.tzinfo is not None, created
    refused(409, "AlreadyExists", batch.create_namespaced_job, NAMESPACE, job())
    wrong = job()
    wrong.metadata.name, wrong.spec.parallelism = "wrong", -1
    refused(422, "Invalid", batch.create_namespaced_job, NAMESPACE, wrong)
    refused(404, "NotFound", batch.read_namespaced_job, "other", NAMESPACE)

    # A dict is sent as a strategic merge patch, a list as a JSON patch.
    patched = batch.patch_namespaced_job(
        NAME,
        NAMESPACE,
        {"metadata": {"labels": {"team": "a"}}, "spec": {"suspend": False}},
    )
    assert patched.metadata.labels["team"] == "a" and not patched.spec.suspend, patched
    scaled = batch.patch_namespaced_job(
        NAME, NAMESPACE, [{"op": "replace", "path": "/spec/parallelism", "value": 3}]
    )
    assert scaled.spec.parallelism == 3, scaled

    events = watch_until(
        batch,
        created.metadata.resource_version,
        lambda event: "Complete" in conditions(event["object"]),
    )
    assert {event["type"] for event in events} == {"MODIFIED"}, events
    done = events[-1]["object"]
    assert isinstance(done, client.V1Job), done
    assert done.status.succeeded == 3 and done.status.completed_indexes == "0-2", done.status

    pods = core.list_namespaced_pod(NAMESPACE, label_selector=f"job-name={NAME},team!=b")
    assert [pod.status.phase for pod in pods.items] == ["Succeeded"] * 3, pods
    first = core.list_namespaced_pod(NAMESPACE, limit=1)
    rest = core.list_namespaced_pod(NAMESPACE, limit=10, _continue=first.metadata._continue)
    assert len(first.items) == 1 and len(rest.items) == 2, (first, rest)
    assert core.read_namespaced_pod_log(pods.items[0].metadata.name, NAMESPACE)

    batch.delete_namespaced_job(NAME, NAMESPACE, propagation_policy="Foreground")
    version = done.metadata.resource_version
    events = watch_until(batch, version, lambda event: event["type"] == "DELETED")
    assert events[-1]["object"].metadata.uid == created.metadata.uid, events
    assert not core.list_namespaced_pod(NAMESPACE, label_selector=f"job-name={NAME}").items
    refused(404, "NotFound", batch.delete_namespaced_job, NAME, NAMESPACE)

    # The dynamic client finds the API by discovery, and applies.
    api = client.ApiClient()
    jobs = dynamic.DynamicClient(api).resources.get(api_version="batch/v1", kind="Job")
    body = api.sanitize_for_serialization(job())
    applied = jobs.server_side_apply(
        body=body, name=NAME, namespace=NAMESPACE, field_manager="python"
    )
    assert applied.spec.suspend and applied.kind == "Job", applied
    assert NAME in [item.metadata.name for item in jobs.get(namespace=NAMESPACE).items]
    jobs.delete(name=NAME, namespace=NAMESPACE)
    body["metadata"]["name"] = f"{NAME}-2"
    utils.create_from_dict(api, body)
    # Unless told otherwise this API version leaves Pods behind: a Job goes when the collector has let go of them.
    batch.delete_collection_namespaced_job(NAMESPACE)
    wait_until(lambda: not batch.list_namespaced_job(NAMESPACE).items)

    review = client.V1SelfSubjectAccessReview(
        spec=client.V1SelfSubjectAccessReviewSpec(
            resource_attributes=client.V1ResourceAttributes(
                group="batch", resource="jobs", verb="create", namespace=NAMESPACE
            )
        )
    )
    answer = client.AuthorizationV1Api().create_self_subject_access_review(review)
    assert answer.status.allowed, answer


main()
