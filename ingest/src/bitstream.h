/* What a coded picture says of itself, read from its first bytes without decoding. */
#ifndef LRI_BITSTREAM_H
#define LRI_BITSTREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <libavcodec/avcodec.h>

typedef enum lri_entry_kind {
    LRI_ENTRY_NONE,   /* decoding cannot begin here */
    LRI_ENTRY_OPEN,   /* can begin here, but pictures shown before this one may need earlier ones */
    LRI_ENTRY_CLOSED, /* can begin here; everything after it needs nothing before it */
} lri_entry_kind;

typedef struct lri_picture_kind {
    lri_entry_kind entry;
    bool shown;     /* false: never output (a hidden reference, a placeholder) */
    bool reference; /* others may depend on it; true when in doubt */
    int layer;      /* temporal layer: where `reference` is false, no picture of this layer or a lower one
                       depends on it */
    char type;      /* 'I', 'P', 'B' or 0 where the codec is not looked into */
    int number;     /* MPEG-1, -2: the temporal reference */
    bool restarts;  /* from this picture on they are counted anew */
    char packed;    /* the type of a second picture that the next packet stands for (MPEG-4 in AVI) */
} lri_picture_kind;

/* `key` is the container's mark. Codecs without a case here are taken at the container's word. */
lri_picture_kind lri_picture_look(const AVCodecParameters *parameters, const uint8_t *data,
                                  size_t size, bool key);

/* After how many lost pictures of H.264 the numbers of the next go on as if there were none; fewer than `least` a
 * decoder misses. 0 pictures: never, or not known. */
typedef struct lri_cycle {
    int64_t pictures, least;
} lri_cycle;
/* False where the packet holds no parameter set that says it. */
bool lri_cycle_of(const AVCodecParameters *parameters, const uint8_t *data, size_t size, lri_cycle *cycle);
/* Whether pictures of H.264 may be coded as two fields, by the parameter set of the container; true when in doubt. */
bool lri_may_hold_fields(const AVCodecParameters *parameters);

/* A hash of what a packet says of the size and format of the pictures from it on; 0 where it says nothing.
 * Whether another hash means another size, decoding tells. */
uint64_t lri_shape_of(const AVCodecParameters *parameters, const AVPacket *packet);

/* The next NAL unit of a packet, whether they follow start codes or lengths. */
typedef struct lri_nal_walk {
    const uint8_t *at, *end;
    unsigned length_bytes; /* 0: start codes */
} lri_nal_walk;
lri_nal_walk lri_walk_nals(const AVCodecParameters *p, const uint8_t *data, size_t size);
bool lri_next_nal(lri_nal_walk *walk, const uint8_t **nal, size_t *size);
/* The next 00 00 01; `end` where there is none. */
const uint8_t *lri_find_start_code(const uint8_t *at, const uint8_t *end);

#endif
