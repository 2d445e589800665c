/* Finding parts of Longreel that are opened at run time: liblongreel_mpi_openmpi.so, liblongreel_cuda.so, ... */
#ifndef LONGREEL_PLUGIN_H
#define LONGREEL_PLUGIN_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* dlopen(FILE, flags) from the first of these places where it can be opened: the directories of
 * LONGREEL_PLUGIN_PATH (separated by ':'), beside the program, in ../lib/longreel from there, beside
 * liblongreel, and where Longreel was installed. NULL when there is none; `tried` then says what stood in the
 * way of the last one that was there, or is empty. */
void *lr_plugin_open(const char *file, int flags, char *tried, size_t size);

#ifdef __cplusplus
}
#endif
#endif
