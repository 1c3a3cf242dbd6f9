"""Checks a CycloneDX document: its form by the official schema, that each reference in it leads somewhere, and that each crate of others
has a licence and a checksum.

    python tests/packages/sbom.py FILE
"""

import json
import sys

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

with open(sys.argv[1], encoding="utf-8") as file:
    text = file.read()
wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
if wrong is not None:
    sys.exit(f"it does not follow the schema: {wrong}")

document = json.loads(text)
components = document["components"]
known = {component["bom-ref"] for component in components} | {document["metadata"]["component"]["bom-ref"]}
if len(known) != len(components) + 1:
    sys.exit("two components have the same reference")
for dependency in document["dependencies"]:
    for reference in [dependency["ref"], *dependency["dependsOn"]]:
        if reference not in known:
            sys.exit(f"{reference} is not a component")
for component in components:
    if "purl" in component and not (component.get("hashes") and component.get("licenses")):
        sys.exit(f"{component['bom-ref']} has no checksum or no licence")
names = {component["name"] for component in components}
for name in ["numaloc-core", "tokio", "tonic"]:
    if name not in names:
        sys.exit(f"{name} is missing, which each program has")
