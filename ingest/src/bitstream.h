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
    char type;      /* 'I', 'P', 'B' or 0 where the codec is not looked into */
    char packed;    /* the type of a second picture that the next packet stands for (MPEG-4 in AVI) */
} lri_picture_kind;

/* `key` is the container's mark. Codecs without a case here are taken at the container's word. */
lri_picture_kind lri_picture_look(const AVCodecParameters *parameters, const uint8_t *data,
                                  size_t size, bool key);

#endif
