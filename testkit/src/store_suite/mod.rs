//! The store suite: contract tests of the guarantees that every [`Store`] gives, independent of the backend.
//!
//! Each contract test is a function that takes an empty store. [`store_contract_tests!`](crate::store_contract_tests)
//! expands to one `#[tokio::test]` per function; the backend provides a function that opens a store:
//!
//! ```ignore
//! fn open() -> session::Result<(testkit::store_suite::SharedStore, ())> {
//!     Ok((Arc::new(MemoryStore::new()), ()))
//! }
//! testkit::store_contract_tests!(open);
//! ```

pub mod artifacts;
pub mod commits;
pub mod concurrency;
pub mod drafts;
pub mod idempotency_keys;
pub mod leases;
pub mod make;
pub mod opaque;
pub mod owners;
pub mod paging;
pub mod pending;
pub mod queue;
pub mod recipes;
pub mod runs;
pub mod sessions;
pub mod state;
pub mod tail;

use session::Store;
use std::sync::Arc;

pub type SharedStore = Arc<dyn Store>;

/// What a backend's function returns: a store with a guard, or `None` if the backend cannot be tested on this machine.
pub trait OpenedStore {
    type Guard;

    fn opened(self) -> Option<(SharedStore, Self::Guard)>;
}

impl<G> OpenedStore for (SharedStore, G) {
    type Guard = G;

    fn opened(self) -> Option<(SharedStore, G)> {
        Some(self)
    }
}

impl<G> OpenedStore for Option<(SharedStore, G)> {
    type Guard = G;

    fn opened(self) -> Option<(SharedStore, G)> {
        self
    }
}

