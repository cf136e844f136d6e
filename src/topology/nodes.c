/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/nodes.h"

#include "topology/redirect.h"
#include "topology/slot.h"

/* "address:port@bus port,name,other=fields": the name is there on newer servers, and may be empty.
 */
static bool read_place(struct rlock__bytes text, enum rlock__endpoint endpoint,
                       struct rlock__nodes_line *line)
{
    struct rlock__bytes address = rlock__take_word(&text, ','), name = rlock__take_word(&text, ',');
    bool good = rlock__split_port(rlock__take_word(&address, '@'), &line->host, &line->port);
    bool is_name = name.len != 0 && memchr(name.at, '=', name.len) == NULL;

    if (endpoint == RLOCK__HOST_ASKED) {
        line->host = rlock__bytes_of("");
    } else if (endpoint == RLOCK__NAME_OR_ADDRESS && is_name) {
        line->host = name;
    }
    return good;
}

static bool read_line(struct rlock__bytes text, enum rlock__endpoint endpoint,
                      struct rlock__nodes_line *line)
{
    struct rlock__bytes place, flags;
    int64_t epoch;

    *line = (struct rlock__nodes_line){.id = rlock__take_word(&text, ' ')};
    place = rlock__take_word(&text, ' ');
    flags = rlock__take_word(&text, ' ');
    line->primary = rlock__take_word(&text, ' ');
    (void)rlock__take_word(&text, ' '); /* when it was pinged, and answered */
    (void)rlock__take_word(&text, ' ');
    epoch = rlock__bytes_number(rlock__take_word(&text, ' '), -1);
    (void)rlock__take_word(&text, ' '); /* whether it is connected to the one that was asked */
    line->epoch = (uint64_t)epoch;
    line->slots = text;
    line->is_primary = rlock__has_word(flags, "master");
    line->is_asked = rlock__has_word(flags, "myself");
    line->has_failed = rlock__has_word(flags, "fail");
    line->is_barred = rlock__has_word(flags, "nofailover");
    line->is_away = rlock__has_word(flags, "noaddr") || rlock__has_word(flags, "handshake") ||
                    !read_place(place, endpoint, line);
    return line->id.len != 0 && epoch >= 0 && (line->is_primary || rlock__has_word(flags, "slave"));
}

bool rlock__nodes_next(struct rlock__bytes *text, enum rlock__endpoint endpoint,
                       struct rlock__nodes_line *ret_line)
{
    while (text->len != 0) {
        struct rlock__bytes line = rlock__take_word(text, '\n');

        if (line.len != 0 && line.at[line.len - 1] == '\r') {
            line.len--;
        }
        if (read_line(line, endpoint, ret_line)) {
            return true;
        }
    }
    return false;
}

bool rlock__nodes_range(struct rlock__bytes *slots, unsigned *ret_from, unsigned *ret_to)
{
    while (slots->len != 0) {
        struct rlock__bytes range = rlock__take_word(slots, ' ');
        int64_t from = rlock__bytes_number(rlock__take_word(&range, '-'), -1);
        int64_t to = range.len != 0 ? rlock__bytes_number(range, -1) : from;

        if (from >= 0 && from <= to && to < RLOCK__SLOTS) { /* "[slot-<-id]" is being moved */
            *ret_from = (unsigned)from;
            *ret_to = (unsigned)to;
            return true;
        }
    }
    return false;
}

bool rlock__nodes_open(struct rlock__bytes *slots, unsigned *ret_slot, bool *ret_leaves)
{
    while (slots->len != 0) {
        struct rlock__bytes word = rlock__take_word(slots, ' ');
        struct rlock__bytes slot = rlock__take_word(&word, '-');
        int64_t number = slot.len > 1 && slot.at[0] == '['
                             ? rlock__bytes_number(rlock__bytes(slot.at + 1, slot.len - 1), -1)
                             : -1;

        if (number >= 0 && number < RLOCK__SLOTS && word.len > 1) {
            *ret_slot = (unsigned)number;
            *ret_leaves = word.at[0] == '>';
            return true;
        }
    }
    return false;
}

unsigned rlock__nodes_count(struct rlock__bytes text)
{
    struct rlock__nodes_line line;
    unsigned from, to, n = 0;

    while (rlock__nodes_next(&text, RLOCK__ADDRESS, &line)) {
        while (n <= RLOCK__SLOTS && rlock__nodes_range(&line.slots, &from, &to)) {
            n++;
        }
    }
    return n;
}
