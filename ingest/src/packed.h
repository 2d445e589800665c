/* The arrays of an index that grow with the recording, in a few bytes an element. */
#ifndef LRI_PACKED_H
#define LRI_PACKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <longreel/core.h>

/* ------------------------------------------------------------------ numbers
 *
 * Any numbers, read at any place; few bytes where neighbours lie near one line. A block of them is that line and
 * how far each lies above it, in as many bytes as the farthest takes. */

enum { LRI_BLOCK = 128 };

typedef struct lri_number_block {
    int64_t base, slope; /* the line */
    uint64_t place;      /* of its bytes, times 16, plus how many a number has */
} lri_number_block;

typedef struct lri_numbers {
    uint8_t *bytes;
    size_t n_bytes, bytes_capacity;
    lri_number_block *blocks;
    size_t n_blocks, blocks_capacity;
    int64_t *waiting; /* [LRI_BLOCK] while they are added: the block that is not full */
    size_t n_waiting;
} lri_numbers;

lr_status lri_numbers_add(lri_numbers *numbers, int64_t value, lr_error *err);
/* Behind the last one; only now they can be read. */
lr_status lri_numbers_end(lri_numbers *numbers, lr_error *err);
int64_t lri_numbers_get(const lri_numbers *numbers, size_t i);
void lri_numbers_free(lri_numbers *numbers);

/* ------------------------------------------------------------------ places
 *
 * Where the packets of a stream lie in the file. Most follow the one before. */

typedef struct lri_place {
    int64_t at;
    int size;
    bool key, discard; /* the packet's flags */
} lri_place;

typedef struct lri_place_block {
    int64_t at;     /* of its first packet */
    uint64_t place; /* of its bytes */
} lri_place_block;

typedef struct lri_places {
    uint8_t *bytes;
    size_t n_bytes, bytes_capacity;
    lri_place_block *blocks;
    size_t n_blocks, blocks_capacity;
    size_t count;
    int64_t end; /* of the last one */
} lri_places;

lr_status lri_places_add(lri_places *places, lri_place place, lr_error *err);
lri_place lri_places_get(const lri_places *places, size_t i);
void lri_places_free(lri_places *places);

#endif
