"""The formats of quantised caches, by element, in numpy: what `append_quantized` writes and `decode_quantized` reads.

A head's codes lie in blocks of 16 tokens. Such a block is what the 32 lanes of a warp multiply: each lane's bytes are
adjacent, in the order of its registers. For keys, lane 4 r + c has token r (and r + 8) and channels 2 c, 2 c + 1 of
every eight; for values, tokens 2 c, 2 c + 1 (and 8 more) and channel r of every eight. Values of four bits have tokens
eight apart in adjacent bytes: as a number of 16 bits, both widen after one shift.
"""

import numpy as np

BLOCK, GROUP = 16, 32
MOST_STEP = 15.0


def key_places(size, bits):
    """For (token of a block, channel): the lane, and the element within the lane."""
    token, channel = np.meshgrid(np.arange(BLOCK), np.arange(size), indexing="ij")
    lane = token % 8 * 4 + channel // 2 % 4
    high = channel // 16
    return lane, channel % 2 + channel // 8 % 2 * 2 + high * 4 + token // 8 * 4 * (size // 16)


def value_places(size, bits):
    token, channel = np.meshgrid(np.arange(BLOCK), np.arange(size), indexing="ij")
    lane = channel % 8 * 4 + token // 2 % 4
    of_token = token % 2 + token // 8 * 2 if bits == 8 else token // 8 + token % 2 * 2
    return lane, of_token + channel // 8 * 4


def packed(codes, bits, places):
    """(tokens, size) codes from 0 as (tokens / 16, 32, bytes): with four bits, the low halves of bytes hold the first
    half of the channels."""
    tokens, size = codes.shape
    if bits == 4:
        codes = codes[:, : size // 2] | codes[:, size // 2 :] << 4
    side = codes.shape[1]
    lane, place = places(side, bits)
    out = np.zeros((tokens // BLOCK, 32, side // 2), np.uint8)
    out[:, lane, place] = codes.reshape(tokens // BLOCK, BLOCK, side)
    return out


def unpacked(data, bits, places):
    """The inverse of `packed`."""
    side = data.shape[2] * 2
    lane, place = places(side, bits)
    found = data[:, lane, place].reshape(-1, side)
    return found if bits == 8 else np.concatenate([found & 15, found >> 4], axis=1)


def nearest(x):
    return np.floor(x + np.float32(0.5))


def ranges_of(x, axis):
    """16-bit words for steps and zeros of four-bit codes along an axis: the step in the high byte (five bits of
    exponent, three of mantissa, rounded up), the zero in the low one, counted in steps from -128."""
    least, most = x.min(axis=axis).astype(np.float32), x.max(axis=axis).astype(np.float32)
    furthest = np.maximum(np.abs(least), np.abs(most))
    step = np.maximum((most - least) * np.float32(1 / 15), furthest * np.float32(1 / 120))
    step = np.minimum(step, MOST_STEP)
    bits = (step.astype(np.float16).view(np.uint16) + np.uint16(127)) >> 7
    step = step_of(bits << 8)
    zero = nearest(least / np.where(step == 0, 1, step)).astype(np.int32)
    return (bits << 8 | (zero + 128).astype(np.uint16)).astype(np.uint16)


def step_of(words):
    return ((words >> 8) << 7).astype(np.uint16).view(np.float16).astype(np.float32)


def zero_of(words):
    return (words & 255).astype(np.int32) - 128


def quantized(x, words):
    """Codes of x by ``words`` (of its shape)."""
    step = step_of(words)
    return np.clip(nearest(x / np.where(step == 0, 1, step)) - zero_of(words), 0, 15).astype(np.uint8)


def scales_of(x):
    """Scales of eight-bit codes: one float16 per token and head."""
    return (np.abs(x).max(axis=-1).astype(np.float32) * np.float32(1 / 127)).astype(np.float16)


def rounded(x, scale):
    scale = scale.astype(np.float32)[..., None]
    return (np.clip(nearest(x / np.where(scale == 0, 1, scale)), -127, 127) + 128).astype(np.uint8)


def restored(codes, ranges, recent, bits, length, keys):
    """(length, size) float64 numbers of one head, from the ``codes`` of its blocks, its ranges and its last tokens."""
    places = key_places if keys else value_places
    numbers = unpacked(codes, bits, places).astype(np.float64)
    if bits == 8:
        return ((numbers - 128) * ranges.astype(np.float64)[: len(numbers), None])[:length]
    words = np.repeat(ranges, GROUP, axis=0) if keys else ranges[:, None]
    words = words[: len(numbers)]
    whole = length // GROUP * GROUP
    numbers = (numbers + zero_of(words)) * step_of(words).astype(np.float64)
    return np.concatenate([numbers[:whole], np.asarray(recent[: length - whole], np.float64)])


def quantized_cache(k, v, lengths, bits, tokens):
    """The arrays of `decode_quantized` for caches (batch, tokens, heads, size): k, v, k_ranges, v_ranges, k_recent,
    v_recent (None with eight bits)."""
    pairs = zip(_cache(k, lengths, bits, tokens, True), _cache(v, lengths, bits, tokens, False), strict=True)
    return [array if i < 4 or bits == 4 else None for i, array in enumerate(x for pair in pairs for x in pair)]


def _cache(x, lengths, bits, tokens, keys):
    batch, _, heads, size = x.shape
    codes = np.zeros((batch, heads, tokens // BLOCK, 32, size * bits // 16), np.uint8)
    of_channels = bits == 4 and keys
    ranges = np.zeros(
        (batch, heads, tokens // GROUP, size) if of_channels else (batch, heads, tokens),
        np.float16 if bits == 8 else np.uint16,
    )
    recent = np.zeros((batch, heads, GROUP, size), x.dtype)
    for b, length in enumerate(lengths):
        whole = length if bits == 8 else length // GROUP * GROUP
        recent[b, :, : length - whole] = np.moveaxis(x[b, whole:length], 0, 1)
        padded = -(-whole // GROUP) * GROUP
        for h in range(heads):
            numbers = np.zeros((padded, size), np.float32)
            numbers[:whole] = x[b, :whole, h]
            if bits == 8:
                words = scales_of(numbers)
                found = rounded(numbers, words)
            elif keys:
                words = ranges_of(numbers.reshape(-1, GROUP, size), 1)
                found = quantized(numbers, np.repeat(words, GROUP, axis=0))
            else:
                words = ranges_of(numbers, 1)
                found = quantized(numbers, words[:, None])
            ranges[b, h, : len(words)] = words
            codes[b, h, : padded // BLOCK] = packed(found, bits, key_places if keys else value_places)
    return codes, ranges, recent


def decoded_cache(k, v, k_ranges, v_ranges, k_recent, v_recent, lengths):
    """The keys and values (batch, tokens, heads, size) that the arrays represent, in float64."""
    bits = 8 if k_recent is None else 4
    batch, heads, size = k.shape[0], k.shape[1], k.shape[4] * 16 // bits
    means = np.zeros((2, batch, max(lengths), heads, size))
    for which, (codes, ranges, recent) in enumerate(((k, k_ranges, k_recent), (v, v_ranges, v_recent))):
        for b, length in enumerate(lengths):
            for h in range(heads):
                last = None if recent is None else recent[b, h]
                means[which, b, :length, h] = restored(codes[b, h], ranges[b, h], last, bits, length, which == 0)
    return means
