"""Writes dist/fourfold-VERSION.cdx.json, the bill of materials (CycloneDX 1.6): python scripts/sbom.py [FOLDER]

It has what `pip install fourfold` installs on this platform, in the versions of constraints.txt, without extras.
Licences and dependencies are those of the packages in this environment, which must have these versions.
The same pins give the same file.
"""

from __future__ import annotations

import json
import sys
import uuid
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent


def pins() -> dict[str, str]:
    """The versions of constraints.txt, by name."""
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pairs = (line.split("==") for line in lines if "==" in line and not line.startswith("#"))
    return {canonicalize_name(name): version.strip() for name, version in pairs}


def needed(package: Distribution, extras: frozenset[str]) -> list[Requirement]:
    """The requirements of a package that hold on this platform."""
    requirements = map(Requirement, package.requires or ())
    environments = [{"extra": extra} for extra in ("", *extras)]
    return [each for each in requirements if each.marker is None or any(map(each.marker.evaluate, environments))]


def closure(root: str) -> dict[str, set[str]]:
    """Every package that is installed with this one, with the packages that it needs itself."""
    edges: dict[str, set[str]] = {root: set()}
    left, seen = [(root, frozenset[str]())], set[tuple[str, frozenset[str]]]()
    while left:
        if (each := left.pop()) in seen:
            continue
        seen.add(each)
        for requirement in needed(distribution(each[0]), each[1]):
            name = canonicalize_name(requirement.name)
            edges[each[0]].add(name)
            edges.setdefault(name, set())
            left.append((name, frozenset(requirement.extras)))
    return edges


def licences(package: Distribution) -> list[dict[str, Any]]:
    """As an expression where the package gives one, else by the name that it gives."""
    described = package.metadata
    if expression := described.get("License-Expression"):
        return [{"expression": expression}]
    classified = [
        each.rpartition(" :: ")[2] for each in described.get_all("Classifier", ()) if each.startswith("License")
    ]
    names = classified or [str(described.get("License", "")).partition("\n")[0][:100]]
    return [{"license": {"name": name}} for name in names if name]


def component(name: str, version: str, kind: str) -> dict[str, Any]:
    package = distribution(name)
    made: dict[str, Any] = {"type": kind, "bom-ref": purl(name, version), "name": name, "version": version}
    if summary := package.metadata.get("Summary"):
        made["description"] = summary
    return made | {"licenses": licences(package), "purl": purl(name, version)}


def purl(name: str, version: str) -> str:
    return f"pkg:pypi/{name}@{version}"


def bill() -> dict[str, Any]:
    edges, pinned = closure("fourfold"), pins()
    versions = {name: distribution(name).version for name in edges}
    wrong = [name for name in edges if name != "fourfold" and versions[name] != pinned.get(name)]
    if wrong:
        raise SystemExit(f"not in the version of constraints.txt: {', '.join(sorted(wrong))}; run `make sbom`")
    names = sorted(name for name in edges if name != "fourfold")
    content: dict[str, Any] = {
        "metadata": {"component": component("fourfold", versions["fourfold"], "application")},
        "components": [component(name, versions[name], "library") for name in names],
        "dependencies": [
            {"ref": purl(name, versions[name]), "dependsOn": sorted(purl(each, versions[each]) for each in edges[name])}
            for name in sorted(edges)
        ],
    }
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(content, sort_keys=True))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        **content,
    }


def write(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    made = bill()
    target = folder / f"fourfold-{made['metadata']['component']['version']}.cdx.json"
    target.write_text(json.dumps(made, indent=2, ensure_ascii=False) + "\n", "utf-8")
    return target


if __name__ == "__main__":
    sys.stdout.write(f"{write(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / 'dist')}\n")
