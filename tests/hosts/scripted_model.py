"""A scripted model on loopback, in the wire protocols of the coding agents. Standard library only: it runs sealed.

    {"when": "run the tests", "shell": "npm test"}   call the agent's shell tool, in a request that offers one
    {"when": "", "tool": "write_file", "arguments": {…}}   call a tool by its name, also one that was not offered
    {"text": "All tests pass.", "seconds": 1}         end the turn, after a second

A request gets the first unused reply whose `when` matches what was said since the model last spoke. A reply without
`when` is for requests that offer a shell tool, so that requests for titles and summaries do not use up the script.
Without a reply the model says "ok". Every request is kept.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]

SHELLS: Mapping[str, Callable[[str], Json]] = {
    "exec_command": lambda line: {"cmd": line},
    "run_shell_command": lambda line: {"command": line, "description": "scripted", "is_background": False},
    "run_commands": lambda line: {"commands": [line]},
    **dict.fromkeys(("Bash", "bash"), lambda line: {"command": line, "description": "scripted"}),
    **dict.fromkeys(("shell", "shell_command"), lambda line: {"command": line}),
}
"""The shell tool of each agent, and its arguments for a command line."""


class Turn:
    """What the model says to one request: a text, or a call of a tool."""

    def __init__(self, number: int, text: str, tool: str, arguments: Json) -> None:
        self.id, self.text, self.tool, self.arguments = f"call_{number}", text, tool, arguments

    @property
    def encoded(self) -> str:
        return json.dumps(self.arguments)


class ScriptedModel:
    """The server. `requests` are the bodies it received, in order."""

    def __init__(self, replies: Iterable[Json], port: int = 0) -> None:
        self.requests: list[Json] = []
        self._replies, self._lock = list(replies), threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", port), _make_handler(self))
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def take_turn(self, body: Json, messages: Sequence[Json]) -> Turn:
        names = set(_list_tools(body))
        shell = next((name for name in SHELLS if name in names), "")
        said = "\n".join(_list_texts(_find_newest(messages)))
        with self._lock:
            self.requests.append(body)
            number, reply = len(self.requests), {"text": "ok"}
            for one in self._replies:
                # A request for a title repeats the prompt, and cannot call anything.
                if (shell or ("when" in one and "shell" not in one)) and re.search(
                    one.get("when", ""), said, re.IGNORECASE | re.DOTALL
                ):
                    self._replies.remove(one)
                    reply = one
                    break
        time.sleep(float(reply.get("seconds", 0)))
        if "shell" in reply and shell:
            return Turn(number, "", shell, SHELLS[shell](reply["shell"]))
        if "tool" in reply:
            return Turn(number, "", reply["tool"], reply["arguments"])
        return Turn(number, reply.get("text", "ok"), "", {})


def _list_tools(body: Json) -> Iterator[str]:
    for tool in body.get("tools") or ():
        yield tool.get("name") or tool.get("function", {}).get("name", "")
        yield from (one["name"] for one in tool.get("functionDeclarations", ()))


def _find_newest(messages: Sequence[Json]) -> list[Json]:
    """Return the messages since the model last spoke."""
    newest: list[Json] = []
    for message in reversed(messages):
        if message.get("role") in ("assistant", "model") or message.get("type") == "function_call":
            break
        newest.insert(0, message)
    return newest


def _list_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for one in value if isinstance(value, list) else (value[key] for key in value if key not in ("role", "type")):
            yield from _list_texts(one)


def _encode_events(events: Iterable[tuple[str, Json]]) -> str:
    named = ((f"event: {name}\n" if name else "", data) for name, data in events)
    return "".join(f"{line}data: {json.dumps(data)}\n\n" for line, data in named)


# -- the protocols: each returns the whole answer, and the same as a stream


def answer_messages(model: ScriptedModel, body: Json) -> tuple[Json, str]:
    """Answer a request of the Messages API."""
    turn = model.take_turn(body, body["messages"])
    if turn.tool:
        block: Json = {"type": "tool_use", "id": turn.id, "name": turn.tool, "input": turn.arguments}
        begin: Json = {**block, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": turn.encoded}
    else:
        block, begin = {"type": "text", "text": turn.text}, {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": turn.text}
    stop = {"stop_reason": "tool_use" if turn.tool else "end_turn", "stop_sequence": None}
    usage = {"input_tokens": 10, "output_tokens": 5}
    whole = {"id": turn.id, "type": "message", "role": "assistant", "model": body.get("model"), "usage": usage}
    whole |= {"content": [block], **stop}
    steps: list[Json] = [
        {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": begin},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    ]
    return whole, _encode_events((step["type"], step) for step in steps)


def answer_responses(model: ScriptedModel, body: Json) -> tuple[Json, str]:
    """Answer a request of the Responses API."""
    turn = model.take_turn(body, body["input"] if isinstance(body["input"], list) else [{"content": body["input"]}])
    id = turn.id.replace("call", "item")
    if turn.tool:
        item: Json = {"type": "function_call", "id": id, "call_id": turn.id, "name": turn.tool, "status": "completed"}
        item["arguments"] = turn.encoded
        begin: Json = {**item, "arguments": ""}
        at = {"item_id": id, "output_index": 0}
        middle: list[Json] = [
            {"type": "response.function_call_arguments.delta", **at, "delta": turn.encoded},
            {"type": "response.function_call_arguments.done", **at, "arguments": turn.encoded},
        ]
    else:
        part = {"type": "output_text", "text": turn.text, "annotations": []}
        item = {"type": "message", "id": id, "role": "assistant", "status": "completed", "content": [part]}
        begin = {**item, "content": []}
        at = {"item_id": id, "output_index": 0, "content_index": 0}
        middle = [
            {"type": "response.content_part.added", **at, "part": {**part, "text": ""}},
            {"type": "response.output_text.delta", **at, "delta": turn.text},
            {"type": "response.output_text.done", **at, "text": turn.text},
            {"type": "response.content_part.done", **at, "part": part},
        ]
    usage: Json = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    base: Json = {"id": f"resp_{turn.id}", "object": "response", "created_at": 1, "model": body.get("model")}
    base |= {"tools": [], "tool_choice": "auto", "parallel_tool_calls": False, "metadata": {}}
    whole = {**base, "status": "completed", "output": [item], "usage": usage}
    empty = {**base, "status": "in_progress", "output": [], "usage": None}
    steps: list[Json] = [
        {"type": "response.created", "response": empty},
        {"type": "response.output_item.added", "output_index": 0, "item": {**begin, "status": "in_progress"}},
        *middle,
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]
    return whole, _encode_events((step["type"], {**step, "sequence_number": place}) for place, step in enumerate(steps))


def answer_chat(model: ScriptedModel, body: Json) -> tuple[Json, str]:
    """Answer a request of the Chat Completions API."""
    turn = model.take_turn(body, body["messages"])
    message: Json = {"role": "assistant", "content": None if turn.tool else turn.text}
    delta = dict(message)
    if turn.tool:
        call = {"id": turn.id, "type": "function", "function": {"name": turn.tool, "arguments": turn.encoded}}
        message["tool_calls"], delta["tool_calls"] = [call], [{**call, "index": 0}]
    finish = "tool_calls" if turn.tool else "stop"
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    base = {"id": f"chat_{turn.id}", "created": 1, "model": body.get("model")}
    choice = {"index": 0, "message": message, "finish_reason": finish, "logprobs": None}
    whole = {**base, "object": "chat.completion", "choices": [choice], "usage": usage}
    chunk = {**base, "object": "chat.completion.chunk"}
    steps = [
        {**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]},
        {**chunk, "choices": [], "usage": usage},
    ]
    return whole, _encode_events(("", step) for step in steps) + "data: [DONE]\n\n"


def answer_gemini(model: ScriptedModel, body: Json) -> tuple[Json, str]:
    """Answer a request of the Gemini API."""
    turn = model.take_turn(body, body.get("contents", []))
    call = {"functionCall": {"id": turn.id, "name": turn.tool, "args": turn.arguments}}
    content = {"role": "model", "parts": [call if turn.tool else {"text": turn.text}]}
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
    candidate = {"index": 0, "finishReason": "STOP", "content": content}
    whole = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "scripted", "responseId": turn.id}
    return whole, _encode_events([("", whole)])


_ROUTES = (
    (r"/messages$", answer_messages),
    (r"/responses$", answer_responses),
    (r"/chat/completions$", answer_chat),
    (r":(streamG|g)enerateContent$", answer_gemini),
)
_MODELS = {"object": "list", "data": [{"id": "stub-model", "object": "model", "created": 1, "owned_by": "stub"}]}


def _make_handler(model: ScriptedModel) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: Any) -> None:
            pass

        def _send(self, text: str, kind: str = "application/json", status: int = 200) -> None:
            payload = text.encode()
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        def do_GET(self) -> None:
            # Without websockets, agents fall back to plain requests.
            is_upgrade = bool(self.headers.get("upgrade"))
            self._send(json.dumps(_MODELS) if "/models" in self.path else "{}", status=404 if is_upgrade else 200)

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("content-length", 0)))
            path = self.path.partition("?")[0]
            if path.endswith(("count_tokens", ":countTokens")):
                self._send('{"input_tokens": 10, "totalTokens": 10}')
                return
            answer = next((answer for pattern, answer in _ROUTES if re.search(pattern, path)), None)
            if answer is None:
                self._send("{}")
                return
            body = json.loads(raw)
            whole, stream = answer(model, body)
            if body.get("stream") or "streamGenerateContent" in path:
                self._send(stream, "text/event-stream")
            else:
                self._send(json.dumps(whole))

    return Handler
