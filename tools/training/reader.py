"""Train the reader of questions: `python -m tools.training.reader score|study --out DIR`.

A retrieval reads a question together with each of the nearest memories. The reader is made for that: the lower layers
are those of the shipped model and read each text alone, so that what they make of a memory can be kept. Only the layers
above them read both texts together. These are trained in full, and the last one computes a single position.

`score` writes what a teacher, the adapters of a run of `train`, says of many pairs of the training texts. `study`
trains a reader on that and on the labels.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import numpy_helper
from torch import Tensor, nn
from torch.nn import functional

from alma.embedders.local import FOLDER, load_tokenizer

from .build import ADAPTERS, read_weights
from .examples import Examples, World, list_action_pairs, read_examples
from .train import HEADS, LAYERS, OUTPUTS, WIDTH, PairModel, area, make_norm

Array = NDArray[Any]
MAX_TOKENS = 64
NEAR = 12  # So many of the nearest memories of a world are drawn most often.
FOREIGN = 40  # So many of the nearest memories of other worlds are scored by the teachers only.
RANK = 32
MOST_TRAINED = 32  # Of each text of a pair that is learned from, so many tokens are enough.
_NAMES = ("qkv", "attended", "hidden", "narrow")
_NORMS = ("middle", "norm")


class Options(NamedTuple):
    """The settings of a run."""

    below: int = 3  # Layers that read each text alone.
    above: str = "3,4,5"  # The layers that those which read both start from.
    is_whole: bool = False  # The last layer computes all positions, and their mean is scored.
    steps: int = 4000
    batch: int = 768
    rate: float = 3e-4
    dropout: float = 0.05
    trust: float = 0.7  # How much of the target is the teachers' word.
    seed: int = 17
    share: float = 1.0


# --- the model -------------------------------------------------------------------------------------


class Layer(nn.Module):
    """One transformer layer of BERT with weights of its own."""

    def __init__(self, weights: Mapping[str, Tensor], dropout: float) -> None:
        super().__init__()
        for name in _NAMES:
            matrix = weights[f"{name}.weight"]
            linear = nn.Linear(matrix.shape[1], matrix.shape[0])
            linear.load_state_dict({"weight": matrix, "bias": weights[f"{name}.bias"]})
            self.add_module(name, linear)
        for name in _NORMS:
            self.add_module(name, make_norm(weights[f"{name}.weight"], weights[f"{name}.bias"]))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor, *, is_first_only: bool = False) -> Tensor:
        batch, tokens, _ = x.shape
        joined = self.qkv(x).view(batch, tokens, 3, HEADS, WIDTH // HEADS)
        query, key, value = joined.permute(2, 0, 3, 1, 4)
        if is_first_only:
            query, x = query[:, :, :1], x[:, :1]
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask[:, None, None, :])
        mixed = mixed.transpose(1, 2).reshape(batch, -1, WIDTH)
        x = self.middle(x + self.dropout(self.attended(mixed)))
        return self.norm(x + self.dropout(self.narrow(functional.gelu(self.hidden(x)))))


class Reader(nn.Module):
    """The layers that read two texts together, and the scores."""

    def __init__(self, merged: Mapping[str, Array], options: Options) -> None:
        super().__init__()
        layers = [Layer(take_layer(merged, int(index)), options.dropout) for index in options.above.split(",")]
        self.layers = nn.ModuleList(layers)
        self.sides = nn.Parameter(torch.zeros(2, WIDTH))
        self.head = nn.Linear(WIDTH, WIDTH)
        self.scores = nn.Linear(WIDTH, OUTPUTS)
        for name in ("head", "scores"):
            part = {kind: torch.tensor(merged[f"{name}.{kind}"]) for kind in ("weight", "bias")}
            self.get_submodule(name).load_state_dict(part)
        self.dropout = nn.Dropout(options.dropout)
        self.is_whole = options.is_whole

    def forward(self, first: Tensor, second: Tensor, first_mask: Tensor, second_mask: Tensor) -> Tensor:
        x = torch.cat([first + self.sides[0], second + self.sides[1]], dim=1)
        mask = torch.cat([first_mask, second_mask], dim=1)
        for layer in self.layers[:-1]:
            x = layer(x, mask)
        x = self.layers[-1](x, mask, is_first_only=not self.is_whole)
        if self.is_whole:
            weights = mask.to(x.dtype)[:, :, None]
            x = (x * weights).sum(1) / weights.sum(1)
        else:
            x = x[:, 0]
        scores: Tensor = self.scores(self.dropout(torch.tanh(self.head(x))))
        return scores


def read_adapters(path: Path) -> dict[str, Array]:
    """Return what a run of `train` wrote."""
    return read_weights(path)


def read_reader(path: Path) -> dict[str, Array]:
    """Return what `save` wrote, with zeros for the scores that were left out."""
    state = read_weights(path)
    for kind in ("weight", "bias"):
        score = state.pop(f"score.{kind}")
        others = np.zeros((OUTPUTS - 1, *score.shape[1:]), np.float32)
        state[f"scores.{kind}"] = np.concatenate([score, others])
    return state


def merge_adapters(shipped: Mapping[str, Array], trained: Mapping[str, Array]) -> dict[str, Array]:
    """Return the weights of the shipped model with the adapters added to its matrices."""
    merged = {name: value for name, value in trained.items() if name.startswith(("head", "scores"))}
    for index in range(LAYERS):
        for name in _NAMES:
            own = f"layers.{index}.{name}"
            added = (trained[f"{own}.down"] @ trained[f"{own}.up"]).T
            merged[f"shared.{index}.{name}.weight"] = shipped[f"shared.{index}.{name}.weight"] + added
            merged[f"shared.{index}.{name}.bias"] = trained[f"{own}.bias"]
        for name in _NORMS:
            for kind in ("weight", "bias"):
                merged[f"shared.{index}.{name}.{kind}"] = trained[f"layers.{index}.{name}.{kind}"]
    return merged


def take_layer(start: Mapping[str, Array], index: int) -> dict[str, Tensor]:
    """Return the tensors of one layer of the original."""
    own = f"shared.{index}."
    return {name.removeprefix(own): torch.tensor(value) for name, value in start.items() if name.startswith(own)}


def read_shipped() -> dict[str, Array]:
    """Return the weights of the shipped model as floats, under the names of the original ones."""
    model = onnx.load(str(FOLDER / "model.onnx"))
    tensors = {one.name: numpy_helper.to_array(one) for one in model.graph.initializer}
    weights = {
        "words.weight": tensors["words"].astype(np.float32) * tensors["words.scales"],
        "places.weight": tensors["positions"],
        "norm.weight": tensors["norm.gain"],
        "norm.bias": tensors["norm.bias"],
    }
    for index in range(LAYERS):
        for name in _NAMES:
            base = f"layer{index}.{name}"
            matrix = tensors[f"{base}.codes"].T.astype(np.float32) * tensors[f"{base}.scales"][:, None]
            weights[f"shared.{index}.{name}.weight"] = matrix * tensors.get(f"{base}.damper", np.float32(1))
            weights[f"shared.{index}.{name}.bias"] = tensors[f"{base}.bias"]
        for name, shipped in (("middle", "middle"), ("norm", "x")):
            weights[f"shared.{index}.{name}.weight"] = tensors[f"layer{index}.{shipped}.gain"]
            weights[f"shared.{index}.{name}.bias"] = tensors[f"layer{index}.{shipped}.bias"]
    return weights


# --- texts and pairs -------------------------------------------------------------------------------


class Texts:
    """All texts as token ids, and what the lower layers make of each alone."""

    def __init__(self, texts: Sequence[str], shipped: Mapping[str, Array], below: int, device: torch.device) -> None:
        unique = list(dict.fromkeys(texts))
        self.places = {text: place for place, text in enumerate(unique)}
        tokenizer = load_tokenizer()
        rows = [tokenizer.encode(text, MAX_TOKENS) for text in unique]
        ids = np.zeros((len(rows), MAX_TOKENS), np.int64)
        for place, row in enumerate(rows):
            ids[place, : len(row)] = row
        self.lengths = torch.tensor([len(row) for row in rows], device=device)
        self.device = device
        self.ids = torch.from_numpy(ids).to(device)
        self.states, self.vectors = self._run(self.ids, shipped, below)

    def _run(self, ids: Tensor, shipped: Mapping[str, Array], below: int) -> tuple[Tensor, Tensor]:
        words, places = (torch.tensor(shipped[f"{name}.weight"], device=self.device) for name in ("words", "places"))
        norm = make_norm(*(torch.tensor(shipped[f"norm.{kind}"]) for kind in ("weight", "bias"))).to(self.device)
        layers = [Layer(take_layer(shipped, index), 0.0).to(self.device) for index in range(LAYERS)]
        states = torch.zeros(*ids.shape, WIDTH, dtype=torch.bfloat16, device=self.device)
        vectors = torch.zeros(len(ids), WIDTH, device=self.device)
        with torch.no_grad():
            for start in range(0, len(ids), 512):
                part = slice(start, start + 512)
                length = int(self.lengths[part].max())
                own = ids[part, :length]
                mask = own > 0
                x = norm(words[own] + places[:length])
                for index in range(LAYERS + 1):
                    if index == below:
                        states[part, :length] = x.to(states.dtype)
                    if index < LAYERS:
                        x = layers[index](x, mask)
                weights = mask.to(x.dtype)[:, :, None]
                vectors[part] = functional.normalize((x * weights).sum(1) / weights.sum(1), dim=-1)
        return states, vectors

    def find_places(self, texts: Sequence[str]) -> Tensor:
        """Return the positions of texts."""
        return torch.tensor([self.places[text] for text in texts], device=self.device)

    def take(self, first: Tensor, second: Tensor, most: int = MAX_TOKENS) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the states of pairs of texts, and masks; of long texts the beginnings."""
        sides, masks = [], []
        for chosen in (first, second):
            lengths = self.lengths[chosen]
            longest = min(most, int(lengths.max()))
            sides.append(self.states[chosen, :longest])
            masks.append(torch.arange(longest, device=self.device)[None] < lengths[:, None])
        return sides[0], sides[1], masks[0], masks[1]

    def join(self, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        """Return the ids of pairs as the shipped model reads them, and which text each belongs to."""
        before, after = self.lengths[first][:, None], self.lengths[second][:, None]
        place = torch.arange(int((before + after).max()) - 1, device=self.device)[None]
        is_second = place >= before
        # The second text without the token that begins it.
        later = (place - before + 1).clamp(0, MAX_TOKENS - 1)
        own = self.ids[first].gather(1, place.clamp(max=MAX_TOKENS - 1).expand_as(later))
        ids = torch.where(is_second, self.ids[second].gather(1, later), own)
        return ids * (place < before + after - 1), is_second.long()


class Pairs(NamedTuple):
    """Pairs of texts by their positions."""

    first: Tensor
    second: Tensor
    label: Tensor  # Whether the second matters for the first; NaN: nobody said.
    group: Tensor


MATTERS, NEARBY, ANY, ELSEWHERE, MEMORIES, STATEMENTS, STRATEGIES = range(7)
SHARES = (0.12, 0.30, 0.10, 0.26, 0.08, 0.07, 0.07)  # Of each group in a step.


def list_world_pairs(worlds: Sequence[World], texts: Texts) -> Pairs:
    """Return every question of a world with every memory of it."""
    parts = []
    for world in worlds:
        questions, memories = texts.find_places(world.questions), texts.find_places(world.memories)
        labels = torch.zeros(len(questions), len(memories), device=texts.device)
        for row, about in enumerate(world.about):
            labels[row, sorted(about)] = 1
        near = texts.vectors[questions] @ texts.vectors[memories].T - 9 * labels
        is_near = near >= near.topk(min(NEAR, len(memories)), dim=1).values[:, -1:]
        groups = torch.where(labels == 1, MATTERS, torch.where(is_near, NEARBY, ANY))
        first, second = torch.broadcast_tensors(questions[:, None], memories[None])
        parts.append(Pairs(*(part.flatten() for part in (first, second, labels, groups))))
    return join_pairs(parts)


def join_pairs(parts: Sequence[Pairs]) -> Pairs:
    """Return all pairs."""
    return Pairs(*(torch.cat(column) for column in zip(*parts, strict=True)))


def list_near(texts: Texts, first: Tensor, second: Tensor, count: int, group: int) -> Pairs:
    """Return texts with the nearest others, about which nobody said anything."""
    found = []
    for part in first.split(2048):
        near = texts.vectors[part] @ texts.vectors[second].T
        near = torch.where(part[:, None] == second[None], -9.0, near)
        found.append(second[near.topk(min(count, len(second)), dim=1).indices])
    others = torch.cat(found)
    return give_group(first[:, None].expand_as(others).flatten(), others.flatten(), group)


def give_group(first: Tensor, second: Tensor, group: int) -> Pairs:
    nothing = torch.full(first.shape, math.nan, device=first.device)
    return Pairs(first, second, nothing, torch.full_like(first, group))


def list_pairs(examples: Examples, texts: Texts) -> Pairs:
    """Return all pairs that are learned from: with labels, and with nothing but what teachers say of them."""
    worlds = examples.worlds
    questions = texts.find_places([text for world in worlds for text in world.questions])
    memories = texts.find_places([text for world in worlds for text in world.memories])
    older, newer = (texts.find_places([row[name] for row in examples.conflicts]) for name in ("old", "new"))
    statements = torch.cat([older, newer]).unique()
    strategies = [pair for family in examples.families for pair in list_action_pairs(family)]
    wordings = texts.find_places([pair.first for pair in strategies])
    other_wordings = texts.find_places([pair.second for pair in strategies])
    return join_pairs(
        [
            list_world_pairs(worlds, texts),
            list_near(texts, questions, memories, FOREIGN, ELSEWHERE),
            list_near(texts, memories, memories, 24, MEMORIES),
            give_group(torch.cat([older, newer]), torch.cat([newer, older]), STATEMENTS),
            list_near(texts, statements, statements, 6, STATEMENTS),
            give_group(torch.cat([wordings, other_wordings]), torch.cat([other_wordings, wordings]), STRATEGIES),
        ]
    )


def score_pairs(model: nn.Module, texts: Texts, first: Tensor, second: Tensor, *, is_teacher: bool = False) -> Tensor:
    """Return the scores of pairs."""
    model.eval()
    order = (texts.lengths[first] + texts.lengths[second]).argsort()
    scores = torch.zeros(len(first), OUTPUTS, device=texts.device)
    take = texts.join if is_teacher else texts.take
    with torch.no_grad(), torch.autocast(texts.device.type, torch.bfloat16, enabled=texts.device.type == "cuda"):
        for chosen in order.split(4096):
            scores[chosen] = model(*take(first[chosen], second[chosen])).float()
    return scores


# --- training --------------------------------------------------------------------------------------


class Drawer:
    """Draws the pairs of each step: of each group its share."""

    def __init__(self, pairs: Pairs, seed: int) -> None:
        self._groups = [(pairs.group == group).nonzero()[:, 0] for group in range(len(SHARES))]
        self._random = torch.Generator(pairs.group.device).manual_seed(seed)

    def draw(self, count: int) -> Tensor:
        """Return the positions of pairs."""
        parts = []
        for group, share in zip(self._groups, SHARES, strict=True):
            chosen = torch.randint(len(group), (round(share * count),), device=group.device, generator=self._random)
            parts.append(group[chosen])
        return torch.cat(parts)


def find_loss(scores: Tensor, taught: Tensor, labels: Tensor, trust: float) -> Tensor:
    """Return how far scores are from labels and from what the teachers say."""
    word = taught[:, 0].sigmoid()
    hard = labels * 0.96 + 0.02
    targets = torch.where(labels.isnan(), word, (1 - trust) * hard + trust * word)
    loss = functional.binary_cross_entropy_with_logits(scores[:, 0], targets)
    # In the tails, where a probability hardly changes, the order still counts.
    loss = loss + 0.03 * (scores[:, 0] - taught[:, 0]).square().mean()
    for part in (slice(1, 5), slice(5, OUTPUTS)):
        loss = loss + 0.2 * functional.cross_entropy(scores[:, part], taught[:, part].softmax(1))
    return loss


def train(model: Reader, texts: Texts, pairs: Pairs, taught: Tensor, options: Options) -> nn.Module:
    """Return the running average of a model that learned from labels and from what was `taught`."""
    drawer = Drawer(pairs, options.seed)
    optimizer = torch.optim.AdamW(model.parameters(), options.rate, weight_decay=0.01)
    warm = max(1, options.steps // 12)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / warm) * max(0.02, 1 - step / options.steps)
    )
    average = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.995))
    device = texts.device.type
    began = time.time()
    for step in range(options.steps):
        model.train()
        chosen = drawer.draw(options.batch)
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            scores = model(*texts.take(pairs.first[chosen], pairs.second[chosen], MOST_TRAINED)).float()
        loss = find_loss(scores, taught[chosen].float(), pairs.label[chosen], options.trust)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        average.update_parameters(model)
        if (step + 1) % 1000 == 0:
            print(f"  {step + 1}: loss {loss.item():.4f}, {time.time() - began:.0f} s", flush=True)
    best: nn.Module = average.module.eval()
    return best


