/* From the index of the pictures as it was made to what is kept of it. */
#include "recording.h"

lr_status lri_video_seal(lri_video_index *video, lr_error *err)
{
    lr_status st = LR_OK;
    size_t n = video->n_packets;
    const lri_packet *packets = video->packets;
    LR_TRY(LR_NEW(&video->flags, n, "the index of the pictures", err));
    LR_TRY(LR_NEW(&video->checks, n, "the index of the pictures", err));
    for (size_t i = 0; i < n; i++) {
        video->flags[i] = (uint8_t)packets[i].flags;
        video->checks[i] = packets[i].check;
    }
    for (size_t i = 0; i < n; i++) {
        LR_TRY(lri_numbers_add(&video->pts, packets[i].pts, err));
        LR_TRY(lri_numbers_add(&video->seek, packets[i].seek, err));
        LR_TRY(lri_numbers_add(&video->entry, video->made_entry[i], err));
    }
    for (size_t i = 0; i < video->n_shown; i++) LR_TRY(lri_numbers_add(&video->shown, video->made_shown[i], err));
    LR_TRY(lri_numbers_end(&video->pts, err));
    LR_TRY(lri_numbers_end(&video->seek, err));
    LR_TRY(lri_numbers_end(&video->entry, err));
    LR_TRY(lri_numbers_end(&video->shown, err));
    lr_free(video->packets);
    lr_free(video->made_entry);
    lr_free(video->made_shown);
    video->packets = NULL;
    video->made_entry = video->made_shown = NULL;
    video->capacity = 0;
done:
    return st;
}
