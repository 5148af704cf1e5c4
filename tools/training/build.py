"""Build `pairs.onnx`, the pair mode of the shipped model, from `adapters.npz`: `python -m tools.training.build`.

`--reader` builds `below.onnx` and `reader.onnx` from `reader.npz` instead: the lower layers of the shipped model, which
read a text alone, and the layers that read a question and a memory together.

The graph is that of `tools.build_minilm` with the adapters beside its matrices. The matrices and the word table stay in
`model.onnx`: the file built here points at their bytes there, so it holds only what was trained. The adapters are int8
with a scale per row or column; when a session is made, they become floats again.
"""

from __future__ import annotations

import argparse
import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from alma.embedders.local import BELOW, FOLDER, PAIRS, READER
from tools.build_minilm import CODE_PEAK, EPSILON, HEADS, LAYERS, MICROSOFT, Graph, quantized, sha256

from .examples import hash_files

Array = NDArray[Any]
ADAPTERS = Path(__file__).parent / "adapters.npz"
READER_WEIGHTS = Path(__file__).parent / "reader.npz"
BELOW_LAYERS = 3  # Layers that read each text alone; those of the reader continue from there.
WIDTH = 384
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
    placed = add_words(graph)
    # The places hold the first row of the original's table of sides.
    sides = graph.constant("sides.table", weights["sides"] - weights["original.side"])
    total = graph.op("Add", [placed, graph.op("Gather", [sides, "sides"], "side")], "in")
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
    return serialize(graph, "pairs", inputs, outputs)


def add_words(graph: PairGraph) -> str:
    """Add the vectors of tokens and places, from the text model."""
    codes = graph.op("Gather", [graph.point_at("words"), "ids"], "word.codes")
    scales = graph.op("Gather", [graph.point_at("words.scales"), "ids"], "word.scales")
    word = graph.op("Mul", [graph.op("Cast", [codes], "word.float", to=TensorProto.FLOAT), scales], "word")
    length = graph.op("Shape", ["ids"], "length", start=1, end=2)
    place = graph.op("Slice", [graph.point_at("positions"), graph.constant("start", np.array([0])), length], "place")
    return graph.op("Add", [word, place], "placed")


def serialize(graph: Graph, name: str, inputs: list[Any], outputs: list[Any]) -> bytes:
    """Return the bytes of a graph."""
    whole = helper.make_graph(graph.nodes, name, inputs, outputs, graph.constants)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(MICROSOFT, 1)]
    model = helper.make_model(whole, opset_imports=opsets, ir_version=9, producer_name="alma-memory")
    data: bytes = model.SerializeToString(deterministic=True)
    return data


def build_below(text: bytes) -> bytes:
    """Return the bytes of the lower layers: every tensor is taken from the text model."""
    graph = PairGraph(text)
    norms = [graph.point_at(f"norm.{kind}") for kind in ("gain", "bias")]
    x = graph.op("LayerNormalization", [add_words(graph), *norms], "x", epsilon=EPSILON, axis=-1)
    for index in range(BELOW_LAYERS):
        name = f"layer{index}"

        def dense(x: str, part: str, base: str = name) -> str:
            damped, out = x, f"{base}.{part}"
            if f"{out}.damper" in graph.shared:
                damped = graph.op("Mul", [x, graph.point_at(f"{out}.damper")], f"{out}.damped")
            inputs = [graph.point_at(f"{out}.{kind}") for kind in ("codes", "scales", "zeros", "bias")]
            return graph.op("DynamicQuantizeMatMul", [damped, *inputs], out, domain=MICROSOFT)

        def add_norm(x: str, residual: str, part: str, base: str = name) -> str:
            inputs = [x, residual, *(graph.point_at(f"{base}.{part}.{kind}") for kind in ("gain", "bias"))]
            return graph.op("SkipLayerNormalization", inputs, f"{base}.{part}", domain=MICROSOFT, epsilon=EPSILON)

        x = add_norm(dense(add_attention(graph, dense(x, "qkv"), name), "attended"), x, "middle")
        hidden = graph.op("Gelu", [dense(x, "hidden")], f"{name}.gelu", domain=MICROSOFT)
        x = add_norm(dense(hidden, "narrow"), x, "x")
    inputs = [helper.make_tensor_value_info("ids", TensorProto.INT64, ["texts", "tokens"])]
    graph.op("Identity", [x], "states")
    outputs = [helper.make_tensor_value_info("states", TensorProto.FLOAT, ["texts", "tokens", WIDTH])]
    return serialize(graph, "below", inputs, outputs)


def add_attention(graph: Graph, joined: str, name: str) -> str:
    """Add the attention of a layer of which query, key and value are joined."""
    outs = [f"{name}.{part}" for part in ("query", "key", "value")]
    graph.nodes.append(helper.make_node("Split", [joined], outs, name=f"{name}.split", axis=-1, num_outputs=3))
    return graph.op("MultiHeadAttention", outs, f"{name}.attention", domain=MICROSOFT, num_heads=HEADS)


