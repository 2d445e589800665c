#!/usr/bin/env python3
"""One table of ratios from what the scripts of this folder wrote with --json.

    table.py FILE.json...

A ratio is the peer's time over Longreel's of the same turn: the median and, in brackets, the least and the most.
"""
import json
import os
import statistics
import sys


def ratio(values):
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def lines(path):
    """(case, peer, ratios of wall clock, ratios of processor time); decode.py has rows of its own form."""
    with open(path) as file:
        rows = json.load(file)
    for row in rows:
        if "ratios" in row:
            for peer, wall in row["ratios"].items():
                yield row["what"], peer + (" *" if peer == row["best"] else ""), wall, row["processor_ratios"][peer]
        elif "taken" in row:
            mine = row["taken"]["longreel"]
            for peer, taken in row["taken"].items():
                if peer != "longreel":
                    wall, busy = ([t[i] / m[i] for t, m in zip(taken, mine)] for i in (0, 1))
                    yield f"frames of {os.path.basename(row['file'])}, {row['fps']} a second", peer, wall, busy


def main():
    print("| case | peer (* the quickest) | times the seconds | times the processor time |\n|---|---|---|---|")
    for path in sys.argv[1:]:
        for case, peer, wall, busy in lines(path):
            print(f"| {case} | {peer} | {ratio(wall)} | {ratio(busy)} |")


if __name__ == "__main__":
    main()
