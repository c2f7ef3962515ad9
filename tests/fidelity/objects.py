"""Small objects for the request scripts."""


def config(name="c", data=None, **metadata):
    return {"metadata": {"name": name, **metadata}, "data": data or {"a": "1"}}


def pod(name="p", spec=None, status=None, **metadata):
    body = {"metadata": {"name": name, **metadata}, "spec": spec or containers()}
    return {**body, "status": status} if status else body


def containers(limits=None, requests=None, **more):
    container = {"name": "c", "image": "example.com/image:1"}
    resources = {}
    if limits:
        resources["limits"] = limits
    if requests:
        resources["requests"] = requests
    if resources:
        container["resources"] = resources
    return {"containers": [container], **more}


def binding(name="p", node="n", **metadata):
    return {
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, **metadata},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }  # fmt: skip


def node(name, **more):
    return {"metadata": {"name": name, **more.pop("metadata", {})}, **more}


def deployment(name="d", labels=None, selector=None, **spec):
    labels = labels or {"app": "x"}
    template = {"metadata": {"labels": labels}, "spec": containers()}
    chosen = {"matchLabels": selector or {"app": "x"}}
    return {"metadata": {"name": name}, "spec": {"selector": chosen, "template": template, **spec}}


def job(name="j", policy="Never", **spec):
    template = {"spec": containers(restartPolicy=policy)}
    return {"metadata": {"name": name}, "spec": {"template": template, **spec}}


def event(name="e", **more):
    return {
        "metadata": {"name": name}, "reason": "Scheduled", "message": "hello", "type": "Normal",
        "involvedObject": {"kind": "Pod", "namespace": "<ns>", "name": "p", "apiVersion": "v1"},
        **more,
    }  # fmt: skip


def lease(name="l", **spec):
    wanted = {"holderIdentity": "me", "leaseDurationSeconds": 15, **spec}
    return {"metadata": {"name": name}, "spec": wanted}
