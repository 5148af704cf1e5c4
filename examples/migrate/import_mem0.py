"""Import memories exported from mem0: `python examples/migrate/import_mem0.py mem0.json`.

The file contains the result of mem0's `get_all` as JSON. Running it again adds nothing.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from alma import ALMA


def convert_memory(item: dict[str, Any], agent: str) -> dict[str, Any]:
    """Return the arguments of `ALMA.add_many` for one item of mem0's `get_all`."""
    metadata = {key: item[key] for key in ("created_at", "updated_at", "run_id") if item.get(key)}
    details = item.get("metadata") or {}
    category = str(details.get("category") or next(iter(item.get("categories") or []), "mem0"))
    shared = {
        "user_id": item.get("user_id"),
        "source": "import",
        "tags": ["mem0"],
        "metadata": {**details, **metadata, "mem0_id": item["id"]},
    }
    if item.get("user_id") and "preference" in category.lower():
        return {"type": "user_preference", "category": category, "preference": item["memory"], **shared}
    agent = str(item.get("agent_id") or agent)
    return {"type": "domain_knowledge", "agent": agent, "domain": category, "fact": item["memory"], **shared}


def main() -> None:
    parser = argparse.ArgumentParser(description="Add memories exported from mem0.")
    parser.add_argument("file", type=Path, help="the JSON that mem0's get_all returned")
    parser.add_argument("--config", default=".alma/config.yaml")
    parser.add_argument("--agent", default="assistant", help="the agent for memories without an agent_id")
    options = parser.parse_args()
    data = json.loads(options.file.read_text(encoding="utf-8"))
    items = data["results"] if isinstance(data, dict) else data
    with ALMA.from_config(options.config) as alma:
        before = alma.get_stats()["total_count"]
        made = alma.add_many(convert_memory(item, options.agent) for item in items)
        # Imported preferences wait for a person. Whoever runs this accepts those of their own export.
        if waiting := list(dict.fromkeys(one.id for one in made if one.status == "candidate")):
            alma.review("approve", ids=waiting)
        print(f"memories read: {len(items)}, added: {alma.get_stats()['total_count'] - before}")


if __name__ == "__main__":
    main()
