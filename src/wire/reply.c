/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/reply.h"

static bool value_fits(const struct rlock__value *value, char what, size_t parts)
{
    if (what == 's') {
        return value->type == RLOCK__REPLY_STR;
    }
    if (value->type != RLOCK__REPLY_INT) {
        return false;
    }
    switch (what) {
    case '0':
    case '1':
    case '2':
    case '3':
        return value->num == what - '0';
    case '-':
        return value->num == -1;
    case 'n':
        return value->num >= 1 && value->num <= (int64_t)parts;
    default:
        return what == 'i';
    }
}

/* Whether so many values may follow what comes before the mark of a repeated group. */
static bool rest_fits(size_t rest, char mark, size_t group, size_t parts)
{
    if (group == 0) {
        return rest == 0;
    }
    return mark == '*' ? rest == group * parts : rest % group == 0;
}

static bool shape_fits(const struct rlock__reply *reply, struct rlock__bytes shape, size_t parts)
{
    size_t before = 0, group;
    char mark;

    while (before < shape.len && shape.at[before] != '*' && shape.at[before] != '.') {
        before++;
    }
    group = before < shape.len ? shape.len - before - 1 : 0;
    mark = *(group != 0 ? shape.at + before : "");
    if (reply->n < before || !rest_fits(reply->n - before, mark, group, parts)) {
        return false;
    }
    for (size_t i = 0; i < reply->n; i++) {
        size_t at = i < before ? i : before + 1 + (i - before) % group;

        if (!value_fits(&reply->v[i], shape.at[at], parts)) {
            return false;
        }
    }
    return true;
}

bool rlock__reply_fits(const struct rlock__reply *reply, const char *shapes, size_t parts)
{
    if (!reply->is_array || reply->is_nested) {
        return false;
    }
    while (*shapes != '\0') {
        size_t len = strcspn(shapes, " ");

        if (shape_fits(reply, rlock__bytes(shapes, len), parts)) {
            return true;
        }
        shapes += len;
        shapes += strspn(shapes, " ");
    }
    return false;
}

struct rlock__bytes rlock__reply_field(const struct rlock__reply *reply, const char *name)
{
    for (size_t i = 0; reply->is_array && i + 1 < reply->n; i += 2) {
        if (rlock__bytes_equal(rlock__reply_str(reply, i), rlock__bytes_of(name))) {
            return rlock__reply_str(reply, i + 1);
        }
    }
    return rlock__bytes("", 0);
}

struct rlock__bytes rlock__info_field(struct rlock__bytes info, const char *name)
{
    const char *at = memmem(info.at, info.len, name, strlen(name));
    const char *end;

    if (at == NULL) {
        return rlock__bytes("", 0);
    }
    at += strlen(name);
    end = memchr(at, '\r', info.len - (size_t)(at - info.at));
    return end != NULL ? rlock__bytes(at, (size_t)(end - at)) : rlock__bytes("", 0);
}
