"""`alma confidence` and `alma calibration`: how likely a strategy is to work, and how far that can be trusted."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from .draw_confidence import assessed, calibrated, ranking
from .opening import Later, opened
from .output import Output
from .parser import Subparsers, command, grouped, listed

if TYPE_CHECKING:
    from ..api import confidence as api
else:
    api = Later("alma.api.confidence")

_EXAMPLES = """
alma confidence assess "Blue-green deployment" --task "Deploy the auth service" --agent ops
alma confidence rank "Blue-green deployment" "Rolling update" --task "Deploy the auth service" --agent ops
"""


def register(commands: Subparsers) -> None:
    confidence = grouped(commands, "confidence", _EXAMPLES)
    one = command(
        confidence,
        "assess",
        assess,
        "say how likely one strategy is to work for a task, and why",
        'alma confidence assess "Rolling update" --task "Deploy the auth service" --agent ops',
    )
    one.add_argument("strategy", metavar="STRATEGY", help="what one thinks of doing")
    several = command(
        confidence,
        "rank",
        rank,
        "say which of several strategies to take for a task, best first",
        """
        alma confidence rank "Rolling update" "Blue-green deployment" --task "Deploy auth" --agent ops
        alma confidence rank "Rolling update" "Canary release" --task "Deploy auth" --agent ops --explore
        """,
    )
    several.add_argument("strategies", metavar="STRATEGY", nargs="+", help="what one thinks of doing")
    several.add_argument("--explore", action="store_true", help="give what was tried little its turn")
    for parser in (one, several):
        parser.add_argument("--task", metavar="T", required=True, help="the task or situation at hand")
        parser.add_argument("--agent", metavar="A", required=True, help="who will do it")
        parser.add_argument("--user", metavar="U", dest="user_id", help="for whom")
    _register_calibration(commands)


def assess(args: argparse.Namespace, out: Output) -> int:
    with opened(args) as alma:
        signal = api.assess_confidence(alma, args.strategy, args.task, args.agent, args.user_id)
    if not out.answered(signal):
        out.show(*assessed(signal))
    return 0


def rank(args: argparse.Namespace, out: Output) -> int:
    with opened(args) as alma:
        ranked = api.rank_strategies(alma, args.strategies, args.task, args.agent, args.explore, args.user_id)
    if not out.answered(ranked):
        out.show(*ranking(ranked.strategies))
    return 0


def _register_calibration(commands: Subparsers) -> None:
    parser = listed(
        commands,
        "calibration",
        calibration,
        """
        alma calibration
        alma calibration --agent ops --limit 200
        """,
    )
    parser.add_argument("--agent", metavar="A", help="only this agent's")
    parser.add_argument("--limit", metavar="N", type=int, default=500, help="the newest so many outcomes (default 500)")


def calibration(args: argparse.Namespace, out: Output) -> int:
    with opened(args) as alma, out.progress("predicting") as progress:
        report = api.calibrate(alma, args.agent, args.limit, progress)
    if not out.answered(report):
        out.show(*calibrated(report))
    return 0
