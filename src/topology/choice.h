/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides from the answers of its Sentinels which primary a client uses. Pure: the caller asks the
 * Sentinels, probes servers, and passes the time.
 *
 * More than half of the Sentinels in the client's URL decide: they must name the same address and
 * epoch, and no lower epoch than the known one. An epoch alone proves nothing: an address in the
 * URL may belong to a Sentinel of another deployment, which has a primary of the same name and
 * epochs of its own.
 *
 * Without such a majority, twice in a row, the known primary stays, with two exceptions. All
 * Sentinels that answer agree, and each knows another Sentinel of the URL. Or the known primary is
 * out of reach, and a named server proves that it was promoted from it.
 *
 * Sentinels that lose their memory count epochs from 0 again. So a majority may name a lower epoch
 * than the known one. Its server is used at once if it proves that it was promoted from the known
 * primary. Otherwise the client uses no primary until all of its leases there have ended, and
 * those of other clients with the default lease.
 */
#ifndef RLOCK_TOPOLOGY_CHOICE_H
#define RLOCK_TOPOLOGY_CHOICE_H

#include "base/time.h"
#include "topology/sentinel.h"

#define RLOCK__WHY_SIZE 280

/* The answer of one Sentinel in a round. */
struct rlock__vote {
    struct rlock__primary primary;
    const char *sentinel; /* its address, for texts */
    bool knows_peer;      /* another Sentinel of the URL is among its peers */
};

/* What a server says of itself. */
struct rlock__evidence {
    struct rlock__primary of; /* where it was asked; "" none was */
    bool is_primary;
    bool descends; /* it was promoted from the known primary */
};

/* A round: every Sentinel was asked once. */
struct rlock__round {
    const struct rlock__vote *votes; /* of those that answered */
    size_t n;
    const struct rlock__evidence *evidence; /* the latest, asked since the round before */
    bool known_is_out;                      /* the known primary is out of reach, or a replica */
    int64_t lease_us;                       /* what is left of the client's longest lease */
    int64_t now;
};

enum rlock__verdict {
    RLOCK__UNDECIDED, /* nothing is certain, the known primary included */
    RLOCK__ASK_AGAIN, /* soon: the Sentinels may be about to agree */
    RLOCK__DECIDED,   /* choice.known is the primary, maybe a new one */
};

/* What the Sentinels do not agree on. */
enum rlock__discord {
    RLOCK__AGREED,
    RLOCK__OUTVOTED, /* a few name another primary, for seconds */
    RLOCK__SPLIT,    /* there is no majority */
    RLOCK__LOWERED,  /* most name a lower epoch than the known one */
    RLOCK__DENIED,   /* the same, and another Sentinel names one that is not lower */
};

/* Zero, but for n_sentinels: nothing is known. */
struct rlock__choice {
    size_t n_sentinels;          /* in the URL */
    struct rlock__primary known; /* "" none */
    struct rlock__primary probe; /* the server that evidence is wanted of; "" none */
    unsigned few;                /* rounds in a row without a majority, up to 2 */
    unsigned n_rounds;

    /* A majority names this one in every round, with a lower epoch than the known one. */
    struct rlock__primary lower; /* "" none */
    int64_t lower_until;         /* it is followed then at the latest, if it is a primary */

    /* A minority has named this one in every round since, and no lower epoch than the majority. */
    struct rlock__primary other; /* "" none */
    int64_t other_since;

    enum rlock__discord discord;
    struct rlock__primary subject; /* the server that it is about; "" none */
    bool is_new;                   /* it is another discord than the latest one before */
    char why[RLOCK__WHY_SIZE];     /* it in words: who names what, and what follows from it */

    enum rlock__discord last_discord; /* the latest that was new, and its subject */
    struct rlock__primary last_subject;
};

enum rlock__verdict rlock__choice_round(struct rlock__choice *choice,
                                        const struct rlock__round *round);
/* Whether nothing may be granted or renewed at the known primary, for another one may follow it
 * soon. */
static inline bool rlock__choice_suspends(const struct rlock__choice *choice)
{
    return choice->lower.host[0] != '\0' && !rlock__primary_is_same(&choice->lower, &choice->known);
}
/* Whether this answer is news: it names a later epoch, and is not known as that of a minority. */
bool rlock__choice_is_news(const struct rlock__choice *choice, const struct rlock__primary *said);

#endif
