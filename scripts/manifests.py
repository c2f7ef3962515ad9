#!/usr/bin/env python3
"""Renders the plain manifests in deploy/ from the chart: `make manifests`.

    python3 scripts/manifests.py HELM [--check]

HELM is the helm program. With --check nothing is written, and the status is 1 if a file is not what
the chart renders.
"""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
CHART = ROOT / "deploy" / "helm" / "fairlead"
_MADE = (
    "# Rendered from deploy/helm/fairlead by `make manifests`: change the chart, not this file.\n"
)


@dataclass(frozen=True, slots=True)
class Manifest:
    """A file: the chart with these values, or one template of it."""

    name: str
    about: str
    values: tuple[str, ...] = ()
    template: str = ""
    folder: str = "deploy"

    @property
    def path(self) -> Path:
        return ROOT / self.folder / self.name


MANIFESTS = (
    Manifest(
        "fairlead.yaml",
        "Fairlead with everything that is on by default: scheduler, webhook, policies.\n"
        "docs/install.md tells how to install a part of it.\n",
        ("createNamespace=true",),
    ),
    Manifest(
        "crds.yaml",
        "The kinds of our own alone; deploy/fairlead.yaml has them as well.\n",
        (),
        "crds.yaml",
    ),
    Manifest(
        "crds.yaml",
        "What `fairlead up` defines on its API server.\n",
        (),
        "crds.yaml",
        "src/fairlead/sim/workload",
    ),
    Manifest(
        "inject-policy.yaml",
        "In place of the webhook, for clusters that prefer none: see docs/install.md.\n",
        ("policies.inject=true",),
        "policy-inject.yaml",
    ),
    Manifest(
        "default-spreading.yaml",
        "What default spreading needs beyond deploy/fairlead.yaml.\n",
        ("rbac.defaultSpreading=true",),
        "default-spreading.yaml",
    ),
    Manifest(
        "agent.yaml",
        "The agent, for nodes with GPUs, beside deploy/fairlead.yaml: see docs/install.md.\n",
        ("agent.enabled=true",),
        "agent.yaml",
    ),
    Manifest(
        "extender.yaml",
        "The extender, for a kube-scheduler that stays: see docs/extender.md.\n",
        ("extender.enabled=true", "replicaCount=0"),
        "extender.yaml",
    ),
    Manifest("static-pod.yaml", "", ("staticPod=true",), "static-pod.yaml"),
)


def rendered(helm: str, manifest: Manifest) -> str:
    """What belongs into the file."""
    command = [helm, "template", "fairlead", str(CHART), "--namespace", "fairlead-system"]
    for value in manifest.values:
        command += ["--set", value]
    if manifest.template:
        command += ["--show-only", f"templates/{manifest.template}"]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode:
        sys.exit(f"helm cannot render {manifest.name}: {made.stderr.strip()}")
    about = "".join(f"# {line}\n" for line in manifest.about.splitlines())
    return _MADE + about + made.stdout


def main(helm: str, *options: str) -> int:
    if "--check" not in options:
        for manifest in MANIFESTS:
            manifest.path.write_text(rendered(helm, manifest))
        return 0
    stale = [m for m in MANIFESTS if m.path.read_text() != rendered(helm, m)]
    for each in stale:
        file = each.path.relative_to(ROOT)
        sys.stderr.write(f"{file} is not what the chart renders: run `make manifests`\n")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
