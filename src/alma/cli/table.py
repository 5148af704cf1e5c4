"""Every command that runs one operation; the groups of the help; and the examples of all commands."""

from __future__ import annotations

import argparse
from collections.abc import Collection

from . import commands, manage
from .derive import COMMANDS, Command
from .derive import build_parser as derive_parser

GROUPS = {
    "start": {
        "init": "write a configuration file for this folder",
        "doctor": "check that everything works, and say how to fix what does not",
        "demo": "watch it learn, on a scratch database",
        "trust": "trust the configuration and the memory in a folder",
    },
    "the loop": {
        "retrieve": "find the memories that matter for a task",
        "learn": "record how a task went, and say what was learned from it",
        "feedback": "say what memories were worth; it moves their rank",
        "session": "begin where the last session left off, note what happens, hand over",
        "work": "track what is to be done: add, next, claim, done",
    },
    "memories": {
        "list": "list memories, newest first",
        "search": "look memories up by words or meaning, best first",
        "show": "show all that is known of one memory",
        "add": "add a fact, preference, strategy, warning, rule or conversation",
        "update": "change a memory's fields, status or tags",
        "delete": "erase a memory, or everything of a user, for good",
        "explain": "say why a memory is retrieved for a task, or why not",
        "playbook": "print all that was learned as one page",
    },
    "knowledge": {
        "ingest": "read files into memory: chat exports, histories of coding agents, documents",
        "learn-from": "find what a conversation or a note teaches, and keep it",
        "rules": "keep rules in the files that coding agents read, and take edits back",
        "graph": "see who and what is known, and how they are related",
        "domains": "say what kind of work this memory is for, and what may be learned",
        "workflow": "go on after an interruption: runs, checkpoints, branches, artifacts",
        "confidence": "say how likely a strategy is to work, and how far to trust that",
    },
    "upkeep": {
        "stats": "count what is stored, by type, status and agent",
        "usage": "show what language models were asked, and what it cost",
        "archive": "put away memories that nobody used for long and that have faded",
        "reconcile": "ask a model which of the memories that look alike is out of date",
        "reindex": "embed everything anew with the configured embedder",
        "vacuum": "leave no trace of deleted memories, and give unused space back",
        "export": "write the whole memory as JSON Lines",
        "import": "take in what `alma export` wrote",
        "backup": "copy the store to a new file while it is in use",
    },
    "other programs": {
        "mcp": "serve the memory over MCP, or add it to the settings of a client",
        "serve": "serve the memory over HTTP, on this machine unless told otherwise",
        "token": "say who may call `alma serve`, and what they may do",
        "completion": "print a script that lets your shell complete these commands",
    },
}
EPILOG = """\
examples:
  alma init
  alma retrieve "Deploy the auth service" --agent ops --prompt
  alma learn --agent ops --task "Deploy the auth service" --outcome success --strategy "Blue-green deployment"
  alma work next --agent ops --claim
  alma mcp install --client claude-code

`alma COMMAND --help` explains a command and shows examples. Ids may be shortened as long as they are unambiguous.
The configuration is --config, else $ALMA_CONFIG, else the nearest .alma/config.yaml here or above.
Where a command needs --agent, $ALMA_AGENT and then default_agent of the configuration stand in for it.
Exit codes: 0 done, 1 an error or nothing could be done, 2 wrong usage, 130 interrupted.
"""
EXAMPLES = """\
alma init --project-id shop --embedding none
alma doctor --quick --json
alma demo --keep ./alma-demo      # then: alma --config ./alma-demo/config.yaml list
alma trust                        # the nearest folder with .alma/config.yaml
alma trust --remove ~/src/shop
alma learn --agent ops --task "Deploy auth" --outcome success --strategy "Blue-green deployment"
alma learn --agent ops --task "Deploy auth" --outcome failure --strategy "Rolling update" --error "timeout"
cat outcomes.jsonl | alma learn --agent ops --from -     # an object a line, with the arguments of ALMA.learn
alma retrieve "Deploy the billing service" --agent ops --prompt >> prompt.md
alma retrieve "Deploy the billing service" --agent ops --explain
alma retrieve "What did Ana say about the budget?" --agent ops --type episode --level turn --since "2 weeks"
alma retrieve "Deploy the billing service" --agent ops --scope run --run release-7
alma feedback heu_01k… up
alma feedback --shown heu_01k… kno_01k… --used heu_01k…
alma session start --agent helena --goal "Complete auth testing"
alma session note --agent helena --action "tested the login form" --outcome success
alma session note --agent helena --resolved "staging is down" --test test_login=pass --log
alma session end --agent helena --next "Test refresh tokens"
alma session prepare "Test the login form, then mend the flaky selectors" --agent helena
alma session prepare - --agent helena --prompt < request.md > prompt.md
alma session wake-up --agent helena --topic login --deep
alma work add "Fix the login bug" --priority 80 --agent victor --type bug
alma work add "Write release notes" --blocked-by wrk_01k… --estimate 30
alma work next --agent victor --claim --lease 1800
alma work status wrk_01k… done --note "it was the cache"
alma work list --status pending --status blocked --limit 10
alma work edit wrk_01k… --priority 95 --parent "" --owner ""       # a part of nothing, and anybody's
alma work test wrk_01k… test_login --pass
alma work archive --finished --older-than 14
alma work progress --log --session ses_01k…
alma list --type heuristic --agent ops
alma list --status all --limit 10
alma search "deploy window" --type domain_knowledge
alma show heu_01k…
alma add knowledge --agent ops --domain deployment --fact "The deploy window is 9 to 17 h"
alma add preference --user ana --category style --preference "Short answers"
alma add heuristic --agent ops --condition "Deploying a service" --strategy "Blue-green deployment"
alma add rule --agent ops --rule "Run the tests before a commit" --why "the build is slow"
alma add anti-pattern --agent ops --pattern "Deploy on Friday" --why-bad "Nobody is there on Saturday"
alma add episode chat.jsonl --agent ops --session 2026-05-07 --title "Moving to two regions"
alma add episodes chats.jsonl --agent ops --tag standup
alma add many - --tag imported < everything.jsonl
alma update kno_01k… fact="The deploy window is 8 to 18 h"
alma update heu_01k… --status archived --tag reviewed
alma delete kno_01k… --yes
alma delete --user ana --yes
alma explain heu_01k… --task "Deploy the billing service" --agent ops
alma playbook --agent ops > PLAYBOOK.md
alma ingest ~/Downloads/chatgpt-export.zip --agent dev --user ana
alma ingest . --plan                        # what would be read as what; nothing is
alma ingest notes --agent dev --own         # my own notes: learn from them at once
alma learn-from chat.jsonl --agent helena --user ana
alma learn-from minutes.md --text --agent helena --dry-run
alma learn-from issue.json --agent helena --untrusted    # of others: it waits for you
alma rules list --status candidate              # those that wait for you
alma rules export --to agents-md
alma rules export --to claude-md --check        # in a build: exit code 1 when the file is out of date
alma rules import CLAUDE.md --all --dry-run
alma graph about "Acme Corp" --as-of 2026-02-01
alma graph find --type person --limit 10
alma graph around "Acme Corp" --depth 1 --direction in --type works_at
alma graph path Maria Globex --depth 3
alma graph merge "Robert Smith" Bob "Bob S."
alma domains create letters --entity letter:to,date --entity draft --relationship becomes:draft:letter --learn tone
alma domains create real_estate --from real_estate.yaml --decay-days 60
alma workflow start release --run release-7 --agent builder
alma workflow checkpoint release-7 build --state '{"version": "1.2"}'
make_state | alma workflow checkpoint release-7 test --branch fast
alma workflow resume release-7 > state.json
alma workflow merge release-7 --branch main --branch fast --node joined --reducer done=union
alma workflow merge --state a.json --state b.json --base start.json --default last
alma workflow link release-7 dist/shop.whl --node build --kind wheel
alma workflow learn release-7 --agent builder --outcome success --strategy "Test in parallel"
alma workflow cleanup --run release-7 --keep 3 --older-than '2 weeks'
alma confidence assess "Rolling update" --task "Deploy the auth service" --agent ops
alma confidence rank "Rolling update" "Blue-green deployment" --task "Deploy auth" --agent ops
alma archive --agent ops --older-than-days 30 --below-confidence 0.5 --dry-run
alma export - | gzip > memory.jsonl.gz
alma import memory.jsonl --trusted      # my own export: take it in exactly as it is
alma backup alma-2026-05-07.db
alma mcp --transport http --port 8765
alma mcp install --client claude-code
alma mcp uninstall --client cursor
alma serve --port 9000 --log-file requests.jsonl
alma serve --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem --allowed-host memory.example.org
alma token add ci --scope write --project shop --project garden --expires 90d
alma token revoke dashboard
source <(alma completion bash)                # in ~/.bashrc
source <(alma completion zsh)                 # in ~/.zshrc, after compinit
alma completion fish > ~/.config/fish/completions/alma.fish
"""

