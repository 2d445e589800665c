/* The files of a made checkpoint. */
#include "make.h"


static const eg2_made small = {
    .vocab = 2048, .hidden = 64, .mlp = 128, .layers = 6, .heads = 4, .kv_heads = 2, .head_dim = 32,
    .full_head_dim = 64, .full_kv_heads = 1, .window = 64, .pattern = 6, .ple = 32, .dim = 96,
    .begin_image = 2041, .begin_audio = 2042, .end_image = 2043, .end_audio = 2044, .image = 2045,
    .audio = 2046, .video = 2047,
    .vision = {.hidden = 64, .mlp = 128, .layers = 3, .heads = 4, .head_dim = 16},
    .patch = 16, .pool = 3, .positions = 3360,
    .audio_tower = {.hidden = 64, .mlp = 256, .layers = 2, .heads = 4, .head_dim = 16},
    .conv0 = 128, .conv1 = 8, .conv_kernel = 5, .audio_out = 96,
};

static const eg2_made full = {
    .vocab = 262144, .hidden = 512, .mlp = 2048, .layers = 24, .heads = 4, .kv_heads = 2,
    .head_dim = 256, .full_head_dim = 512, .full_kv_heads = 1, .window = 512, .pattern = 6,
    .ple = 512, .dim = 768,
    .begin_image = 255999, .begin_audio = 256000, .image = 258880, .audio = 258881,
    .end_image = 258882, .end_audio = 258883, .video = 258884,
    .vision = {.hidden = 768, .mlp = 3072, .layers = 16, .heads = 12, .head_dim = 64},
    .patch = 16, .pool = 3, .positions = 10240,
    .audio_tower = {.hidden = 1024, .mlp = 4096, .layers = 12, .heads = 8, .head_dim = 128},
    .conv0 = 128, .conv1 = 32, .conv_kernel = 5, .audio_out = 1536,
};

/* ------------------------------------------------------------------ config.json */

/* NULL when memory ran out, as json_pack does. */
static json_t *layer_types(const eg2_made *made)
{
    json_t *types = json_array();
    for (size_t i = 0; i < made->layers; i++) {
        const char *type = (i + 1) % made->pattern == 0 ? "full_attention" : "sliding_attention";
        if (json_array_append_new(types, json_string(type)) == 0) continue;
        json_decref(types);
        return NULL;
    }
    return types;
}

static json_t *per_layer_config(const eg2_made *made)
{
    json_t *overrides = json_object();
    for (size_t i = made->pattern - 1; i < made->layers; i += made->pattern) {
        char key[8];
        json_t *one = json_pack("{s:i, s:i}", "head_dim", (int)made->full_head_dim,
                                "num_key_value_heads", (int)made->full_kv_heads);
        (void)snprintf(key, sizeof key, "%02u", (unsigned)i % 1000);
        if (json_object_set_new(overrides, key, one) == 0) continue;
        json_decref(overrides);
        return NULL;
    }
    return overrides;
}

static json_t *text_config(const eg2_made *made)
{
    return json_pack(
        "{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:f, s:b, s:i, s:i, s:i, s:i,"
        " s:{s:{s:s, s:f}, s:{s:s, s:f}}, s:o, s:o}",
        "model_type", "embedding_gemma2_text", "vocab_size", (int)made->vocab, "hidden_size",
        (int)made->hidden, "intermediate_size", (int)made->mlp, "num_hidden_layers",
        (int)made->layers, "num_attention_heads", (int)made->heads, "num_key_value_heads",
        (int)made->kv_heads, "head_dim", (int)made->head_dim, "sliding_window", (int)made->window,
        "hidden_size_per_layer_input", (int)made->ple, "embedding_dim", (int)made->dim,
        "hidden_activation", "gelu_pytorch_tanh", "rms_norm_eps", 1e-6, "attention_bias", 0,
        "pad_token_id", 0, "eos_token_id", 1, "bos_token_id", 2, "max_position_embeddings", 262144,
        "rope_parameters", "sliding_attention", "rope_type", "default", "rope_theta", 1e4,
        "full_attention", "rope_type", "default", "rope_theta", 1e6, "layer_types",
        layer_types(made), "per_layer_config", per_layer_config(made));
}

