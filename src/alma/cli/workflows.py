"""`alma workflow`: runs, their checkpoints and branches, what they made and what was learned from them."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import NotFoundError, ValidationError
from ..schema import plain
from .draw import lesson
from .draw_workflows import artifacts_table, checkpoint_line, history_table, recorded, run_line, runs_table
from .learned import learned_since
from .marks import counted
from .opening import Later, opened
from .output import Output
from .parser import Run, Subparsers, add_choice, command, given, grouped
from .reading import json_of, read, read_object

if TYPE_CHECKING:
    from ..api import workflows as api
else:
    api = Later("alma.api.workflows")

STATUSES = ("running", "completed", "failed", "cancelled")
ENDS = STATUSES[1:]
RESULTS = ("success", "partial", "failure")
REDUCERS = ("append", "extend", "union", "sum", "max", "min", "last", "first", "merge_dict")

_EXAMPLES = """
alma workflow start release --run release-7
alma workflow checkpoint release-7 build --state '{"version": "1.2"}'
alma workflow resume release-7 > state.json
alma workflow learn release-7 --agent builder --outcome success --strategy "Test in parallel"
"""


def register(commands: Subparsers) -> None:
    flow = grouped(commands, "workflow", _EXAMPLES)
    _register_runs(flow)
    _register_checkpoints(flow)
    _register_branches(flow)
    _register_artifacts(flow)
    _register_learn(flow)
    _register_cleanup(flow)


def _of_run(flow: Subparsers, name: str, run: Run, help: str, examples: str) -> argparse.ArgumentParser:
    parser = command(flow, name, run, help, examples)
    parser.add_argument("run_id", metavar="RUN", help="the run's name")
    return parser


def _add_metadata(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--metadata", metavar="JSON", help="a JSON object of your own")


def _told(args: argparse.Namespace, *names: str) -> dict[str, Any]:
    told = given(args, *names)
    if getattr(args, "metadata", None) is not None:
        told["metadata"] = json_of("metadata", args.metadata)
    return told


# -- runs


def _register_runs(flow: Subparsers) -> None:
    listing = command(
        flow,
        "runs",
        runs,
        "list runs, newest first",
        "alma workflow runs --workflow release --status running",
    )
    listing.add_argument("--workflow", metavar="W", dest="workflow_id", help="only of this workflow")
    add_choice(listing, "--status", STATUSES, "only these", metavar="S")
    listing.add_argument("--limit", metavar="N", type=int, default=50, help="at most so many (default 50)")
    starting = command(
        flow,
        "start",
        start,
        "begin a run, or go on with the one of that name",
        "alma workflow start release --run release-7 --agent builder",
    )
    starting.add_argument("workflow_id", metavar="WORKFLOW", help="the workflow's name")
    starting.add_argument("--run", metavar="RUN", dest="run_id", help="a name for the run; without it one is made")
    starting.add_argument("--agent", metavar="A", help="who does it")
    _add_metadata(starting)
    ending = _of_run(flow, "end", end, "say how a run ended", "alma workflow end release-7 --status failed")
    add_choice(ending, "--status", ENDS, "how", metavar="S", default="completed")


def runs(args: argparse.Namespace, out: Output) -> int:
    with opened(args) as alma:
        found = api.list_runs(alma, args.workflow_id, args.status, args.limit)
        now = alma.engine.clock()
    if not out.answered({"count": len(found), "runs": found}):
        out.show(runs_table(found, now))
    return 0


def start(args: argparse.Namespace, out: Output) -> int:
    with opened(args) as alma:
        run = api.start_run(alma, args.workflow_id, **_told(args, "run_id", "agent"))
    if not out.answered({"run": run}):
        out.show(run_line(run))
    return 0


def end(args: argparse.Namespace, out: Output) -> int:
    with opened(args) as alma:
        run = api.end_run(alma, args.run_id, args.status)
    if not out.answered({"run": run}):
        out.show(run_line(run))
    return 0


# -- checkpoints


def _register_checkpoints(flow: Subparsers) -> None:
    saving = _of_run(
        flow,
        "checkpoint",
        checkpoint,
        "keep the state of a run after a node; from --state, --from or standard input",
        """
        alma workflow checkpoint release-7 build --state '{"version": "1.2"}'
        alma workflow checkpoint release-7 test --from state.json --branch fast
        make_state | alma workflow checkpoint release-7 test
        """,
    )
    saving.add_argument("node_id", metavar="NODE", help="the node that was done")
    state = saving.add_mutually_exclusive_group()
    state.add_argument("--state", metavar="JSON", help="the state, a JSON object; it comes back exactly")
    state.add_argument("--from", metavar="FILE", dest="source", help="the state from a file ('-': standard input)")
    saving.add_argument("--branch", metavar="B", dest="branch_id", help="the branch (default main)")
    saving.add_argument("--workflow", metavar="W", dest="workflow_id", help="the workflow, if the run is new")
    saving.add_argument("--agent", metavar="A", help="who does it")
    saving.add_argument("--redact", action="store_true", help="keep a state that holds secrets without them")
    _add_metadata(saving)
    resuming = _of_run(
        flow,
        "resume",
        resume,
        "print the newest state of a run as JSON, to go on from",
        """
        alma workflow resume release-7 > state.json
        alma workflow resume release-7 --branch fast --json      # with all that is known of the checkpoint
        """,
    )
    looking = _of_run(
        flow, "history", history, "list the checkpoints of a run, newest first", "alma workflow history release-7"
    )
    for parser in (resuming, looking):
        parser.add_argument("--node", metavar="NODE", dest="node_id", help="only of this node")
        parser.add_argument("--branch", metavar="B", dest="branch_id", help="only of this branch")
    looking.add_argument("--limit", metavar="N", type=int, default=100, help="at most so many (default 100)")


def checkpoint(args: argparse.Namespace, out: Output) -> int:
    state = _state(args)
    with opened(args) as alma:
        told = _told(args, "branch_id", "workflow_id", "agent", "redact")
        made = api.checkpoint(alma, args.run_id, args.node_id, state, **told)
    if not out.answered({"checkpoint": made}):
        out.show(checkpoint_line(made))
    return 0


def _state(args: argparse.Namespace) -> dict[str, Any]:
    if args.state is not None:
        return read_object("--state", args.state, "the state")
    if args.source is None and sys.stdin.isatty():
        raise ValidationError("a checkpoint needs a state: --state JSON, --from FILE, or JSON on standard input")
    return _state_of(args.source or "-")


def _state_of(source: str) -> dict[str, Any]:
    return read_object("standard input" if source == "-" else source, read(source), "the state")


def resume(args: argparse.Namespace, out: Output) -> int:
    with opened(args) as alma:
        found = api.resume(alma, args.run_id, args.node_id, args.branch_id).checkpoint
    if found is None:
        raise NotFoundError(f"run {args.run_id!r}{_asked(args)} has no checkpoint to go on from")
    if not out.answered({"checkpoint": found}):
        out.line(_json(found.state))
    return 0


def _asked(args: argparse.Namespace) -> str:
    branch = f" on branch {args.branch_id!r}" if args.branch_id else ""
    return branch + (f" at node {args.node_id!r}" if args.node_id else "")


def _json(state: Mapping[str, Any]) -> str:
    return json.dumps(plain(state), ensure_ascii=False, indent=2)


def history(args: argparse.Namespace, out: Output) -> int:
    with opened(args) as alma:
        found = api.checkpoint_history(alma, args.run_id, args.node_id, args.branch_id, args.limit)
        now = alma.engine.clock()
    if not out.answered({"count": len(found), "checkpoints": found}):
        out.show(history_table(found, now))
    return 0


def _register_cleanup(flow: Subparsers) -> None:
    parser = command(
        flow,
        "cleanup",
        cleanup,
        "erase old checkpoints; the newest of each branch always stays",
        """
        alma workflow cleanup --run release-7 --keep 3
        alma workflow cleanup --older-than 2026-01-01 --yes
        """,
    )
    parser.add_argument("--run", metavar="RUN", dest="run_id", help="only of this run; without it of all")
    parser.add_argument("--keep", metavar="N", type=int, default=10, help="so many of each branch stay (default 10)")
    parser.add_argument("--older-than", metavar="TIME", help="only those from before this moment, such as 2026-05-07")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def cleanup(args: argparse.Namespace, out: Output) -> int:
    whose = f"of run {args.run_id!r}" if args.run_id else "of all runs"
    if not (args.yes or out.confirm(f"Erase checkpoints {whose} but the newest {args.keep} of each branch?")):
        out.line("nothing was erased")
        return 0
    with opened(args) as alma:
        gone = api.cleanup_checkpoints(alma, args.run_id, args.keep, args.older_than)
    if not out.answered(gone):
        out.line(f"erased {counted(gone.count, 'checkpoint')}" if gone.count else "nothing to erase")
    return 0


# -- branches


def _register_branches(flow: Subparsers) -> None:
    forking = _of_run(
        flow,
        "fork",
        fork,
        "begin a branch at the newest checkpoint of another",
        "alma workflow fork release-7 fast",
    )
    forking.add_argument("branch_id", metavar="BRANCH", help="the new branch")
    forking.add_argument("--from", metavar="B", dest="from_branch", help="the branch it begins at (default main)")
    forking.add_argument("--agent", metavar="A", help="who does it")
    merging = command(
        flow,
        "merge",
        merge,
        "merge branches into a checkpoint, or files of states into a state that is printed",
        """
        alma workflow merge release-7 --branch main --branch fast --node joined --reducer done=union
        alma workflow merge --state a.json --state b.json --base start.json --default last
        """,
    )
    merging.add_argument("run_id", metavar="RUN", nargs="?", help="the run whose branches are merged")
    merging.add_argument("--branch", metavar="B", dest="branches", action="append", help="may be repeated")
    merging.add_argument("--node", metavar="NODE", dest="node_id", help="the node that the merged state belongs to")
    merging.add_argument("--into", metavar="B", help="the branch that gets it (default main)")
    merging.add_argument("--state", metavar="FILE", dest="states", action="append", help="a file; may be repeated")
    merging.add_argument("--base", metavar="FILE", help="the state that all the files began at")
    merging.add_argument(
        "--reducer",
        metavar="KEY=HOW",
        dest="reducers",
        action="append",
        help=f"how a key is merged; may be repeated: {', '.join(REDUCERS)}",
    )
    add_choice(merging, "--default", REDUCERS, "how keys without a reducer are merged", metavar="HOW")
    merging.add_argument("--agent", metavar="A", help="who does it")


def fork(args: argparse.Namespace, out: Output) -> int:
    with opened(args) as alma:
        made = api.fork_branch(alma, args.run_id, args.branch_id, **given(args, "from_branch", "agent"))
    if not out.answered({"checkpoint": made}):
        out.show(checkpoint_line(made))
    return 0


def merge(args: argparse.Namespace, out: Output) -> int:
    if (args.run_id is None) is (args.states is None):
        raise ValidationError("merge wants a RUN with its branches, or files of states (--state FILE); not both")
    return _merge_files(args, out) if args.run_id is None else _merge_branches(args, out)


def _merge_branches(args: argparse.Namespace, out: Output) -> int:
    if args.branches is None or args.node_id is None:
        raise ValidationError("merging branches needs --branch (once for each) and --node")
    if args.base is not None:
        raise ValidationError("--base goes with --state; what branches began at is known")
    with opened(args) as alma:
        told = {**given(args, "into", "default", "agent"), "reducers": _reducers(args.reducers)}
        made = api.merge_branches(alma, args.run_id, args.branches, args.node_id, **told)
    if not out.answered({"checkpoint": made}):
        out.show(checkpoint_line(made))
        out.line(_json(made.state))
    return 0


def _merge_files(args: argparse.Namespace, out: Output) -> int:
    stray = given(args, "branches", "node_id", "into", "agent")
    if stray:
        raise ValidationError("--branch, --node, --into and --agent go with a RUN, not with --state")
    states = [_state_of(one) for one in args.states]
    base = None if args.base is None else _state_of(args.base)
    with opened(args) as alma:
        merged = api.merge_states(alma, states, _reducers(args.reducers), base, args.default)
    if not out.answered(merged):
        out.line(_json(merged.state))
    return 0


def _reducers(said: Sequence[str] | None) -> dict[str, str]:
    found = {}
    for one in said or ():
        key, _, how = one.rpartition("=")
        if not key:
            raise ValidationError(f"--reducer {one} is no KEY=HOW, such as done=union")
        found[key] = how
    return found


# -- artifacts and lessons


def _register_artifacts(flow: Subparsers) -> None:
    linking = _of_run(
        flow,
        "link",
        link,
        "note what a run made: a file, or a URI, which is not fetched",
        "alma workflow link release-7 dist/shop.whl --node build --kind wheel",
    )
    linking.add_argument("location", metavar="FILE|URI")
    linking.add_argument("--node", metavar="NODE", dest="node_id", help="the node that made it")
    linking.add_argument("--name", metavar="TEXT", help="a name for it")
    linking.add_argument("--kind", metavar="KIND", help="what sort of thing it is (default file)")
    linking.add_argument("--digest", metavar="D", help="`sha256:` and the digest; of a file it is taken")
    linking.add_argument("--size", metavar="BYTES", type=int, help="of a file it is taken")
    linking.add_argument("--agent", metavar="A", help="who made it")
    _add_metadata(linking)
    listing = command(
        flow, "artifacts", artifacts, "list what runs made, newest first", "alma workflow artifacts --run release-7"
    )
    listing.add_argument("--run", metavar="RUN", dest="run_id", help="only of this run")
    listing.add_argument("--node", metavar="NODE", dest="node_id", help="only of this node")
    listing.add_argument("--workflow", metavar="W", dest="workflow_id", help="only of this workflow")
    listing.add_argument("--kind", metavar="KIND", help="only of this sort")
    listing.add_argument("--limit", metavar="N", type=int, default=100, help="at most so many (default 100)")


def link(args: argparse.Namespace, out: Output) -> int:
    with opened(args) as alma:
        told = _told(args, "node_id", "name", "kind", "digest", "size", "agent")
        artifact = api.link_artifact(alma, args.run_id, args.location, **told)
    if not out.answered({"artifact": artifact}):
        out.show(artifacts_table([artifact]))
    return 0


def artifacts(args: argparse.Namespace, out: Output) -> int:
    with opened(args) as alma:
        found = api.get_artifacts(alma, args.run_id, args.node_id, args.workflow_id, args.kind, args.limit)
    if not out.answered({"count": len(found), "artifacts": found}):
        out.show(artifacts_table(found))
    return 0


def _register_learn(flow: Subparsers) -> None:
    parser = _of_run(
        flow,
        "learn",
        learn,
        "record how a run, or one node of it, went; without a node the run is over",
        """
        alma workflow learn release-7 --agent builder --outcome success --strategy "Test in parallel"
        alma workflow learn release-7 --agent builder --node test --outcome failure --strategy "Run all" --error timeout
        """,
    )
    parser.add_argument("--agent", metavar="A", required=True, help="who did it")
    add_choice(parser, "--outcome", RESULTS, "how it went", metavar="O", required=True)
    parser.add_argument(
        "--strategy",
        metavar="S",
        dest="strategies_used",
        action="append",
        required=True,
        help="how it was done; an outcome is recorded for each; may be repeated",
    )
    parser.add_argument("--task", metavar="T", help="what was to be done; by default the run of its workflow")
    parser.add_argument("--workflow", metavar="W", dest="workflow_id", help="the workflow, if the run is new")
    parser.add_argument("--node", metavar="NODE", dest="node_id", help="how one node of it went")
    parser.add_argument("--task-type", metavar="TYPE", help="the sort of task")
    parser.add_argument("--duration-ms", metavar="MS", type=int, help="how long it took")
    parser.add_argument("--error", metavar="E", dest="error_message", help="what went wrong")
    parser.add_argument("--feedback", metavar="F", help="what the user said about it")
    parser.add_argument("--retrieval-id", metavar="R", help="the retrieval whose memories were followed")
    parser.add_argument("--user", metavar="U", dest="user_id", help="for whom it was done")
    _add_metadata(parser)


_LEARN = (
    "task", "workflow_id", "node_id", "task_type", "duration_ms", "error_message", "feedback", "retrieval_id",
    "user_id",
)  # fmt: skip


def learn(args: argparse.Namespace, out: Output) -> int:
    with opened(args) as alma:
        told, since = _told(args, *_LEARN), alma.engine.clock()
        outcomes = api.workflow_learn(alma, args.run_id, args.agent, args.outcome, args.strategies_used, **told)
        lessons = learned_since(alma, outcomes, since)
    if not out.answered({"outcomes": outcomes, "learned": lessons}):
        out.show(*recorded(outcomes), *map(lesson, lessons))
    return 0
