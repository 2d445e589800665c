#!/usr/bin/env python3
"""Searches embedding sets with numpy alone: 2_python_numpy.py QUERY.npy SET...

The query's vector is made by the same model, for example by
    longreel embed -m MODEL -o query.npy --task search-query --text "a red car"
"""
import json
import pathlib
import sys

import numpy as np


def main(query, *sets):
    vector = np.load(query)[0]
    hits = []
    for path in map(pathlib.Path, sets):
        segments = np.load(path / "segments.npy", mmap_mode="r")  # [segments, dim], rows of length 1
        rows = [json.loads(line) for line in open(path / "segments.jsonl")]
        for score, row in zip(segments @ vector, rows):
            hits.append((score, path.name, row["start"], row["end"]))
    for score, name, start, end in sorted(hits, reverse=True)[:5]:
        print(f"{score:7.4f}  {name}  {start:.1f} s to {end:.1f} s")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
