//! Usage in memory.

use crate::{SessionKey, TokenCounts, UsageEntry, UsageGroup, UsageKey, UsageQuery, UsageSum};
use std::collections::BTreeMap;

/// Sums by session, day, agent and model. The usage of deleted sessions has the empty session id.
#[derive(Debug, Default)]
pub(super) struct MemoryUsage(BTreeMap<(SessionKey, UsageKey), TokenCounts>);

impl MemoryUsage {
    pub(super) fn add(&mut self, session: &SessionKey, entries: Vec<UsageEntry>) {
        for UsageEntry { key, counts } in entries {
            *self.0.entry((session.clone(), key)).or_default() += counts;
        }
    }

    /// Keeps the sums of a deleted session without its id.
    pub(super) fn forget_session(&mut self, session: &SessionKey) {
        let of_session = self.0.extract_if(.., |(key, _), _| key == session);
        let kept: Vec<_> = of_session.collect();
        let nameless = SessionKey { session_id: String::new(), ..session.clone() };
        for ((_, key), counts) in kept {
            *self.0.entry((nameless.clone(), key)).or_default() += counts;
        }
    }

    /// Drops the sums of a session that was not created after all.
    pub(super) fn undo(&mut self, session: &SessionKey) {
        self.0.retain(|(key, _), _| key != session);
    }

    pub(super) fn sum(&self, query: &UsageQuery) -> Vec<UsageSum> {
        let mut sums: BTreeMap<_, UsageSum> = BTreeMap::new();
        for ((session, key), counts) in
            self.0.iter().filter(|((session, key), _)| selects(query, session, key))
        {
            let grouped = |group: UsageGroup| query.groups.contains(&group);
            let text = |group: UsageGroup, text: &String| grouped(group).then(|| text.clone());
            let sum = UsageSum {
                model: key.model.clone(),
                day: grouped(UsageGroup::Day).then_some(key.day),
                app: text(UsageGroup::App, &session.app_name),
                user: text(UsageGroup::User, &session.user_id),
                session: text(UsageGroup::Session, &session.session_id),
                agent: text(UsageGroup::Agent, &key.agent),
                counts: TokenCounts::default(),
            };
            let UsageSum { model, day, app, user, session, agent, .. } = sum.clone();
            sums.entry((model, day, app, user, session, agent)).or_insert(sum).counts += *counts;
        }
        sums.into_values().collect()
    }
}

fn selects(query: &UsageQuery, session: &SessionKey, key: &UsageKey) -> bool {
    let is = |wanted: &Option<String>, found: &String| wanted.as_ref().is_none_or(|wanted| wanted == found);
    is(&query.app, &session.app_name)
        && is(&query.user, &session.user_id)
        && is(&query.session, &session.session_id)
        && is(&query.agent, &key.agent)
        && is(&query.model, &key.model)
        && query.from.is_none_or(|from| key.day >= from)
        && query.to.is_none_or(|to| key.day <= to)
}
