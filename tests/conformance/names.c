/* SPDX-License-Identifier: Apache-2.0 */
/* Names of any bytes, and what is made of them. */
#include "cases.h"

struct name {
    const char *at;
    size_t len;
};

#define NAME_OF(text) ((struct name){text, sizeof(text) - 1})

static void excludes_by_name(struct fixture *f, struct rlock_client *clients[2], struct name name)
{
    struct rlock_handle *lock = NULL, *same = NULL, *shorter = NULL;
    size_t len = 0;

    assert_code(f->kind->make(clients[0], name.at, RLOCK_OPTS(.name_len = name.len), &lock), 0);
    assert_code(f->kind->make_rival(clients[1], name.at, RLOCK_OPTS(.name_len = name.len), &same),
                0);
    assert_code(
        f->kind->make_rival(clients[1], name.at, RLOCK_OPTS(.name_len = name.len - 1), &shorter),
        0);
    assert_memory_equal(rlock_name(lock, &len), name.at, name.len);
    assert_int_equal(len, name.len);
    assert_int_equal(rlock_name(lock, NULL)[name.len], '\0');
    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_try_lock(same), RLOCK_EBUSY);
    assert_null(strpbrk(rlock_detail(), "\r\n"));
    assert_code(rlock_lock_for(same, 200, NULL, NULL), RLOCK_ETIMEDOUT);
    assert_code(rlock_try_lock(shorter), 0);
    assert_code(rlock_unlock(shorter), 0);
    assert_code(rlock_unlock(lock), 0);
    assert_code(rlock_try_lock(same), 0);
    assert_code(rlock_unlock(same), 0);
    assert_null(rlock_free(lock));
    assert_null(rlock_free(same));
    assert_null(rlock_free(shorter));
}

void names_may_hold_any_byte(struct fixture *f)
{
    const struct name names[] = {
        NAME_OF("a\0b"),
        NAME_OF("two\r\n$3\r\nlines"),
        NAME_OF("{}x"),
        NAME_OF("a{b}c"),
        NAME_OF("a{b"),
        NAME_OF("x}y"),
        NAME_OF("}{"),
        NAME_OF("\xff\xfe\x80"),
        NAME_OF(" blanks and \"quotes\""),
        NAME_OF("%s%n"),
        NAME_OF("\0\0"),
        NAME_OF("a:b:{c}:d"),
        NAME_OF("\xc3\xa4\xc3"),
    };
    struct rlock_client *clients[2] = {client_open(f), client_open(f)};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        excludes_by_name(f, clients, names[i]);
    }
}

void a_name_may_have_64_KiB(struct fixture *f)
{
    enum { LEN = 65536 };
    struct rlock_client *clients[2] = {client_open(f), client_open(f)};
    char *name = malloc(LEN + 1);

    assert_non_null(name);
    memset(name, 'n', LEN + 1);
    excludes_by_name(f, clients, (struct name){name, LEN});
    free(name);
}

void a_key_prefix_keeps_lives_apart(struct fixture *f)
{
    const struct rlock_client_opts staging = *RLOCK_CLIENT_OPTS(.key_prefix = "staging:");
    struct rlock_client *plain = client_open(f);
    struct rlock_client *prefixed[2] = {client_open_with(f, &staging),
                                        client_open_with(f, &staging)};
    struct rlock_handle *lock = lock_new(f, prefixed[0]), *same = rival_new(f, prefixed[1]);
    struct rlock_handle *other = rival_new(f, plain);

    assert_string_equal(rlock_name(lock, NULL), NAME);
    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_try_lock(other), 0);
    assert_code(rlock_try_lock(same), RLOCK_EBUSY);
    assert_code(rlock_unlock(other), 0);
    assert_code(rlock_unlock(lock), 0);
}
