/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scripts of the read/write lock against the reference, operation by operation; and with peers
 * who are not ours. Random leases, deaths and pauses, on the simulated server's own time.
 */
#include "rw/desk.h"
#include "rw/model.h"
#include "rw/peer.h"
#include "support/test.h"

#define OPERATIONS 20000

static uint64_t random_state;

/* splitmix64 (Steele, Lea, Flood 2014) */
static unsigned int dice(unsigned int n)
{
    uint64_t z = (random_state += 0x9E3779B97F4A7C15ULL);

    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return (unsigned int)((z ^ (z >> 31)) % n);
}

static int64_t some_lease(void)
{
    return dice(20) == 0 ? 6000 : 1 + (int64_t)dice(400);
}

/* Mostly moments, now and then a pause that outlasts leases. */
static int64_t some_time(void)
{
    unsigned int how = dice(100);

    return how < 70 ? dice(20) : how < 97 ? dice(300) : dice(8000);
}

/* ---- Against the reference ---- */

struct trial {
    struct desk desk;
    struct model model;
    struct rlock__buf seen; /* by the latest inspection */
    struct model then;      /* at that time */
    bool write_side;        /* which it was of */
    char last[160];         /* the latest operation, for texts */
};

#define same(trial, what, server, expected)                                                        \
    do {                                                                                           \
        long long server_ = (long long)(server), expected_ = (long long)(expected);                \
        if (server_ != expected_) {                                                                \
            fail_msg("after %s: %s is %lld, not %lld", (trial)->last, what, server_, expected_);   \
        }                                                                                          \
    } while (0)

static void note(struct trial *t, const char *what, int o, unsigned int count, int64_t lease)
{
    (void)snprintf(t->last, sizeof(t->last), "%s by %d, count %u, lease %lld, at %lld", what, o,
                   count, (long long)lease, (long long)t->model.now);
}

static void compare_owner(struct trial *t, int o)
{
    const struct model *m = &t->model;
    char reader[RLOCK__OWNER_SIZE], writer[RLOCK__OWNER_SIZE + 6];

    (void)snprintf(reader, sizeof(reader), "%s", desk_owner(&t->desk, (uint64_t)o + 1));
    (void)snprintf(writer, sizeof(writer), "%s:write", reader);
    same(t, "a read count", desk_field(&t->desk, reader), m->reads[o]);
    same(t, "a write count", desk_field(&t->desk, writer), m->writes[o]);
    for (unsigned int i = 1; i < MODEL_LEVELS; i++) {
        same(t, "the end of a level", desk_level_ends(&t->desk, reader, i), m->levels[o][i]);
    }
}

/* What must be so whatever happened: of the reference, hence of the server. */
static void assert_sane(struct trial *t)
{
    const struct model *m = &t->model;

    for (int o = 0; o < MODEL_OWNERS; o++) {
        for (unsigned int i = 1; i <= m->reads[o]; i++) {
            assert_true(m->levels[o][i] <= m->ends);
        }
        if (m->writes[o] != 0) {
            same(t, "the mode", m->mode, 'w');
            same(t, "how many write", model_holders(m, true), 1);
            same(t, "how many read", model_holders(m, false), model_lives(m, o));
        }
    }
}

static void compare(struct trial *t)
{
    const struct model *m = &t->model;
    size_t keys = m->mode != '-', fields = m->mode != '-';
    struct rlock__buf asks = {0};

    same(t, "the mode", desk_mode(&t->desk), m->mode);
    same(t, "the end", desk_ends(&t->desk), m->ends);
    for (int o = 0; o < MODEL_OWNERS; o++) {
        compare_owner(t, o);
        fields += (size_t)(m->reads[o] != 0) + (m->writes[o] != 0);
        for (unsigned int i = 1; i < MODEL_LEVELS; i++) {
            keys += m->levels[o][i] != 0;
        }
    }
    rlock__prefixed_name("rlock_writer_waits", t->desk.read->key, &asks);
    same(t, "the end of a writer's request", desk_key_ends(&t->desk, asks.data, asks.len),
         m->asked_until);
    rlock__buf_fini(&asks);
    same(t, "the number of fields", desk_fields(&t->desk), fields);
    same(t, "the number of keys", desk_keys(&t->desk), keys + (m->asked_until != 0));
    assert_string_equal(desk_heard(&t->desk), m->said);
    assert_sane(t);
}

