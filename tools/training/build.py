"""Build `pairs.onnx`, the pair mode of the shipped model, from `adapters.npz`: `python -m tools.training.build`.

The graph is that of `tools.build_minilm` with the adapters beside its matrices. The matrices and the word table stay in
`model.onnx`: the file built here points at their bytes there, so it holds only what was trained. The adapters are int8
with a scale per row or column; when a session is made, they become floats again.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

from alma.embedders.local import FOLDER, PAIRS
from tools.build_minilm import EPSILON, HEADS, LAYERS, MICROSOFT, Graph, sha256

from .examples import hash_files

Array = NDArray[Any]
ADAPTERS = Path(__file__).parent / "adapters.npz"
_TEXT = "model.onnx"
_MIN_SHARED_BYTES = 256
_MANIFEST = FOLDER / "MANIFEST.json"


class PairGraph(Graph):
    """A graph that takes the tensors of the text model from where they are."""

    def __init__(self, text: bytes) -> None:
        super().__init__()
        self._text = text
        model = onnx.load_model_from_string(text)
        self.shared = {tensor.name: tensor for tensor in model.graph.initializer}

    def point_at(self, name: str) -> str:
        """Add a tensor of the text model; only small ones are copied."""
        original = self.shared[name]
        raw = original.raw_data
        if len(raw) < _MIN_SHARED_BYTES:
            self.constants.append(original)
            return name
        place = {"location": _TEXT, "offset": self._text.index(raw), "length": len(raw)}
        tensor = TensorProto(name=name, data_type=original.data_type, dims=original.dims)
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in place.items():
            tensor.external_data.add(key=key, value=str(value))
        self.constants.append(tensor)
        return name

    def thin(self, name: str, matrix: Array, axis: int) -> str:
        """Add a matrix of an adapter as int8, with a scale for each slice along an axis."""
        scale = np.abs(matrix).max(axis=1 - axis).astype(np.float32) / np.float32(127)
        scale[scale == 0] = 1
        codes = np.rint(matrix / np.expand_dims(scale, 1 - axis)).astype(np.int8)
        inputs = [self.constant(f"{name}.codes", codes), self.constant(f"{name}.scales", scale)]
        return self.op("DequantizeLinear", inputs, name, axis=axis)


def build(text: bytes, weights: Mapping[str, Array]) -> bytes:
    """Return the bytes of the pair mode."""
    graph = PairGraph(text)
    codes = graph.op("Gather", [graph.point_at("words"), "ids"], "word.codes")
    scales = graph.op("Gather", [graph.point_at("words.scales"), "ids"], "word.scales")
    word = graph.op("Mul", [graph.op("Cast", [codes], "word.float", to=TensorProto.FLOAT), scales], "word")
    length = graph.op("Shape", ["ids"], "length", start=1, end=2)
    place = graph.op("Slice", [graph.point_at("positions"), graph.constant("start", np.array([0])), length], "place")
    # The places hold the first row of the original's table of sides.
    sides = graph.constant("sides.table", weights["sides"] - weights["original.side"])
    total = graph.op(
        "Add", [graph.op("Add", [word, place], "placed"), graph.op("Gather", [sides, "sides"], "side")], "in"
    )
    gain, bias = (graph.constant(f"first.{kind}", weights[f"first.{kind}"]) for kind in ("weight", "bias"))
    x = graph.op("LayerNormalization", [total, gain, bias], "x", epsilon=EPSILON, axis=-1)
    for index in range(LAYERS):
        x = add_layer(graph, weights, f"layer{index}", f"layers.{index}", x)
    mean = graph.op("ReduceMean", [x, graph.constant("token axis", np.array([1]))], "mean", keepdims=0)
    head = graph.op("MatMul", [mean, graph.thin("head.weight", weights["head.weight"].T, 1)], "head.product")
    head = graph.op(
        "Tanh", [graph.op("Add", [head, graph.constant("head.bias", weights["head.bias"])], "head")], "tanh"
    )
    scores = graph.op("MatMul", [head, graph.constant("scores.weight", weights["scores.weight"].T)], "scores.product")
    graph.op("Add", [scores, graph.constant("scores.bias", weights["scores.bias"])], "scores")
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["texts", "tokens"]) for name in ("ids", "sides")]
    outputs = [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["texts", len(weights["scores.bias"])])]
    whole = helper.make_graph(graph.nodes, "pairs", inputs, outputs, graph.constants)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(MICROSOFT, 1)]
    model = helper.make_model(whole, opset_imports=opsets, ir_version=9, producer_name="alma-memory")
    data: bytes = model.SerializeToString(deterministic=True)
    return data


def add_layer(graph: PairGraph, weights: Mapping[str, Array], name: str, own: str, x: str) -> str:
    """Add a layer: `name` is what the text model calls it, `own` what the adapters do."""

    def dense(x: str, original: str, part: str) -> str:
        base, out = f"{name}.{original}", f"{own}.{part}"
        damped = x
        if f"{base}.damper" in graph.shared:
            damped = graph.op("Mul", [x, graph.point_at(f"{base}.damper")], f"{out}.damped")
        codes = [graph.point_at(f"{base}.{kind}") for kind in ("codes", "scales", "zeros")]
        bias = graph.constant(f"{out}.bias", weights[f"{out}.bias"])
        product = graph.op("DynamicQuantizeMatMul", [damped, *codes, bias], f"{out}.product", domain=MICROSOFT)
        down = graph.op("MatMul", [x, graph.thin(f"{out}.down", weights[f"{out}.down"], 1)], f"{out}.narrowed")
        up = graph.op("MatMul", [down, graph.thin(f"{out}.up", weights[f"{out}.up"], 0)], f"{out}.added")
        return graph.op("Add", [product, up], out)

    def add_norm(x: str, residual: str, part: str) -> str:
        key = f"{own}.{part}"
        gain, bias = (graph.constant(f"{key}.{kind}", weights[f"{key}.{kind}"]) for kind in ("weight", "bias"))
        return graph.op("SkipLayerNormalization", [x, residual, gain, bias], key, domain=MICROSOFT, epsilon=EPSILON)

    outs = [f"{own}.{part}" for part in ("query", "key", "value")]
    joined = dense(x, "qkv", "qkv")
    graph.nodes.append(helper.make_node("Split", [joined], outs, name=f"{own}.split", axis=-1, num_outputs=3))
    mixed = graph.op("MultiHeadAttention", outs, f"{own}.attention", domain=MICROSOFT, num_heads=HEADS)
    x = add_norm(dense(mixed, "attended", "attended"), x, "middle")
    hidden = graph.op("Gelu", [dense(x, "hidden", "hidden")], f"{own}.gelu", domain=MICROSOFT)
    return add_norm(dense(hidden, "narrow", "narrow"), x, "norm")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--adapters", type=Path, default=ADAPTERS)
    parser.add_argument("--out", type=Path, default=FOLDER / PAIRS.name)
    args = parser.parse_args()
    with np.load(args.adapters) as trained:
        weights = {name: trained[name].astype(np.float32) for name in trained.files}
    data = build((FOLDER / _TEXT).read_bytes(), weights)
    args.out.write_bytes(data)
    manifest = json.loads(_MANIFEST.read_text())
    manifest["sha256"][PAIRS.name] = sha256(data)
    manifest["pairs"] = {"adapters": sha256(args.adapters.read_bytes()), "data": hash_files()}
    _MANIFEST.write_text(json.dumps(manifest, indent=2) + "\n")
    print(f"{len(data):>11,}  {sha256(data)}  {args.out.name}")


if __name__ == "__main__":
    main()
