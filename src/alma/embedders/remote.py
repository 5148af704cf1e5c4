"""Embeddings from an OpenAI-compatible service or Azure OpenAI, over httpx."""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ..errors import ConfigError, EmbeddingError, MissingExtraError
from ..retry import BACKOFF, LONGEST_WAIT, Secret, call_with_retries, read_retry_after
from ..types.record import Vector, quantize

if TYPE_CHECKING:
    import httpx

OPENAI_URL = "https://api.openai.com/v1"
AZURE_VERSION = "2024-10-21"
NATIVE_DIMS = {"text-embedding-3-small": 1536, "text-embedding-3-large": 3072, "text-embedding-ada-002": 1536}
AZURE_DIM = 1536
BATCH = 128
TIMEOUT, RETRIES = 30.0, 4
TRANSIENT = frozenset({408, 409, 429, *range(500, 600)})


class TransientEmbedderError(EmbeddingError):
    """A failure that is worth a retry; `after` is the number of seconds that the service asked for."""

    def __init__(self, message: str, after: float | None = None) -> None:
        super().__init__(message)
        self.after = after


class RemoteEmbedder:
    """Asks `url` for vectors. `native` is the length that they have unless another is asked for."""

    passage_chars = 8_000
    kind: str
    model_setting: str  # How the configuration calls the model.
    url_setting: str
    key_header, key_prefix = "Authorization", "Bearer "

    def __init__(
        self,
        url: str,
        model: str,
        api_key: str,
        native: int,
        dim: int | None,
        body: Mapping[str, object],
        *,
        timeout: float = TIMEOUT,
        retries: int = RETRIES,
        backoff: float = BACKOFF,
    ) -> None:
        self.dim = dim or native
        self.name = f"{self.kind}:{model}:{self.dim}"
        self._url, self._model = url, model
        # Older models refuse the parameter, so it is sent only when it changes something.
        self._body = body if self.dim == native else {**body, "dimensions": self.dim}
        self._key = Secret(api_key.strip())
        # httpx quotes a header that it cannot send, so a bad key is refused before it can be shown.
        if not self._key or not self._key.isascii() or not self._key.isprintable():
            raise ConfigError("the embedder's `api_key` is empty or contains characters that are not valid in a key")
        self._timeout, self._retries, self._backoff = timeout, retries, backoff
        self._lock = threading.Lock()
        self._client: httpx.Client | None = None

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Return one vector for each text, with retries."""
        vectors = []
        for start in range(0, len(texts), BATCH):
            # An empty text is refused by the service.
            batch = [text or " " for text in texts[start : start + BATCH]]
            response = call_with_retries(
                lambda batch=batch: self._post(batch),  # type: ignore[misc]
                TransientEmbedderError,
                self._retries,
                lambda attempt, error: choose_pause(self._backoff, attempt, error.after),
            )
            vectors += self._read_vectors(response, len(batch))
        return vectors

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            client, self._client = self._client, None
        if client:
            client.close()

    def _post(self, texts: list[str]) -> httpx.Response:
        try:
            import httpx
        except ModuleNotFoundError as error:
            raise MissingExtraError("httpx", self.kind, f"The {self.kind} embedder") from error
        with self._lock:
            if self._client is None:
                headers = {self.key_header: self.key_prefix + self._key}
                self._client = httpx.Client(headers=headers, timeout=self._timeout)
            client = self._client
        try:
            response = client.post(self._url, json={**self._body, "input": texts})
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise EmbeddingError(f"{self._url} is not a valid address; correct `{self.url_setting}`") from error
        except httpx.TransportError as error:
            reason = f" ({error})" if str(error) else ""
            problem = f"cannot be reached at {self._url}{reason}: check `{self.url_setting}` and the network"
            if isinstance(error, httpx.TimeoutException):
                problem = f"did not answer in time at {self._url}: raise the embedder's `timeout`"
            raise TransientEmbedderError(f"{self.kind} {problem}") from error
        if response.is_success:
            return response
        status, detail = response.status_code, self._quote_reply(response)
        problem = f"answered with {status}{detail}"
        if status in (401, 403):
            problem = f"refused the key ({status}): correct the embedder's `api_key`"
        elif status == 404 or response.is_redirect:
            settings = f"`{self.model_setting}` ({self._model}) and `{self.url_setting}`"
            problem = f"found nothing at {self._url} ({status}): check {settings}{detail}"
        elif status == 429:
            problem = f"is limiting requests (429): try later, or check the account's quota{detail}"
        if status in TRANSIENT:
            raise TransientEmbedderError(f"{self.kind} {problem}", read_retry_after(response.headers))
        raise EmbeddingError(f"{self.kind} {problem}")

    def _quote_reply(self, response: httpx.Response) -> str:
        text = " ".join(response.text.replace(self._key, "***").split())[:300]
        return f"; its reply: {text}" if text not in ("", "{}", "[]", "null") else ""

    def _read_vectors(self, response: httpx.Response, count: int) -> list[Vector]:
        """Return the vectors in the order of the texts; the service may answer in another order."""
        try:
            data: list[dict[str, Any]] = response.json()["data"]
            rows = {int(entry.get("index", at)): list(entry["embedding"]) for at, entry in enumerate(data)}
            if sorted(rows) != list(range(count)):
                raise EmbeddingError(f"{self.kind} returned {len(rows)} vectors for {count} texts: try again")
            for row in rows.values():
                if len(row) != self.dim:
                    raise EmbeddingError(
                        f"{self._model} returned {len(row)} dimensions but {self.dim} are configured: "
                        f"set the embedder's `dim` to {len(row)}, or choose another `{self.model_setting}`"
                    )
            return [quantize(rows[at]) for at in range(count)]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise EmbeddingError(
                f"{self._url} did not answer with embeddings: check that `{self.url_setting}` is an embeddings "
                f"service{self._quote_reply(response)}"
            ) from error


class OpenAIEmbedder(RemoteEmbedder):
    """Any service with OpenAI's `/embeddings`; `dim` is needed when the model is not one of OpenAI's."""

    kind, model_setting, url_setting = "openai", "model", "base_url"

    def __init__(
        self,
        api_key: str,
        model: str = "text-embedding-3-small",
        base_url: str = OPENAI_URL,
        dim: int | None = None,
        **limits: Any,
    ) -> None:
        """`limits` are `timeout`, `retries` and `backoff`."""
        native = NATIVE_DIMS.get(model, dim)
        if native is None:
            raise ConfigError(f"the size of the vectors of {model!r} is not known: set the embedder's `dim`")
        url = f"{base_url.rstrip('/')}/embeddings"
        super().__init__(url, model, api_key, native, dim, {"model": model}, **limits)


class AzureEmbedder(RemoteEmbedder):
    """A deployment of an embedding model in Azure OpenAI."""

    kind, model_setting, url_setting = "azure", "deployment", "endpoint"
    key_header, key_prefix = "api-key", ""

    def __init__(
        self,
        endpoint: str,
        deployment: str,
        api_key: str,
        api_version: str = AZURE_VERSION,
        dim: int | None = None,
        **limits: Any,
    ) -> None:
        """`limits` are `timeout`, `retries` and `backoff`."""
        path = f"openai/deployments/{quote(deployment, safe='')}/embeddings?api-version={quote(api_version, safe='')}"
        super().__init__(f"{endpoint.rstrip('/')}/{path}", deployment, api_key, AZURE_DIM, dim, {}, **limits)


def choose_pause(backoff: float, attempt: int, after: float | None) -> float:
    """Return what the service asked for, or twice as long each time, with jitter."""
    pause = backoff * 2**attempt * random.uniform(0.5, 1.0) if after is None else after
    return min(LONGEST_WAIT, pause)
