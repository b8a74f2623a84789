"""Whether Grafana knows each field of deploy/monitoring/dashboard.json: grafana.py.

Reads the dashboard with the SDK that Grafana generates from its own schemas, writes it again, and fails if a field was
lost or has another value. The SDK knows the options of each kind of panel, too.
"""

import json
import pathlib
import sys

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

DASHBOARD = pathlib.Path(__file__).parents[2] / "deploy/monitoring/dashboard.json"

# What Grafana's list of variables shows as a query: Grafana writes it, though its schema does not have it.
BESIDE_THE_SCHEMA = {"definition"}


def differences(ours, theirs, path):
    """What the first has and the second has not, as lines that name the field."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name, value in ours.items():
            if name in theirs:
                yield from differences(value, theirs[name], f"{path}.{name}")
            elif name not in BESIDE_THE_SCHEMA:
                yield f"{path}.{name}: Grafana does not know this field"
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for number, (one, other) in enumerate(zip(ours, theirs)):
            yield from differences(one, other, f"{path}[{number}]")
    elif ours != theirs:
        yield f"{path}: {json.dumps(ours)} is {json.dumps(theirs)} to Grafana"


register_default_plugins()
dashboard = json.loads(DASHBOARD.read_text())
read = Dashboard.from_json(dashboard)
written = json.loads(json.dumps(read, cls=JSONEncoder))
found = list(differences(dashboard, written, DASHBOARD.name))
if found:
    sys.exit("\n".join(found))