# --- measures --------------------------------------------------------------------------------------


def measure_pools(pools: Sequence[Mapping[str, Any]], scores: Sequence[Array], most: int) -> dict[str, float]:
    """Return how good scores are where the product reads: among the first of each question's candidates."""
    from .calibrate import fit_logistic, judge

    rows = []
    for number, (pool, own) in enumerate(zip(pools, scores, strict=True)):
        near = np.array(pool["near"])
        rank = np.argsort(np.argsort(-near))
        for place in range(len(near)):
            score = own[place] if rank[place] < most else math.nan
            rows.append((number, score, near[place], pool["labels"][place], pool["known"][place]))
    number, score, near, label, known = np.array(rows, float).T
    was_read = ~np.isnan(score)
    chance = np.zeros(len(number))
    for is_known in (0, 1):
        read, unread = (known == is_known) & was_read, (known == is_known) & ~was_read
        features = np.column_stack([score, near])
        chance[read] = judge(fit_logistic(features[read], label[read]), score[read], near[read])
        chance[unread] = judge(fit_logistic(near[unread, None], label[unread]), near[unread])
    loss = -np.log(np.where(label == 1, chance, 1 - chance))[was_read].mean()
    figures = {"loss": loss, "area": area(chance[(label == 1) & was_read], chance[(label == 0) & was_read])}
    for name, wanted in (("en", "en"), ("all", "")):
        mine = np.array([pool["lang"].startswith(wanted) for pool in pools])
        needed = np.array([any(pool["labels"]) for pool in pools])
        best = np.zeros(len(pools))
        np.maximum.at(best, number[label == 1].astype(int), chance[label == 1])
        silent = np.sort(chance[(mine & ~needed)[number.astype(int)]])[::-1]
        for per in (1.0, 1.5):
            least = silent[int(per * (mine & ~needed).sum())]
            figures[f"{name} {per}"] = float((best[mine & needed] > least).mean())
    return figures


