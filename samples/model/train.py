#!/usr/bin/env python3
"""Trains the small EmbeddingGemma 2 of samples/model from made scenes.

    train.py --work DIR [-o OUT] [--resume] [--minutes 120]

Needs torch, transformers, tokenizers, numpy and Pillow; on Debian also: espeak-ng tuxpaint-stamps-default
fonts-dejavu fonts-liberation fonts-freefont-ttf. DIR keeps the state (every few minutes), the spoken words and
log.jsonl; OUT (default DIR/model) gets the checkpoint. What is trained depends on the seed, the steps and the machine's
arithmetic, not on when it was interrupted.
"""

import argparse
import concurrent.futures
import json
import math
import os
import signal
import time

import torch

import batches
import checkpoint
import glimpses
import losses
import sounds

STATE = "state.pt"


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--work", required=True)
    p.add_argument("-o", "--output")
    p.add_argument("--resume", action="store_true", help="go on from DIR's state")
    p.add_argument("--steps", type=int, default=3000)
    p.add_argument("--glimpses", type=int, default=4000, help="steps of small pictures before")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--scenes", type=int, default=64, help="of a batch of recordings (64: up to 14 GB of memory)")
    p.add_argument("--makers", type=int, default=1, help="processes that make batches")
    p.add_argument("--minutes", type=float, default=1e9, help="stop after so long; --resume goes on")
    p.add_argument("--rate", type=float, default=2e-3)
    p.add_argument("--smoke", action="store_true", help="a few steps, then compare with transformers and longreel")
    p.add_argument("--longreel", default="longreel", help="the program to compare with")
    return p.parse_args()


# ------------------------------------------------------------------ batches, made in other processes

_maker = None


def _begin(tokenizer, ids, bank):
    global _maker
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    _maker = batches.Maker(tokenizer, ids, sounds.speech_bank(bank))


def _make(seed, step, alone, scenes):
    if step < 0:
        return glimpses.batch(seed, step)
    return _maker.batch(seed, step, alone, scenes)


def plan(step, steps, scenes):
    """(alone, scenes) of a step: small batches of pictures and sounds alone at first, then some recordings, then mostly."""
    if step < steps // 4:
        return True, 48
    recordings = (2,) if step < steps * 5 // 8 else (1, 2)
    return (False, scenes) if step % 3 in recordings else (True, 96)


class Supply:
    """Batches step by step, a few ahead."""

    def __init__(self, args, tokenizer, ids, bank, first):
        os.environ["OPENBLAS_NUM_THREADS"] = "1"
        self.pool = concurrent.futures.ProcessPoolExecutor(args.makers, initializer=_begin, initargs=(tokenizer, ids, bank))
        self.args, self.next = args, first
        self.waiting = []

    def __call__(self):
        while len(self.waiting) < 4:
            alone, scenes = plan(self.next, self.args.steps, self.args.scenes)
            self.waiting.append(self.pool.submit(_make, self.args.seed, self.next, alone, 12 if self.args.smoke else scenes))
            self.next += 1
        return self.waiting.pop(0).result()


# ------------------------------------------------------------------ training

def optimizers(model, heads, rate):
    """Muon for the matrices inside the blocks, AdamW for the rest."""
    matrices, others = [], []
    for name, p in model.named_parameters():
        if checkpoint.frozen(name):
            p.requires_grad_(False)
        elif p.dim() == 2 and ".layers." in name:
            matrices.append(p)
        else:
            others.append(p)
    return [torch.optim.Muon(matrices, lr=rate, weight_decay=0.05, momentum=0.95, adjust_lr_fn="match_rms_adamw"),
            torch.optim.AdamW([{"params": others}, {"params": list(heads.parameters())}], lr=rate, betas=(0.9, 0.98),
                              weight_decay=0.01)]


def pace(step, steps, glimpse_steps):
    """The share of the learning rate: up in 50 steps, then along half a cosine to nothing; of glimpses (below 0) straight
    down to a tenth."""
    if step < 0:
        return min(1.0, (step + glimpse_steps + 1) / 50) * (0.1 - 0.9 * step / glimpse_steps)
    return min(1.0, (step + 1) / 50) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * min(1.0, step / steps))))


def train(args):
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    os.makedirs(args.work, exist_ok=True)
    first, path = -args.glimpses, os.path.join(args.work, STATE)
    state = torch.load(path, weights_only=False) if args.resume and os.path.exists(path) else None
    tokenizer, ids = state["tokenizer"] if state else checkpoint.tokenizer_json()
    model = checkpoint.create(args.seed, ids, len(json.loads(tokenizer)["model"]["vocab"]))
    heads = losses.Heads(model.config.text_config.hidden_size)
    tools = optimizers(model, heads, args.rate)
    if state:
        model.load_state_dict(state["model"])
        heads.load_state_dict(state["heads"])
        for tool, kept in zip(tools, state["tools"]):
            tool.load_state_dict(kept)
        first = state["step"]
    bank = os.path.join(args.work, "speech.npz")
    sounds.speech_bank(bank)
    supply = Supply(args, tokenizer, ids, bank, first)
    begin = kept_at = time.time()
    trained = [p for tool in tools for group in tool.param_groups for p in group["params"]]

    def keep(step):
        torch.save({"model": model.state_dict(), "heads": heads.state_dict(), "tools": [t.state_dict() for t in tools],
                    "step": step, "tokenizer": (tokenizer, ids)}, path + ".part")
        os.replace(path + ".part", path)
        checkpoint.save(args.output or os.path.join(args.work, "model"), model, tokenizer, ids)

    stop = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.append(1))  # after the step at hand
    step = first
    for step in range(first, args.steps):
        for tool in tools:
            for group in tool.param_groups:
                group["lr"] = args.rate * pace(step, args.steps, args.glimpses)
        began = time.process_time()
        value, parts = (losses if step >= 0 else glimpses).loss(model, heads, supply())
        value.backward()
        norm = torch.nn.utils.clip_grad_norm_(trained, 5.0)
        if not torch.isfinite(norm):
            raise SystemExit(f"step {step}: the gradient is not finite")
        for tool in tools:
            tool.step()
            tool.zero_grad(set_to_none=True)
        with open(os.path.join(args.work, "log.jsonl"), "a") as log:
            row = {"step": step, "loss": float(value.detach()), "norm": float(norm), "cpu": time.process_time() - began,
                   "scale": float(heads.scale.detach()), **parts}
            log.write(json.dumps({k: round(v, 4) for k, v in row.items()}) + "\n")
        if time.time() - kept_at > 240:
            keep(step + 1)
            kept_at = time.time()
        if stop or time.time() - begin > 60 * args.minutes:
            break
    keep(step + 1)
    supply.pool.shutdown(cancel_futures=True)
    return model


if __name__ == "__main__":
    args = arguments()
    if args.smoke:
        import smoke
        smoke.run(args, train)
    else:
        train(args)