def build_reader(text: bytes, weights: Mapping[str, Array]) -> bytes:
    """Return the bytes of the layers that read both texts. The last one computes the first position only."""
    graph = PairGraph(text)
    shared = {name: numpy_helper.to_array(tensor) for name, tensor in graph.shared.items() if "damper" in name}

    def multiply(x: str, matrix: Array, bias: Array, out: str, damper: Array | None = None) -> str:
        if damper is not None:
            x = graph.op("Mul", [x, graph.constant(f"{out}.damper", damper)], f"{out}.damped")
            matrix = matrix / damper
        codes, scales = quantized(matrix, CODE_PEAK)
        parts = {"codes": codes.T, "scales": scales[:, 0], "zeros": np.zeros(len(codes), np.int8), "bias": bias}
        inputs = [graph.constant(f"{out}.{kind}", value) for kind, value in parts.items()]
        return graph.op("DynamicQuantizeMatMul", [x, *inputs], out, domain=MICROSOFT)

    def dense(x: str, index: int, part: str) -> str:
        own = f"layers.{index}.{part}"
        damper = shared.get(f"layer{BELOW_LAYERS + index}.{part}.damper")
        return multiply(x, weights[f"{own}.weight"], weights[f"{own}.bias"], own, damper)

    def add_norm(x: str, residual: str, key: str) -> str:
        inputs = [
            x,
            residual,
            *(graph.constant(f"{key}.{kind}", weights[f"{key}.{kind}"]) for kind in ("weight", "bias")),
        ]
        return graph.op("SkipLayerNormalization", inputs, key, domain=MICROSOFT, epsilon=EPSILON)

    sides = []
    for row, name in enumerate(("first", "second")):
        sides.append(graph.op("Add", [name, graph.constant(f"{name}.side", weights["sides"][row])], f"{name}.sided"))
    x = graph.op("Concat", sides, "x", axis=1)
    count = len({name.split(".")[1] for name in weights if name.startswith("layers.")})
    last = count - 1
    for index in range(count):
        own = f"layers.{index}"
        if index < last:
            mixed = add_attention(graph, dense(x, index, "qkv"), own)
        else:
            damper = shared.get(f"layer{BELOW_LAYERS + index}.qkv.damper")
            matrix, bias = weights[f"{own}.qkv.weight"], weights[f"{own}.qkv.bias"]
            ends = [
                graph.constant(f"range.{name}", np.array([at])) for name, at in (("start", 0), ("end", 1), ("axis", 1))
            ]
            begin = graph.op("Slice", [x, *ends], "begin")
            outs = [f"{own}.{part}" for part in ("query", "key", "value")]
            multiply(begin, matrix[:WIDTH], bias[:WIDTH], outs[0], damper)
            joined = multiply(x, matrix[WIDTH:], bias[WIDTH:], f"{own}.both", damper)
            graph.nodes.append(
                helper.make_node("Split", [joined], outs[1:], name=f"{own}.split", axis=-1, num_outputs=2)
            )
            mixed = graph.op("MultiHeadAttention", outs, f"{own}.attention", domain=MICROSOFT, num_heads=HEADS)
            x = begin
        x = add_norm(dense(mixed, index, "attended"), x, f"{own}.middle")
        hidden = graph.op("Gelu", [dense(x, index, "hidden")], f"{own}.gelu", domain=MICROSOFT)
        x = add_norm(dense(hidden, index, "narrow"), x, f"{own}.norm")
    head = graph.op("Tanh", [multiply(x, weights["head.weight"], weights["head.bias"], "head")], "tanh")
    slope, offset = (graph.constant(f"score.{kind}", weights[f"score.{kind}"].T) for kind in ("weight", "bias"))
    graph.op("Add", [graph.op("MatMul", [head, slope], "product"), offset], "score")
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["texts", f"{name} tokens", WIDTH])
        for name in ("first", "second")
    ]
    outputs = [helper.make_tensor_value_info("score", TensorProto.FLOAT, ["texts", 1, 1])]
    return serialize(graph, "reader", inputs, outputs)


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

    mixed = add_attention(graph, dense(x, "qkv", "qkv"), own)
    x = add_norm(dense(mixed, "attended", "attended"), x, "middle")
    hidden = graph.op("Gelu", [dense(x, "hidden", "hidden")], f"{own}.gelu", domain=MICROSOFT)
    return add_norm(dense(hidden, "narrow", "narrow"), x, "norm")


def read_weights(path: Path) -> dict[str, Array]:
    """Return trained weights as floats."""
    with np.load(path) as trained:
        return {name: trained[name].astype(np.float32) for name in trained.files}


def write_file(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    print(f"{len(data):>11,}  {sha256(data)}  {zlib.crc32(data):#010x}  {path.name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--adapters", type=Path, default=ADAPTERS)
    parser.add_argument("--reader", action="store_true", help="build the reader instead")
    parser.add_argument("--weights", type=Path, default=READER_WEIGHTS, help="those of the reader")
    args = parser.parse_args()
    text = (FOLDER / _TEXT).read_bytes()
    manifest = json.loads(_MANIFEST.read_text())
    if args.reader:
        files = {BELOW.name: build_below(text), READER.name: build_reader(text, read_weights(args.weights))}
        manifest["reader"] = {"weights": sha256(args.weights.read_bytes()), "data": hash_files()}
    else:
        files = {PAIRS.name: build(text, read_weights(args.adapters))}
        manifest["pairs"] = {"adapters": sha256(args.adapters.read_bytes()), "data": hash_files()}
    for name, data in files.items():
        write_file(FOLDER / name, data)
        manifest["sha256"][name] = sha256(data)
    _MANIFEST.write_text(json.dumps(manifest, indent=2) + "\n")


if __name__ == "__main__":
    main()
