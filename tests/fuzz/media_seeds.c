#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzz.h"
#include "fuzz_media.h"
#include "media.h"

#define PICTURES 6
#define SAMPLES 2400

typedef struct seed {
    const char *file; /* its ending chooses the container */
    const char *video, *audio;
    bool yuv420p, fltp;
    int b_frames;
    int rate; /* samples a second; 0: 8000 */
    bool interlaced, hdr;
} seed;

static const seed films[] = {
    {"ffv1.mkv", NULL, NULL, false, false, 0, 0, false, false},
    {"ffv1.nut", NULL, NULL, false, false, 0, 0, false, false},
    {"ffv1.avi", NULL, NULL, false, false, 0, 0, false, false},
    {"mpeg4.mp4", "mpeg4", NULL, true, false, 1, 0, false, false},
    {"mpeg4.avi", "mpeg4", NULL, true, false, 1, 0, false, false},
    {"mpeg2.ts", "mpeg2video", NULL, true, false, 2, 0, false, false},
    {"mpeg2.mpg", "mpeg2video", NULL, true, false, 1, 0, false, false},
    {"mpeg4.m4v", "mpeg4", NULL, true, false, 0, 0, false, false},
    {"h264.mp4", "libx264", NULL, true, false, 2, 0, false, false},
    {"h264.mkv", "libx264", NULL, true, false, 0, 0, false, false},
    {"h264.ts", "libx264", NULL, true, false, 2, 0, false, false},
    {"h264.h264", "libx264", NULL, true, false, 2, 0, false, false},
    {"h264.flv", "libx264", NULL, true, false, 1, 0, false, false},
    {"h264.mpg", "libx264", NULL, true, false, 2, 0, false, false},
    {"hevc.mp4", "libx265", NULL, true, false, 2, 0, false, false},
    {"hevc.ts", "libx265", NULL, true, false, 0, 0, false, false},
    {"vp8.webm", "libvpx", NULL, true, false, 0, 0, false, false},
    {"theora.ogg", "libtheora", NULL, true, false, 0, 0, false, false},
    {"fields.ts", "mpeg2video", NULL, true, false, 2, 0, true, false},
    {"fields.mkv", "libx264", NULL, true, false, 2, 0, true, false},
    {"fields.avi", "mpeg4", NULL, true, false, 0, 0, true, false},
    {"hdr.mkv", "libx264", NULL, true, false, 2, 0, false, true},
    {"hdr.mp4", "libx265", NULL, true, false, 0, 0, false, true},
    {"flv1.flv", "flv", NULL, true, false, 0, 0, false, false},
};
static const seed sounds[] = {
    {"pcm.wav", NULL, NULL, false, false, 0, 0, false, false},
    {"pcm.mkv", NULL, NULL, false, false, 0, 16000, false, false},
    {"pcm.nut", NULL, NULL, false, false, 0, 0, false, false},
    {"flac.flac", NULL, "flac", false, false, 0, 0, false, false},
    {"flac.mkv", NULL, "flac", false, false, 0, 44100, false, false},
    {"aac.aac", NULL, "aac", false, true, 0, 16000, false, false},
    {"aac.mp4", NULL, "aac", false, true, 0, 44100, false, false},
    {"aac.ts", NULL, "aac", false, true, 0, 16000, false, false},
    {"mp2.mpg", NULL, "mp2", false, false, 0, 16000, false, false},
    {"ac3.mkv", NULL, "ac3", false, true, 0, 32000, false, false},
    {"opus.ogg", NULL, "libopus", false, false, 0, 16000, false, false},
    {"opus.webm", NULL, "libopus", false, false, 0, 16000, false, false},
    {"wma.asf", NULL, "wmav2", false, true, 0, 16000, false, false},
    {"adpcm.wav", NULL, "adpcm_ms", false, false, 0, 0, false, false},
};

/* Where the sound of a film must be of a certain kind for its container. */
static const char *film_audio(const char *file)
{
    static const char *const pairs[][2] = {{".ts", "mp2"}, {".mpg", "mp2"}, {".flv", "pcm_s16le"},
                                           {".mp4", "aac"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (strstr(file, pairs[i][0])) return pairs[i][1];
    return strstr(file, ".nut") || strstr(file, ".mkv") || strstr(file, ".avi") ? "pcm_s16le" : NULL;
}

static void write_seed(const char *file, const lrt_film *film)
{
    static const uint8_t options[4] = {1, 1, 0, 0};
    if (!lrt_has_encoders(film)) return;
    size_t bytes;
    const char *path = fz_path(file);
    lrt_write_film(path, film);
    char *data = fz_slurp(path, &bytes);
    fz_seed(file, data, bytes, options, sizeof options);
    free(data);
    (void)unlink(path);
}

void fz_make_films(void)
{
    lrt_random random;
    lrt_random_init(&random, 1);
    uint8_t *rgb = lrt_made_pictures(&random, PICTURES, 32, 16);
    int16_t *samples = lrt_made_sound(&random, SAMPLES);
    for (size_t i = 0; i < sizeof films / sizeof *films; i++) {
        const seed *s = &films[i];
        const char *audio = film_audio(s->file);
        /* MPEG-1 and -2 know few rates. */
        const lrt_film film = {.width = 32, .height = 16, .rate = {25, 1}, .rgb = rgb,
                               .n_pictures = PICTURES, .samples = audio ? samples : NULL,
                               .n_samples = audio ? SAMPLES : 0, .sample_rate = 22050,
                               .video_codec = s->video, .audio_codec = audio, .yuv420p = s->yuv420p,
                               .fltp = audio && strcmp(audio, "aac") == 0, .gop = 3,
                               .b_frames = s->b_frames, .interlaced = s->interlaced, .hdr = s->hdr};
        write_seed(s->file, &film);
    }
    free(rgb);
    free(samples);
}

void fz_make_sounds(void)
{
    lrt_random random;
    lrt_random_init(&random, 2);
    int16_t *samples = lrt_made_sound(&random, SAMPLES);
    for (size_t i = 0; i < sizeof sounds / sizeof *sounds; i++) {
        const seed *s = &sounds[i];
        const lrt_film film = {.samples = samples, .n_samples = SAMPLES,
                               .sample_rate = s->rate ? s->rate : 8000, .audio_codec = s->audio,
                               .fltp = s->fltp};
        write_seed(s->file, &film);
    }
    free(samples);
}
