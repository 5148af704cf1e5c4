"""A sales agent with a custom domain schema: `python examples/sales_agent.py`.

The schema defines leads and objections, and what may be learned about selling. The agent answers objections the way
that worked before, and takes the work item that unblocks most others first.
"""

from __future__ import annotations

import random
import tempfile

from alma import ALMA
from alma.domains import DomainMemoryFactory, DomainSchema
from alma.errors import ValidationError
from alma.progress import ProgressTracker

SCHEMA = {
    "entity_types": [
        {"name": "lead", "attributes": ["stage", "value"]},
        {"name": "objection", "attributes": ["type", "response"]},
    ],
    "relationship_types": [{"name": "raised_by", "source_type": "objection", "target_type": "lead"}],
    "learning_categories": ["objection_handling", "closing_techniques", "qualification_patterns"],
    "min_occurrences_for_heuristic": 2,
}
ANSWERS = {"Offer a discount": 0.2, "Show what it saves in a year": 0.9, "Ask the manager to call": 0.4}


def answer(alma: ALMA, chance: random.Random) -> bool:
    """Answer a price objection with what alma has learned, learn the outcome, and return whether the deal was won."""
    memories = alma.retrieve("A customer says it is too expensive", agent="closer")
    bad = {warning.pattern for warning in memories.anti_patterns}
    way = (
        memories.heuristics[0].strategy if memories.heuristics else chance.choice([a for a in ANSWERS if a not in bad])
    )
    won = chance.random() < ANSWERS[way]
    alma.learn(
        agent="closer",
        task="A customer says it is too expensive",
        outcome="success" if won else "failure",
        strategy_used=way,
        task_type="objection_handling",
        retrieval_id=memories.retrieval_id,
    )
    return won


def store_objection(alma: ALMA, schema: DomainSchema) -> None:
    """Store an objection of a lead as a fact, and show that the schema refuses a misspelt attribute."""
    lead = schema.entity("lead", stage="new", value=5000)
    objection = schema.entity("objection", type="price", response="Show what it saves in a year")
    raised = schema.relationship("raised_by", objection, lead)
    alma.add_domain_knowledge("closer", "objection_handling", **raised.as_knowledge())
    try:
        schema.entity("lead", stge="new")
    except ValidationError as refused:
        print("refused:", refused)


def main() -> None:
    """Print which item comes first, and how the agent improves over forty calls."""
    chance = random.Random(3)
    schema = DomainMemoryFactory.create_schema("sales", SCHEMA)
    with (
        tempfile.TemporaryDirectory() as folder,
        DomainMemoryFactory().create_alma(schema, "spring-campaign", folder) as alma,
    ):
        store_objection(alma, schema)
        tracker = ProgressTracker(alma=alma)
        offer = tracker.create_work_item(title="Write the offer", priority=10)
        for name in ("Acme", "Initech", "Hooli"):
            tracker.create_work_item(title=f"Call {name}", priority=60, blocked_by=[offer.id])
        first = tracker.claim_next("closer", strategy="blocked_unblock")
        assert first is not None
        tracker.update_status(first.id, "done", by="closer")
        print("first:", first.title, "then:", [item.title for item in tracker.list_items("pending")])
        results = [answer(alma, chance) for _ in range(40)]
        learned = alma.list("heuristic")
        print(f"won {sum(results[:10])} of the first 10, {sum(results[-10:])} of the last 10")
        print("learned:", [lesson.strategy for lesson in learned if hasattr(lesson, "strategy")])
        assert first.id == offer.id
        assert sum(results[-10:]) > sum(results[:10])


if __name__ == "__main__":
    main()
