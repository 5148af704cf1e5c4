"""Embeddings from an OpenAI-compatible service or Azure OpenAI, over httpx."""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ..errors import ConfigError, EmbeddingError, MissingExtraError
from ..retry import BACKOFF, LONGEST_WAIT, call_with_retries, read_retry_after
from ..types.vector import Vector, quantize

if TYPE_CHECKING:
    import httpx

OPENAI_URL = "https://api.openai.com/v1"
AZURE_VERSION = "2024-10-21"
NATIVE_DIMS = {"text-embedding-3-small": 1536, "text-embedding-3-large": 3072, "text-embedding-ada-002": 1536}
AZURE_DIM = 1536
BATCH = 128
TIMEOUT, RETRIES = 30.0, 4
TRANSIENT = frozenset({408, 409, 429, *range(500, 600)})


@dataclass(frozen=True)
class Service:
    """Where the vectors come from, and how its settings are called in messages."""

    kind: str
    url: str
    model: str
    model_setting: str
    url_setting: str
    headers: Mapping[str, str] = field(repr=False)
    secret: str = field(repr=False)
    body: Mapping[str, object]

    def quote_reply(self, response: httpx.Response) -> str:
        text = " ".join(response.text.replace(self.secret, "***").split())[:300]
        return f"; it said: {text}" if text else ""


class TransientError(EmbeddingError):
    """A failure that is worth a retry; `after` is the number of seconds that the service asked for."""

    def __init__(self, message: str, after: float | None = None) -> None:
        super().__init__(message)
        self.after = after


class RemoteEmbedder:
    passage_chars = 8_000

    def __init__(
        self, service: Service, native: int, dim: int | None, timeout: float, retries: int, backoff: float
    ) -> None:
        self.dim = dim or native
        self.name = f"{service.kind}:{service.model}:{self.dim}"
        self._service = service
        # Older models refuse the parameter, so it is sent only when it changes something.
        self._body = service.body if self.dim == native else {**service.body, "dimensions": self.dim}
        self._timeout = timeout
        self._retries = retries
        self._backoff = backoff
        self._lock = threading.Lock()
        self._client: httpx.Client | None = None

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        vectors = []
        for start in range(0, len(texts), BATCH):
            # An empty text is refused by the service.
            batch = [text or " " for text in texts[start : start + BATCH]]
            response = self._post({**self._body, "input": batch})
            vectors += [self._read_vector(row) for row in _read_rows(self._service, response, len(batch))]
        return vectors

    def close(self) -> None:
        with self._lock:
            client, self._client = self._client, None
        if client:
            client.close()

    def _post(self, body: Mapping[str, object]) -> httpx.Response:
        try:
            import httpx
        except ModuleNotFoundError as error:
            raise MissingExtraError("httpx", self._service.kind, f"The {self._service.kind} embedder") from error
        with self._lock:
            if self._client is None:
                self._client = httpx.Client(headers=dict(self._service.headers), timeout=self._timeout)
            client = self._client
        return call_with_retries(
            lambda: _send(client, self._service, body),
            TransientError,
            self._retries,
            lambda attempt, error: choose_pause(self._backoff, attempt, error.after),
        )

    def _read_vector(self, row: list[float]) -> Vector:
        if len(row) != self.dim:
            raise EmbeddingError(
                f"{self._service.model} returned {len(row)} dimensions but {self.dim} are configured: "
                f"set the embedder's `dim` to {len(row)}, or choose another `{self._service.model_setting}`"
            )
        try:
            return quantize(row)
        except (ValueError, TypeError) as error:
            raise EmbeddingError(f"{self._service.model} returned a vector that is not made of numbers") from error


class OpenAIEmbedder(RemoteEmbedder):
    """Any service with OpenAI's `/embeddings`; `dim` is needed when the model is not one of OpenAI's."""

    def __init__(
        self,
        api_key: str,
        model: str = "text-embedding-3-small",
        base_url: str = OPENAI_URL,
        dim: int | None = None,
        timeout: float = TIMEOUT,
        retries: int = RETRIES,
        backoff: float = BACKOFF,
    ) -> None:
        native = NATIVE_DIMS.get(model, dim)
        if native is None:
            raise ConfigError(f"the size of the vectors of {model!r} is not known: set the embedder's `dim`")
        key = _check_key(api_key)
        service = Service(
            kind="openai",
            url=f"{base_url.rstrip('/')}/embeddings",
            model=model,
            model_setting="model",
            url_setting="base_url",
            headers={"Authorization": f"Bearer {key}"},
            secret=key,
            body={"model": model},
        )
        super().__init__(service, native, dim, timeout, retries, backoff)


