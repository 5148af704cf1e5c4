"""all-MiniLM-L6-v2 in int8, shipped with the package; no torch, no download, no network.

It has three uses. A text alone gives a vector. Two texts that are read together give scores, by the same matrices with
small adapters of our own beside them (`tools/training`): whether the second matters for the first, and how they relate.
A retrieval only asks whether memories matter for its task, and asks often, so that has a smaller model: the lower three
layers read each text alone, which is kept for the next question, and three layers of our own read both.

One text is one run of the model, without padding: int8 activations are scaled by the range met in a run, so a text
in a batch would get another vector than the same text alone. Many texts are spread over threads of one core each;
all callers of a process share these, so that requests of a server take turns instead of starting threads of their own.
onnxruntime releases Python's lock while it runs.
Measured on two cores, a text of 12 tokens takes 0.9 ms so, and 0.74 ms in batches of equal length on two intra-op
threads; at 40 tokens both take 2.7 ms. With other work on the cores the batches were the slower, by 1.2 to 1.7 times.
`tools/build_minilm.py` makes the files.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import threading
import zlib
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from ..errors import EmbeddingError, MissingExtraError
from ..forks import hold_at_fork
from ..ports import ActionProbabilities, Calibration, FactProbabilities, PairScores, RelevanceWeights
from ..types.record import Vector

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

PACKAGES = ("numpy", "onnxruntime")
EXTRA = "local"
FOLDER = Path(__file__).parent / "minilm"
MAX_TOKENS = 256
MAX_SIDE_TOKENS = 96  # Of each text of a pair.
MANY_PAIRS = 4096
MANY_TEXTS = 1024  # So many texts are kept as the lower layers left them, 12 KB for one of 16 tokens.
MAX_THREADS = 4
FEW = 4
_CHUNK = 1 << 18
_FEW_WORDS = 5
# Pieces to a word: English has 1.0 to 1.35 in 95 of 100 sentences, Spanish, French and German have more.
_MOST_PIECES = 1.4
_MOST_PIECES_OF_ENGLISH = 2.0  # Where words that only English has show that names make the difference.
_ENGLISH = frozenset("the and with that this from your have when what which into of to for our".split())
_WORD = re.compile(r"\w+|[^\w\s]")
_JUDGED_CHARS = 300

T = TypeVar("T")
S = TypeVar("S")
K = TypeVar("K")
M = TypeVar("M")

_left_to_parents: list[object] = []  # Models that came through a fork while they were running: not even freed.


class Shipped(NamedTuple):
    """A bundled file and its checksums: every load checks the CRC, `verify` checks the slower SHA-256."""

    name: str
    crc32: int
    sha256: str


MODEL = Shipped("model.onnx", 0x69534573, "be906d33b3eba32474fd451dc2659cffef1487f5ba163e56a2f77d873f38f255")
VOCABULARY = Shipped("vocabulary.txt", 0xE3084609, "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3")
CHARACTERS = Shipped("characters.txt", 0xCB58BC2D, "f5e9e009d047fdabd5b9d64ada5d078e5c15601d09409ca3e9a7ae187bf65940")
PAIRS = Shipped("pairs.onnx", 0x0B9AD09B, "0eed18a48261e12057a2aebc90e35c08137bd0e8d7f587f5912fd31c584068b5")
BELOW = Shipped("below.onnx", 0x86CCE14D, "9ea6cbc4cc85e52f162a5f115bb9d9b4875b5de2dee3d64adac84761ff4e12a3")
READER = Shipped("reader.onnx", 0x8733E482, "acd4548bb84c40009041259a91287d8c80bb9a2c97d09156f700fdd14ac39451")
SHIPPED = (MODEL, VOCABULARY, CHARACTERS, PAIRS, BELOW, READER)


def count_threads() -> int:
    """Return how many texts are computed at the same time."""
    return min(MAX_THREADS, os.cpu_count() or 1)


class SharedThreads:
    """The threads that compute many texts, for all callers of a process. They are started on first use."""

    def __init__(self) -> None:
        self._lock = hold_at_fork(threading.Lock())
        self._pool: ThreadPoolExecutor | None = None
        self._pid = 0

    def get(self) -> ThreadPoolExecutor:
        """Return the threads of this process: a fork has none of those of its parent."""
        with self._lock:
            if self._pool is None or self._pid != os.getpid():
                from concurrent.futures import ThreadPoolExecutor

                self._pool = ThreadPoolExecutor(count_threads(), thread_name_prefix="alma-embed")
                self._pid = os.getpid()
            return self._pool


_THREADS = SharedThreads()


class ModelRunner(Generic[K, M]):
    """Loads models on first use and runs them on threads; a process and its forks may share one."""

    def __init__(self) -> None:
        self._lock = hold_at_fork(threading.Lock())
        self._models: dict[K, M] = {}
        self._running: set[object] = set()  # The calls that are running a model.
        self._pid = os.getpid()

    def _load_model(self, key: K) -> M:
        raise NotImplementedError

    def _load(self, key: K) -> M:
        """Return a model, which is loaded on first use."""
        if self._pid != os.getpid():
            if self._running:
                # Other threads were running it when this process was forked: what it holds may be half done.
                _left_to_parents.append(self._models)
                self._models, self._running = {}, set()
            self._pid = os.getpid()
        model = self._models.get(key)
        if model is None:
            with self._lock:
                model = self._models.get(key) or self._load_model(key)
                self._models[key] = model
        return model

    def _run(self, key: K, method: Callable[[M, S], T], inputs: Sequence[S]) -> list[T]:
        """Return what a model makes of each input, on several threads where there are many."""
        if not inputs:
            return []
        model, call = self._load(key), object()
        self._running.add(call)
        try:
            if min(count_threads(), len(inputs) // FEW) < 2:
                return [method(model, one) for one in inputs]
            return list(_THREADS.get().map(partial(method, model), inputs))
        finally:
            self._running.discard(call)

    def close(self) -> None:
        """Unload the models."""
        with self._lock:
            self._models = {}


class LocalEmbedder(ModelRunner[Shipped, "_Model"]):
    """An embedder that runs the bundled MiniLM model on this machine."""

    name = f"minilm-l6-v2-int8-{MODEL.sha256[:8]}"
    dim = 384
    passage_chars = 900
    calibration = Calibration(
        known=RelevanceWeights(read=(-1.857, 0.897, 3.045), unread=(-6.112, 9.336)),
        unknown=RelevanceWeights(read=(-2.139, 0.644, 2.168), unread=(-4.711, 6.815)),
        same=0.976,
        opposite=0.945,
        agrees=0.998,
        replaces=0.99,
        alike=(-4.121, 7.591, 0.487),
    )

    def __init__(self, folder: Path = FOLDER) -> None:
        super().__init__()
        self._folder = folder
        self._tokenizer: WordPiece | None = None
        self._scores: dict[tuple[str, str], PairScores] = {}
        self._relevance: dict[tuple[str, str], float] = {}
        self._states: dict[str, Any] = {}

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Return one vector for each text."""
        return self._run(MODEL, _Model.embed, texts)

    def read_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[PairScores]:
        """Return the scores of each pair; those of the last pairs are remembered."""
        scores = self._scores
        missing = [pair for pair in dict.fromkeys(pairs) if pair not in scores]
        if missing:
            # Never changed, only replaced: threads need no lock.
            scores = {**scores, **dict(zip(missing, self._run(PAIRS, _Model.read, missing), strict=True))}
            self._scores = dict(list(scores.items())[-MANY_PAIRS:])
        return [scores[pair] for pair in pairs]

    def score_relevance(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return the relevance of the second text of each pair for the first; that of the last pairs is remembered."""
        relevance = self._relevance
        missing = [pair for pair in dict.fromkeys(pairs) if pair not in relevance]
        if missing:
            states = self._read_texts([text for pair in missing for text in pair])
            sides = [(states[first], states[second]) for first, second in missing]
            scores = self._run(READER, _Model.score, sides)
            # Never changed, only replaced: threads need no lock.
            relevance = {**relevance, **dict(zip(missing, scores, strict=True))}
            self._relevance = dict(list(relevance.items())[-MANY_PAIRS:])
        return [relevance[pair] for pair in pairs]

    def _read_texts(self, texts: Sequence[str]) -> dict[str, Any]:
        """Return what the lower layers make of each text; the last texts are remembered."""
        states = self._states
        missing = [text for text in dict.fromkeys(texts) if text not in states]
        if missing:
            states = {**states, **dict(zip(missing, self._run(BELOW, _Model.begin, missing), strict=True))}
            self._states = dict(list(states.items())[-MANY_TEXTS:])
        return states

    def prepare_pairs(self) -> None:
        """Load what reading pairs needs."""
        for file in (PAIRS, BELOW, READER):
            self._load(file)

    def close(self) -> None:
        """Unload the models, and forget the texts that were read."""
        super().close()
        self._scores, self._relevance, self._states = {}, {}, {}

    def knows(self, text: str) -> bool:
        """Return whether a text is English. The model splits words of other languages into many pieces.

        A few words of plain letters are given the benefit of the doubt: names of commands are split as well.
        """
        judged = text[:_JUDGED_CHARS]
        words = _WORD.findall(judged.casefold())
        if len(words) < _FEW_WORDS and judged.isascii():
            return True
        most = _MOST_PIECES if _ENGLISH.isdisjoint(words) else _MOST_PIECES_OF_ENGLISH
        tokenizer = self._load_words()
        ids = tokenizer.encode(judged)
        # A word in letters that the vocabulary lacks is one unknown token.
        return len(ids) - 2 <= most * len(words) and 3 * ids.count(tokenizer.unknown) <= len(words)

    def verify(self) -> None:
        """Check every byte of the shipped files; raises EmbeddingError when one differs."""
        for shipped in SHIPPED:
            path = _check_file(self._folder, shipped)
            with path.open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != shipped.sha256:
                    raise EmbeddingError(_DAMAGED.format(path))

    def _load_model(self, key: Shipped) -> _Model:
        return _Model(self._folder, key, self._load_words())

    def _load_words(self) -> WordPiece:
        if self._tokenizer is None:
            self._tokenizer = load_tokenizer(self._folder)
        return self._tokenizer


class _Model:
    """A loaded model. Threads may share one."""

    def __init__(self, folder: Path, file: Shipped, tokenizer: WordPiece) -> None:
        # The other files take matrices from the file of the model.
        paths = [_check_file(folder, one) for one in dict.fromkeys((MODEL, file))]
        try:
            self._numpy, self._session = open_session(paths[-1])
        except ModuleNotFoundError as error:
            missing = (error.name or "onnxruntime").partition(".")[0]
            raise MissingExtraError(missing, EXTRA, "The local embedder") from error
        self._tokenizer = tokenizer

    def embed(self, text: str) -> Vector:
        """Return the vector of a text."""
        ids = self._tokenizer.encode(text)
        (vectors,) = self._session.run(["vectors"], {"ids": self._numpy.array([ids], self._numpy.int64)})
        return quantize_array(self._numpy, vectors[0])

    def read(self, pair: tuple[str, str]) -> PairScores:
        """Return the scores of two texts; of long ones their beginnings are read."""
        first, second = (self._tokenizer.encode(text, MAX_SIDE_TOKENS) for text in pair)
        sides = [[0] * len(first) + [1] * (len(second) - 1)]
        feed = {"ids": self._numpy.array([[*first, *second[1:]]]), "sides": self._numpy.array(sides)}
        relevance, *rest = map(float, self._session.run(["scores"], feed)[0][0])
        return PairScores(relevance, ActionProbabilities(*_share(rest[:4])), FactProbabilities(*_share(rest[4:])))

    def begin(self, text: str) -> Any:
        """Return what the lower layers make of a text, in 16 bits; of a long one its beginning is read."""
        ids = self._numpy.array([self._tokenizer.encode(text, MAX_SIDE_TOKENS)], self._numpy.int64)
        (states,) = self._session.run(["states"], {"ids": ids})
        return states.astype(self._numpy.float16)

    def score(self, sides: tuple[Any, Any]) -> float:
        """Return the relevance of a text for another one, from what the lower layers made of both."""
        first, second = (side.astype(self._numpy.float32) for side in sides)
        (score,) = self._session.run(["score"], {"first": first, "second": second})
        return float(score.item())


def _share(scores: Sequence[float]) -> list[float]:
    """Return scores as probabilities that add up to 1."""
    powers = [math.exp(score - max(scores)) for score in scores]
    return [power / sum(powers) for power in powers]


def quantize_array(numpy: Any, values: Any) -> Vector:
    """Return what `alma.types.record.quantize` returns, for an array."""
    exact = values.astype(numpy.float64)
    return bytes(numpy.rint(127 * exact / numpy.abs(exact).max()).astype(numpy.int8).tobytes())


def load_tokenizer(folder: Path = FOLDER) -> WordPiece:
    """Return the tokenizer of the bundled model."""
    vocabulary, characters = (
        _check_file(folder, shipped).read_bytes().decode() for shipped in (VOCABULARY, CHARACTERS)
    )
    return WordPiece(vocabulary, characters, limit=MAX_TOKENS)


def import_onnxruntime() -> Any:
    """Return onnxruntime, imported with its telemetry switched off. Nothing else may import it.

    While it loads it reads this variable; without it, it writes a device id below the user's cache folder and looks up
    a collector. `disable_telemetry_events()` can only be called after that.
    """
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    import onnxruntime

    return onnxruntime


def open_session(path: Path) -> tuple[Any, Any]:
    """Return numpy and an onnxruntime session of a model that runs each text on one thread."""
    import numpy

    onnxruntime = import_onnxruntime()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False
    options.log_severity_level = 3
    return numpy, onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _check_file(folder: Path, shipped: Shipped) -> Path:
    """Return where a shipped file is; EmbeddingError when it is missing or damaged."""
    path = folder / shipped.name
    crc = 0
    try:
        with path.open("rb", buffering=0) as file:
            while chunk := file.read(_CHUNK):
                crc = zlib.crc32(chunk, crc)
    except OSError as error:
        raise EmbeddingError(f"cannot read {path} ({error.strerror}); run: {_REINSTALL}") from error
    if crc != shipped.crc32:
        raise EmbeddingError(_DAMAGED.format(path))
    return path


_REINSTALL = f"pip install --force-reinstall --no-deps '.[{EXTRA}]' (in the checkout of alma)"
_DAMAGED = "{} is damaged or from another version; run: " + _REINSTALL


# --- BERT's uncased WordPiece: the token ids of a text, from a vocabulary and a table of characters
#
# A text is cleaned, put into lower case, freed of accents and split into words and signs; all of that looks at one
# character at a time, so a table can hold the outcome. The table decides and not `unicodedata`, which differs from one
# Python to the next: a text must keep its vector. It is as fine as the vocabulary needs: a character that no token
# holds makes its word unknown, whatever else becomes of it. For the same reason the canonical order of combining
# marks, which the original restores, needs no care: such a mark is either dropped or in no token.
# `tools/build_minilm.py` makes the table; the tests compare with the original, character by character.

BEGIN, END, UNKNOWN, INNER = "[CLS]", "[SEP]", "[UNK]", "##"
LONGEST_WORD = 100
LONGEST_TOKEN = 18
MANY_CHARACTERS = 1 << 14
MANY_WORDS = 1 << 13
SURROGATES = range(0xD800, 0xE000)
HANGUL = range(0xAC00, 0xD7A4)
DROP, SPACE, APART = "drop", "space", "apart"
_DONE = {DROP: "", SPACE: " ", APART: " {} "}

# A text that spells out one of these names means the token itself, as in the original.
_SPECIAL = re.compile(r"(\[(?:PAD|UNK|CLS|SEP|MASK)\])")


class Characters(dict[int, str]):
    """What becomes of each character, for `str.translate`: words and signs stand apart by blanks.

    A line of the table holds the first and last code of a range, and either what to do with each or what it becomes.
    Lines are in order and read when one of their characters is first met.
    """

    __slots__ = ("_lines", "_starts")

    def __init__(self, table: str) -> None:
        self._lines = table.splitlines()
        self._starts = [int(line[:6], 16) for line in self._lines]

    def __missing__(self, code: int) -> str:
        _, last, what = self._lines[bisect_right(self._starts, code) - 1].split(" ")
        if code in SURROGATES:
            text = self[ord("?")]
        elif code in HANGUL:
            # Its letters, by the rule of the Unicode standard.
            block, tail = divmod(code - HANGUL.start, 28)
            lead, vowel = divmod(block, 21)
            text = chr(0x1100 + lead) + chr(0x1161 + vowel) + (chr(0x11A7 + tail) if tail else "")
        elif code > int(last, 16):
            text = chr(code)
        else:
            text = _DONE[what].format(chr(code)) if what in _DONE else what.translate(self)
        if len(self) < MANY_CHARACTERS:
            self[code] = text
        return text


class WordPiece:
    """Threads may share one: what it learns of characters and words it could learn again."""

    def __init__(self, vocabulary: str, characters: str, *, limit: int) -> None:
        self._ids = dict(zip(vocabulary.split(), count(), strict=False))
        self._characters = Characters(characters)
        self._limit = limit
        self._split = lru_cache(MANY_WORDS)(self._find_pieces)
        self.unknown = self._ids[UNKNOWN]

    def encode(self, text: str, limit: int | None = None) -> list[int]:
        """Return the ids of a text with those of its begin and end; beyond a limit, the end of the text is left out."""
        limit = limit or self._limit
        tokens = [self._ids[BEGIN]]
        for at, part in enumerate(_SPECIAL.split(text)):
            # A word is one token or more, so no more words than tokens are needed.
            words = [part]
            if at % 2 == 0:
                words = part.translate(self._characters).split(maxsplit=limit)[:limit]
            for word in words:
                token = self._ids.get(word)
                if token is None:
                    tokens += self._split(word)
                else:
                    tokens.append(token)
        del tokens[limit - 1 :]
        tokens.append(self._ids[END])
        return tokens

    def _find_pieces(self, word: str) -> tuple[int, ...]:
        """Return the longest token that begins the word, then the longest that goes on from there, to its end."""
        pieces: list[int] = []
        start, prefix = 0, ""
        while start < len(word) <= LONGEST_WORD:
            for end in range(min(len(word), start + LONGEST_TOKEN), start, -1):
                token = self._ids.get(prefix + word[start:end])
                if token is not None:
                    break
            else:
                pieces.clear()
                break
            pieces.append(token)
            start, prefix = end, INNER
        return tuple(pieces) or (self._ids[UNKNOWN],)
