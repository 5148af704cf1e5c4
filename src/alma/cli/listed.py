"""Every command with its line of help, and where it is defined; and the command that each operation is reached by.

A command's module is loaded when the command is named, so that none pays for the others.
"""

from __future__ import annotations

from collections.abc import Mapping

COMMANDS: Mapping[str, Mapping[str, str]] = {
    "setup": {
        "init": "write a configuration file for this folder",
        "doctor": "check that everything works, and say how to fix what does not",
        "demo": "watch it learn, on a scratch database",
    },
    "trust": {
        "trust": "trust the configuration and the memory that lie in a folder, until the configuration changes",
    },
    "loop": {
        "learn": "record how a task went, and say what was learned from it",
        "retrieve": "find the memories that matter for a task",
    },
    "memories": {
        "list": "list memories, newest first",
        "show": "show all that is known of one memory",
        "add": "add a fact, a preference, a strategy, a warning or a conversation; or a file of them",
        "update": "change a memory's fields, status or tags; the old values stay in its history",
        "delete": (
            "erase a memory for good; it will not be learned again by itself; a conversation goes with all its turns"
        ),
        "feedback": "say what a memory was worth; it moves its rank",
        "shown": "say which of the memories shown were used; they rise, the others sink",
    },
    "looking": {
        "search": "look memories up by words or meaning, best first",
        "explain": "say why a memory is retrieved for a task, or why it is not",
        "playbook": "print all that was learned as one page: rules, what works, what to avoid",
    },
    "work": {
        "work": "track what is to be done: add, next, claim, done",
        "progress": "show how far the work is",
    },
    "sessions": {
        "session": "begin where the last session left off, note what happens, hand over",
        "initialize": "get an agent ready for a prompt: work items, rules, memories, where to start",
        "wake-up": "print who an agent is and what matters most, for the beginning of a prompt",
    },
    "workflows": {
        "workflow": "go on after an interruption: runs, checkpoints, branches, artifacts",
    },
    "domains": {
        "domains": "say what kind of work this memory is for, and what may be learned",
    },
    "confidence": {
        "confidence": "say how likely a strategy is to work here, from what was tried before",
        "calibration": "check whether such predictions were right, on your own history",
    },
    "knowledge": {
        "ingest": "read files into memory: chat exports, histories of coding agents, notes, documents",
        "learn-from": "find what a conversation or a note teaches, and keep it",
        "usage": "show what language models were asked, what it cost, and what is left of today's budget",
    },
    "graph": {
        "graph": "see who and what is known, and how they hang together",
    },
    "rules": {
        "rules": "keep rules in the files that coding agents read, and take edits back",
    },
    "upkeep": {
        "forget": "archive what nobody used or confirmed for long and whose strength has faded",
        "reconcile": "ask the configured model which of the memories that look alike is out of date",
        "stats": "count what is stored, by type, status and agent",
        "health": "say whether the memory opens and can find things; exit code 1 if not",
        "reindex": "embed everything anew with the configured embedder; can be stopped and run again",
        "vacuum": "leave no trace of deleted memories in the store's files, and give unused space back",
        "erase-user": "erase everything of a user for good",
    },
    "transfer": {
        "export": "write the whole memory as JSON Lines",
        "import": "take in what `alma export` wrote; told twice it changes nothing",
        "backup": "copy the store to a new file while it is in use",
    },
    "mcp": {
        "mcp": "serve the memory over MCP, or put it into the settings of a client",
    },
    "serving": {
        "serve": "serve the memory over HTTP, on this machine unless told otherwise",
        "token": "say who may call `alma serve`, and what they may do",
    },
    "completion": {
        "completion": "print a script that lets your shell complete these commands",
    },
}
