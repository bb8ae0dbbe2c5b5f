"""Reports in the shape of schema.json, made without running a program: a transformer with layers, on some devices."""
from __future__ import annotations

import random
from typing import Any

_HEAD = '''"""A transformer, for tests of the page."""
import lamina
import lamina.numpy as np


def attention(x, w):
    """Names in text stay text: <b>bold</b> & </script><script>alert(1)</script>."""
    q, k, v = x @ w["q"], x @ w["k"], x @ w["v"]
    scores = np.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(64.0)
    weights = lamina.nn.softmax(scores, axis=-1)  # the largest value
    return np.einsum("bhqk,bhkd->bhqd", weights, v) @ w["o"]


def feed_forward(x, w):
    hidden = lamina.nn.gelu(x @ w["up"] + w["up_bias"])
    return hidden @ w["down"] + w["down_bias"]


def normalize(x, scale):
    mean = x.mean(axis=-1, keepdims=True)
    return (x - mean) * scale / np.sqrt(((x - mean) ** 2).mean(axis=-1, keepdims=True) + 1e-5)


def loss(weights, batch):
    x = weights["embedding"][batch["tokens"]]
    for layer in weights["layers"]:
        x = x + attention(normalize(x, layer["scale_1"]), layer)
        x = x + feed_forward(normalize(x, layer["scale_2"]), layer)
    logits = x @ weights["embedding"].T
    return cross_entropy(logits, batch["targets"]).mean()


@lamina.jit
def step(weights, batch):
    value, gradients = lamina.value_and_grad(loss)(weights, batch)
    gradients = lamina.lax.pmean(gradients, "data")
    return value, lamina.tree.map(lambda w, g: w - 1e-3 * g, weights, gradients)
'''
_LINES = _HEAD.split("\n")
_SCOPES = {"attention": (8, 11), "feed_forward": (15, 16), "normalize": (20, 21)}
_PRIMITIVES = ("dot_general", "mul", "add", "sub", "exp", "reduce_sum", "div", "broadcast_in_dim", "transpose", "tanh")


