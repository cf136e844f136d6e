/* SPDX-License-Identifier: Apache-2.0 */
/* What the files that check a world say to each other, and to those that run it. */
#ifndef RLOCK_TESTS_SIM_CHECKS_H
#define RLOCK_TESTS_SIM_CHECKS_H

#include "world.h"

/* ---- rely.c ---- */

int64_t sim_valid_until(const struct sim_hold *hold);
/* The client's row; NULL it has none. */
const struct rlock__hold *sim_find_hold(const struct sim_client *client, uint64_t number);
/* Whether its client thinks that the user holds. */
bool sim_user_is_held(const struct sim_user *user, unsigned side);
/* When its call must be back, by its client's clock. */
int64_t sim_user_due(const struct sim_user *user);
/* What a user may rely on: after each step, at the end of a call, when a loss is reported. */
void sim_rely(struct sim_user *user);
void sim_rely_done(struct sim_user *user);
void sim_rely_lost(const struct sim_user *user, unsigned side, enum rlock_reason reason);
/* Whether a call's code says that the server did nothing. */
bool sim_is_refusal(int code);
/* What the server has under the key belongs to somebody. */
void sim_rely_key(struct sim_world *world, unsigned key);
/* The link is alive. */
void sim_rely_links(struct sim_world *world);

/* ---- ears.c ---- */

/* After each step: who believes to hear a channel hears it. */
void sim_check_ears(struct sim_world *world);

/* ---- ended.c ---- */

/* After a call: what it leaves behind. */
void sim_note_ended(struct sim_user *user);
/* Whether the client releases the number, of which its owner has nothing any more. */
bool sim_is_released(const struct sim_client *client, uint64_t number);
/* Its owner has given up all levels of it, and does not know when the server lets go of it. */
void sim_note_given_up(struct sim_user *user, unsigned side, int64_t since);
/* The same, if the client says when that is at the latest. */
void sim_note_free_by(struct sim_user *user, unsigned side, int64_t since, int64_t free_by);
/* Whether the owner's client lives, and releases its number. */
bool sim_is_given_up(const struct sim_world *world, struct sim_view owner);
/* Whether a release may have reserved the lock for this owner, although its call has ended. Its
 * client has not left the lock's queue yet, or was killed. */
bool sim_is_reserved(const struct sim_world *world, struct sim_view owner);
bool sim_is_on_server(const struct sim_user *user, unsigned side, uint64_t number);
/* The hold was lost, though a copy of its acquire may run yet. */
void sim_note_lost(struct sim_user *user, unsigned side);
/* What a user gave up stays given up, and is free when that was said. */
void sim_check_given_up(struct sim_user *user, unsigned side);
/* Whether the client must release the number, now and again: it may not fence. */
bool sim_is_ended(const struct sim_client *client, uint64_t number);
/* Whether the client still gives back what its call may have been granted; or has done so until the
 * lease ended. */
bool sim_is_given_back(const struct sim_user *user);

/* ---- extend.c ---- */

void sim_extend(struct sim_user *user);
void sim_extend_done(struct sim_user *user);

/* ---- handover.c ---- */

/* Whether the owner is a text. */
bool sim_is_text(struct sim_view owner);
bool sim_may_detach(const struct sim_user *user);
void sim_detach(struct sim_user *user);
void sim_detach_done(struct sim_user *user);
/* Begins to adopt a text, if there is one. */
bool sim_adopt(struct sim_user *user);
/* Whether its call moved a reader that ended before it was taken back: the name outlives the level,
 * as each reader's does. */
bool sim_is_ended_adoption(const struct sim_user *user);
void sim_adopt_done(struct sim_user *user);

/* ---- foreign.c ---- */

/* Whether somebody else's key stands under the lock's name, or one beside it. */
bool sim_foreign_is_at(const struct sim_world *world, unsigned key);
/* After each step; of a user; and at the end of a call. */
void sim_foreign_check(struct sim_world *world);
void sim_foreign_call(const struct sim_user *user);
void sim_foreign_done(const struct sim_user *user);

