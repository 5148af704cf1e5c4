"""A model on disk: tiny models and a tiny tokenizer are built for each test."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from alma import ALMA
from alma.cli import main
from alma.config import load
from alma.embedders import create
from alma.embedders.local import FOLDER, LocalEmbedder
from alma.embedders.onnx import PACKAGES, OnnxEmbedder
from alma.errors import ConfigError, EmbedderMismatchError, EmbeddingError, MissingExtraError
from alma.types.record import codes, quantize

if any(importlib.util.find_spec(package) is None for package in (*PACKAGES, "onnx")):
    pytest.skip("onnx, onnxruntime or tokenizers is not installed", allow_module_level=True)

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, pre_tokenizers, processors

WORDS = "[UNK] [CLS] [SEP] deploy the auth service tea jazz tee tokens expire café".split()
DIM = 8
TABLE = numpy.random.default_rng(7).normal(size=(len(WORDS), DIM)).astype(numpy.float32)
TEXTS = ["deploy the auth service", "tea", "jazz", "the tokens expire", "unknown words", "tee café tea"]

Build = Callable[..., Path]


def save_model(
    file: Path,
    *,
    outputs: tuple[str, ...] = ("last_hidden_state",),
    inputs: tuple[str, ...] = ("input_ids", "attention_mask"),
    kind: int = TensorProto.INT64,
    table: Any = TABLE,
) -> None:
    """Write a model that looks up the vectors of tokens; `sentence_embedding` is their maximum, `logits` their sum."""
    nodes = [helper.make_node("Gather", ["table", inputs[0]], ["tokens"])]
    shapes = {name: ["batch", "length", DIM] for name in outputs}
    for name in outputs:
        if name in ("sentence_embedding", "logits"):
            operator = "ReduceMax" if name == "sentence_embedding" else "ReduceSum"
            nodes.append(helper.make_node(operator, ["tokens", "axis"], [name], keepdims=0))
            shapes[name] = ["batch", DIM]
        else:
            nodes.append(helper.make_node("Identity", ["tokens"], [name]))
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info(name, kind, ["batch", "length"]) for name in inputs],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()],
        [numpy_helper.from_array(table, "table"), numpy_helper.from_array(numpy.array([1]), "axis")],
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), str(file))


def save_tokenizer(folder: Path, *, max_length: int | None = 4, has_marks: bool = True) -> None:
    """Write a tokenizer that pads and cuts texts, as published ones do."""
    ids = {word: at for at, word in enumerate(WORDS)}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    if has_marks:
        marks = [("[CLS]", 1), ("[SEP]", 2)]
        tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=marks)
    tokenizer.enable_padding(length=16)
    if max_length is not None:
        tokenizer.enable_truncation(max_length)
    tokenizer.save(str(folder / "tokenizer.json"))


@pytest.fixture
def build(tmp_path: Path) -> Build:
    def build(name: str = "tiny", *, at: str = "model.onnx", **shape: Any) -> Path:
        folder = tmp_path / name
        save_model(folder / at, **shape)
        save_tokenizer(folder, max_length=None)
        return folder

    return build


def look_up(text: str) -> Any:
    """Return the vectors of a text's tokens."""
    words = ["[CLS]", *text.split(), "[SEP]"]
    return TABLE[[WORDS.index(word) if word in WORDS else 0 for word in words]]


# -- vectors


@pytest.mark.parametrize("output", ["last_hidden_state", "token_embeddings"])
@pytest.mark.parametrize("at", ["model.onnx", "onnx/model.onnx"])
def test_vectors_of_tokens_are_averaged(build: Build, output: str, at: str) -> None:
    embedder = OnnxEmbedder(build(at=at, outputs=("logits", output)))
    assert embedder.embed(TEXTS) == [quantize(look_up(text).mean(axis=0).tolist()) for text in TEXTS]


def test_a_sentence_embedding_is_used_if_there_is_one(build: Build) -> None:
    embedder = OnnxEmbedder(build(outputs=("last_hidden_state", "sentence_embedding")))
    assert embedder.embed(TEXTS) == [quantize(look_up(text).max(axis=0).tolist()) for text in TEXTS]


@pytest.mark.parametrize("kind", [TensorProto.INT64, TensorProto.INT32])
@pytest.mark.parametrize("inputs", [("input_ids",), ("input_ids", "attention_mask", "token_type_ids")])
def test_a_model_gets_the_inputs_that_it_has(build: Build, inputs: tuple[str, ...], kind: int) -> None:
    embedder = OnnxEmbedder(build(inputs=inputs, kind=kind))
    assert embedder.embed(["tea"]) == [quantize(look_up("tea").mean(axis=0).tolist())]


