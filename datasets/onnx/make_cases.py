#!/usr/bin/env python3
"""Writes node/: cases of operators that are younger than ONNX 1.12, or of which
that release has none in floats, in the layout of the ONNX backend tests.

    pip install onnx==1.22.0 && python3 make_cases.py node

Inputs are drawn here from a fixed seed; the records are what onnx's reference
evaluator gives, or PLAIN here where it has no operator or sums signed values as
a norm. A case is one node, named as its folder.
"""
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

DRAW = np.random.default_rng(20261122)




def norm(x, p, axes):
    return (np.abs(x) ** p).sum(axis=axes, keepdims=True) ** (1 / p)


PLAIN = {
    "GlobalLpPool": lambda x, p=2: norm(x, p, (2, 3)),
    "LpNormalization": lambda x, p=2, axis=-1: x / norm(x, p, axis),
}


def real(*shape):
    return DRAW.standard_normal(shape).astype(np.float32)


def bits(*shape, kind=np.int32):
    return DRAW.integers(0, 100, shape).astype(kind)


def value_info(name, array):
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, kind, array.shape)


def write_array(path, name, array):
    with open(path, "wb") as file:
        file.write(numpy_helper.from_array(array, name).SerializeToString())


def write_case(folder, opset, op, inputs, n_out=1, **attributes):
    """inputs: arrays, or None for one that is left out."""
    names = [f"x{i}" if x is not None else "" for i, x in enumerate(inputs)]
    given = {n: x for n, x in zip(names, inputs) if n}
    outputs = [f"y{i}" for i in range(n_out)]
    node = helper.make_node(op, names, outputs, **attributes)
    types = [helper.make_tensor_value_info(y, TensorProto.UNDEFINED, None)
             for y in outputs]
    version = [helper.make_opsetid("", opset)]

    def model(out):
        graph = helper.make_graph([node], os.path.basename(folder),
                                  [value_info(n, x) for n, x in given.items()],
                                  out)
        return helper.make_model(graph, opset_imports=version, ir_version=10,
                                 producer_name="flowsearch")

    got = ([PLAIN[op](*inputs, **attributes)] if op in PLAIN else
           ReferenceEvaluator(model(types)).run(None, given))
    dtype = inputs[-1].dtype if op == "OneHot" else inputs[0].dtype
    got = [np.ascontiguousarray(y).astype(dtype) for y in got]
    whole = model([value_info(n, y) for n, y in zip(outputs, got)])
    onnx.checker.check_model(whole, full_check=True)
    data = os.path.join(folder, "test_data_set_0")
    os.makedirs(data, exist_ok=True)
    onnx.save(whole, os.path.join(folder, "model.onnx"))
    for i, (name, x) in enumerate(given.items()):
        write_array(os.path.join(data, f"input_{i}.pb"), name, x)
    for i, (name, y) in enumerate(zip(outputs, got)):
        write_array(os.path.join(data, f"output_{i}.pb"), name, y)


def heads(batch, n, length, width):
    return real(batch, n, length, width)


def attention_cases():
    q, k, v = heads(2, 3, 4, 8), heads(2, 3, 6, 8), heads(2, 3, 6, 5)
    mask = DRAW.random((4, 6)) < 0.7
    mask[:, 0] = True
    yield "plain", 23, "Attention", [q, k, v], 1, {}
    yield "scaled", 23, "Attention", [q, k, v], 1, {"scale": 0.1}
    yield "causal", 23, "Attention", [q, k, v], 1, {"is_causal": 1}
    yield "softcap", 23, "Attention", [q, k, v], 1, {"softcap": 2.0}
    yield "bool_mask", 23, "Attention", [q, k, v, mask], 1, {}
    yield "added_mask", 23, "Attention", [q, k, v, real(2, 1, 4, 6)], 1, {}
    yield "grouped", 23, "Attention", [
        heads(2, 4, 4, 8), heads(2, 2, 6, 8), heads(2, 2, 6, 8)], 1, {}
    yield "grouped_causal", 23, "Attention", [
        heads(1, 6, 5, 4), heads(1, 2, 5, 4), heads(1, 2, 5, 4)], 1, {
            "is_causal": 1}
    yield "three_axes", 23, "Attention", [
        real(2, 4, 24), real(2, 6, 24), real(2, 6, 15)], 1, {
            "q_num_heads": 3, "kv_num_heads": 3}
    yield "three_axes_grouped", 23, "Attention", [
        real(2, 4, 32), real(2, 6, 16), real(2, 6, 16)], 1, {
            "q_num_heads": 4, "kv_num_heads": 2, "is_causal": 1}
    yield "past", 23, "Attention", [
        q, k, v, None, heads(2, 3, 5, 8), heads(2, 3, 5, 5)], 3, {}
    yield "past_masked", 23, "Attention", [
        q, k, v, real(4, 11), heads(2, 3, 5, 8), heads(2, 3, 5, 5)], 3, {}


