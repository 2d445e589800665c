"""The model's forward pass for training: the arithmetic of transformers' EmbeddingGemma2Model on its own parameters.

It is restated for speed on a CPU: bf16, several inputs at once without padding to the processor's budgets, and
attention of sliding layers a block at a time. train.py --smoke compares it with the library and with longreel.
W is {parameter name: tensor}, the model's parameters cast once a step. Shapes: [batch, tokens, width].
"""

import functools
import math

import torch
import torch.nn.functional as F


class _RMS(torch.autograd.Function):
    """x * mean(x^2)^-1/2 * w over the last dimension, with few passes over memory."""

    @staticmethod
    def forward(ctx, x, w):
        n = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=torch.float32)
        r = n.square_().div_(x.shape[-1]).add_(1e-6).rsqrt_().to(x.dtype)
        normed = x * r
        ctx.save_for_backward(normed, r, w)
        return normed if w is None else normed * w

    @staticmethod
    def backward(ctx, grad):
        normed, r, w = ctx.saved_tensors
        grad_w = None
        if w is not None:
            grad_w = (grad * normed).reshape(-1, w.shape[0]).sum(0)
            grad = grad * w
        along = torch.linalg.vecdot(grad, normed).unsqueeze(-1).div_(normed.shape[-1])
        return (grad - normed * along).mul_(r), grad_w


def rms(x, w=None):
    return _RMS.apply(x, w)


def cast(model, dtype):
    """The parameters for one step; gradients flow back to the fp32 ones."""
    return {name: p.to(dtype) for name, p in model.named_parameters()}


def _attend(q, k, v, mask=None):
    """[..., rows, d] x [..., keys, d]; logit scale 1. Plain products: faster than the fused kernel at these sizes."""
    scores = q @ k.transpose(-1, -2)
    if mask is not None:
        scores = scores + mask
    return torch.softmax(scores, -1) @ v


def _turn(x, cos, sin):
    """rotate-half positions: [..., tokens, d]."""
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


# ------------------------------------------------------------------ pictures

