/* The threads that decode: one crew for all recordings that the process reads, so that a batch of files takes no more
 * threads than one. A client's work comes in steps of one picture; clients are served in turn. */
#ifndef LRI_CREW_H
#define LRI_CREW_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include <longreel/core.h>

typedef struct lri_crew_client {
    /* The number of a piece of work that can be done now; false: none. The crew is locked. */
    bool (*pick)(void *arg, size_t *work);
    /* Does it; the crew is not locked. */
    void (*step)(void *arg, size_t work);
    /* Notes that it is done; the crew is locked. */
    void (*settle)(void *arg, size_t work);
    void *arg;
    int threads; /* that this client wants, all its steps together */
    int weight;  /* threads of one step */
    /* The crew's own. */
    int working; /* threads at its steps */
    struct lri_crew_client *next;
} lri_crew_client;

/* Starts threads as they are needed. Of all clients together as many are at work as they want, but no more than the
 * machine has processors, or one client wants. */
lr_status lri_crew_join(lri_crew_client *client, lr_error *err);
/* Returns when none of its steps is running; the last client ends the threads. */
void lri_crew_leave(lri_crew_client *client);

void lri_crew_lock(void);
void lri_crew_unlock(void);
/* Work may have come up, or been done; locked. */
void lri_crew_wake(void);
/* Until woken; locked. */
void lri_crew_wait(void);
/* Most threads that were at work at once since the last call; for tests. */
int lri_crew_most(void);

#endif