static json_t *vision_config(const eg2_made *made)
{
    const eg2_made_tower *v = &made->vision;
    return json_pack(
        "{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:f, s:i, s:i, s:i, s:b, s:b, s:{s:s, s:f}}",
        "model_type", "gemma4_vision", "hidden_size", (int)v->hidden, "intermediate_size",
        (int)v->mlp, "num_hidden_layers", (int)v->layers, "num_attention_heads", (int)v->heads,
        "num_key_value_heads", (int)v->heads, "head_dim", (int)v->head_dim, "hidden_activation",
        "gelu_pytorch_tanh", "rms_norm_eps", 1e-6, "patch_size", (int)made->patch,
        "pooling_kernel_size", (int)made->pool, "position_embedding_size", (int)made->positions,
        "use_clipped_linears", 0, "standardize", 0, "rope_parameters", "rope_type", "axial",
        "rope_theta", 100.0);
}

static json_t *audio_config(const eg2_made *made)
{
    const eg2_made_tower *a = &made->audio_tower;
    return json_pack(
        "{s:s, s:i, s:i, s:i, s:s, s:[i, i], s:i, s:f, s:i, s:i, s:i, s:f, s:b, s:f, s:i, s:f}",
        "model_type", "gemma4_audio", "hidden_size", (int)a->hidden, "num_hidden_layers",
        (int)a->layers, "num_attention_heads", (int)a->heads, "hidden_act", "silu",
        "subsampling_conv_channels", (int)made->conv0, (int)made->conv1, "conv_kernel_size",
        (int)made->conv_kernel, "residual_weight", 0.5, "attention_chunk_size", 12,
        "attention_context_left", 13, "attention_context_right", 0, "attention_logit_cap", 50.0,
        "use_clipped_linears", 1, "gradient_clipping", 1e10, "output_proj_dims",
        (int)made->audio_out, "rms_norm_eps", 1e-6);
}

static json_t *whole_config(const void *arg)
{
    const eg2_made *made = arg;
    return json_pack("{s:[s], s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:o, s:o, s:o}",
                     "architectures", "EmbeddingGemma2Model", "model_type", "embedding_gemma2",
                     "dtype", "bfloat16", "boi_token_id", made->begin_image, "boa_token_id",
                     made->begin_audio, "image_token_id", made->image, "audio_token_id", made->audio,
                     "eoi_token_id", made->end_image, "eoa_token_index", made->end_audio,
                     "video_token_id", made->video, "text_config", text_config(made),
                     "vision_config", vision_config(made), "audio_config", audio_config(made));
}

/* ------------------------------------------------------------------ the processors' files */

static json_t *pictures(const eg2_made *made, const char *type_key, const char *type, bool normalize,
                        int budget)
{
    return json_pack("{s:s, s:b, s:b, s:b, s:b, s:[f, f, f], s:[f, f, f], s:i, s:i, s:i, s:i, s:f}",
                     type_key, type, "do_convert_rgb", 1, "do_normalize", (int)normalize, "do_rescale", 1,
                     "do_resize", 1, "image_mean", 0.0, 0.0, 0.0, "image_std", 1.0, 1.0, 1.0,
                     "max_soft_tokens", budget, "patch_size", (int)made->patch,
                     "pooling_kernel_size", (int)made->pool, "resample", 3, "rescale_factor",
                     1.0 / 255);
}

static json_t *video_processor(const eg2_made *made)
{
    json_t *video = pictures(made, "video_processor_type", "EmbeddingGemma2VideoProcessor", true,
                             70);
    json_t *more = json_pack("{s:b, s:b, s:i, s:i, s:s, s:b}", "add_timestamps", 0,
                             "do_sample_frames", 1, "fps", 1, "max_frames", 32, "overflow_strategy",
                             "uniform", "return_metadata", 0);
    int failed = json_object_update(video, more);
    json_decref(more);
    if (failed == 0) return video;
    json_decref(video);
    return NULL;
}

static json_t *processor_config(const void *arg)
{
    const eg2_made *made = arg;
    json_t *sound = json_pack(
        "{s:s, s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:b, s:b, s:b, s:s}",
        "feature_extractor_type", "Gemma4AudioFeatureExtractor", "feature_size", 128,
        "sampling_rate", 16000, "fft_length", 512, "frame_length", 320, "hop_length", 160,
        "min_frequency", 0.0, "max_frequency", 8000.0, "mel_floor", 0.001, "dither", 0.0,
        "input_scale_factor", 1.0, "preemphasis", 0.0, "preemphasis_htk_flavor", 1, "fft_overdrive",
        0, "return_attention_mask", 1, "padding_side", "right");
    json_t *image = pictures(made, "image_processor_type", "Gemma4ImageProcessor", false, 280);
    return json_pack("{s:s, s:i, s:i, s:i, s:o, s:o, s:o}", "processor_class",
                     "EmbeddingGemma2Processor", "audio_ms_per_token", 40, "audio_seq_length", 280,
                     "image_seq_length", 280, "feature_extractor", sound, "image_processor", image,
                     "video_processor", video_processor(made));
}