@functools.lru_cache(64)
def _axial(columns, rows, head_dim, dtype):
    """cos and sin [patches, head_dim]: the first half of a head turns by x, the second by y."""
    inv = 100.0 ** (-torch.arange(0, head_dim // 2, 2, dtype=torch.float64) / (head_dim // 2))
    x = torch.arange(columns).repeat(rows).double()[:, None] * inv
    y = torch.arange(rows).repeat_interleave(columns).double()[:, None] * inv
    both = torch.cat([x, x, y, y], -1)
    return both.cos().to(dtype), both.sin().to(dtype)


def _turn_axial(z, cos, sin):
    q = z.shape[-1] // 4
    turned = torch.cat((-z[..., q:2 * q], z[..., :q], -z[..., 3 * q:], z[..., 2 * q:3 * q]), -1)
    return z * cos + turned * sin


def vision(W, config, patches, columns, rows):
    """patches [frames, rows * columns, 768] of u8 values to soft tokens [frames, rows * columns / 4, hidden]."""
    dtype = W["vision_tower.patch_embedder.input_proj.weight"].dtype
    frames, n = patches.shape[:2]
    d = config.head_dim
    x = (patches.to(torch.float32) * (2 / 255) - 1).to(dtype)
    table = W["vision_tower.patch_embedder.position_embedding_table"]
    place = (table[1, :rows, None] + table[0, None, :columns]).reshape(n, -1)
    h = F.linear(x, W["vision_tower.patch_embedder.input_proj.weight"]) + place
    cos, sin = _axial(columns, rows, d, dtype)
    for i in range(config.num_hidden_layers):
        p = f"vision_tower.encoder.layers.{i}."
        a = rms(h, W[p + "input_layernorm.weight"])
        q, k, v = (F.linear(a, W[p + f"self_attn.{c}_proj.linear.weight"]).view(frames, n, -1, d) for c in "qkv")
        q = _turn_axial(rms(q, W[p + "self_attn.q_norm.weight"]).transpose(1, 2), cos, sin)
        k = _turn_axial(rms(k, W[p + "self_attn.k_norm.weight"]).transpose(1, 2), cos, sin)
        o = _attend(q, k, rms(v).transpose(1, 2)).transpose(1, 2).reshape(frames, n, -1)
        h = h + rms(F.linear(o, W[p + "self_attn.o_proj.linear.weight"]), W[p + "post_attention_layernorm.weight"])
        a = rms(h, W[p + "pre_feedforward_layernorm.weight"])
        a = F.gelu(F.linear(a, W[p + "mlp.gate_proj.linear.weight"]), approximate="tanh") * F.linear(
            a, W[p + "mlp.up_proj.linear.weight"])
        h = h + rms(F.linear(a, W[p + "mlp.down_proj.linear.weight"]), W[p + "post_feedforward_layernorm.weight"])
    k = config.pooling_kernel_size
    h = h.view(frames, rows // k, k, columns // k, k, -1).mean((2, 4)).flatten(1, 2) * math.sqrt(h.shape[-1])
    return F.linear(rms(h), W["embed_vision.embedding_projection.weight"])


# ------------------------------------------------------------------ sound

CHUNK = 12  # a token sees itself and 11 before it


@functools.lru_cache(8)
def _relative(width, dtype):
    """[12, width]: sines, then cosines, of distances 0..11."""
    inv = torch.exp(-torch.arange(width // 2).double() * math.log(10000) / (width // 2 - 1))
    angle = torch.arange(CHUNK).double()[:, None] * inv
    return torch.cat([angle.sin(), angle.cos()], -1).to(dtype)


@functools.lru_cache(1)
def _distances():
    """[12, 24]: from a block's query to the keys of the block before and its own."""
    m = CHUNK + torch.arange(CHUNK)[:, None] - torch.arange(2 * CHUNK)
    return m.clamp(0, CHUNK - 1), (m >= 0) & (m < CHUNK)


def _sound_attention(W, p, config, x):
    batch, n, width = x.shape
    heads = config.num_attention_heads
    d = width // heads
    a = rms(x, W[p + "norm_pre_attn.weight"])
    scale = F.softplus(W[p + "self_attn.per_dim_scale"]) * (d ** -0.5 / math.log(2))
    blocks = -(-n // CHUNK)

    def split(name, factor):
        y = F.linear(a, W[p + f"self_attn.{name}.linear.weight"]).view(batch, n, heads, d) * factor
        y = F.pad(y, (0, 0, 0, 0, 0, blocks * CHUNK - n))
        return y.view(batch, blocks, CHUNK, heads, d).permute(0, 3, 1, 2, 4)

    def with_before(y):
        return torch.cat([F.pad(y, (0, 0, 0, 0, 1, 0))[:, :, :-1], y], 3)

    q = split("q_proj", scale)
    k = with_before(split("k_proj", math.log(1 + math.e) / math.log(2)))
    v = with_before(split("v_proj", 1.0))
    r = F.linear(_relative(width, x.dtype), W[p + "self_attn.relative_k_proj.weight"]).view(CHUNK, heads, d)
    index, seen = _distances()
    by_distance = q @ r.permute(1, 2, 0)[:, None]  # [batch, heads, blocks, 12, 12]
    scores = q @ k.transpose(-1, -2) + by_distance.gather(-1, index.expand(*by_distance.shape[:-1], 2 * CHUNK))
    scores = 50 * torch.tanh(scores / 50)
    first = seen.repeat(blocks, 1, 1)
    first[0, :, :CHUNK] = False  # nothing comes before the beginning
    scores = scores.masked_fill(~first, -1e9)
    o = (torch.softmax(scores, -1) @ v).permute(0, 2, 3, 1, 4).reshape(batch, blocks * CHUNK, width)[:, :n]
    return x + rms(F.linear(o, W[p + "self_attn.post.linear.weight"]), W[p + "norm_post_attn.weight"])


def _sound_ffn(W, p, config, x):
    a = F.silu(F.linear(rms(x, W[p + "pre_layer_norm.weight"]), W[p + "ffw_layer_1.linear.weight"]))
    return x + config.residual_weight * rms(F.linear(a, W[p + "ffw_layer_2.linear.weight"]), W[p + "post_layer_norm.weight"])


def _sound_conv(W, p, x):
    a = F.glu(F.linear(rms(x, W[p + "pre_layer_norm.weight"]), W[p + "linear_start.linear.weight"]), -1)
    taps = W[p + "depthwise_conv1d.weight"][:, 0]  # [width, 5]
    padded = F.pad(a, (0, 0, taps.shape[1] - 1, 0))
    a = sum(padded[:, i: i + x.shape[1]] * taps[:, i] for i in range(taps.shape[1]))
    return x + F.linear(F.silu(rms(a, W[p + "conv_norm.weight"])), W[p + "linear_end.linear.weight"])


def sound(W, config, mel, valid):
    """mel [tracks, frames, 128], of which valid [tracks] count, to soft tokens [tracks, ceil(frames / 4), hidden].

    Of track i the first ceil(valid[i] / 4) tokens are real."""
    dtype = W["audio_tower.output_proj.weight"].dtype
    x = mel.to(dtype)[:, None].contiguous(memory_format=torch.channels_last)
    there = torch.arange(mel.shape[1]) < valid[:, None]
    for i in range(2):
        p = f"audio_tower.subsample_conv_projection.layer{i}."
        w = W[p + "conv.weight"].contiguous(memory_format=torch.channels_last)
        x = F.conv2d(x * there[:, None, :, None], w, stride=2, padding=1)
        x = F.relu(F.layer_norm(x.permute(0, 2, 3, 1), (x.shape[1],), W[p + "norm.weight"], None, 1e-6)).permute(0, 3, 1, 2)
        there = there[:, ::2]
    x = x.permute(0, 2, 3, 1).flatten(2)
    x = F.linear(x, W["audio_tower.subsample_conv_projection.input_proj_linear.weight"])
    for i in range(config.num_hidden_layers):
        p = f"audio_tower.layers.{i}."
        x = _sound_ffn(W, p + "feed_forward1.", config, x)
        x = _sound_attention(W, p, config, x)
        x = _sound_conv(W, p + "lconv1d.", x)
        x = _sound_ffn(W, p + "feed_forward2.", config, x)
        x = rms(x, W[p + "norm_out.weight"])
    x = F.linear(x, W["audio_tower.output_proj.weight"], W["audio_tower.output_proj.bias"])
    return F.linear(rms(x), W["embed_audio.embedding_projection.weight"])


# ------------------------------------------------------------------ backbone

@functools.lru_cache(256)
def _rotary(n, head_dim, theta, dtype):
    inv = theta ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
    angle = torch.arange(n).double()[:, None] * inv
    angle = torch.cat([angle, angle], -1)
    return angle.cos().to(dtype), angle.sin().to(dtype)


@functools.lru_cache(8)
def _band(radius, dtype):
    """[radius, 3 radius]: queries of a block against the keys of three, 0 where |i - j| <= radius."""
    i = radius + torch.arange(radius)[:, None]
    j = torch.arange(3 * radius)
    return torch.where((i - j).abs() <= radius, 0.0, -1e9).to(dtype)


def _windows(q, k, v, radius, there):
    """Sliding attention, a block of `radius` queries against three blocks of keys. q [B, KV, G, n, d], k and v
    [B, KV, n, d], there [B, n]: which tokens are real."""
    batch, kv, group, n, d = q.shape
    blocks = -(-n // radius)
    pad = blocks * radius - n
    q = F.pad(q, (0, 0, 0, pad)).view(batch, kv, group, blocks, radius, d).transpose(2, 3).reshape(batch, kv, blocks, group * radius, d)

    def three(x):
        x = F.pad(x, (0, 0, radius, radius + pad)).view(batch, kv, blocks + 2, radius, d)
        return torch.cat([x[:, :, :-2], x[:, :, 1:-1], x[:, :, 2:]], 3)

    real = F.pad(there, (radius, radius + pad)).view(batch, blocks + 2, radius)
    real = torch.cat([real[:, :-2], real[:, 1:-1], real[:, 2:]], 2)
    mask = _band(radius, q.dtype) + torch.where(real, 0.0, -1e9).to(q.dtype)[:, :, None]
    mask = mask[:, None].repeat(1, 1, 1, group, 1)
    o = _attend(q, three(k), three(v), mask)
    return o.view(batch, kv, blocks, group, radius, d).transpose(2, 3).reshape(batch, kv, group, blocks * radius, d)[:, :, :, :n]


def _self_attention(W, p, config, layer, a, there):
    full = config.layer_types[layer] == "full_attention"
    own = config.per_layer_config[layer]
    d, kv = own.head_dim, own.num_key_value_heads
    batch, n, _ = a.shape
    q, k, v = (F.linear(a, W[p + f"{c}_proj.weight"]).view(batch, n, -1, d) for c in "qkv")
    theta = config.rope_parameters[config.layer_types[layer]]["rope_theta"]
    cos, sin = _rotary(n, d, theta, a.dtype)
    q = _turn(rms(q, W[p + "q_norm.weight"]).transpose(1, 2), cos, sin)
    k = _turn(rms(k, W[p + "k_norm.weight"]).transpose(1, 2), cos, sin)
    v = rms(v).transpose(1, 2)
    group = q.shape[1] // kv
    q = q.reshape(batch, kv, group, n, d)
    if full or n <= config.sliding_window + 1:
        mask = torch.where(there, 0.0, -1e9).to(a.dtype)[:, None, None]
        o = _attend(q.flatten(2, 3), k, v, mask).view(batch, kv, group, n, d)
    else:
        o = _windows(q, k, v, config.sliding_window, there)
    return F.linear(o.flatten(1, 2).transpose(1, 2).reshape(batch, n, -1), W[p + "o_proj.weight"])


def backbone(W, config, e, there):
    """e [B, n, hidden], real where there [B, n]; the vectors of all tokens after the last norm, [B, n, hidden]."""
    width, layers = config.hidden_size_per_layer_input, config.num_hidden_layers
    ple = F.linear(e, W["language_model.ple.per_layer_model_projection.weight"]) * config.hidden_size ** -0.5
    ple = rms(ple.view(*e.shape[:-1], layers, width), W["language_model.ple.per_layer_projection_norm.weight"])
    h = e
    for i in range(layers):
        p = f"language_model.layers.{i}."
        a = _self_attention(W, p + "self_attn.", config, i, rms(h, W[p + "input_layernorm.weight"]), there)
        h = h + rms(a, W[p + "post_attention_layernorm.weight"])
        a = rms(h, W[p + "pre_feedforward_layernorm.weight"])
        a = F.gelu(F.linear(a, W[p + "mlp.gate_proj.weight"]), approximate="tanh") * F.linear(a, W[p + "mlp.up_proj.weight"])
        h = h + rms(F.linear(a, W[p + "mlp.down_proj.weight"]), W[p + "post_feedforward_layernorm.weight"])
        a = F.gelu(F.linear(h, W[p + "ple_block.per_layer_input_gate.weight"]), approximate="tanh") * ple[:, :, i]
        a = F.linear(a, W[p + "ple_block.per_layer_projection.weight"])
        h = h + rms(a, W[p + "ple_block.post_per_layer_input_norm.weight"])  # layer_scalar is 1
    return rms(h, W["language_model.norm.weight"])


def embed(W, ids):
    """Token vectors of texts and markers."""
    table = W["language_model.embed_tokens.weight"]
    return F.embedding(ids, table) * math.sqrt(table.shape[1])


def project(W, means):
    """Vectors [.., 192] of means over tokens, not normalised."""
    return F.linear(means.float(), W["language_model.embedding_projection.weight"].float())
