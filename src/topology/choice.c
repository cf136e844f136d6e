/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/choice.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define FEW 2                         /* rounds without a majority before fewer may decide */
#define FRESH_US RLOCK__SECOND        /* the others follow the first Sentinel in this time */
#define LASTS_US (3 * RLOCK__SECOND)  /* a minority that is worth a warning */
#define LEASE_US (30 * RLOCK__SECOND) /* that other clients may have */
#define AFTER_US (2 * RLOCK__SECOND)  /* that clocks, and answers under way, may take */

static bool is_known(const struct rlock__primary *primary)
{
    return primary->host[0] != '\0';
}

static void forget(struct rlock__primary *primary)
{
    primary->host[0] = '\0';
}

/* The same server in the same configuration. */
static bool is_equal(const struct rlock__primary *one, const struct rlock__primary *other)
{
    return one->epoch == other->epoch && rlock__primary_is_same(one, other);
}

static size_t count(const struct rlock__round *round, const struct rlock__primary *primary)
{
    size_t n = 0;

    for (size_t i = 0; i < round->n; i++) {
        n += is_equal(&round->votes[i].primary, primary);
    }
    return n;
}

/* The vote that most others equal; NULL: nobody answered. */
static const struct rlock__primary *leading(const struct rlock__round *round)
{
    const struct rlock__primary *most = NULL;

    for (size_t i = 0; i < round->n; i++) {
        const struct rlock__primary *vote = &round->votes[i].primary;

        if (most == NULL || count(round, vote) > count(round, most)) {
            most = vote;
        }
    }
    return most;
}

bool rlock__choice_is_news(const struct rlock__choice *choice, const struct rlock__primary *said)
{
    return is_known(said) && said->epoch > choice->known.epoch && !is_equal(said, &choice->other);
}

/* ---- In words ---- */

/* "10.0.0.1:6379 (epoch 4)" */
static const char *place(const struct rlock__primary *primary, char *out, size_t size)
{
    (void)snprintf(out, size, "%.60s:%u (epoch %lld)", primary->host, primary->port,
                   (long long)primary->epoch);
    return out;
}

static void set_discord(struct rlock__choice *choice, enum rlock__discord discord,
                        const struct rlock__primary *subject)
{
    choice->discord = discord;
    choice->subject = *subject;
}

static void explain_lower(struct rlock__choice *choice, const struct rlock__round *round)
{
    char lower[100], known[100];
    int64_t left = rlock__max(choice->lower_until - round->now, 0) / RLOCK__SECOND;

    if (rlock__primary_is_same(&choice->lower, &choice->known)) {
        (void)snprintf(choice->why, sizeof(choice->why),
                       "most Sentinels name %s, which had epoch %lld: they lost their memory",
                       place(&choice->lower, lower, sizeof(lower)), (long long)choice->known.epoch);
        return;
    }
    (void)snprintf(choice->why, sizeof(choice->why),
                   "most Sentinels name %s, but %s was in use: the client pauses, and uses the "
                   "former in %lld s",
                   place(&choice->lower, lower, sizeof(lower)),
                   place(&choice->known, known, sizeof(known)), (long long)left);
}

static void explain_other(struct rlock__choice *choice, const struct rlock__primary *most,
                          const struct rlock__vote *other)
{
    char theirs[100], used[100];

    (void)snprintf(choice->why, sizeof(choice->why), "Sentinel %.60s names %s, most name %s, %s",
                   other->sentinel, place(&other->primary, theirs, sizeof(theirs)),
                   place(most, used, sizeof(used)),
                   choice->discord == RLOCK__DENIED ? "which is older than the one in use"
                                                    : "which is used");
}

static void explain_split(struct rlock__choice *choice, const struct rlock__round *round)
{
    size_t len;
    char named[100];

    (void)snprintf(choice->why, sizeof(choice->why), "%zu of %zu Sentinels answer%s", round->n,
                   choice->n_sentinels, round->n == 1 ? "s" : "");
    for (size_t i = 0; i < round->n && i < 3; i++) {
        len = strlen(choice->why);
        (void)snprintf(choice->why + len, sizeof(choice->why) - len, "%s %.60s names %s",
                       i == 0 ? ":" : ",", round->votes[i].sentinel,
                       place(&round->votes[i].primary, named, sizeof(named)));
    }
    len = strlen(choice->why);
    (void)snprintf(choice->why + len, sizeof(choice->why) - len, ": that is no majority");
}

/* ---- A majority ---- */

/* The vote for another server than this one, in the latest configuration that any Sentinel names,
 * if that is not older than a certain epoch. */
static const struct rlock__vote *rival(const struct rlock__round *round,
                                       const struct rlock__primary *primary, int64_t epoch)
{
    const struct rlock__vote *latest = NULL;

    for (size_t i = 0; i < round->n; i++) {
        const struct rlock__vote *vote = &round->votes[i];

        if (!rlock__primary_is_same(&vote->primary, primary) && vote->primary.epoch >= epoch &&
            (latest == NULL || vote->primary.epoch > latest->primary.epoch)) {
            latest = vote;
        }
    }
    return latest;
}

/* Takes what the majority names. While a minority has only just come to name another one the
 * majority may be about to follow. */
static enum rlock__verdict follow(struct rlock__choice *choice, const struct rlock__round *round,
                                  const struct rlock__primary *most)
{
    const struct rlock__vote *other = rival(round, most, most->epoch);

    if (other == NULL) {
        forget(&choice->other);
    } else if (!is_equal(&other->primary, &choice->other)) {
        choice->other = other->primary;
        choice->other_since = round->now;
    }
    if (other != NULL && round->now >= choice->other_since + LASTS_US) {
        set_discord(choice, RLOCK__OUTVOTED, &other->primary);
        explain_other(choice, most, other);
    }
    if (other != NULL && round->now < choice->other_since + FRESH_US) {
        return RLOCK__ASK_AGAIN;
    }
    choice->known = *most;
    return RLOCK__DECIDED;
}