static void expect(struct trial *t, struct rlock__answer said, struct model_answer expected)
{
    static const enum rlock__outcome outcomes[] = {
        [MODEL_DONE] = RLOCK__DONE, [MODEL_BUSY] = RLOCK__BUSY, [MODEL_GONE] = RLOCK__GONE};

    same(t, "the outcome", said.outcome, outcomes[expected.outcome]);
    if (expected.outcome == MODEL_BUSY) {
        same(t, "the time to wait", said.ttl_ms, expected.ttl);
        assert_int_not_equal(said.holder.len, 0);
    }
    if (expected.outcome == MODEL_GONE) {
        same(t, "whether it is taken", said.taken, expected.taken);
    }
}

static unsigned int some_count(unsigned int held)
{
    return dice(10) == 0 ? 1 + dice(4) : held < 5 ? held + 1 : held;
}

static void take(struct trial *t, int o)
{
    uint64_t number = (uint64_t)o + 1;
    bool own = dice(4) != 0, waits = dice(2) == 0;
    int64_t lease = some_lease();
    unsigned int count;

    if (dice(100) < 65) {
        count = some_count(t->model.reads[o]);
        note(t, own ? "read, writing perhaps" : "read", o, count, lease);
        expect(t,
               desk_acquire(&t->desk, t->desk.read, number, count, lease, own ? number : 0, waits),
               model_read(&t->model, o, count, lease, own));
        return;
    }
    if (t->model.reads[o] != 0 && t->model.writes[o] == 0) {
        return; /* would wait for itself: the library does not ask */
    }
    count = some_count(t->model.writes[o]);
    note(t, waits ? "write, waiting" : "write", o, count, lease);
    expect(t, desk_acquire(&t->desk, t->desk.write, number, count, lease, 0, waits),
           model_write(&t->model, o, count, lease, waits));
}

/* What the owner holds, level by level, or at once; now and then what it does not hold. */
static void leave(struct trial *t, int o)
{
    bool write = t->model.writes[o] != 0 && (t->model.reads[o] == 0 || dice(2) == 0);
    unsigned int held = write ? t->model.writes[o] : t->model.reads[o];
    unsigned int count = held > 1 && dice(4) != 0 ? held - 1 : dice(12) == 0 ? 1 + dice(3) : 0;
    int64_t lease = count > 0 && dice(2) == 0 ? some_lease() : 0;

    note(t, write ? "write release" : "read release", o, count, lease);
    if (write) {
        expect(t, desk_release(&t->desk, t->desk.write, (uint64_t)o + 1, count, lease),
               model_write_release(&t->model, o, count, lease));
    } else {
        expect(t, desk_release(&t->desk, t->desk.read, (uint64_t)o + 1, count, lease),
               model_read_release(&t->model, o, count, lease));
    }
}

static void renew(struct trial *t)
{
    uint64_t owners[MODEL_OWNERS];
    int64_t status[MODEL_OWNERS], lease = some_lease();
    bool write = dice(3) == 0;
    size_t n = 1 + dice(MODEL_OWNERS);

    note(t, write ? "write renewal" : "read renewal", (int)n, 0, lease);
    for (size_t i = 0; i < n; i++) {
        owners[i] = 1 + dice(MODEL_OWNERS);
    }
    desk_renew(&t->desk, write ? t->desk.write : t->desk.read, owners, n, lease, status);
    for (size_t i = 0; i < n; i++) {
        int o = (int)owners[i] - 1;

        same(t, "what is said of a hold", status[i],
             write ? model_write_renew(&t->model, o, lease)
                   : model_read_renew(&t->model, o, 1, lease));
    }
}

static bool same_holders(const struct model *a, const struct model *b)
{
    bool is_same = a->mode == b->mode;

    for (int o = 0; o < MODEL_OWNERS; o++) {
        is_same &= (a->reads[o] != 0) == (b->reads[o] != 0);
        is_same &= (a->writes[o] != 0) == (b->writes[o] != 0);
    }
    return is_same;
}

