/* Everything of core/: what every folder may use. */
#ifndef LONGREEL_CORE_H
#define LONGREEL_CORE_H

#include <longreel/log.h>
#include <longreel/memory.h>
#include <longreel/status.h>
#include <longreel/thread.h>
#include <longreel/time.h>
#include <longreel/types.h>

#endif
