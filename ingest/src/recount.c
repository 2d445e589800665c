/* AVI has no time stamps: its pictures and samples are counted. Where a chunk was lost, all that follows would be too
 * early; the file's index says which number a chunk has. */
#include <string.h>

#include "recording.h"

/* The entry of the chunk whose data begin at `place`. Its own header has 8 bytes. */
static const AVIndexEntry *find_entry(AVStream *stream, int64_t place)
{
    enum { HEADER = 8 };
    int low = 0, high = avformat_index_get_entries_count(stream);
    while (low < high) {
        int middle = low + (high - low) / 2;
        const AVIndexEntry *entry = avformat_index_get_entry(stream, middle);
        if (!entry) return NULL;
        if (entry->pos == place || entry->pos + HEADER == place) return entry;
        if (entry->pos < place) low = middle + 1;
        else high = middle;
    }
    return NULL;
}

/* Entries of sound count bytes, packets samples. 0: not counted here. */
static int unit_of(const AVStream *stream)
{
    const AVCodecParameters *p = stream->codecpar;
    bool pcm = p->codec_id >= AV_CODEC_ID_PCM_S16LE && p->codec_id < AV_CODEC_ID_ADPCM_IMA_QT;
    if (p->codec_type == AVMEDIA_TYPE_VIDEO) return 1;
    return pcm && p->block_align > 0 ? p->block_align : 0;
}

bool lri_recount(const AVInputFormat *format, AVStream *stream, AVPacket *packet, int64_t *missing)
{
    int unit = unit_of(stream);
    if (strcmp(format->name, "avi") != 0 || unit == 0 || packet->dts == AV_NOPTS_VALUE) return false;
    const AVIndexEntry *entry = packet->pos < 0 ? NULL : find_entry(stream, packet->pos);
    int64_t behind, last = *missing;
    /* An index that lacks entries counts too few itself. */
    if (entry && !__builtin_sub_overflow(entry->timestamp / unit, packet->dts, &behind) && behind > last &&
        behind < INT32_MAX)
        *missing = behind;
    if (__builtin_add_overflow(packet->dts, *missing, &packet->dts)) packet->dts = AV_NOPTS_VALUE;
    if (packet->pts != AV_NOPTS_VALUE && __builtin_add_overflow(packet->pts, *missing, &packet->pts))
        packet->pts = AV_NOPTS_VALUE;
    return *missing > last;
}
