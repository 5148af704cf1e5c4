from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from alma.embedders.remote import BATCH, AzureEmbedder, OpenAIEmbedder, choose_pause
from alma.errors import ConfigError, EmbeddingError, MissingExtraError
from alma.retry import LONGEST_WAIT, read_retry_after
from alma.types.record import quantize

pytestmark = pytest.mark.system

KEY = "sk-very-secret"
DIM = 3


@dataclass
class Answer:
    status: int = 200
    body: object = None
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0


@dataclass
class Seen:
    path: str
    headers: dict[str, str]
    body: dict[str, Any]


Reply = Callable[[Seen], Answer]


def vector_of(text: str) -> list[float]:
    return [float(len(text)), 1.0, -2.0]


def embeddings(seen: Seen) -> Answer:
    rows = [{"index": at, "embedding": vector_of(text)} for at, text in enumerate(seen.body["input"])]
    return Answer(body={"data": rows[::-1]})


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen: list[Seen] = []
        self.script: list[Answer] = []
        self.reply: Reply = embeddings

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that gave up is part of the tests."""


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        seen = Seen(self.path, {key.lower(): value for key, value in self.headers.items()}, body)
        self.server.seen.append(seen)
        answer = self.server.script.pop(0) if self.server.script else self.server.reply(seen)
        time.sleep(answer.delay)
        data = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        self.send_response(answer.status)
        for key, value in {**answer.headers, "content-length": str(len(data))}.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.fixture
def embedder(server: Server) -> Iterator[OpenAIEmbedder]:
    made = openai(server)
    yield made
    made.close()


def openai(server: Server, timeout: float = 30.0, retries: int = 2) -> OpenAIEmbedder:
    return OpenAIEmbedder(
        KEY, model="tiny", base_url=server.url, dim=DIM, timeout=timeout, retries=retries, backoff=0.01
    )


def test_vectors_come_in_the_order_of_the_texts(server: Server, embedder: OpenAIEmbedder) -> None:
    texts = ["a", "bbb", "cccccc"]
    assert embedder.embed(texts) == [quantize(vector_of(text)) for text in texts]
    (seen,) = server.seen
    assert (seen.path, seen.headers["authorization"]) == ("/v1/embeddings", f"Bearer {KEY}")
    assert seen.body == {"model": "tiny", "input": texts}
    assert embedder.name == "openai:tiny:3"


def test_no_texts_ask_nothing(server: Server, embedder: OpenAIEmbedder) -> None:
    assert embedder.embed([]) == []
    assert server.seen == []


def test_many_texts_go_in_batches(server: Server, embedder: OpenAIEmbedder) -> None:
    texts = ["x" * (n % 7 + 1) for n in range(2 * BATCH + 1)]
    assert embedder.embed(texts) == [quantize(vector_of(text)) for text in texts]
    assert [len(seen.body["input"]) for seen in server.seen] == [BATCH, BATCH, 1]


def test_empty_text_is_sent_as_a_blank(server: Server, embedder: OpenAIEmbedder) -> None:
    embedder.embed([""])
    assert server.seen[0].body["input"] == [" "]


def test_azure_addresses_the_deployment(server: Server) -> None:
    azure = AzureEmbedder(server.url, "my emb", KEY, api_version="2024-02-01", dim=DIM)
    azure.embed(["x"])
    azure.close()
    (seen,) = server.seen
    assert seen.path == "/v1/openai/deployments/my%20emb/embeddings?api-version=2024-02-01"
    assert seen.headers["api-key"] == KEY
    assert "authorization" not in seen.headers
    assert azure.name == "azure:my emb:3"


@pytest.mark.parametrize(
    ("model", "dim", "sent"),
    [
        ("text-embedding-3-small", None, None),
        ("text-embedding-3-small", 1536, None),
        ("text-embedding-3-small", DIM, DIM),
        ("other", DIM, None),
    ],
)
def test_dimensions_are_sent_only_when_they_change_something(
    server: Server, model: str, dim: int | None, sent: int | None
) -> None:
    server.reply = lambda seen: Answer(body={"data": [{"embedding": [1.0] * (dim or 1536)}]})
    made = OpenAIEmbedder(KEY, model=model, base_url=server.url, dim=dim)
    made.embed(["x"])
    made.close()
    assert server.seen[0].body.get("dimensions") == sent


def test_waits_as_long_as_asked_on_429(server: Server, embedder: OpenAIEmbedder) -> None:
    server.script = [Answer(429, {}, {"retry-after": "0.3"})]
    start = time.monotonic()
    assert embedder.embed(["x"]) == [quantize(vector_of("x"))]
    assert 0.3 <= time.monotonic() - start < 10


@pytest.mark.parametrize("status", [408, 409, 500, 503])
def test_transient_answers_are_tried_again(server: Server, embedder: OpenAIEmbedder, status: int) -> None:
    server.script = [Answer(status), Answer(status)]
    assert embedder.embed(["x"]) == [quantize(vector_of("x"))]
    assert len(server.seen) == 3


def test_gives_up_after_the_retries(server: Server, embedder: OpenAIEmbedder) -> None:
    server.reply = lambda seen: Answer(500, {"error": "overloaded"})
    with pytest.raises(EmbeddingError, match=r"answered with 500.*overloaded"):
        embedder.embed(["x"])
    assert len(server.seen) == 3


def test_slow_answer_is_a_timeout(server: Server) -> None:
    server.script = [Answer(delay=0.5)] * 2
    made = openai(server, timeout=0.1, retries=1)
    with pytest.raises(EmbeddingError, match=r"did not answer in time.*`timeout`"):
        made.embed(["x"])
    made.close()


def test_slow_answer_then_quick_one_succeeds(server: Server) -> None:
    server.script = [Answer(delay=2.5)]
    made = openai(server, timeout=2.0, retries=5)
    assert made.embed(["x"]) == [quantize(vector_of("x"))]
    made.close()


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "ftp://127.0.0.1", "nowhere"])
def test_unreachable_address_names_the_setting(url: str) -> None:
    made = OpenAIEmbedder(KEY, base_url=url, retries=1, backoff=0.01)
    with pytest.raises(EmbeddingError, match="`base_url`"):
        made.embed(["x"])
    made.close()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Answer(401, {"error": f"bad key {KEY}"}), "refused the key .401.*`api_key`"),
        (Answer(404, {}), r"`model` \(tiny\) and `base_url`"),
        (Answer(301, {}, {"location": "/elsewhere"}), "`base_url`"),
        (Answer(400, {"error": f"too long for {KEY}"}), r"400.*too long for \*\*\*"),
        (Answer(body=b"<html>hello"), "did not answer with embeddings.*`base_url`.*<html>hello"),
        (Answer(body=[1]), "did not answer with embeddings"),
        (Answer(body={"data": [7]}), "did not answer with embeddings"),
        (Answer(body={"data": []}), "0 vectors for 1 texts"),
        (Answer(body={"data": [{"index": 5, "embedding": [1.0] * DIM}]}), "1 vectors for 1 texts"),
        (Answer(body={"data": [{"embedding": [1.0] * 5}]}), "5 dimensions but 3 are configured.*`dim` to 5.*`model`"),
        (Answer(body={"data": [{"embedding": ["a", "b", "c"]}]}), "did not answer with embeddings"),
        (Answer(body=b'{"data": [{"embedding": [1, NaN, 2]}]}'), "did not answer with embeddings"),
    ],
)
def test_bad_answer_says_what_to_do_once_and_hides_the_key(
    server: Server, embedder: OpenAIEmbedder, answer: Answer, message: str
) -> None:
    server.script = [answer]
    with pytest.raises(EmbeddingError, match=message) as caught:
        embedder.embed(["x"])
    assert KEY not in str(caught.value)
    assert len(server.seen) == 1


def test_azure_404_names_the_deployment(server: Server) -> None:
    server.script = [Answer(404, {})]
    made = AzureEmbedder(server.url, "emb", KEY, dim=DIM)
    with pytest.raises(EmbeddingError, match=r"`deployment` \(emb\) and `endpoint`"):
        made.embed(["x"])
    made.close()


def test_key_that_no_header_can_hold_is_refused_unseen() -> None:
    with pytest.raises(ConfigError) as caught:
        OpenAIEmbedder("sk-\nsecret")
    assert "secret" not in str(caught.value)
    OpenAIEmbedder(f"{KEY}\n")


def test_key_is_not_in_the_repr(embedder: OpenAIEmbedder) -> None:
    assert KEY not in repr(vars(embedder))


def test_retry_after_may_be_a_date(server: Server, embedder: OpenAIEmbedder) -> None:
    server.script = [Answer(429, {}, {"retry-after": formatdate(time.time() - 60, usegmt=True)})]
    assert embedder.embed(["x"]) == [quantize(vector_of("x"))]


def test_pause_is_bounded_and_grows() -> None:
    assert choose_pause(1, 0, after=1e9) == LONGEST_WAIT
    assert choose_pause(1, 50, after=None) == LONGEST_WAIT
    assert 0.5 <= choose_pause(1, 0, after=None) <= 1 <= 2 <= choose_pause(1, 2, after=None) <= 4


@pytest.mark.parametrize(("value", "seconds"), [("2.5", 2.5), ("-5", 0), ("nan", None), ("soon", None), ("", None)])
def test_retry_after_is_read_as_seconds_from_now(value: str, seconds: float | None) -> None:
    assert read_retry_after({"retry-after": value}) == seconds


def test_threads_share_one_embedder(server: Server, embedder: OpenAIEmbedder) -> None:
    results: list[object] = []
    threads = [threading.Thread(target=lambda: results.append(embedder.embed(["x", "yy"]))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [[quantize(vector_of("x")), quantize(vector_of("yy"))]] * 8


def test_closed_embedder_connects_again(embedder: OpenAIEmbedder) -> None:
    embedder.embed(["x"])
    embedder.close()
    assert embedder.embed(["x"]) == [quantize(vector_of("x"))]


def test_missing_httpx_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(MissingExtraError, match=r"`httpx`; run: pip install '\.\[openai\]'"):
        OpenAIEmbedder(KEY).embed(["x"])