def rotary_cases():
    x, by = real(2, 3, 4, 8), real(2, 4, 4)
    at = DRAW.integers(0, 10, (2, 4))
    yield "plain", 23, "RotaryEmbedding", [x, by, real(2, 4, 4)], 1, {}
    yield "positions", 23, "RotaryEmbedding", [
        x, real(10, 4), real(10, 4), at], 1, {}
    yield "interleaved", 23, "RotaryEmbedding", [
        x, real(10, 4), real(10, 4), at], 1, {"interleaved": 1}
    yield "partial", 23, "RotaryEmbedding", [
        x, real(10, 2), real(10, 2), at], 1, {"rotary_embedding_dim": 4}
    yield "three_axes", 23, "RotaryEmbedding", [
        real(2, 4, 24), real(10, 4), real(10, 4), at], 1, {"num_heads": 3}


def norm_cases():
    x = real(2, 6, 3, 4)
    yield "last", 23, "RMSNormalization", [x, real(4)], 1, {}
    yield "axis_1", 23, "RMSNormalization", [x, real(6, 3, 4)], 1, {
        "axis": 1, "epsilon": 1e-3}
    yield "opset_21", 21, "GroupNormalization", [x, real(6), real(6)], 1, {
        "num_groups": 3}
    yield "epsilon", 21, "GroupNormalization", [x, real(6), real(6)], 1, {
        "num_groups": 2, "epsilon": 1e-2}
    yield "one", 22, "LpNormalization", [x], 1, {"p": 1, "axis": 1}
    yield "two", 22, "LpNormalization", [x], 1, {"p": 2}


def pool_cases():
    x = real(2, 3, 7, 8)
    yield "plain", 18, "LpPool", [x], 1, {"kernel_shape": [2, 3]}
    yield "strided", 18, "LpPool", [x], 1, {
        "kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    yield "cubes", 18, "LpPool", [x], 1, {"kernel_shape": [2, 2], "p": 3}
    yield "dilated", 18, "LpPool", [x], 1, {
        "kernel_shape": [2, 2], "dilations": [2, 2]}
    yield "one", 22, "GlobalLpPool", [x], 1, {"p": 1}
    yield "two", 22, "GlobalLpPool", [x], 1, {}


def point_cases():
    x = real(3, 4, 5)
    yield "exact", 20, "Gelu", [x], 1, {}
    yield "tanh", 20, "Gelu", [x], 1, {"approximate": "tanh"}
    yield "plain", 18, "Mish", [x], 1, {}
    yield "plain", 24, "Swish", [x], 1, {}
    yield "alpha", 24, "Swish", [x], 1, {"alpha": 1.5}
    for op in "And", "Or", "Xor":
        yield "int32", 18, f"Bitwise{op}", [bits(3, 4), bits(3, 4)], 1, {}
        yield "broadcast", 18, f"Bitwise{op}", [
            bits(2, 3, 4, kind=np.uint8), bits(4, kind=np.uint8)], 1, {}
    yield "int32", 18, "BitwiseNot", [bits(3, 4)], 1, {}


def float_cases():
    yield "float_upper", 14, "Trilu", [real(2, 4, 5)], 1, {}
    yield "float_lower", 14, "Trilu", [real(4, 5)], 1, {"upper": 0}
    yield "float_values", 11, "OneHot", [
        bits(3, 2, kind=np.int64) % 4, np.array(4, np.int64), real(2)], 1, {}


def main(root):
    for family in (attention_cases, rotary_cases, norm_cases, pool_cases,
                   point_cases, float_cases):
        for name, opset, op, inputs, n_out, attributes in family():
            folder = os.path.join(root, f"test_{op.lower()}_{name}")
            write_case(folder, opset, op, inputs, n_out, **attributes)
            print(folder)


if __name__ == "__main__":
    main(sys.argv[1])
