"""A sentence-embedding model in ONNX format, in a folder on this machine; no download, no network.

The vector of a text is the model's output `sentence_embedding`, or the mean of its token vectors. One text is one run,
without padding, as in `local`.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from ..errors import ConfigError, EmbeddingError, MissingExtraError
from ..types.record import Vector
from .local import ModelRunner, open_session, quantize_array

PACKAGES = ("numpy", "onnxruntime", "tokenizers")
EXTRA = "onnx"
MAX_TOKENS = 512
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
LAYOUT = "a folder with model.onnx (or onnx/model.onnx) and tokenizer.json"


class OnnxEmbedder(ModelRunner[Path, "SentenceModel"]):
    """An embedder that runs the model in a folder; `dim` is checked when the model is loaded."""

    passage_chars = 900

    def __init__(self, path: str | os.PathLike[str], dim: int | None = None) -> None:
        super().__init__()
        self._folder, self._configured_dim = Path(os.path.abspath(Path(path).expanduser())), dim
        if not self._folder.is_dir():
            raise ConfigError(f"the embedder's `path` must be {LAYOUT}, but {self._folder} is not a folder")
        files = [self._folder / name for name in ("model.onnx", "onnx/model.onnx", "tokenizer.json")]
        models = [file for file in files[:2] if file.is_file()]
        if not models or not files[2].is_file():
            missing = "tokenizer.json" if models else "model.onnx"
            raise ConfigError(f"{self._folder} has no {missing}: the embedder's `path` must be {LAYOUT}")
        self._file = models[0]
        try:
            with self._file.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise EmbeddingError(f"cannot read {self._file}: {error.strerror}") from error
        self.name = f"onnx-{self._folder.name}-{digest[:8]}"

    @cached_property
    def dim(self) -> int:
        """The dimension of the vectors, which the model decides."""
        return len(self.embed(["dimension"])[0])

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Return one vector for each text."""
        return self._run(self._file, SentenceModel.embed, texts)

    def _load_model(self, key: Path) -> SentenceModel:
        model = SentenceModel(self._folder, key)
        if self._configured_dim not in (None, model.dim):
            raise ConfigError(
                f"{key} has {model.dim} dimensions, not {self._configured_dim}: set `embedding_dim` to {model.dim} or "
                "leave it out"
            )
        return model


class SentenceModel:
    """A loaded model with its tokenizer. Threads may share one."""

    def __init__(self, folder: Path, file: Path) -> None:
        self._file, reading = file, file
        # Neither package has a base class for its errors, and tokenizers raises plain Exceptions.
        try:
            from tokenizers import Tokenizer

            self._numpy, self._session = open_session(file)
            reading = folder / "tokenizer.json"
            self._tokenizer = Tokenizer.from_file(str(reading))
            # The truncation in tokenizer.json is often shorter than what the model can read.
            limit = (self._tokenizer.truncation or {}).get("max_length")
            reading = folder / "tokenizer_config.json"
            if reading.is_file():
                limit = json.loads(reading.read_text(encoding="utf-8")).get("model_max_length") or limit
            self._tokenizer.enable_truncation(min(int(limit or MAX_TOKENS), MAX_TOKENS))
            self._tokenizer.no_padding()
        except ModuleNotFoundError as error:
            missing = (error.name or "onnxruntime").partition(".")[0]
            raise MissingExtraError(missing, EXTRA, "The onnx embedder") from error
        except Exception as error:
            raise EmbeddingError(
                f"cannot load {reading}: {error}; replace it with the model's original file"
            ) from error
        types = {one.name: one.type for one in self._session.get_inputs()}
        if not {"input_ids"} <= types.keys() <= set(INPUTS):
            raise EmbeddingError(
                f"{file} has the inputs {', '.join(types)}, but only {', '.join(INPUTS)} are supported"
            )
        self._types = {name: "int32" if kind == "tensor(int32)" else "int64" for name, kind in types.items()}
        ranks = {one.name: len(one.shape) for one in self._session.get_outputs()}
        usable = [name for name in ("sentence_embedding", "last_hidden_state") if name in ranks]
        usable += [name for name, rank in ranks.items() if rank == 3]
        if not usable:
            raise EmbeddingError(
                f"{file} has no usable output: expected sentence_embedding, last_hidden_state or one with three "
                f"dimensions, but it has {', '.join(ranks)}"
            )
        self._output = usable[0]
        self.dim = len(self.embed("dimension"))

    def embed(self, text: str) -> Vector:
        """Return the vector of a text."""
        encoding = self._tokenizer.encode(text.encode("utf-8", "replace").decode())
        if not encoding.ids:
            # Only some tokenizers mark the beginning and the end of an empty text.
            return bytes(self.dim)
        rows = dict(zip(INPUTS, (encoding.ids, encoding.attention_mask, encoding.type_ids), strict=True))
        feed = {name: self._numpy.array([rows[name]], kind) for name, kind in self._types.items()}
        try:
            [output] = self._session.run([self._output], feed)
        except Exception as error:
            raise EmbeddingError(f"{self._file} failed on a text of {len(encoding.ids)} tokens: {error}") from error
        vector = output[0].astype(self._numpy.float64)
        vector = vector.mean(axis=0) if vector.ndim == 2 else vector
        length = self._numpy.linalg.norm(vector)
        if vector.ndim != 1 or not 0 < length < float("inf"):
            raise EmbeddingError(f"{self._file} returned no usable vector in its output {self._output}")
        return quantize_array(self._numpy, vector / length)
