/* SPDX-License-Identifier: Apache-2.0 */
/* What is seen of the queue: who was granted the lock, and who was put out. */
#include "fair/town.h"

#include <stdio.h>
#include <string.h>

#define QUEUE "redisson_lock_queue:{" TOWN_LOCK "}"
#define SCORES "redisson_lock_timeout:{" TOWN_LOCK "}"

static struct sim_view view_of(const char *text)
{
    return (struct sim_view){text, strlen(text)};
}

static bool is_named(struct sim_view view, const char *name)
{
    return view.len == strlen(name) && memcmp(view.data, name, view.len) == 0;
}

/* Those who came last are asked for most. */
static const struct town_person *find(const struct town *town, const char *name)
{
    for (size_t i = town->n; i > 0; i--) {
        if (strcmp(town->people[i - 1]->name, name) == 0) {
            return town->people[i - 1];
        }
    }
    return NULL;
}

static bool is_queued(const struct town *town, const char *name)
{
    for (size_t i = 0; i < town->n_queue; i++) {
        if (strcmp(town->queue[i], name) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether it waits, and nothing kept it from doing what it had to. */
static bool is_well(const struct town_person *person)
{
    return person != NULL && person->waits &&
           (person->state == TOWN_ASKS || person->state == TOWN_SLEEPS) &&
           person->unwell_until < person->town->now;
}

static int64_t left_of_lease(const struct town *town)
{
    struct sim_key_info lock;

    return sim_server_find_key(town->server, view_of(TOWN_LOCK), &lock) && lock.pttl_ms > 0
               ? lock.pttl_ms
               : 0;
}

int64_t town_score(const struct town *town, const struct town_person *person)
{
    struct sim_key_info scores = {0};

    (void)sim_server_find_key(town->server, view_of(SCORES), &scores);
    for (size_t i = 0; i < scores.n_items; i++) {
        struct sim_item_info item = sim_key_item(&scores, i);

        if (is_named(item.name, person->name)) {
            return (int64_t)item.score - sim_server_clock_us(town->server) / 1000 -
                   left_of_lease(town);
        }
    }
    return -1;
}

size_t town_place(const struct town *town, const struct town_person *person)
{
    for (size_t i = 0; i < town->n_queue; i++) {
        if (strcmp(town->queue[i], person->name) == 0) {
            return i + 1;
        }
    }
    return 0;
}

size_t town_keys(const struct town *town)
{
    struct sim_key_info info = {0};
    size_t n = 0;

    while (sim_server_next_key(town->server, &info)) {
        n++;
    }
    return n;
}

static bool has_ours(const struct town *town)
{
    for (size_t i = 0; i < town->n_queue; i++) {
        if (town->queue[i][14] == '8') { /* the version of a UUID */
            return true;
        }
    }
    return false;
}

static void read_queue(struct town *town)
{
    struct sim_key_info list = {0}, scores = {0}, lock;

    (void)sim_server_find_key(town->server, view_of(QUEUE), &list);
    town->n_queue = list.n_items < TOWN_MOST ? list.n_items : TOWN_MOST;
    for (size_t i = 0; i < town->n_queue; i++) {
        struct sim_view name = sim_key_item(&list, i).name;

        (void)snprintf(town->queue[i], TOWN_NAME, "%.*s", (int)name.len, name.data);
    }
    (void)sim_server_find_key(town->server, view_of(SCORES), &scores);
    town->report.endless += has_ours(town) && (list.pttl_ms < 0 || scores.pttl_ms < 0);
    town->holder[0] = '\0';
    if (sim_server_find_key(town->server, view_of(TOWN_LOCK), &lock)) {
        struct sim_view name = sim_key_item(&lock, 0).name;

        (void)snprintf(town->holder, TOWN_NAME, "%.*s", (int)name.len, name.data);
    }
}

static void see_granted(struct town *town, char (*before)[TOWN_NAME], size_t n)
{
    struct town_report *report = &town->report;

    report->grants++;
    for (size_t i = 0; i < n && strcmp(before[i], town->holder) != 0; i++) {
        report->inversions += is_well(find(town, before[i]));
    }
    for (size_t i = 0; i < town->n; i++) {
        const struct town_person *other = town->people[i];

        report->second_holders += other->state == TOWN_HOLDS && other->holds_until > town->now &&
                                  strcmp(other->name, town->holder) != 0;
    }
}

/* Looks at what the command of somebody has made of the queue. */
void town_see(struct town *town, const struct town_person *by)
{
    static char before[TOWN_MOST][TOWN_NAME]; /* the town is one thread, and this is large */
    const struct town_person *head;
    size_t n = town->n_queue, next = 0;
    char holder[TOWN_NAME];

    memcpy(before, town->queue, n * TOWN_NAME);
    (void)snprintf(holder, sizeof(holder), "%s", town->holder);
    read_queue(town);
    if (town->holder[0] != '\0' && strcmp(town->holder, holder) != 0) {
        see_granted(town, before, n);
    }
    for (size_t i = 0; i < n; i++) {
        const struct town_person *person;

        if (next < town->n_queue && strcmp(town->queue[next], before[i]) == 0) {
            next++; /* as most often: who was there is there, in its order */
            continue;
        }
        if (is_queued(town, before[i]) || strcmp(before[i], town->holder) == 0) {
            continue;
        }
        person = find(town, before[i]);
        if (person == by) {
            continue;
        }
        if (by != NULL && is_well(person)) {
            *(by->habit.is_peer ? &town->report.thrown_by_peers : &town->report.thrown_by_ours) +=
                1;
        } else {
            town->report.dead_removed++;
        }
    }
    head = town->n_queue != 0 ? find(town, town->queue[0]) : NULL;
    if (head != NULL) {
        double slots = (double)town_score(town, head) / TOWN_SLOT_MS;

        town->report.worst_head = slots > town->report.worst_head ? slots : town->report.worst_head;
    }
}