static void look_at(struct trial *t)
{
    bool write = dice(2) == 0;
    struct rlock_info info;

    note(t, write ? "an inspection of writers" : "an inspection of readers", 0, 0, 0);
    rlock__buf_clear(&t->seen);
    info = desk_inspect(&t->desk, write ? t->desk.write : t->desk.read, &t->seen);
    t->then = t->model;
    t->write_side = write;
    same(t, "how many hold it", info.holders, model_holders(&t->model, write));
    same(t, "whether it is locked", info.locked, model_holders(&t->model, write) != 0);
    same(t, "the mode", info.mode[0], t->model.mode == '-' ? '\0' : t->model.mode);
    same(t, "the TTL", info.ttl_ms, t->model.mode == '-' ? -2 : t->model.ends - t->model.now);
    assert_int_equal(info.holder[0] != '\0', info.locked);
}

/* By what was seen, however long ago. */
static void force(struct trial *t)
{
    bool held = model_holders(&t->then, t->write_side) != 0;
    bool may = held && same_holders(&t->then, &t->model);
    bool did;

    if (!held) {
        return; /* nothing was seen: the library does not ask */
    }
    note(t, t->write_side ? "force of the write side" : "force of the read side", 0, 0, 0);
    t->model.said = "";
    did = desk_force(&t->desk, t->write_side ? t->desk.write : t->desk.read,
                     rlock__bytes(t->seen.data, t->seen.len));
    same(t, "whether it was opened", did, may);
    if (may) {
        model_force(&t->model, t->write_side);
    }
}

static void operate(struct trial *t)
{
    unsigned int what = dice(1000);
    int o = (int)dice(MODEL_OWNERS);

    t->model.said = "";
    if (what < 430) {
        take(t, o);
    } else if (what < 860) {
        leave(t, o);
    } else if (what < 940) {
        renew(t);
    } else if (what < 970) {
        look_at(t);
    } else if (what < 985) {
        force(t);
    } else if (what < 988) {
        note(t, "a deletion by hand", 0, 0, 0);
        desk_by_hand(&t->desk, "DEL %b", NULL);
        model_delete(&t->model);
    } else if (what < 990 && t->model.mode != '-') {
        note(t, "a clock set forward", 0, 0, 0);
        model_wait(&t->model, 500);
        desk_wait(&t->desk, 500);
    }
    compare(t);
}

static void run_trial(struct rlock__bytes name, bool prefer_writers, uint64_t seed)
{
    struct trial t = {.last = "the beginning"};

    random_state = seed;
    desk_init(&t.desk, name, prefer_writers);
    model_init(&t.model, prefer_writers);
    t.then = t.model;
    for (int i = 0; i < OPERATIONS; i++) {
        int64_t ms = some_time();

        desk_wait(&t.desk, ms);
        model_wait(&t.model, ms);
        operate(&t);
    }
    desk_fini(&t.desk);
    rlock__buf_fini(&t.seen);
}

TEST(scripts_do_what_the_reference_does)
{
    run_trial(rlock__bytes_of("lock"), false, 1);
    run_trial(rlock__bytes_of("lock"), false, 2);
}

TEST(so_they_do_while_writers_are_preferred)
{
    run_trial(rlock__bytes_of("lock"), true, 3);
    run_trial(rlock__bytes_of("lock"), true, 4);
}

TEST(so_they_do_under_any_name)
{
    run_trial(rlock__bytes_of("a{b}c"), false, 5);
    run_trial(rlock__bytes_of("a:%s}{:rwlock_timeout:1"), true, 6);
    run_trial(rlock__bytes("\0\r\n*1 \xff", 8), false, 7);
}

/* ---- With peers ---- */

enum { HANDS = 6 };

/* Somebody with a lease of its own on what it holds; the first half are peers. */
struct hand {
    char name[RLOCK__OWNER_SIZE];
    uint64_t number;
    bool is_peer, reads, writes;
    unsigned int count;
    int64_t until; /* it may rely on it */
};

struct company {
    struct desk desk;
    struct hand hands[HANDS];
};

static bool relies(const struct company *c, const struct hand *hand)
{
    return (hand->reads || hand->writes) && hand->until > c->desk.now;
}

/* Many read, or one writes: whoever of them is whose. */
static void assert_exclusive(const struct company *c)
{
    int readers = 0, writers = 0;

    for (int i = 0; i < HANDS; i++) {
        readers += relies(c, &c->hands[i]) && c->hands[i].reads;
        writers += relies(c, &c->hands[i]) && c->hands[i].writes;
    }
    if (writers > 1 || (writers == 1 && readers > 0)) {
        for (int i = 0; i < HANDS; i++) {
            const struct hand *hand = &c->hands[i];

            print_error("%s: %s, until %lld, now %lld\n", hand->name,
                        hand->reads    ? "reads"
                        : hand->writes ? "writes"
                                       : "nothing",
                        (long long)hand->until, (long long)c->desk.now);
        }
        fail();
    }
}