_BY = {"agent": "by"}
_STATED = {"source": "user_stated"}
COMMANDS += [
    Command("session start", "start_session", positional=""),
    Command("session reload", "quick_reload", positional=""),
    Command("session show", "get_session", names={"session_id": "id"}, key="session"),
    Command("work add", "create_work_item", key="item", verb="added"),
    Command("work list", "list_work_items", key="items"),
    Command("work search", "search_work_items", names={"query": "words"}, key="items"),
    Command("work edit", "update_work_item", names=_BY, key="item", verb="changed"),
    Command("work block", "add_blocker", names={**_BY, "blocker_id": "on"}, key="item", verb="now"),
    Command("work unblock", "remove_blocker", names={**_BY, "blocker_id": "from"}, key="item", verb="now"),
    Command("work claim", "claim_work_item", key="item", verb="claimed"),
    Command("work release", "release_work_item", key="item", verb="released"),
    Command("work restore", "restore_work_item", names=_BY, key="item", verb="restored"),
    Command("list", "list", key="memories"),
    Command("search", "search", names={"query": "words"}, key="matches"),
    Command("add knowledge", "add_knowledge", positional="", fixed=_STATED, key="memory", verb="added"),
    Command("add heuristic", "add_heuristic", positional="", fixed=_STATED, key="memory", verb="added"),
    Command("add rule", "add_rule", positional="", fixed=_STATED, key="memory", verb="added"),
    Command("add anti-pattern", "add_anti_pattern", positional="", fixed=_STATED, key="memory", verb="added"),
    Command(
        "add preference",
        "add_preference",
        positional="",
        fixed={"source": "explicit_instruction"},
        key="memory",
        verb="added",
    ),
    Command("explain", "explain"),
    Command("playbook", "playbook"),
    Command("rules list", "list", names={"memory_type": ""}, fixed={"memory_type": "rule"}, key="rules"),
    Command("graph build", "build_graph"),
    Command("graph about", "about_entity"),
    Command("graph find", "find_entities", positional="name", key="entities"),
    Command("graph around", "traverse_graph"),
    Command("graph path", "find_paths", positional="start end", key="paths"),
    Command("graph merge", "merge_entities", positional="keep others", key="entity"),
    Command("graph suggest", "suggest_merges", key="suggestions"),
    Command("graph stats", "graph_stats"),
    Command("domains list", "list_domains", key="domains"),
    Command("domains show", "get_domain", key="domain"),
    Command("workflow runs", "list_runs", key="runs"),
    Command("workflow start", "start_run", key="run"),
    Command("workflow end", "end_run", key="run"),
    Command("workflow history", "checkpoint_history", key="checkpoints"),
    Command("workflow fork", "fork_branch", positional="run_id branch_id", key="checkpoint"),
    Command("workflow link", "link_artifact", positional="run_id location", key="artifact"),
    Command("workflow artifacts", "get_artifacts", key="artifacts"),
    Command("confidence assess", "assess_confidence"),
    Command("confidence rank", "rank_strategies"),
    Command("confidence calibration", "calibration"),
    Command("stats", "stats"),
    Command("usage", "usage", matching=False),
    Command("reconcile", "reconcile"),
]


def build_parser(words: Collection[str] | None = None) -> argparse.ArgumentParser:
    """Build the parser of all commands; with words, only of the commands among them."""
    return derive_parser(GROUPS, EXAMPLES, EPILOG, words)


__all__ = ["COMMANDS", "GROUPS", "build_parser", "commands", "manage"]