def measure(
    model: nn.Module,
    texts: Texts,
    worlds: Sequence[World],
    pools: Sequence[Mapping[str, Any]],
    *,
    is_teacher: bool = False,
) -> str:
    """Return a line with figures of the held-out part."""
    pairs = list_world_pairs(worlds, texts)
    scores = score_pairs(model, texts, pairs.first, pairs.second, is_teacher=is_teacher)[:, 0]
    whole = area(scores[pairs.label == 1].cpu().numpy(), scores[pairs.label == 0].cpu().numpy())
    first = texts.find_places([pool["q"] for pool in pools for _ in pool["texts"]])
    second = texts.find_places([text for pool in pools for text in pool["texts"]])
    found = score_pairs(model, texts, first, second, is_teacher=is_teacher)[:, 0].cpu().numpy()
    ends = np.cumsum([len(pool["texts"]) for pool in pools])[:-1]
    parts = [f"whole {whole:.4f}"]
    for most in (8, 6):
        figures = measure_pools(pools, np.split(found, ends), most)
        parts.append(f"of {most}: " + " ".join(f"{name} {value:.4f}" for name, value in figures.items()))
    return " | ".join(parts)


def save(model: nn.Module, path: Path) -> None:
    """Write the weights in 16 bits, as `build` takes them; what scores how two texts relate only helped to learn."""
    state = {name: value.float().cpu().numpy().astype(np.float16) for name, value in model.state_dict().items()}
    weight, bias = state.pop("scores.weight"), state.pop("scores.bias")
    state |= {"score.weight": weight[:1], "score.bias": bias[:1]}
    np.savez_compressed(path, **state)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=("score", "study"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pools", type=Path, required=True, help="what `calibrate --pools` wrote, to measure with")
    parser.add_argument("--teachers", type=Path, nargs="*", default=[ADAPTERS], help="adapters that give the scores")
    parser.add_argument("--readers", type=Path, nargs="*", default=[], help="readers that give scores, too")
    parser.add_argument("--start", type=Path, help="a reader to start from")
    parser.add_argument("--scores", type=Path, help="what `score` wrote")
    parser.add_argument("--name", default="")
    parser.add_argument("--threads", type=int, default=2)
    for name, default in Options._field_defaults.items():
        if isinstance(default, bool):
            parser.add_argument(f"--{name.replace('_', '-')}", action="store_true")
        else:
            parser.add_argument(f"--{name}", type=type(default), default=default)
    args = parser.parse_args()
    options = Options(**{name: getattr(args, name) for name in Options._fields})
    torch.set_num_threads(args.threads)
    args.out.mkdir(parents=True, exist_ok=True)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    learned, held_out = (read_examples(is_held_out=part, share=options.share) for part in (False, True))
    pools = json.loads(args.pools.read_text())
    everything = [text for world in (*learned.worlds, *held_out.worlds) for text in (*world.questions, *world.memories)]
    everything += [text for row in learned.conflicts for text in (row["old"], row["new"])]
    everything += [
        text for family in learned.families for pair in list_action_pairs(family) for text in (pair.first, pair.second)
    ]
    everything += [text for pool in pools for text in (pool["q"], *pool["texts"])]
    shipped = read_shipped()
    texts = Texts(everything, shipped, options.below, device)
    torch.manual_seed(options.seed)
    pairs = list_pairs(learned, texts)
    print(f"{len(texts.lengths)} texts, {len(pairs.first)} pairs, {pairs.group.bincount().tolist()}", flush=True)
    if args.mode == "score":
        sums = torch.zeros(len(pairs.first), OUTPUTS, device=device)
        counts = torch.zeros(OUTPUTS, device=device)
        for path in args.teachers:
            teacher = load_teacher(shipped, read_adapters(path)).to(device).eval()
            sums += score_pairs(teacher, texts, pairs.first, pairs.second, is_teacher=True)
            counts += 1
            print(f"{path}: {measure(teacher, texts, held_out.worlds, pools, is_teacher=True)}", flush=True)
        for path in args.readers:
            reader = Reader(merge_adapters(shipped, read_adapters(ADAPTERS)), options).to(device)
            reader.load_state_dict({name: torch.tensor(value) for name, value in read_reader(path).items()})
            sums[:, 0] += score_pairs(reader, texts, pairs.first, pairs.second)[:, 0]
            counts[0] += 1
            print(f"{path}: {measure(reader, texts, held_out.worlds, pools)}", flush=True)
        np.save(args.out / "scores.npy", (sums / counts).half().cpu().numpy())
        return
    taught = torch.from_numpy(np.load(args.scores)).to(device)
    merged = merge_adapters(shipped, read_adapters(ADAPTERS))
    if args.start:
        merged |= {rename_layer(name): value for name, value in read_reader(args.start).items()}
    model = Reader(merged, options).to(device)
    best = train(model, texts, pairs, taught, options)
    name = args.name or f"study-{options.below}-{options.above.replace(',', '')}"
    save(best, args.out / f"{name}.npz")
    print(f"{name:24} {measure(best, texts, held_out.worlds, pools)}  {options}", flush=True)


def rename_layer(name: str) -> str:
    """Return what a tensor of a reader of three layers is called in the shipped model."""
    group, _, rest = name.partition(".")
    number, _, part = rest.partition(".")
    return f"shared.{int(number) + LAYERS // 2}.{part}" if group == "layers" else name


def load_teacher(shipped: Mapping[str, Array], trained: Mapping[str, Array]) -> nn.Module:
    """Return the shipped model with adapters."""
    start = {**shipped, "sides.weight": np.stack([trained["original.side"], trained["original.side"]])}
    # In the shipped model, the places hold the first row of the original's table of sides.
    start["places.weight"] = shipped["places.weight"] - trained["original.side"]
    model = PairModel(start, RANK, 0.0)
    model.load_state_dict({name: torch.tensor(value) for name, value in trained.items() if name != "original.side"})
    return model


if __name__ == "__main__":
    main()
