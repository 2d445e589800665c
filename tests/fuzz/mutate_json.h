/* Mutations that keep JSON well formed, so that what reads its values is reached. */
#ifndef LR_FUZZ_MUTATE_JSON_H
#define LR_FUZZ_MUTATE_JSON_H

#include <stddef.h>
#include <stdint.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed);

/* Changes, removes or copies a value somewhere in the text data[0 .. size); returns the new size. Text that is
 * no JSON, and now and then any, is mutated as bytes. */
size_t fz_mutate_json(uint8_t *data, size_t size, size_t max_size, unsigned int seed);

#endif