static bool is_primary(const struct rlock__round *round, const struct rlock__primary *primary)
{
    return rlock__primary_is_same(&round->evidence->of, primary) && round->evidence->is_primary;
}

static bool is_proven(const struct rlock__round *round, const struct rlock__primary *primary)
{
    return is_primary(round, primary) && round->evidence->descends;
}

/* The majority names the known server: its lower epoch is taken over in time, so that the failover
 * after that one is no surprise. */
static enum rlock__verdict stay_lower(struct rlock__choice *choice,
                                      const struct rlock__round *round)
{
    const int64_t epoch = choice->known.epoch;

    choice->known = choice->lower;
    choice->known.epoch = epoch;
    if (round->now >= choice->lower_until) {
        choice->known.epoch = choice->lower.epoch;
        choice->discord = RLOCK__AGREED;
        forget(&choice->lower);
    }
    return RLOCK__DECIDED;
}

/* The majority names a lower epoch than the known one. */
static enum rlock__verdict go_lower(struct rlock__choice *choice, const struct rlock__round *round,
                                    const struct rlock__primary *most)
{
    const struct rlock__vote *other = rival(round, most, choice->known.epoch);

    if (other != NULL) {
        set_discord(choice, RLOCK__DENIED, &other->primary);
        explain_other(choice, most, other);
        forget(&choice->lower);
        return RLOCK__UNDECIDED;
    }
    if (!is_equal(most, &choice->lower)) {
        choice->lower_until = round->now + rlock__max(LEASE_US, round->lease_us) + AFTER_US;
    }
    choice->lower = *most;
    set_discord(choice, RLOCK__LOWERED, most);
    explain_lower(choice, round);
    if (rlock__primary_is_same(most, &choice->known)) {
        return stay_lower(choice, round);
    }
    choice->probe = *most;
    if (is_proven(round, most) || (round->now >= choice->lower_until && is_primary(round, most))) {
        choice->known = *most;
        choice->discord = RLOCK__AGREED;
        forget(&choice->lower);
        return RLOCK__DECIDED;
    }
    return RLOCK__UNDECIDED;
}

/* ---- No majority ---- */

/* Whether those that answer agree, and belong to the same deployment as the others. */
static bool is_unanimous(const struct rlock__round *round, const struct rlock__primary *most)
{
    for (size_t i = 0; i < round->n; i++) {
        if (!is_equal(&round->votes[i].primary, most) || !round->votes[i].knows_peer) {
            return false;
        }
    }
    return round->n != 0;
}

/* The named server that proves its descent from the known primary; else NULL, and another one is
 * probed next. */
static const struct rlock__primary *heir(struct rlock__choice *choice,
                                         const struct rlock__round *round)
{
    for (size_t i = 0; i < round->n && round->known_is_out; i++) {
        const struct rlock__primary *vote =
            &round->votes[(i + choice->n_rounds) % round->n].primary;

        if (vote->epoch < choice->known.epoch || rlock__primary_is_same(vote, &choice->known)) {
            continue;
        }
        if (is_proven(round, vote)) {
            return vote;
        }
        choice->probe = *vote;
    }
    return NULL;
}

static enum rlock__verdict without_majority(struct rlock__choice *choice,
                                            const struct rlock__round *round,
                                            const struct rlock__primary *most)
{
    const struct rlock__primary *heir_of_known;

    forget(&choice->lower);
    forget(&choice->other);
    choice->few += choice->few < FEW;
    if (choice->few < FEW) {
        return RLOCK__ASK_AGAIN;
    }
    if (most != NULL && is_unanimous(round, most) && most->epoch >= choice->known.epoch) {
        choice->known = *most;
        return RLOCK__DECIDED;
    }
    heir_of_known = is_known(&choice->known) ? heir(choice, round) : NULL;
    if (heir_of_known != NULL) {
        choice->known = *heir_of_known;
        return RLOCK__DECIDED;
    }
    if (round->n != 0) {
        set_discord(choice, RLOCK__SPLIT, &(struct rlock__primary){.port = 0});
        explain_split(choice, round);
    }
    return RLOCK__UNDECIDED;
}

static enum rlock__verdict choose(struct rlock__choice *choice, const struct rlock__round *round)
{
    const struct rlock__primary *most = leading(round);

    if (most == NULL || 2 * count(round, most) <= choice->n_sentinels) {
        return without_majority(choice, round, most);
    }
    choice->few = 0;
    if (!is_known(&choice->known) || most->epoch >= choice->known.epoch) {
        forget(&choice->lower);
        return follow(choice, round, most);
    }
    forget(&choice->other);
    return go_lower(choice, round, most);
}

enum rlock__verdict rlock__choice_round(struct rlock__choice *choice,
                                        const struct rlock__round *round)
{
    enum rlock__verdict verdict;

    assert(round->n == 0 || round->votes != NULL);
    choice->n_rounds++;
    choice->discord = RLOCK__AGREED;
    choice->why[0] = '\0';
    forget(&choice->probe);
    verdict = choose(choice, round);
    choice->is_new =
        choice->discord != RLOCK__AGREED && (choice->discord != choice->last_discord ||
                                             !is_equal(&choice->subject, &choice->last_subject));
    if (choice->is_new) {
        choice->last_discord = choice->discord;
        choice->last_subject = choice->subject;
    }
    return verdict;
}
