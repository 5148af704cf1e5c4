"""A research assistant that follows a domain schema: `python examples/research_assistant.py`.

It plans a literature review, works through it, and learns which search strategy finds the right papers. The schema
does not let it learn anything outside research.
"""

from __future__ import annotations

import tempfile

from alma import ALMA
from alma.domains import DomainMemoryFactory, get_research_schema, schema_of
from alma.errors import ScopeError
from alma.progress import ProgressTracker
from alma.types import Result

WAYS = {"Search by keywords": Result.FAILURE, "Follow the citations of a known paper": Result.SUCCESS}


def plan(tracker: ProgressTracker) -> None:
    """Create the work items of a literature review."""
    question = tracker.create_work_item(title="What is known about agent memory?", item_type="research_question")
    read = tracker.create_work_item(title="Read the surveys", parent_id=question.id, priority=80)
    tracker.create_work_item(title="Compare the methods", parent_id=question.id, priority=90, blocked_by=[read.id])


def review(alma: ALMA, tracker: ProgressTracker) -> list[str]:
    """Work through all items, learn how each search strategy went, and return the titles."""
    titles = []
    while item := tracker.claim_next("reader"):
        for way, outcome in WAYS.items():
            alma.learn(
                agent="reader",
                task="Find papers on agent memory",
                outcome=outcome,
                strategy_used=way,
                task_type="literature_review_patterns",
            )
        tracker.update_status(item.id, "done", by="reader")
        titles.append(item.title)
    return titles


def main() -> None:
    """Run the review, then open the project again and print what was learned."""
    with tempfile.TemporaryDirectory() as folder:
        factory = DomainMemoryFactory()
        with factory.create_alma(get_research_schema(), "my-research-project", folder) as alma:
            schema = schema_of(alma)
            assert schema is not None
            tracker = ProgressTracker(alma=alma)
            plan(tracker)
            paper = schema.entity("paper", title="Memory for agents: a survey", year=2025)
            alma.add_domain_knowledge("reader", "citation_patterns", **paper.as_knowledge())
            print("worked through:", ", ".join(review(alma, tracker)))
            try:
                alma.learn("reader", "Sort the patients", "success", "By name", task_type="participant_data")
            except ScopeError as refused:
                print("refused:", refused)
        # A later process opens the project and follows the same schema.
        with factory.open_alma("my-research-project", folder) as alma:
            memories = alma.retrieve("Find papers on memory of agents", agent="reader")
            print(memories.to_prompt())
            assert memories.heuristics[0].strategy == "Follow the citations of a known paper"
            assert memories.anti_patterns[0].pattern == "Search by keywords"


if __name__ == "__main__":
    main()