class AzureEmbedder(RemoteEmbedder):
    """A deployment of an embedding model in Azure OpenAI."""

    def __init__(
        self,
        endpoint: str,
        deployment: str,
        api_key: str,
        api_version: str = AZURE_VERSION,
        dim: int | None = None,
        timeout: float = TIMEOUT,
        retries: int = RETRIES,
        backoff: float = BACKOFF,
    ) -> None:
        key = _check_key(api_key)
        path = f"openai/deployments/{quote(deployment, safe='')}/embeddings?api-version={quote(api_version, safe='')}"
        service = Service(
            kind="azure",
            url=f"{endpoint.rstrip('/')}/{path}",
            model=deployment,
            model_setting="deployment",
            url_setting="endpoint",
            headers={"api-key": key},
            secret=key,
            body={},
        )
        super().__init__(service, AZURE_DIM, dim, timeout, retries, backoff)


def _check_key(api_key: str) -> str:
    """httpx quotes a header that it cannot send, so a bad key is refused before it can be shown."""
    key = api_key.strip()
    if not key or not key.isascii() or not key.isprintable():
        raise ConfigError("the embedder's `api_key` is empty or holds characters that no key has")
    return key


def choose_pause(backoff: float, attempt: int, after: float | None) -> float:
    """Return what the service asked for, or twice as long each time, with jitter."""
    pause = backoff * 2**attempt * random.uniform(0.5, 1.0) if after is None else after
    return min(LONGEST_WAIT, pause)


def _send(client: httpx.Client, service: Service, body: Mapping[str, object]) -> httpx.Response:
    import httpx

    try:
        response = client.post(service.url, json=body)
    except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
        raise EmbeddingError(f"{service.url} is not a usable address: correct `{service.url_setting}`") from error
    except httpx.TimeoutException as error:
        raise TransientError(
            f"{service.kind} did not answer in time at {service.url}: raise the embedder's `timeout`"
        ) from error
    except httpx.TransportError as error:
        raise TransientError(
            f"{service.kind} cannot be reached at {service.url} ({error}): "
            f"check `{service.url_setting}` and the network"
        ) from error
    if response.status_code in TRANSIENT:
        raise TransientError(_explain_refusal(service, response), read_retry_after(response.headers))
    if not response.is_success:
        raise EmbeddingError(_explain_refusal(service, response))
    return response


def _explain_refusal(service: Service, response: httpx.Response) -> str:
    status, detail = response.status_code, service.quote_reply(response)
    if status in (401, 403):
        return f"{service.kind} refused the key ({status}): correct the embedder's `api_key`"
    if status == 404 or response.is_redirect:
        settings = f"`{service.model_setting}` ({service.model}) and `{service.url_setting}`"
        return f"{service.kind} found nothing at {service.url} ({status}): check {settings}{detail}"
    if status == 429:
        return f"{service.kind} is limiting requests (429): try later, or check the account's quota{detail}"
    return f"{service.kind} answered with {status}{detail}"


def _read_rows(service: Service, response: httpx.Response, count: int) -> list[list[float]]:
    """The vectors in the order of the texts; the service may answer in another order."""
    try:
        data: list[dict[str, Any]] = response.json()["data"]
        rows = {int(entry.get("index", at)): list(entry["embedding"]) for at, entry in enumerate(data)}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise EmbeddingError(
            f"{service.url} did not answer with embeddings: check that `{service.url_setting}` is an embeddings "
            f"service{service.quote_reply(response)}"
        ) from error
    if sorted(rows) != list(range(count)):
        raise EmbeddingError(f"{service.kind} returned {len(rows)} vectors for {count} texts: try again")
    return [rows[at] for at in range(count)]
