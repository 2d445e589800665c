#include "packed.h"

#include <string.h>

__extension__ typedef __int128 wide;

/* ------------------------------------------------------------------ numbers */

/* Steeper lines would leave 64 bits. */
#define STEEPEST (INT64_C(1) << 40)

/* The least and the most that the values lie above slope * k. */
static void find_bounds(const int64_t *values, size_t count, int64_t slope, wide *low, wide *high)
{
    *low = *high = values[0];
    for (size_t k = 1; k < count; k++) {
        wide rest = (wide)values[k] - (wide)slope * (wide)k;
        if (rest < *low) *low = rest;
        if (rest > *high) *high = rest;
    }
}

static unsigned bytes_of(wide range)
{
    unsigned width = 0;
    for (; range > 0; range >>= 8) width++;
    return width;
}

static lr_status add_block(lri_numbers *numbers, const int64_t *values, size_t count, lr_error *err)
{
    lr_status st = LR_OK;
    wide low, high, rise = (wide)values[count - 1] - values[0];
    int64_t slope = 0;
    if (count > 1 && rise / (wide)(count - 1) < STEEPEST && rise / (wide)(count - 1) > -STEEPEST)
        slope = (int64_t)(rise / (wide)(count - 1));
    find_bounds(values, count, slope, &low, &high);
    if (low < INT64_MIN || low > INT64_MAX || high - low > UINT64_MAX) {
        slope = 0;
        find_bounds(values, count, slope, &low, &high);
    }
    unsigned width = bytes_of(high - low);
    LR_TRY(LR_GROW(&numbers->blocks, &numbers->blocks_capacity, numbers->n_blocks + 1, "the index", err));
    LR_TRY(LR_GROW(&numbers->bytes, &numbers->bytes_capacity, numbers->n_bytes + count * width, "the index", err));
    numbers->blocks[numbers->n_blocks++] =
        (lri_number_block){.base = (int64_t)low, .slope = slope, .place = (uint64_t)numbers->n_bytes * 16 + width};
    for (size_t k = 0; k < count; k++) {
        uint64_t rest = (uint64_t)((wide)values[k] - (wide)slope * (wide)k - low);
        for (unsigned i = 0; i < width; i++) numbers->bytes[numbers->n_bytes++] = (uint8_t)(rest >> (8 * i));
    }
done:
    return st;
}

lr_status lri_numbers_add(lri_numbers *numbers, int64_t value, lr_error *err)
{
    lr_status st = LR_OK;
    if (!numbers->waiting) LR_TRY(LR_NEW(&numbers->waiting, LRI_BLOCK, "the index", err));
    numbers->waiting[numbers->n_waiting++] = value;
    if (numbers->n_waiting < LRI_BLOCK) return LR_OK;
    numbers->n_waiting = 0;
    LR_TRY(add_block(numbers, numbers->waiting, LRI_BLOCK, err));
done:
    return st;
}

lr_status lri_numbers_end(lri_numbers *numbers, lr_error *err)
{
    lr_status st = LR_OK;
    if (numbers->n_waiting > 0) LR_TRY(add_block(numbers, numbers->waiting, numbers->n_waiting, err));
    lr_free(numbers->waiting);
    numbers->waiting = NULL;
    numbers->n_waiting = 0;
done:
    return st;
}

int64_t lri_numbers_get(const lri_numbers *numbers, size_t i)
{
    const lri_number_block *block = &numbers->blocks[i / LRI_BLOCK];
    size_t k = i % LRI_BLOCK, width = block->place % 16;
    uint64_t rest = 0;
    if (width > 0) {
        const uint8_t *bytes = numbers->bytes + block->place / 16 + k * width;
        for (size_t b = width; b-- > 0;) rest = rest << 8 | bytes[b];
    }
    return (int64_t)((uint64_t)block->base + (uint64_t)block->slope * k + rest);
}

void lri_numbers_free(lri_numbers *numbers)
{
    lr_free(numbers->bytes);
    lr_free(numbers->blocks);
    lr_free(numbers->waiting);
    memset(numbers, 0, sizeof *numbers);
}

/* ------------------------------------------------------------------ places */

/* Packets that are passed over, at most, to come to one. */
enum { PLACES_OF_A_BLOCK = 64 };
enum { JUMPS = 1, KEY = 2, DISCARD = 4, FLAG_BITS = 3 };

/* Seven bits a byte, the lowest first. */
static void put(lri_places *places, uint64_t value)
{
    for (; value > 127; value >>= 7) places->bytes[places->n_bytes++] = (uint8_t)(value | 128);
    places->bytes[places->n_bytes++] = (uint8_t)value;
}

static uint64_t take(const uint8_t **at)
{
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
        uint8_t byte = *(*at)++;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return value;
    }
}

lr_status lri_places_add(lri_places *places, lri_place place, lr_error *err)
{
    enum { MOST_BYTES = 20 }; /* two numbers of 64 bits */
    lr_status st = LR_OK;
    LR_TRY(LR_GROW(&places->bytes, &places->bytes_capacity, places->n_bytes + MOST_BYTES, "the index", err));
    if (places->count % PLACES_OF_A_BLOCK == 0) {
        LR_TRY(LR_GROW(&places->blocks, &places->blocks_capacity, places->n_blocks + 1, "the index", err));
        places->blocks[places->n_blocks++] = (lri_place_block){.at = place.at, .place = places->n_bytes};
        places->end = place.at;
    }
    int64_t jump = place.at - places->end;
    unsigned flags = (jump != 0 ? JUMPS : 0) | (place.key ? KEY : 0) | (place.discard ? DISCARD : 0);
    put(places, (uint64_t)place.size << FLAG_BITS | flags);
    /* The sign is the lowest bit. */
    if (jump != 0) put(places, jump < 0 ? (uint64_t)~jump << 1 | 1 : (uint64_t)jump << 1);
    places->end = place.at + place.size;
    places->count++;
done:
    return st;
}

lri_place lri_places_get(const lri_places *places, size_t i)
{
    const lri_place_block *block = &places->blocks[i / PLACES_OF_A_BLOCK];
    const uint8_t *bytes = places->bytes + block->place;
    lri_place place = {.at = block->at};
    for (size_t k = i / PLACES_OF_A_BLOCK * PLACES_OF_A_BLOCK; k <= i; k++) {
        uint64_t head = take(&bytes), jump = head & JUMPS ? take(&bytes) : 0;
        place.at += place.size + (jump & 1 ? ~(int64_t)(jump >> 1) : (int64_t)(jump >> 1));
        place.size = (int)(head >> FLAG_BITS);
        place.key = (head & KEY) != 0;
        place.discard = (head & DISCARD) != 0;
    }
    return place;
}

void lri_places_free(lri_places *places)
{
    lr_free(places->bytes);
    lr_free(places->blocks);
    memset(places, 0, sizeof *places);
}