def test_many_texts_and_threads_give_the_same_vectors(build: Build) -> None:
    embedder = OnnxEmbedder(build())
    alone = [embedder.embed([text])[0] for text in TEXTS]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(embedder.embed, [TEXTS * 4] * 8))
    assert results == [alone * 4] * 8


@pytest.mark.parametrize("text", ["", " ", "\ud800", "今日は天気がいい", "tea " * 2000])
@pytest.mark.parametrize("has_marks", [True, False])
def test_any_text_has_a_vector(build: Build, text: str, has_marks: bool) -> None:
    folder = build()
    save_tokenizer(folder, has_marks=has_marks)
    [vector] = OnnxEmbedder(folder).embed([text])
    assert len(vector) == DIM
    assert max(map(abs, codes(vector))) in ((127,) if has_marks or text.strip() else (0,))


@pytest.mark.parametrize(
    ("max_length", "settings", "limit"),
    [
        (4, None, 4),
        (4, {"model_max_length": 8}, 8),
        (4, {}, 4),
        (None, None, 512),
        (None, {"model_max_length": 1e30}, 512),
    ],
)
def test_long_texts_are_cut_at_the_limit_of_the_model(
    build: Build, max_length: int | None, settings: dict[str, float] | None, limit: int
) -> None:
    folder = build(outputs=("sentence_embedding",))
    save_tokenizer(folder, max_length=max_length)
    if settings is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    texts = ["tea", "tea " * (limit - 2) + "jazz", "tea " * (limit - 3) + "jazz"]
    without, beyond, within = OnnxEmbedder(folder).embed(texts)
    assert without == beyond != within


def test_close_then_embed_loads_again(build: Build) -> None:
    embedder = OnnxEmbedder(build())
    before = embedder.embed(["tea"])
    embedder.close()
    assert embedder.embed(["tea"]) == before


@pytest.mark.system
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_fork_can_use_the_model(build: Build) -> None:
    code = (
        "import os, sys, warnings; warnings.simplefilter('ignore'); from alma.embedders.onnx import OnnxEmbedder\n"
        "embedder = OnnxEmbedder(sys.argv[1]); expected = embedder.embed(['tea'] * 20); child = os.fork()\n"
        "if child == 0: os._exit(0 if embedder.embed(['tea'] * 20) == expected else 1)\n"
        "sys.exit(os.waitpid(child, 0)[1])"
    )
    subprocess.run([sys.executable, "-c", code, str(build())], check=True, timeout=60)


def test_it_agrees_with_the_local_embedder_on_the_same_model(tmp_path: Path) -> None:
    """The shipped model with the usual names and the original tokenizer gives the same vectors."""
    model = onnx.load(str(FOLDER / "model.onnx"))
    names = {"ids": "input_ids", "vectors": "sentence_embedding"}
    for value in (*model.graph.input, *model.graph.output):
        value.name = names[value.name]
    for node in model.graph.node:
        for ends in (node.input, node.output):
            ends[:] = [names.get(end, end) for end in ends]
    onnx.save(model, str(tmp_path / "model.onnx"))
    shutil.copy(Path(__file__).with_name("tokenizer.json"), tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"model_max_length": 256}')
    texts = ["How do I reset my password?", "", "Wo ist der Schlüssel?", "The migration timed out. " * 100]
    assert OnnxEmbedder(tmp_path).embed(texts) == LocalEmbedder().embed(texts)


# -- what it is called, and what it loads


def test_the_name_has_the_folder_and_the_hash_of_the_model(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = build("multilingual")
    digest = hashlib.sha256((folder / "model.onnx").read_bytes()).hexdigest()
    assert OnnxEmbedder(folder).name == f"onnx-multilingual-{digest[:8]}"
    monkeypatch.chdir(folder)
    assert OnnxEmbedder(".").name == f"onnx-multilingual-{digest[:8]}"
    save_model(folder / "model.onnx", table=TABLE * 2)
    assert OnnxEmbedder(folder).name != f"onnx-multilingual-{digest[:8]}"


def test_the_dimension_is_that_of_the_model(build: Build) -> None:
    folder = build()
    assert (OnnxEmbedder(folder).dim, OnnxEmbedder(folder, DIM).dim) == (DIM, DIM)
    embedder = OnnxEmbedder(folder, 384)
    with pytest.raises(ConfigError, match=r"8 dimensions, not 384: set `embedding_dim` to 8 or leave it out"):
        embedder.embed(["tea"])


@pytest.mark.system
def test_nothing_heavy_is_loaded_before_the_first_text(build: Build) -> None:
    code = (
        "import sys; from alma.embedders import create\n"
        "embedder = create('onnx', dim=None, options={'path': sys.argv[1]})\n"
        "print([m for m in ('numpy', 'onnxruntime', 'tokenizers') if m in sys.modules])\n"
        "print(embedder.dim, [m for m in ('huggingface_hub', 'transformers', 'httpx') if m in sys.modules])"
    )
    command = [sys.executable, "-c", code, str(build())]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "[]\n8 []\n"


# -- errors


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("model.onnx", r"tiny has no model\.onnx: .*\(or onnx/model\.onnx\) and tokenizer\.json"),
        ("tokenizer.json", r"tiny has no tokenizer\.json: .*`path` must be a folder with model\.onnx"),
    ],
)
def test_a_missing_file_is_named(build: Build, file: str, message: str) -> None:
    folder = build()
    (folder / file).unlink()
    with pytest.raises(ConfigError, match=message):
        OnnxEmbedder(folder)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"must be a folder with model\.onnx.*nowhere is not a folder"):
        OnnxEmbedder(tmp_path / "nowhere")


