#!/usr/bin/env python3
"""The same attention and products by the libraries of PyTorch (cuDNN, cuBLAS) on the same device, for the shapes in
device_bench's FILE. Writes a JSON object; {"absent": why} where there is no PyTorch with CUDA.

    peer.py FILE OUT
"""
import json
import sys
import time


def seconds_of(call, torch):
    call()
    torch.cuda.synchronize()
    best = 1e30
    for _ in range(4):
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        best = min(best, time.perf_counter() - start)
    return best


def attention(torch, case):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    n, heads, kv_heads, dim = (case[k] for k in ("tokens", "heads", "kv_heads", "head_dim"))
    make = lambda h: torch.randn(1, h, n, dim, device="cuda", dtype=torch.bfloat16)
    q, k, v = make(heads), make(kv_heads), make(kv_heads)
    out = dict(case)
    for name in ("CUDNN_ATTENTION", "FLASH_ATTENTION"):
        try:
            with sdpa_kernel([getattr(SDPBackend, name)]):
                s = seconds_of(lambda: torch.nn.functional.scaled_dot_product_attention(
                    q, k, v, enable_gqa=heads != kv_heads), torch)
            out[name.lower()] = 4.0 * n * n * heads * dim / s / 1e12
        except (RuntimeError, AttributeError) as e:
            out[name.lower()] = str(e).split("\n")[0]
    return out


def main():
    cases = json.load(open(sys.argv[1]))
    try:
        import torch
        if not torch.cuda.is_available():
            result = {"absent": "PyTorch finds no CUDA device"}
        else:
            result = {"torch": torch.__version__, "cudnn": torch.backends.cudnn.version(), "attention": [], "linear": []}
            for case in cases.get("attention", []):
                if case["tokens"] <= 65536:
                    result["attention"].append(attention(torch, case))
            for case in cases.get("linear", []):
                x = torch.randn(case["rows"], case["k"], device="cuda", dtype=torch.bfloat16)
                w = torch.randn(case["n"], case["k"], device="cuda", dtype=torch.bfloat16)
                s = seconds_of(lambda: torch.nn.functional.linear(x, w), torch)
                result["linear"].append({**case, "cublas": 2.0 * case["rows"] * case["n"] * case["k"] / s / 1e12})
    except ImportError:
        result = {"absent": "there is no PyTorch"}
    json.dump(result, open(sys.argv[2], "w"))


main()
