#!/usr/bin/env python3
"""Searches embedding sets from Python, without Longreel: 4_python.py QUERY.npy SET... [SETS.sqlite]

By numpy, by faiss where that is installed, and in the database that "longreel export SET... --sqlite SETS.sqlite" writes.
The query's vector is made by the same model, for example by
    longreel embed -m MODEL -o query.npy --task search-query --text "a red car"
"""
import json
import pathlib
import sqlite3
import sys

import numpy as np


def read(sets):
    """All segments' vectors [rows, dim], of length 1, and (recording, start, end) of each row."""
    vectors, places = [], []
    for path in map(pathlib.Path, sets):
        vectors.append(np.load(path / "segments.npy", mmap_mode="r"))
        for line in open(path / "segments.jsonl"):
            row = json.loads(line)
            places.append((path.name, row["start"], row["end"]))
    return np.concatenate(vectors), places


def by_numpy(query, sets, count):
    vectors, places = read(sets)
    scores = vectors @ query
    return [(scores[i], *places[i]) for i in np.argsort(-scores)[:count]]


def by_faiss(query, sets, count):
    import faiss

    vectors, places = read(sets)
    index = faiss.IndexFlatIP(vectors.shape[1])  # inner products of rows of length 1: cosines
    index.add(vectors)
    scores, rows = index.search(query[None], min(count, len(places)))
    return [(score, *places[i]) for score, i in zip(scores[0], rows[0])]


def by_sqlite(query, path, count):
    """sqlite-vec does this inside the database; the blobs are float32 as it reads them."""
    hits = []
    with sqlite3.connect(path) as db:
        for blob, name, start, end in db.execute(
            "SELECT segments.vector, recording, start, end FROM segments JOIN sets ON sets.id = set_id"
        ):
            hits.append((np.frombuffer(blob, "<f4") @ query, name, start, end))
    return sorted(hits, reverse=True)[:count]


def show(title, hits):
    print(title)
    for score, name, start, end in hits:
        print(f"{score:7.4f}  {name}  {start:.1f} s to {end:.1f} s")


def main(query, *others):
    vector = np.load(query)[0]
    sets = [path for path in others if pathlib.Path(path).is_dir()]
    databases = [path for path in others if path not in sets]
    if sets:
        show("numpy:", by_numpy(vector, sets, 5))
        try:
            show("faiss:", by_faiss(vector, sets, 5))
        except ImportError:
            print("faiss: not installed (pip install faiss-cpu)")
    for path in databases:
        show(f"{path}:", by_sqlite(vector, path, 5))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