@pytest.mark.parametrize("file", ["model.onnx", "tokenizer.json", "tokenizer_config.json"])
def test_a_broken_file_is_named(build: Build, file: str) -> None:
    folder = build()
    (folder / file).write_bytes(b"not what it should be")
    with pytest.raises(EmbeddingError, match=rf"cannot load .*{file}: .*; replace it with the model's original file"):
        OnnxEmbedder(folder).embed(["tea"])


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ({"outputs": ("logits",)}, "no usable output: expected sentence_embedding, last_hidden_state .*it has logits"),
        (
            {"inputs": ("input_ids", "position_ids")},
            "inputs input_ids, position_ids, but only input_ids, attention_mask",
        ),
        ({"inputs": ("pixels",)}, "inputs pixels, but only"),
        ({"table": TABLE * numpy.float32("nan")}, "no usable vector in its output last_hidden_state"),
        ({"table": TABLE[:2]}, "failed on a text of 3 tokens"),
    ],
)
def test_a_model_that_does_not_fit_is_refused(build: Build, shape: dict[str, Any], message: str) -> None:
    with pytest.raises(EmbeddingError, match=message):
        OnnxEmbedder(build(**shape)).embed(["tea"])


@pytest.mark.parametrize("package", PACKAGES)
def test_a_missing_package_names_the_extra(build: Build, monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    folder = build()
    expected = rf"The onnx embedder requires the package `{package}`; run: pip install '\.\[onnx\]'"
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, package, None)
        with pytest.raises(MissingExtraError, match=expected):
            OnnxEmbedder(folder).embed(["tea"])
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else find(name))
    with pytest.raises(MissingExtraError, match=expected):
        create("onnx", dim=None, options={"path": str(folder)})


@pytest.mark.parametrize("options", [{}, {"path": ""}, {"path": None}])
def test_the_path_is_required(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=r"'onnx' needs the option `path`: a folder with model\.onnx"):
        create("onnx", dim=None, options=options)


# -- from a configuration


def write_config(folder: Path, provider: str) -> Path:
    file = folder / ".alma" / "config.yaml"
    file.parent.mkdir(exist_ok=True, mode=0o700)
    file.write_text(f"alma:\n  project_id: shop\n  embedding_provider: {provider}\n", encoding="utf-8")
    return file


def test_a_relative_path_starts_at_the_project(tmp_path: Path) -> None:
    file = write_config(tmp_path, "onnx\n  embedding: {path: models/tiny}")
    assert load(file).embedding == {"path": str(tmp_path / "models" / "tiny")}


def test_a_store_moves_from_hash_to_the_model_and_on_to_another(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path / "..")
    config = write_config(tmp_path, "hash")
    with ALMA.from_config(config) as alma:
        alma.add_domain_knowledge(agent="dev", domain="auth", fact="the tokens expire")
    folder = build()
    write_config(tmp_path, "onnx\n  embedding_dim: 8\n  embedding:\n    path: tiny")
    for table in (TABLE, TABLE[:, ::-1].copy()):
        save_model(folder / "model.onnx", table=table)
        with pytest.raises(EmbedderMismatchError, match="alma reindex"):
            ALMA.from_config(config)
        assert main(["--config", str(config), "reindex"]) == 0
        assert main(["--config", str(config), "doctor"]) == 0
        assert f"{OnnxEmbedder(folder).name} (8 dimensions)" in capsys.readouterr().out
        with ALMA.from_config(config) as alma:
            assert alma.retrieve(task="tokens expire", agent="dev").total_items == 1


def test_doctor_reports_what_is_wrong(build: Build, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build(outputs=("logits",))
    config = write_config(tmp_path, "onnx\n  embedding: {path: tiny}")
    assert main(["--config", str(config), "doctor"]) == 1
    assert "no usable output" in capsys.readouterr().out
    write_config(tmp_path, "onnx\n  embedding: {path: gone}")
    assert main(["--config", str(config), "doctor"]) == 1
    assert "is not a folder" in capsys.readouterr().out