/* ---- passes.c ---- */

/* Whether the release that is done gave its hold to another user, and not to the server. */
bool sim_is_passed(const struct sim_user *user);
/* A call was granted. Returns whether its hold was passed on to it. */
bool sim_pass_taken(struct sim_user *user);
void sim_passes(struct sim_user *user);

/* ---- linger.c ---- */

/* The user has unlocked: whether the hold lingers. */
bool sim_linger_begins(struct sim_user *user);
/* The user was granted a lock: whether that is a hold that lingered. */
bool sim_linger_taken(struct sim_user *user);
/* The server loses what lingers under the key, or somebody takes it. */
void sim_linger_doom(struct sim_client *client, unsigned key, int64_t valid_until);
/* After each step. */
void sim_linger_check(struct sim_client *client);

/* ---- proofs.c ---- */

/* After each step; and at the end of a call. */
void sim_proofs(const struct sim_user *user);
void sim_proofs_done(const struct sim_user *user);

/* ---- turns.c ---- */

/* After each step: of a key, of a user; and at the end of a call. */
void sim_turns_key(struct sim_world *world, unsigned key);
void sim_turns(struct sim_user *user);
void sim_turns_done(const struct sim_user *user);

/* ---- check_end.c ---- */

void sim_check_end(struct sim_world *world);

/* ---- check.c ---- */

void sim_check_step(struct sim_world *world);
void sim_check_server(struct sim_world *world);
/* How long a lock may last, in milliseconds. */
int64_t sim_longest_ms(const struct sim_world *world);
void sim_check_done(struct sim_user *user);
void sim_note_free(struct sim_world *world, unsigned side, unsigned key, bool is_free);
/* The server has no memory of what was before, for one key or all (-1). */
void sim_doom(struct sim_world *world, int key);
/* Only for the calls that are on their way. */
void sim_doom_calls(struct sim_world *world, unsigned key);
/* The same for what one owner has, maybe. */
void sim_doom_owner(struct sim_world *world, const char *owner);
/* The owner's count on the server; 0 it is not there, or nothing keeps it there. */
long sim_server_count(const struct sim_user *user, unsigned side);
/* How long its lease lasts there, in milliseconds. */
int64_t sim_server_left(const struct sim_user *user, unsigned side);
/* The number must not be seen on that side of the server's locks again. */
void sim_declare_dead(struct sim_world *world, const struct sim_client *client, unsigned side,
                      uint64_t number, const char *why);

/* ---- queue.c ---- */

/* The queue of a fair lock, after a command. */
bool sim_queue_ends(const struct sim_world *world, const struct sim_key_info *key);
void sim_check_queue(struct sim_world *world, unsigned key);
/* After every step: a head that does not come is passed over. */
void sim_check_head(struct sim_world *world, unsigned key);
/* A call was refused, or has timed out: it has looked at the head. */
void sim_check_refused(const struct sim_user *user);
/* Whether a queue or its scores may stay as they are at the end. */
bool sim_queue_is_settled(const struct sim_world *world, const struct sim_key_info *key);

/* ---- waiters.c ---- */

/* After each step: whether somebody sleeps past that side of the key, which is free. */
void sim_check_waiters(struct sim_world *world, unsigned side, unsigned key);

/* ---- entries.c: the queue that waiting calls enter on the server ---- */

/* After each command; and after each step. */
void sim_check_entries(struct sim_world *world, unsigned key);
/* Whether nobody stands in the queue any more, and turns of others are left. */
bool sim_has_marks_alone(const struct sim_key_info *queue);
void sim_check_reserved(struct sim_world *world, unsigned key);

/* ---- check_sides.c: locks with two sides ---- */

/* After every step: who believes what of whom. */
/* Whether the name ends so, and is longer. */
bool sim_ends_with(struct sim_view name, const char *end);
void sim_check_sides(struct sim_world *world);
/* What the server has under the key, and who could take it. */
void sim_look_at_sides(struct sim_world *world, unsigned key);
void sim_check_taken_side(const struct sim_user *user);

#endif
