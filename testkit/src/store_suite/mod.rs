//! What every store does. A backend that keeps these laws can stand in for any other.
//!
//! Each law is a function that gets an empty store. [`store_laws!`](crate::store_laws) makes a test of each;
//! a backend says only how it is opened:
//!
//! ```ignore
//! fn open() -> session::Result<(testkit::store_suite::SharedStore, ())> {
//!     Ok((Arc::new(MemoryStore::new()), ()))
//! }
//! testkit::store_laws!(open);
//! ```

pub mod artifacts;
pub mod commits;
pub mod concurrency;
pub mod drafts;
pub mod facts;
pub mod leases;
pub mod make;
pub mod opaque;
pub mod owners;
pub mod paging;
pub mod queue;
pub mod request_keys;
pub mod runs;
pub mod sessions;
pub mod state;
pub mod tail;

use session::Store;
use std::sync::Arc;

pub type SharedStore = Arc<dyn Store>;

/// A test for each law. `$open` is a function beside the call that gives a `SharedStore`
/// and what must live as long as it.
#[macro_export]
macro_rules! store_laws {
    ($open:ident) => {
        $crate::store_laws! { $open =>
            sessions: [
                a_new_session_is_empty,
                creating_twice_fails_or_keeps,
                a_kept_session_stays_as_it_was,
                a_session_is_made_with_what_was_said_before,
                a_missing_session_is_refused_what_needs_one,
                a_missing_session_has_nothing,
                users_and_apps_do_not_see_each_other,
                deleting_removes_what_is_its_own_and_nothing_else,
                a_session_made_anew_begins_anew,
                a_title_is_set_once,
            ],
            commits: [
                rows_come_back_in_the_order_in_which_they_were_committed,
                the_messages_of_a_commit_take_consecutive_places,
                a_repeated_commit_changes_nothing,
                a_repeat_is_recognised_whatever_else_is_refused,
                a_commit_of_several_messages_is_repeated_as_a_whole,
                a_message_id_is_used_once_in_a_session,
                the_same_id_in_another_session_is_another_message,
                a_session_that_moved_on_is_a_conflict,
                an_old_epoch_is_fenced,
                a_commit_of_facts_alone_takes_no_place,
                a_refused_commit_leaves_nothing_behind,
                a_session_is_created_with_all_of_its_steps_or_not_at_all,
                the_row_counts_what_was_committed,
            ],
            concurrency: [
                of_many_creates_one_wins,
                many_creates_that_keep_all_get_the_session,
                many_sessions_grow_at_once,
                many_commits_to_one_session_leave_no_gap,
                the_same_message_sent_many_times_is_stored_once,
                bad_commits_among_good_ones_fail_alone,
                of_many_starts_one_is_admitted,
                many_messages_queue_at_once_and_start_in_order,
                one_request_sent_many_times_becomes_one_run,
                many_sessions_change_one_shared_key_set,
                a_dropped_answer_is_all_or_nothing,
            ],
            tail: [
                it_takes_the_newest_rows_that_fit,
                a_budget_that_fits_exactly_leaves_nothing_out,
                the_newest_row_is_taken_even_if_it_alone_is_too_large,
                it_does_not_reach_over_a_large_row,
                the_cap_on_rows_holds,
                no_budget_means_no_rows,
                rows_without_tokens_cost_nothing,
            ],
            paging: [
                pages_make_up_the_whole_log,
                commits_do_not_disturb_a_reader,
                a_list_is_newest_change_first,
                a_list_is_filtered_by_app_and_user,
                a_list_comes_page_by_page_without_gap_or_duplicate,
                a_list_that_changes_repeats_nobody_and_forgets_no_bystander,
            ],
            state: [
                scopes_are_shared_as_far_as_they_reach,
                shared_state_outlives_its_session,
                keys_keep_the_order_in_which_they_were_first_set,
                null_is_a_value,
                the_first_state_is_in_the_log_too,
                every_change_is_logged_at_its_place,
                a_page_of_changes_ends_between_two_commits,
            ],
            facts: [
                a_fact_is_set_replaced_and_cleared,
                only_carried_facts_come_along,
                a_fact_may_stop_being_carried,
            ],
            queue: [
                one_commit_stores_a_queued_run_with_its_message,
                queued_runs_start_in_the_order_of_acceptance,
                the_number_of_runs_ahead_falls_as_they_start,
                a_run_is_queued_once,
                a_queued_run_leaves_the_queue_when_it_starts,
                only_its_owner_starts_a_queued_run,
                a_queued_run_is_withdrawn_once,
                only_its_owner_withdraws_a_queued_run,
                only_a_queued_run_is_withdrawn,
                a_run_that_is_queued_later_starts_later,
                an_answer_continues_the_waiting_run,
                an_answer_is_queued_like_any_message,
                a_message_that_settles_a_question_cancels_its_run,
                an_answer_that_is_queued_behind_another_message_is_superseded,
                a_run_that_asks_nothing_is_not_superseded,
            ],
            leases: [
                a_started_run_holds_the_lease,
                a_run_that_was_started_is_not_started_again,
                the_last_commit_of_a_turn_releases_the_lease,
                a_commit_that_is_refused_or_repeated_releases_nothing,
                a_turn_ends_only_in_a_state_that_releases_the_lease,
                a_start_that_relies_on_an_epoch_is_fenced_by_another_turn,
                a_start_that_relies_on_an_epoch_returns_the_shared_state,
                a_start_does_not_overtake_the_queue,
                a_recreated_session_fences_the_owner_of_the_deleted_one,
            ],
            runs: [
                a_run_starts_where_the_log_ends,
                a_run_that_was_refused_does_not_exist,
                the_last_commit_stores_the_end_of_its_run,
                a_terminal_state_never_changes,
                a_waiting_run_is_cancelled_with_its_last_message,
                a_waiting_run_is_not_cancelled_while_another_one_runs,
                a_lease_of_another_session_is_fenced,
                runs_are_listed_newest_first,
                only_rows_of_a_run_are_read_as_its_own,
                a_run_that_was_taken_over_keeps_its_rows,
                a_commit_of_a_turn_may_change_state_alone,
            ],
            request_keys: [
                a_request_is_found_by_its_key,
                a_repeated_request_is_a_duplicate,
                a_key_of_another_request_is_refused,
                keys_of_users_are_independent,
                the_key_of_a_refused_request_stays_free,
                a_request_to_a_missing_session_finds_no_session,
                a_queued_run_starts_with_the_key_of_its_request,
                a_withdrawn_request_keeps_its_key,
                a_repeated_answer_does_not_answer_the_next_question,
                a_deleted_session_frees_its_keys,
            ],
            owners: [
                only_queued_and_running_runs_have_an_owner,
                a_running_run_is_taken_over_before_the_queue,
                a_displaced_owner_is_fenced,
                a_run_is_taken_over_by_the_first_who_asks,
                a_running_run_is_taken_over_with_its_options,
                a_take_over_may_be_restricted_to_a_session,
                any_number_of_runs_is_taken_over,
                a_heartbeat_proves_that_a_silent_owner_is_alive,
                a_heartbeat_tells_how_many_runs_were_taken_over,
                an_owner_is_alive_until_its_claim_is_dropped,
            ],
            drafts: [
                a_draft_grows_by_its_pieces,
                a_draft_is_kept_until_a_commit_discards_it,
                a_lost_lease_cannot_extend_a_draft,
                a_draft_that_its_run_left_is_discarded_by_the_next_start,
                a_draft_is_deleted_with_its_session,
            ],
            artifacts: [
                versions_count_from_zero,
                a_file_of_the_user_is_seen_by_all_sessions,
                names_are_sorted_and_apart,
                removing_removes_all_versions,
            ],
            opaque: [
                text_returns_byte_for_byte,
                large_content_returns_whole,
                tool_calls_return_as_they_were,
                numbers_and_key_order_return_as_they_were,
                times_return_to_the_last_bit,
                strange_names_are_only_names,
            ],
        }
    };
    ($open:ident => $($area:ident: [$($law:ident),* $(,)?]),* $(,)?) => { $(
        mod $area { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $law() -> session::Result<()> {
                let (store, _place) = super::$open()?;
                $crate::store_suite::$area::$law(store).await
            }
        )* }
    )* };
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_law_is_left_out_of_the_table() {
        let table = include_str!("mod.rs");
        let laws = [
            include_str!("artifacts.rs"),
            include_str!("commits.rs"),
            include_str!("concurrency.rs"),
            include_str!("drafts.rs"),
            include_str!("facts.rs"),
            include_str!("leases.rs"),
            include_str!("opaque.rs"),
            include_str!("owners.rs"),
            include_str!("paging.rs"),
            include_str!("queue.rs"),
            include_str!("request_keys.rs"),
            include_str!("runs.rs"),
            include_str!("sessions.rs"),
            include_str!("state.rs"),
            include_str!("tail.rs"),
        ];
        let names = laws.iter().flat_map(|file| file.split("\npub async fn ").skip(1));
        for name in names.filter_map(|rest| rest.split('(').next()) {
            assert!(table.contains(&format!(" {name},")), "{name} is not in the table of laws");
        }
    }
}