def make_report(equations: int = 120, layers: int = 4, devices: int = 2, timed: bool = True, seed: int = 0) -> dict[str, Any]:
    """Return a report with about this number of equations in its first function; the same for the same arguments."""
    draw = random.Random(seed)
    functions = [_function(draw, equations, layers, devices, timed)]
    functions.append({**_function(draw, 12, 1, 1, timed), "name": "evaluate"})
    return {
        "schema_version": 1, "created": "2026-01-02T03:04:05+00:00",
        "versions": {"lamina": "0.1.0", "jaxlib": "0.10.2", "python": "3.11.9", "numpy": "2.1.0"}, "platform": "cpu",
        "command": "train.py --steps 3", "processes": 1,
        "devices": [{"id": k, "process": 0, "kind": "cpu"} for k in range(devices)],
        "sources": [{"file": "/home/user/project/model.py", "first_line": 1, "lines": list(_LINES)},
                    {"file": "/home/user/project/train.py", "first_line": 1,
                     "lines": ["from model import step", "", "for batch in batches:",
                               "    value, weights = step(weights, batch)"]}],
        "functions": functions, "timeline": _timeline(functions[0], devices) if timed else [],
        "compilations": [_compilation(draw, k) for k in range(5)],
        "meshes": [{"axes": [{"name": "data", "size": max(1, devices // 2)}, {"name": "model", "size": min(2, devices)}],
                    "devices": [[2 * r + c for c in range(min(2, devices))] for r in range(max(1, devices // 2))]}],
        "precision": [{"function": 0, "equation": 3, "source": 0, "line": 10, "relative_error": 3.1e-6, "born": 2.9e-6,
                       "overflow": False, "digits_lost": 1.4},
                      {"function": 0, "equation": 5, "source": 0, "line": 21, "relative_error": 4e-7, "born": 1e-7,
                       "overflow": True, "digits_lost": 0.2}],
        "nonfinite": {"function": 0, "equation": 5, "source": 0, "line": 21, "kind": "nan",
                      "before": [{"name": "mean", "type": "float32[8,1]", "source": 0, "line": 20, "summary": "all 0.0"}] * 3},
        "problems": ["The profiler dropped 12 events, so their time is unattributed."],
    }


def _function(draw: random.Random, count: int, layers: int, devices: int, timed: bool) -> dict[str, Any]:
    scopes: list[dict[str, Any]] = [{"name": "step", "parent": None, "repeated": 1}]
    leaves: list[tuple[int, str, str]] = []
    for phase in ("forward", "backward"):
        scopes.append({"name": phase, "parent": 0, "repeated": 1})
        top = len(scopes) - 1
        order = range(layers) if phase == "forward" else reversed(range(layers))
        for k in order:
            scopes.append({"name": f"layer_{k}", "parent": top, "repeated": 1})
            layer = len(scopes) - 1
            for name in ("normalize", "attention", "feed_forward"):
                scopes.append({"name": name, "parent": layer, "repeated": 3 if name == "feed_forward" and layers == 1 else 1})
                leaves.append((len(scopes) - 1, name, phase))
    values: list[dict[str, Any]] = [{"name": f"weights['layers'][{k}]", "type": "float32[512,512]", "bytes": 1 << 20,
                                     "source": 0, "line": 37, "sharding": "P('model')"} for k in range(layers + 2)]
    rows: list[dict[str, Any]] = []
    previous = 0
    per_leaf = max(1, count // len(leaves))
    for scope, name, phase in leaves:
        low, high = _SCOPES[name]
        for k in range(per_leaf):
            line = low + k * (high - low + 1) // per_leaf
            size = (1 << 12, 1 << 16, 1 << 20, 1 << 22, 1 << 18)[(k * k + k) % 5]
            values.append({"name": f"v{len(values)}", "type": f"float32[8,{size // 32}]", "bytes": size, "source": 0,
                           "line": line, "sharding": None})
            operands = [previous, draw.randrange(max(0, len(values) - 12), len(values) - 1)]
            recomputed = phase == "backward" and name == "attention" and k % 3 == 0
            rows.append({"primitive": _PRIMITIVES[k % len(_PRIMITIVES)], "scope": scope, "source": 0, "line": line,
                         "operands": operands, "results": [len(values) - 1], "flops": size * draw.randrange(1, 64),
                         "bytes": size * 3, "count": 1, "phase": "recomputed" if recomputed else phase,
                         "time": draw.randrange(200, 90_000) if timed else None,
                         "parameters": "dimension_numbers=(((1,), (0,)), ((), ()))" if k % 10 == 0 else "",
                         "instruction": [len(rows)]})
            previous = len(values) - 1
    for row in (28, 30, 36):
        values.append({"name": f"v{len(values)}", "type": "float32[]", "bytes": 4, "source": 0, "line": row, "sharding": None})
        rows.append({"primitive": "psum" if row == 36 else "gather", "scope": 0, "source": 0, "line": row,
                     "operands": [previous], "results": [len(values) - 1], "flops": 100, "bytes": 4096, "count": 1,
                     "phase": "forward",
                     "time": 20_000 if timed else None, "parameters": "", "instruction": [len(rows)]})
    return {"name": "step", "kind": "jit", "signature": ["float32[512,512]"] * 3 + ["int32[8,128]"], "donated": [0],
            "defined_at": {"source": 0, "line": 37}, "called_from": {"source": 1, "line": 4}, "scopes": scopes,
            "equations": rows, "values": values, "arguments": list(range(layers + 2)), "results": [len(values) - 1],
            **_costs(rows, timed), "memory": _memory(rows, values, layers + 2),
            "collectives": [{"kind": "all-reduce", "axis": "data", "bytes": 4 << 20, "devices": devices, "source": 0,
                             "line": 36, "count": 2, "time": 150_000 if timed else None}],
            "placements": _placements(devices)}


def _costs(rows: list[dict[str, Any]], timed: bool) -> dict[str, Any]:
    lines: dict[int, dict[str, Any]] = {}
    for row in rows:
        at = lines.setdefault(row["line"], {
            "source": 0, "line": row["line"], "equations": 0, "flops": 0, "bytes": 0, "time_forward": 0 if timed else None,
            "time_backward": 0 if timed else None, "time_recomputed": 0 if timed else None, "share": None})
        at["equations"] += 1
        at["flops"] += row["flops"]
        at["bytes"] += row["bytes"]
        if timed:
            at[f"time_{row['phase']}"] += row["time"]
    if not timed:
        return {"lines": list(lines.values()), "step": None}
    spent = sum(row["time"] for row in rows)
    total = int(spent / 0.96)
    for at in lines.values():
        at["share"] = (at["time_forward"] + at["time_backward"] + at["time_recomputed"]) / total
    rest = [{"name": "launch", "time": (total - spent) // 2}, {"name": "unattributed", "time": (total - spent) // 2}]
    return {"lines": sorted(lines.values(), key=lambda at: -at["share"]),
            "step": {"time": total, "runs": 7, "attributed": spent / total, "rest": rest}}


def _memory(rows: list[dict[str, Any]], values: list[dict[str, Any]], arguments: int) -> dict[str, Any]:
    n = len(rows)
    buffers = [{"value": k, "name": f"parameter.{k}", "type": values[k]["type"], "bytes": values[k]["bytes"], "first": 0,
                "last": n - 1, "source": 0, "line": 37, "kind": "argument"} for k in range(arguments)]
    for k, row in enumerate(rows):
        value = row["results"][0]
        saved = row["phase"] == "forward" and k % 4 == 0
        buffers.append({"value": value, "name": f"fusion.{k}", "type": values[value]["type"], "bytes": values[value]["bytes"],
                        "first": k, "last": n - 1 - k if saved and n - 1 - k > k else min(n - 1, k + 3), "source": 0,
                        "line": row["line"], "kind": "result" if k == n - 1 else "temporary"})
    live = [0] * (n + 1)
    for buffer in buffers:
        live[buffer["first"]] += buffer["bytes"]
        live[buffer["last"] + 1] -= buffer["bytes"]
    for k in range(1, n):
        live[k] += live[k - 1]
    live = live[:n]
    peak = max(live)
    return {"peak": peak, "xla_peak": int(peak * 1.04), "peak_at": live.index(peak), "buffers": buffers,
            "instructions": [{"name": f"fusion.{k}", "operation": "fusion", "source": 0, "line": row["line"], "live": live[k]}
                             for k, row in enumerate(rows)],
            "savings": [{"kind": "donate", "what": "weights", "source": 1, "line": 4, "bytes": 6 << 20,
                         "how": "jit(step, donate_argnums=0)"},
                        {"kind": "checkpoint", "what": "attention", "source": 0, "line": 30, "bytes": 11 << 20,
                         "how": "wrap attention in lamina.checkpoint"}]}


def _placements(devices: int) -> list[dict[str, Any]]:
    half = max(1, devices // 2)
    return [{"value": 0, "name": "weights['q']", "role": "argument", "sharding": "P(None, 'model')",
             "blocks": [{"device": d, "slices": [[0, 512], [256 * (d % 2), 256 * (d % 2) + 256]]} for d in range(devices)]},
            {"value": 1, "name": "batch['tokens']", "role": "argument", "sharding": "P('data')",
             "blocks": [{"device": d, "slices": [[8 // half * (d // 2), 8 // half * (d // 2 + 1)], [0, 128]]}
                        for d in range(devices)]},
            {"value": None, "name": "value", "role": "result", "sharding": "P()",
             "blocks": [{"device": d, "slices": []} for d in range(devices)]}]


def _timeline(function: dict[str, Any], devices: int) -> list[dict[str, Any]]:
    found = []
    for d in range(devices):
        at = 1000 + 700 * d
        for k, row in enumerate(function["equations"][:20_000 // devices]):
            found.append({"process": 0, "device": d, "function": 0, "name": f"fusion.{k}", "start": at, "duration": row["time"],
                          "source": 0, "line": row["line"]})
            at += row["time"] + 150
    return found


def _compilation(draw: random.Random, k: int) -> dict[str, Any]:
    hit = k == 3
    changed = f"the shape of argument batch['tokens'] changed from int32[8,128] to int32[{8 + k},128]"
    return {"function": "step", "kind": "jit", "source": 1, "line": 4, "signature": f"float32[512,512], int32[{8 + k},128]",
            "trace": None if hit else draw.randrange(4_000_000, 90_000_000), "lower": None if hit else 8_000_000,
            "xla": None if hit else draw.randrange(40_000_000, 900_000_000), "memory_cache": "hit" if hit else "miss",
            "disk_cache": ("off", "miss", "hit", "off", "miss")[k],
            "reason": None if k == 0 or hit else changed}
