/* Where decoding must begin for each picture: the last entry at or before it that it does not lead
 * (lri_leads). In one pass, since a file may have one entry for an hour of pictures, or open entries only. */
#include "recording.h"

typedef struct entry_stack {
    /* Of the entries so far those that can still be an answer: up to the last closed one, and with stamps
     * that go up, since an entry is of no use behind which one with an earlier stamp stands. */
    uint32_t *ordinals;
    size_t count;
} entry_stack;

static void push(const lri_video_index *video, entry_stack *stack, uint32_t ordinal)
{
    const lri_packet *packet = &video->packets[ordinal];
    if (packet->flags & LRI_CLOSED) stack->count = 0;
    while (stack->count > 0) {
        const lri_packet *top = &video->packets[stack->ordinals[stack->count - 1]];
        if ((top->flags & LRI_CLOSED) || top->pts < packet->pts) break;
        stack->count--;
    }
    stack->ordinals[stack->count++] = ordinal;
}

/* The last one that a picture with this stamp does not lead; packet 0 where there is none. */
static uint32_t find(const lri_video_index *video, const entry_stack *stack, int64_t pts)
{
    size_t low = 0, high = stack->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const lri_packet *packet = &video->packets[stack->ordinals[middle]];
        if ((packet->flags & LRI_CLOSED) || packet->pts <= pts) low = middle + 1;
        else high = middle;
    }
    return low > 0 ? stack->ordinals[low - 1] : 0;
}

/* No codec delays more. */
#define MOST_REORDER 16

static int reorder_of(const lri_video_index *video)
{
    int most = 0;
    for (size_t i = 1; i < video->n_packets && most < MOST_REORDER; i++) {
        const lri_packet *packet = &video->packets[i];
        int behind = 0;
        for (size_t j = i; j-- > 0 && i - j <= 2 * MOST_REORDER;)
            behind += video->packets[j].pts > packet->pts;
        if (behind > most) most = behind;
    }
    return most < MOST_REORDER ? most : MOST_REORDER;
}

lr_status lri_video_find_entries(lri_video_index *video, lr_error *err)
{
    lr_status st = LR_OK;
    entry_stack stack = {0};
    size_t latest = SIZE_MAX; /* the last open entry, while only B-pictures follow: all of them lead it */
    LR_TRY(LR_NEW(&stack.ordinals, video->n_packets, "the index of the pictures", err));
    LR_TRY(LR_NEW(&video->made_entry, video->n_packets, "the index of the pictures", err));
    for (size_t i = 0; i < video->n_packets; i++) {
        const lri_packet *packet = &video->packets[i];
        bool entry = (packet->flags & (LRI_OPEN | LRI_CLOSED)) != 0;
        if (latest != SIZE_MAX && (entry || !(packet->flags & LRI_B))) {
            push(video, &stack, (uint32_t)latest);
            latest = SIZE_MAX;
        }
        if (entry && (packet->flags & LRI_CLOSED)) push(video, &stack, (uint32_t)i);
        else if (entry) latest = i;
        video->made_entry[i] = entry ? (uint32_t)i : find(video, &stack, packet->pts);
    }
    video->reorder = reorder_of(video);
done:
    lr_free(stack.ordinals);
    return st;
}
