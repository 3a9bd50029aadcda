"""The dashboards as files: their structure, their queries, and the names in them."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "dashboards" / "grafana"
RULES = ROOT / "dashboards" / "prometheus"
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
NAME = re.compile(r"\b(?:parshall|process)_[a-z0-9_]+")


def load():
    """Each dashboard by the name of its file."""
    return {path.name: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}


def queries(dashboard):
    """Title and query of each target of a dashboard, as Prometheus gets them when every variable is left at All."""
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], filled(target["expr"])


def filled(query):
    query = query.replace("$__rate_interval", "5s")
    query = re.sub(r"\$(job|instance|hub)\b", ".*", query)
    assert "$" not in query, f"a variable is not known: {query}"
    return query


def mistakes(name, dashboard):
    """What is wrong with the structure of a dashboard."""
    if dashboard["id"] is not None or not dashboard["uid"].startswith("parshall-"):
        yield "its id must be null, and its uid its own"
    if dashboard["schemaVersion"] < 39 or not dashboard["editable"] or "parshall" not in dashboard["tags"]:
        yield "its schema must be 39 or newer, it must be editable and have the tag parshall"
    if not dashboard["description"].endswith("."):
        yield "it has no description"
    variables = {variable["name"]: variable for variable in dashboard["templating"]["list"]}
    if not {"datasource", "job", "instance"} <= variables.keys():
        yield f"its variables are {sorted(variables)}"
    for variable in variables.values():
        if variable["type"] == "query" and variable["datasource"] != DATASOURCE:
            yield f"the variable {variable['name']} asks another data source"
    ids = [panel["id"] for panel in dashboard["panels"]]
    if len(set(ids)) != len(ids):
        yield "panels have the same id"
    taken = {}
    for panel in dashboard["panels"]:
        title, place = panel["title"], panel["gridPos"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                other = taken.setdefault((x, y), title)
                if other != title or x >= 24:
                    yield f"`{title}` lies on `{other}`, or beyond the edge"
        if "libraryPanel" in panel:
            yield f"`{title}` is of a library"
        if panel["type"] == "row":
            continue
        if not panel.get("description", "").endswith("."):
            yield f"`{title}` has no description"
        if not panel["fieldConfig"]["defaults"].get("unit"):
            yield f"`{title}` has no unit"
        if panel["datasource"] != DATASOURCE or not panel["targets"]:
            yield f"`{title}` has another data source than the variable, or no query"
        references = [target["refId"] for target in panel["targets"]]
        if len(set(references)) != len(references):
            yield f"`{title}` has two queries of one name"
        for target in panel["targets"]:
            if target["datasource"] != DATASOURCE:
                yield f"`{title}` has a query to another data source"
            if re.search(r"\[\d", target["expr"]):
                yield f"`{title}` has a range of its own in place of $__rate_interval"
            if "job=~" not in target["expr"] or "instance=~" not in target["expr"]:
                yield f"`{title}` has a query that no variable filters"


def names_in(text):
    """The names of metrics in a query or a file, as they are exposed: without what histograms append."""
    return {family(name) for name in NAME.findall(re.sub(r":parshall_[a-z0-9_]+:", "", text))}


def family(name):
    return re.sub(r"_seconds_(bucket|sum|count)$", "_seconds", re.sub(r"_(events|bytes)_(bucket|sum|count)$", r"_\1", name))


def documented():
    """The names in the tables of the document of metrics."""
    text = (ROOT / "docs" / "metrics.md").read_text()
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    return {name for cell in cells for name in re.findall(r"`((?:parshall|process)_[a-z0-9_]+)", cell)}
