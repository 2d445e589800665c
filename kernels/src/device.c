/* The plugin with the device's side, opened when it is first asked for. */
#include <longreel/device.h>

#include <dlfcn.h>
#include <pthread.h>

#include <longreel/plugin.h>

#define PLUGIN "liblongreel_cuda.so"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const lr_device_ops *loaded; /* never closed: the driver leaves threads and handlers behind */

static lr_status load(lr_error *err)
{
    char tried[LR_ERROR_TEXT];
    lr_device_get_function get = NULL;
    if (loaded) return LR_OK;
    void *plugin = lr_plugin_open(PLUGIN, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE, tried, sizeof tried);
    if (!plugin && tried[0]) return lr_fail(err, LR_E_UNSUPPORTED, "CUDA cannot be used: %s", tried);
    if (!plugin)
        return lr_fail(err, LR_E_UNSUPPORTED,
                       PLUGIN " is missing: Longreel was built without CUDA, or LONGREEL_PLUGIN_PATH must name "
                              "its directory");
    *(void **)&get = dlsym(plugin, LR_DEVICE_GET);
    const lr_device_ops *ops = get ? get(LR_DEVICE_ABI) : NULL;
    if (!ops || ops->abi != LR_DEVICE_ABI || ops->struct_size != sizeof *ops) {
        (void)dlclose(plugin);
        return lr_fail(err, LR_E_UNSUPPORTED, PLUGIN " is of another version of Longreel");
    }
    loaded = ops;
    return LR_OK;
}

lr_status lr_device_open(lr_device **out, const lr_device_options *options, lr_error *err)
{
    *out = NULL;
    (void)pthread_mutex_lock(&lock);
    lr_status st = load(err);
    const lr_device_ops *ops = loaded;
    (void)pthread_mutex_unlock(&lock);
    return st == LR_OK ? ops->open(out, options, err) : st;
}