/// Expands to one `#[tokio::test]` per contract test. `$open` is a function in the calling module that returns a
/// [`SharedStore`] and a guard that must outlive it, such as a temporary directory, or an `Option` of both.
#[macro_export]
macro_rules! store_contract_tests {
    ($open:ident) => {
        $crate::store_contract_tests! { $open =>
            sessions: [
                a_new_session_is_empty,
                creating_an_existing_session_fails_or_returns_it,
                creating_an_existing_session_with_keep_changes_nothing,
                a_session_is_created_with_its_steps,
                writes_and_paged_reads_of_a_missing_session_fail_with_not_found,
                lookups_in_a_missing_session_return_nothing,
                sessions_of_users_and_apps_are_isolated,
                deleting_a_session_removes_all_of_its_data_and_nothing_else,
                a_recreated_session_is_empty,
                a_title_is_set_once,
                a_session_above_the_quota_is_not_created,
            ],
            commits: [
                rows_are_read_in_commit_order,
                the_messages_of_a_commit_get_consecutive_sequence_numbers,
                a_repeated_commit_changes_nothing,
                a_message_with_other_content_does_not_make_a_commit_a_retry,
                a_repeated_commit_is_recognised_before_other_conditions,
                the_last_message_decides_whether_a_commit_is_repeated,
                a_message_id_is_unique_in_its_session,
                the_same_id_in_another_session_is_another_message,
                a_wrong_expected_seq_is_a_conflict,
                an_old_epoch_is_fenced,
                a_commit_of_facts_alone_takes_no_sequence_number,
                a_refused_commit_changes_nothing,
                a_session_with_a_bad_step_is_not_created_at_all,
                the_session_row_counts_messages_and_tokens,
            ],
            recipes: [
                a_recipe_is_stored_with_its_message,
                a_repeated_commit_does_not_change_the_recipe,
                recipe_texts_are_shared_and_visible_only_where_they_are_used,
            ],
            concurrency: [
                one_of_many_concurrent_creates_succeeds,
                concurrent_creates_with_keep_return_the_same_session,
                concurrent_creates_do_not_exceed_the_quota,
                concurrent_commits_to_many_sessions_are_independent,
                concurrent_commits_to_one_session_leave_no_gap,
                concurrent_commits_of_one_message_store_it_once,
                refused_commits_do_not_affect_concurrent_ones,
                one_of_many_concurrent_starts_is_admitted,
                concurrently_queued_messages_start_in_ticket_order,
                concurrent_requests_with_one_idempotency_key_become_one_run,
                concurrent_changes_of_user_state_are_all_kept,
                a_dropped_commit_future_is_atomic,
            ],
            tail: [
                the_tail_has_the_newest_rows_within_the_budget,
                a_budget_equal_to_the_tokens_includes_all_rows,
                the_newest_row_is_included_even_beyond_the_budget,
                the_tail_ends_at_a_row_beyond_the_budget,
                the_tail_is_limited_in_rows,
                an_empty_budget_returns_no_rows,
                rows_without_tokens_cost_nothing,
            ],
            paging: [
                pages_cover_the_whole_log,
                a_page_ends_at_its_maximum_of_bytes,
                paging_is_stable_during_commits,
                a_list_is_ordered_by_last_change_descending,
                a_list_is_filtered_by_app_and_user,
                paging_a_list_has_no_gap_and_no_duplicate,
                paging_a_changing_list_repeats_no_session_and_skips_no_unchanged_one,
            ],
            state: [
                state_is_visible_within_its_scope,
                app_and_user_state_survive_the_deletion_of_a_session,
                state_keys_are_ordered_by_first_assignment,
                null_is_a_value,
                the_initial_state_is_in_the_state_log,
                every_state_change_is_logged_with_its_sequence_number,
                a_page_of_state_changes_contains_whole_commits,
            ],
            pending: [
                a_pending_entry_is_set_replaced_and_cleared,
                a_snapshot_contains_only_carried_entries,
                a_pending_entry_may_stop_being_carried,
            ],
            queue: [
                one_commit_stores_a_queued_run_with_its_message,
                queued_runs_start_in_the_order_of_acceptance,
                the_number_of_runs_ahead_falls_as_they_start,
                a_queued_run_is_not_queued_again,
                a_queued_run_leaves_the_queue_when_it_starts,
                only_its_owner_starts_a_queued_run,
                a_queued_run_is_withdrawn_once,
                only_its_owner_withdraws_a_queued_run,
                only_a_queued_run_is_withdrawn,
                a_freed_ticket_is_not_reused,
                an_answer_continues_the_waiting_run,
                an_answer_is_queued_like_any_message,
                a_message_that_supersedes_a_question_cancels_its_run,
                an_answer_that_is_queued_behind_another_message_is_superseded,
                a_run_without_an_open_question_is_not_superseded,
            ],
            leases: [
                a_started_run_holds_the_lease,
                a_started_run_is_not_started_again,
                the_last_commit_of_a_turn_releases_the_lease,
                a_refused_or_repeated_commit_does_not_release_the_lease,
                a_turn_ends_only_in_a_state_that_releases_the_lease,
                a_start_with_if_epoch_is_fenced_after_another_turn,
                a_start_with_if_epoch_returns_the_shared_state,
                a_start_does_not_overtake_the_queue,
                a_recreated_session_fences_the_owner_of_the_deleted_one,
            ],
            runs: [
                a_run_starts_where_the_log_ends,
                a_refused_start_creates_no_run,
                a_run_that_must_be_new_is_refused_if_its_id_is_known,
                the_last_commit_of_a_turn_stores_status_and_error,
                a_terminal_state_never_changes,
                a_settled_message_belongs_to_the_run_that_it_settles,
                a_waiting_run_is_cancelled_with_its_last_message,
                a_waiting_run_is_not_cancelled_while_another_one_runs,
                a_lease_of_another_session_is_fenced,
                runs_are_listed_newest_first,
                read_run_returns_only_rows_of_the_run,
                a_run_that_was_taken_over_keeps_its_rows,
                a_commit_of_a_turn_may_change_state_alone,
            ],
            idempotency_keys: [
                a_run_is_found_by_its_idempotency_key,
                a_repeated_request_is_a_duplicate,
                an_idempotency_key_of_another_request_is_refused,
                idempotency_keys_of_users_are_independent,
                a_refused_request_does_not_use_its_idempotency_key,
                a_known_key_in_a_missing_session_is_not_found,
                a_queued_run_starts_with_its_own_idempotency_key,
                a_withdrawn_request_keeps_its_idempotency_key,
                a_repeated_answer_does_not_answer_the_next_question,
                deleting_a_session_frees_its_idempotency_keys,
            ],
            owners: [
                only_queued_and_running_runs_have_an_owner,
                a_running_run_is_taken_over_before_the_queue,
                a_displaced_owner_is_fenced,
                a_run_is_taken_over_once,
                a_running_run_is_taken_over_with_its_options,
                a_take_over_may_be_restricted_to_a_session,
                any_number_of_runs_is_taken_over,
                a_heartbeat_prevents_a_take_over,
                a_heartbeat_returns_the_number_of_displaced_runs,
                an_owner_is_alive_until_its_claim_is_dropped,
            ],
            drafts: [
                a_draft_grows_by_its_chunks,
                a_draft_is_kept_until_a_commit_discards_it,
                a_lost_lease_cannot_extend_a_draft,
                the_next_start_must_discard_the_draft_of_an_interrupted_run,
                a_draft_is_deleted_with_its_session,
            ],
            artifacts: [
                artifact_versions_count_from_zero,
                a_user_artifact_is_shared_by_all_sessions,
                artifact_names_are_sorted_and_scoped,
                removing_an_artifact_removes_all_versions,
            ],
            opaque: [
                text_is_stored_byte_for_byte,
                large_content_is_stored_completely,
                tool_calls_are_stored_unchanged,
                json_numbers_and_key_order_are_preserved,
                timestamps_are_stored_bit_for_bit,
                keys_and_ids_may_contain_any_text,
            ],
        }
    };
    ($open:ident => $($area:ident: [$($test:ident),* $(,)?]),* $(,)?) => { $(
        mod $area { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() -> session::Result<()> {
                let opened = $crate::store_suite::OpenedStore::opened(super::$open()?);
                let Some((store, _guard)) = opened else { return Ok(()) };
                $crate::store_suite::$area::$test(store).await
            }
        )* }
    )* };
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_contract_test_is_in_the_macro() {
        let table = include_str!("mod.rs");
        let suites = [
            include_str!("artifacts.rs"),
            include_str!("commits.rs"),
            include_str!("concurrency.rs"),
            include_str!("drafts.rs"),
            include_str!("pending.rs"),
            include_str!("leases.rs"),
            include_str!("opaque.rs"),
            include_str!("owners.rs"),
            include_str!("paging.rs"),
            include_str!("queue.rs"),
            include_str!("idempotency_keys.rs"),
            include_str!("runs.rs"),
            include_str!("sessions.rs"),
            include_str!("state.rs"),
            include_str!("tail.rs"),
        ];
        let names = suites.iter().flat_map(|file| file.split("\npub async fn ").skip(1));
        for name in names.filter_map(|rest| rest.split('(').next()) {
            assert!(table.contains(&format!(" {name},")), "{name} is missing in store_contract_tests!");
        }
    }
}
