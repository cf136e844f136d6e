/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cases, one row each: CASE(name, what a kind needs for it). Every kind runs every case it can;
 * CMake reads this list as well, and makes each pair of kind and case a test of its own. The cases
 * stand in the file that the comment above them names.
 *
 * CROWD(…) keeps all processors busy and runs alone. SLOW(…) takes seconds: it is labelled slow,
 * and runs alone.
 */
#ifndef RLOCK_TEST_CONFORMANCE_CASES_H
#define RLOCK_TEST_CONFORMANCE_CASES_H

#include "kinds.h"
#include "support/clients.h"

typedef void case_fn(struct fixture *f);

/* Whether the kind under test can do that. */
static inline bool kind_can(const struct fixture *f, unsigned int what)
{
    return (f->kind->can & what) == what;
}

/* A fixed lease if the kind has such leases; otherwise 0, a renewed one. */
static inline int64_t fixed_ms(const struct fixture *f, int64_t lease_ms)
{
    return kind_can(f, LEASES) ? lease_ms : 0;
}

/* How long a waiter of this kind usually takes to notice that a lock is free. */
static inline int64_t wake_ms(const struct fixture *f)
{
    return kind_can(f, IS_QUIET) ? 50 : 300;
}

#define CONF_CASES(CASE, CROWD, SLOW)                                                              \
    /* basic.c */                                                                                  \
    CASE(lock_and_unlock_twice, 0)                                                                 \
    CASE(each_level_needs_its_unlock, CAN_NEST)                                                    \
    CASE(hold_count_follows_each_step, 0)                                                          \
    CASE(a_thousand_levels_are_a_thousand_unlocks, CAN_NEST)                                       \
    CASE(it_is_locked_from_lock_to_unlock, CAN_BE_ASKED)                                           \
    CASE(another_thread_sees_it_locked, CAN_BE_ASKED)                                              \
    CASE(only_the_thread_that_took_it_holds_it, 0)                                                 \
    CASE(unlock_by_another_thread_is_refused, 0)                                                   \
    CASE(unlock_by_another_client_is_refused, 0)                                                   \
    CASE(unlock_after_a_refused_try_does_no_harm, 0)                                               \
    CASE(a_second_unlock_does_no_harm, 0)                                                          \
    CASE(any_handle_of_the_name_can_unlock, 0)                                                     \
    CASE(a_handle_lives_until_its_last_reference_is_freed, 0)                                      \
    CASE(names_do_not_disturb_each_other, 0)                                                       \
    CASE(force_unlock_opens_it_for_all, CAN_BE_ASKED)                                              \
    CASE(force_unlock_from_elsewhere_is_found_by_the_unlock, CAN_BE_ASKED)                         \
    CASE(force_unlock_wakes_a_waiter, CAN_BE_ASKED)                                                \
    CASE(a_second_take_by_its_owner_is_refused, REFUSES_AGAIN)                                     \
    CASE(each_grant_has_a_larger_token, HAS_TOKEN)                                                 \
    CASE(a_token_grows_when_the_data_are_lost, HAS_TOKEN)                                          \
    CASE(the_grant_says_what_was_granted, LEASES)                                                  \
    CASE(a_grant_of_an_older_program_is_filled_as_far_as_it_goes, 0)                               \
    CASE(without_a_take_the_thread_gets_a_renewed_lease, 0)                                        \
    CASE(a_guard_unlocks_at_the_end_of_its_scope, 0)                                               \
    CASE(a_guard_can_be_ended_before, 0)                                                           \
    CASE(wrong_takes_are_refused, 0)                                                               \
    CASE(a_wait_below_forever_is_refused, 0)                                                       \
    CASE(the_shortest_lease_is_ten_ms, LEASES)                                                     \
    CASE(a_lease_within_the_safety_margin_is_refused, LEASES)                                      \
    CASE(wrong_locks_are_refused, 0)                                                               \
    /* owners.c */                                                                                 \
    CASE(given_owners_exclude_each_other, 0)                                                       \
    CASE(a_waiting_given_owner_gets_it_next, 0)                                                    \
    CASE(a_given_owner_may_move_between_threads, 0)                                                \
    CASE(a_given_owner_is_not_the_thread_of_that_number, 0)                                        \
    CASE(a_given_owner_has_its_own_validity_and_count, LEASES)                                     \
    CASE(a_given_owners_calls_take_turns, CAN_NEST)                                                \
    CASE(owner_ids_are_given_once, 0)                                                              \
    CASE(a_loss_names_the_given_owner, LEASES)                                                     \
    CASE(an_unlock_that_gets_no_turn_ends_the_hold, CAN_NEST)                                      \
    CASE(an_unlock_behind_a_waiting_take_ends_in_time, 0)                                          \
    /* waits.c */                                                                                  \
    CASE(a_try_on_a_held_lock_is_refused_at_once, 0)                                               \
    CASE(a_timed_wait_ends_in_time, 0)                                                             \
    CASE(a_wait_beyond_the_longest_time_has_no_end, 0)                                             \
    CASE(a_release_elsewhere_wakes_a_waiter, 0)                                                    \
    CASE(a_release_by_a_thread_of_this_process_wakes_a_waiter, 0)                                  \
    CASE(a_waiter_gets_it_when_the_lease_ends, LEASES)                                             \
    CASE(a_waiter_of_the_same_process_gets_it_when_the_lease_ends, LEASES)                         \
    CASE(signals_do_not_end_a_wait, 0)                                                             \
    CASE(each_short_wait_in_a_row_gets_it, 0)                                                      \
    CASE(waiters_of_one_process_all_get_it, 0)                                                     \
    CASE(a_waiter_behind_others_times_out_in_time, 0)                                              \
    CASE(a_try_does_not_subscribe, COSTS_TWO_SCRIPTS)                                              \
    CASE(a_forged_message_grants_nothing, LISTENS)                                                 \
    CASE(a_waiter_survives_broken_connections, 0)                                                  \
    CASE(a_lock_without_an_end_is_waited_for_within_bounds, HAS_ONE_KEY)                           \
    SLOW(a_release_that_nobody_announced_is_found, HAS_ONE_KEY)                                    \
    /* cancels.c */                                                                                \
    CASE(a_cancel_ends_a_wait_at_once, 0)                                                          \
    CASE(a_cancel_from_a_signal_handler_ends_a_wait, 0)                                            \
    CASE(a_fired_cancel_lets_no_call_begin, 0)                                                     \
    CASE(one_cancel_ends_all_its_waits, 0)                                                         \
    CASE(a_cancelled_waiter_lets_those_behind_it_go_on, 0)                                         \
    CASE(a_cancel_ends_the_wait_for_another_take_of_the_same_owner, 0)                             \
    CASE(a_cancelled_take_leaves_nothing, 0)                                                       \
    CASE(a_cancel_of_an_attempt_without_an_answer_gives_it_back, 0)                                \
    CASE(a_cancel_that_is_not_fired_changes_nothing, 0)                                            \
    /* leases.c */                                                                                 \
    CASE(the_ttl_is_the_lease, CAN_BE_ASKED | LEASES)                                              \
    CASE(a_renewed_lease_is_the_clients_option, CAN_BE_ASKED)                                      \
    CASE(nested_leases_keep_the_longest, CAN_NEST | CAN_BE_ASKED)                                  \
    CASE(a_partial_unlock_leaves_the_lease_that_was_given, CAN_NEST | CAN_BE_ASKED)                \
    CASE(anothers_lease_by_the_same_handle_changes_nothing, CAN_NEST | CAN_BE_ASKED)               \
    CASE(a_renewed_hold_outlives_its_lease, CAN_BE_ASKED)                                          \
    CASE(a_renewed_lease_never_falls_below_a_third, HAS_ONE_KEY)                                   \
    CASE(a_fixed_lease_is_not_renewed, CAN_BE_ASKED | LEASES)                                      \
    CASE(a_hold_is_renewed_while_any_level_is, CAN_NEST)                                           \
    CASE(max_hold_ends_a_renewed_hold, CAN_BE_ASKED)                                               \
    CASE(max_hold_counts_from_the_first_level, CAN_NEST)                                           \
    CASE(max_hold_limits_fixed_leases, CAN_BE_ASKED | LEASES)                                      \
    CASE(max_hold_shorter_than_the_lease_is_the_lease, CAN_BE_ASKED)                               \
    CASE(renewal_does_not_depend_on_the_holding_thread, 0)                                         \
    CASE(anothers_unlock_does_not_end_my_renewal, 0)                                               \
    CASE(validity_ends_without_any_thread_of_the_library, CALLS_WAIT | LEASES)                     \
    CASE(valid_ms_counts_down, LEASES)                                                             \
    CASE(a_safety_margin_shortens_validity_and_not_the_lease, CAN_BE_ASKED | LEASES)               \
    /* extends.c */                                                                                \
    CASE(an_extended_lease_lasts_longer, CAN_BE_ASKED | LEASES)                                    \
    CASE(an_extension_never_shortens_a_lease, CAN_BE_ASKED | LEASES)                               \
    CASE(a_fixed_lease_is_renewed_from_its_extension_on, LEASES)                                   \
    CASE(an_extended_hold_stays_renewed, LEASES)                                                   \
    CASE(all_levels_share_an_extension, CAN_NEST)                                                  \
    CASE(max_hold_limits_an_extension, LEASES)                                                     \
    CASE(what_is_not_held_is_not_extended, LEASES)                                                 \
    CASE(a_lost_hold_is_not_extended, HAS_ONE_KEY)                                                 \
    CASE(wrong_extensions_are_refused, LEASES)                                                     \
    CASE(an_extension_without_an_answer_is_in_doubt, LEASES)                                       \
    CASE(an_extension_finds_the_loss, HAS_ONE_KEY)                                                 \
    /* handovers.c */                                                                              \
    CASE(a_detached_hold_is_adopted, LEASES)                                                       \
    CASE(a_detached_lock_stays_taken, LEASES)                                                      \
    CASE(a_detached_hold_ends_with_its_lease, LEASES)                                              \
    CASE(an_adopted_hold_is_renewed, LEASES)                                                       \
    CASE(an_adopted_hold_is_detached_again, LEASES)                                                \
    CASE(an_adopters_token_is_larger, HAS_TOKEN)                                                   \
    CASE(a_dead_holders_text_is_adopted_on_request, LEASES)                                        \
    CASE(texts_of_other_locks_are_refused, LEASES)                                                 \
    CASE(what_is_not_held_is_not_detached, LEASES)                                                 \
    CASE(a_hold_of_two_levels_is_not_detached, CAN_NEST)                                           \
    CASE(a_lost_hold_is_not_detached, HAS_ONE_KEY)                                                 \
    CASE(a_detach_finds_the_loss, HAS_ONE_KEY)                                                     \
    CASE(an_owner_that_has_the_lock_adopts_nothing, LEASES)                                        \
    CASE(a_detach_in_doubt_is_repeated, LEASES)                                                    \
    CASE(an_adoption_in_doubt_is_repeated, LEASES)                                                 \
    CASE(an_unlock_takes_back_a_detach_in_doubt, LEASES)                                           \
    CASE(a_close_takes_back_a_detach_in_doubt, CAN_BE_ASKED | LEASES)                              \
    CASE(a_waiter_of_the_same_client_gets_it_after_the_text, LEASES)                               \
    CASE(a_waiter_elsewhere_gets_it_after_the_text, LEASES)                                        \
    /* counts.c */                                                                                 \
    CASE(each_call_is_counted_by_its_kind_and_code, LEASES)                                        \
    CASE(a_forced_hold_is_counted_as_lost, CAN_BE_ASKED)                                           \
    /* losses.c */                                                                                 \
    CASE(a_deleted_lock_is_lost, HAS_ONE_KEY)                                                      \
    CASE(a_lock_whose_server_lost_its_data_is_lost, 0)                                             \
    CASE(a_stolen_lock_is_lost, HAS_ONE_KEY)                                                       \
    CASE(a_grant_to_another_owner_ends_a_deleted_hold, EXCLUDES_ITSELF | NAMES_HOLDER)             \
    CASE(a_refusal_that_names_another_ends_a_stolen_hold, HAS_ONE_KEY)                             \
    CASE(a_wait_behind_a_deleted_hold_gets_the_lock, EXCLUDES_ITSELF | NAMES_HOLDER)               \
    CASE(an_unlock_that_finds_it_taken_says_lost, HAS_ONE_KEY)                                     \
    CASE(an_ended_lease_is_told_at_the_end_of_its_validity, LEASES)                                \
    CASE(a_lost_hold_is_lost_for_good, IS_PLAIN_HASH | CAN_NEST)                                   \
    CASE(every_level_of_a_lost_hold_wants_its_unlock, CAN_NEST)                                    \
    CASE(a_nested_take_finds_the_loss, CAN_NEST)                                                   \
    CASE(a_partial_unlock_finds_the_loss, CAN_NEST)                                                \
    CASE(unlock_of_a_lost_hold_asks_nobody, 0)                                                     \
    CASE(losing_one_leaves_the_others, HAS_ONE_KEY)                                                \
    CASE(a_loss_lets_a_waiter_of_this_process_in, 0)                                               \
    CASE(a_thread_that_ends_loses_what_it_holds, CALLS_WAIT)                                       \
    CASE(a_given_owners_hold_outlives_its_thread, 0)                                               \
    /* faults.c */                                                                                 \
    CASE(without_a_server_a_call_says_so_in_time, 0)                                               \
    CASE(a_server_that_comes_back_ends_the_wait, 0)                                                \
    CASE(a_frozen_server_keeps_no_call_past_its_deadline, 0)                                       \
    CASE(after_a_restart_the_next_lock_is_renewed_again, CAN_BE_ASKED)                             \
    CASE(scripts_that_the_server_forgot_are_sent_whole, 0)                                         \
    CASE(a_key_of_another_type_is_refused_and_kept, IS_PLAIN_HASH)                                 \
    CASE(a_hold_survives_its_connections, 0)                                                       \
    CASE(a_broken_connection_is_no_reason_to_fail, 0)                                              \
    /* closing.c */                                                                                \
    CASE(close_wakes_its_waiters, 0)                                                               \
    CASE(close_gives_its_holds_back, 0)                                                            \
    CASE(close_gives_back_every_level, CAN_NEST)                                                   \
    CASE(calls_after_close_say_closed, CAN_BE_ASKED)                                               \
    CASE(close_against_a_frozen_server_is_bounded, 0)                                              \
    CASE(close_without_a_server_is_bounded, 0)                                                     \
    CROWD(close_in_full_swing_leaves_nothing, 0)                                                   \
    /* names.c */                                                                                  \
    CASE(names_may_hold_any_byte, 0)                                                               \
    CASE(a_name_may_have_64_KiB, 0)                                                                \
    CASE(a_key_prefix_keeps_lives_apart, 0)                                                        \
    /* wire.c */                                                                                   \
    CASE(the_wire_is_redissons_step_by_step, IS_PLAIN_HASH | ANNOUNCES)                            \
    CASE(the_wire_counts_levels_as_redisson_does, IS_PLAIN_HASH | ANNOUNCES | CAN_NEST)            \
    CASE(force_is_announced, IS_PLAIN_HASH | ANNOUNCES)                                            \
    CASE(a_channel_has_braces_unless_the_name_has_one, IS_PLAIN_HASH | ANNOUNCES)                  \
    CASE(a_key_prefix_is_redissons_name_mapper, IS_PLAIN_HASH | ANNOUNCES)                         \
    CASE(a_java_holder_is_respected, IS_PLAIN_HASH | ANNOUNCES)                                    \
    CASE(a_java_holder_can_be_forced, IS_PLAIN_HASH)                                               \
    CASE(odd_hashes_are_somebody_elses, IS_PLAIN_HASH)                                             \
    /* crowds.c */                                                                                 \
    CROWD(threads_of_one_client_exclude_each_other, 0)                                             \
    CROWD(sixteen_clients_exclude_each_other, 0)                                                   \
    CROWD(a_hundred_clients_once_each, 0)                                                          \
    CROWD(a_storm_of_tries_never_lets_two_in, 0)                                                   \
    CROWD(threads_on_five_names_leave_no_channel, 0)                                               \
    SLOW(sixteen_clients_for_long, 0)                                                              \
    SLOW(a_long_storm_of_tries, 0)                                                                 \
    /* costs.c */                                                                                  \
    CASE(a_pair_is_two_scripts_and_nothing_else, COSTS_TWO_SCRIPTS)                                \
    CASE(each_level_is_a_script, CAN_NEST | COSTS_TWO_SCRIPTS)                                     \
    CASE(local_answers_cost_nothing, COSTS_TWO_SCRIPTS)                                            \
    CASE(idle_waiters_are_silent, IS_QUIET | LINES_UP | LEASES)                                    \
    SLOW(idle_waiters_look_again_once_per_recheck, IS_QUIET | LINES_UP | LEASES)                   \
    CASE(cancelling_a_whole_line_asks_nobody, IS_QUIET | LINES_UP)                                 \
    CASE(closing_with_a_line_asks_nobody, IS_QUIET | LINES_UP)                                     \
    CASE(thousands_of_relocks_cause_no_renewal, 0)                                                 \
    CASE(renewals_of_many_holds_share_scripts, 0)                                                  \
    CROWD(hundreds_of_local_waiters_cost_two_attempts_per_grant, LINES_UP)                         \
    /* processes.c */                                                                              \
    CASE(a_killed_holders_lock_is_free_after_its_lease, 0)                                         \
    CASE(a_killed_waiter_leaves_nothing, 0)                                                        \
    CASE(a_paused_holder_wakes_up_without_its_lock, 0)                                             \
    /* chaos.c */                                                                                  \
    CROWD(seconds_of_cuts_and_kills, EXCLUDES_ITSELF)                                              \
    SLOW(a_minute_of_cuts_and_kills, EXCLUDES_ITSELF)
#define CONF_DECLARE(name, needs) case_fn name;
CONF_CASES(CONF_DECLARE, CONF_DECLARE, CONF_DECLARE)
#undef CONF_DECLARE

#endif
