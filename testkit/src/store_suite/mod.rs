//! What every store does. A backend that keeps these laws can stand in for any other.
//!
//! Each law is a function that gets an empty store. [`store_laws!`](crate::store_laws) makes a test of each;
//! a backend says only how it is opened:
//!
//! ```ignore
//! fn open() -> session::Result<(testkit::store_suite::Shared, ())> {
//!     Ok((Arc::new(MemoryStore::new()), ()))
//! }
//! testkit::store_laws!(open);
//! ```

pub mod appends;
pub mod artifacts;
pub mod concurrency;
pub mod facts;
pub mod inbox;
pub mod leases;
pub mod make;
pub mod opaque;
pub mod paging;
pub mod runs;
pub mod sessions;
pub mod state;
pub mod tail;

use session::Store;
use std::sync::Arc;

pub type Shared = Arc<dyn Store>;

/// A test for each law. `$open` is a function beside the call that gives a `Shared` store
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
            appends: [
                rows_come_back_in_the_order_in_which_they_were_appended,
                a_repeated_message_changes_nothing,
                a_repeat_is_recognised_whatever_else_is_refused,
                the_same_id_in_another_session_is_another_message,
                a_session_that_moved_on_is_a_conflict,
                an_old_epoch_is_fenced,
                a_step_of_facts_alone_takes_no_place,
                a_refused_step_leaves_nothing_behind,
                the_row_counts_what_was_appended,
            ],
            concurrency: [
                of_many_creates_one_wins,
                many_creates_that_keep_all_get_the_session,
                many_sessions_grow_at_once,
                many_appends_to_one_session_leave_no_gap,
                the_same_message_sent_many_times_is_stored_once,
                bad_appends_among_good_ones_fail_alone,
                of_many_claims_one_is_granted,
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
                appends_do_not_disturb_a_reader,
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
                a_page_of_changes_ends_between_two_appends,
            ],
            facts: [
                a_fact_is_set_replaced_and_cleared,
                only_carried_facts_come_along,
                a_fact_may_stop_being_carried,
            ],
            inbox: [
                first_come_first,
                pushing_again_gives_the_first_ticket,
                an_append_takes_its_ticket,
                a_ticket_is_taken_once,
                a_ticket_is_withdrawn_once,
                numbers_are_never_used_again,
            ],
            leases: [
                a_free_lease_is_granted_and_then_held,
                a_claim_of_ones_own_keeps_its_epoch,
                an_expired_lease_goes_to_the_next,
                a_released_lease_goes_to_the_next,
                a_step_may_give_the_lease_back,
                a_step_may_take_a_free_lease,
                a_step_that_follows_a_turn_is_refused_if_there_was_another,
                a_step_that_follows_a_turn_is_told_the_shared_state,
                a_step_that_takes_the_lease_overtakes_nobody,
                a_dead_owner_is_displaced_by_its_epoch,
                renewing_moves_the_end,
                a_lost_lease_cannot_be_renewed_or_released,
                a_claim_counts_who_waits,
                a_session_made_anew_fences_the_owner_of_the_old_one,
                what_was_left_is_in_a_lease_or_in_an_inbox,
            ],
            runs: [
                a_run_begins_where_the_log_ends,
                a_run_may_begin_with_its_first_step,
                a_repeated_request_is_the_same_run,
                a_run_with_a_key_begins_once,
                a_run_changes_with_the_step_that_changes_it,
                a_step_for_no_run_is_refused,
                runs_come_newest_first,
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
            include_str!("appends.rs"),
            include_str!("artifacts.rs"),
            include_str!("concurrency.rs"),
            include_str!("facts.rs"),
            include_str!("inbox.rs"),
            include_str!("leases.rs"),
            include_str!("opaque.rs"),
            include_str!("paging.rs"),
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