static json_t *tokenizer_config(const void *arg)
{
    (void)arg;
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:b, s:i, s:s, s:s, s:s,"
                     " s:{s:s, s:s, s:s, s:s, s:s, s:s}}",
                     "bos_token", "<bos>", "eos_token", "<eos>", "pad_token", "<pad>", "unk_token",
                     "<unk>", "mask_token", "<mask>", "clean_up_tokenization_spaces", 0,
                     "model_max_length", 8192, "padding_side", "right", "processor_class",
                     "EmbeddingGemma2Processor", "tokenizer_class", "GemmaTokenizer",
                     "extra_special_tokens", "boi_token", "<|image>", "eoi_token", "<image|>",
                     "image_token", "<|image|>", "boa_token", "<|audio>", "eoa_token", "<audio|>",
                     "audio_token", "<|audio|>");
}

/* ------------------------------------------------------------------ sentence-transformers' files */

static json_t *sentence_config(const void *arg)
{
    (void)arg;
    return json_pack("{s:s, s:{s:s, s:s, s:s, s:s, s:s, s:s}, s:n, s:s}", "model_type",
                     "SentenceTransformer", "prompts", "query", "task: search result | query: ",
                     "document", "title: none | text: ", "Clustering", "task: clustering | query: ",
                     "Classification", "task: classification | query: ", "InstructionRetrieval",
                     "task: code retrieval | query: ", "STS",
                     "task: sentence similarity | query: ", "default_prompt_name",
                     "similarity_fn_name", "cosine");
}

static json_t *sentence_modules(const void *arg)
{
    (void)arg;
    return json_pack("[{s:i, s:s, s:s, s:s}, {s:i, s:s, s:s, s:s}, {s:i, s:s, s:s, s:s}]", "idx", 0,
                     "name", "0", "path", "", "type", "sentence_transformers.models.Transformer",
                     "idx", 1, "name", "1", "path", "1_Pooling", "type",
                     "sentence_transformers.models.Pooling", "idx", 2, "name", "2", "path",
                     "2_Normalize", "type", "sentence_transformers.models.Normalize");
}

static json_t *sentence_pooling(const void *arg)
{
    const eg2_made *made = arg;
    return json_pack("{s:i, s:b, s:b}", "word_embedding_dimension", (int)made->dim,
                     "pooling_mode_mean_tokens", 1, "include_prompt", 1);
}

static const lr_made_file files[] = {
    {"config.json", whole_config},
    {"processor_config.json", processor_config},
    {"tokenizer_config.json", tokenizer_config},
    {"config_sentence_transformers.json", sentence_config},
    {"modules.json", sentence_modules},
    {"1_Pooling/config.json", sentence_pooling},
};

static lr_status write_tokenizer(const char *directory, const void *made, uint64_t seed, lr_error *err)
{
    char *path = NULL;
    lr_status st = lr_format(&path, err, "%s/tokenizer.json", directory);
    if (st == LR_OK) st = eg2_make_tokenizer(path, made, seed, err);
    lr_free(path);
    return st;
}

lr_status eg2_make(const char *directory, lr_made_size size, uint64_t seed, lr_error *err)
{
    static const char *const folders[] = {"1_Pooling", NULL}, *const others[] = {"tokenizer.json", NULL};
    eg2_made deep = small;
    deep.layers = full.layers;
    const eg2_made *const made[] = {[LR_MADE_SMALL] = &small, [LR_MADE_DEEP] = &deep, [LR_MADE_FULL] = &full};
    const lr_made_model model = {.family = &lr_family_embeddinggemma2, .made = made[size],
                                 .files = files, .n_files = sizeof files / sizeof files[0],
                                 .folders = folders, .others = write_tokenizer, .other_names = others,
                                 .weights = eg2_make_weights};
    return lr_made_write(&model, directory, seed, err);
}