static bool takes(struct company *c, struct hand *hand, bool write, int64_t lease)
{
    struct rlock__spec *side = write ? c->desk.write : c->desk.read;

    if (hand->is_peer) {
        return desk_peer(&c->desk, write ? peer_write : peer_read, hand->name, lease, -99) == -99;
    }
    return desk_acquire(&c->desk, side, hand->number, hand->count + 1, lease, 0, true).outcome ==
           RLOCK__DONE;
}

/* Peers come back under their old names, and then trip over what those left: not here. */
static void name_peer(struct hand *hand)
{
    (void)snprintf(hand->name, sizeof(hand->name), "7c1b5c1e-0c1d-4f0e-9a2b-08a1f5d2c3b4:%llu",
                   (unsigned long long)hand->number);
}

static void company_takes(struct company *c, struct hand *hand)
{
    bool held = hand->reads || hand->writes, write = held ? hand->writes : dice(3) == 0;
    int64_t lease = some_lease();
    bool granted;

    if (held && hand->is_peer && hand->reads) {
        return; /* a peer's levels of different leases betray it */
    }
    if (held && !relies(c, hand)) { /* it is late, and begins anew, as another */
        hand->number += HANDS;
        name_peer(hand);
        hand->reads = hand->writes = false;
        hand->count = 0;
        return;
    }
    granted = takes(c, hand, write, lease);
    assert_true(granted || !held); /* nobody took away what it relies on */
    if (granted) {
        int64_t until = c->desk.now + lease;

        hand->reads = !write;
        hand->writes = write;
        hand->count++;
        hand->until = hand->until > until && held ? hand->until : until;
    }
}

/* Gives up a level. What is relied on is there. */
static void company_leaves(struct company *c, struct hand *hand)
{
    struct rlock__spec *side = hand->writes ? c->desk.write : c->desk.read;
    bool relied = relies(c, hand), released;

    if (!hand->reads && !hand->writes) {
        return;
    }
    if (hand->is_peer) {
        int64_t left = hand->until > c->desk.now ? hand->until - c->desk.now : 1;
        const char *script = hand->writes ? peer_write_release : peer_read_release;

        released = desk_peer(&c->desk, script, hand->name, left, -99) != -99;
    } else {
        released =
            desk_release(&c->desk, side, hand->number, hand->count - 1, 0).outcome == RLOCK__DONE;
    }
    assert_true(released || !relied);
    hand->count = released ? hand->count - 1 : 0;
    if (hand->count == 0) {
        hand->reads = hand->writes = false;
    }
}

/* A peer's renewal sets the lock's TTL, also to less: so all renew for the longest lease. */
static void company_renews(struct company *c, struct hand *hand)
{
    struct rlock__spec *side = hand->writes ? c->desk.write : c->desk.read;
    const char *script = hand->writes ? peer_write_renew : peer_read_renew;
    bool relied = relies(c, hand);
    int64_t status = 0;

    if (!relied) {
        return;
    }
    if (hand->is_peer) {
        status = desk_peer(&c->desk, script, hand->name, 6000, -99);
    } else {
        desk_renew(&c->desk, side, &hand->number, 1, 6000, &status);
    }
    assert_int_equal(status, 1);
    hand->until = c->desk.now + 6000;
}

TEST(ours_and_peers_exclude_each_other_and_keep_what_they_rely_on)
{
    struct company c;

    random_state = 8;
    memset(&c, 0, sizeof(c));
    desk_init(&c.desk, rlock__bytes_of("lock"), false);
    for (int i = 0; i < HANDS; i++) {
        c.hands[i].number = (uint64_t)i + 1;
        c.hands[i].is_peer = i < HANDS / 2;
        name_peer(&c.hands[i]);
    }
    for (int i = 0; i < 2 * OPERATIONS; i++) {
        struct hand *hand = &c.hands[dice(HANDS)];
        unsigned int what = dice(100);

        desk_wait(&c.desk, some_time());
        if (what < 50 && hand->count < 3) {
            company_takes(&c, hand);
        } else if (what < 88) {
            company_leaves(&c, hand);
        } else {
            company_renews(&c, hand);
        }
        assert_exclusive(&c);
    }
    desk_fini(&c.desk);
}
