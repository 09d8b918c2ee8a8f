//! Ranking: BM25 over the distinct terms of a document, how near they are to each other, then time.
//!
//! A fact that was stated again later has about the same score as its earlier version, so hits whose scores are about equal
//! are ordered by time, newest first.

/// How strongly the length of a document lowers its score.
const LENGTH_WEIGHT: f64 = 0.3;
/// Longer documents count as this many times the average: a long text with the right terms is still a hit.
const LONGEST: f64 = 4.0;
/// By how much nearness raises a score at most.
const NEAR_BONUS: f64 = 1.0;
const SATURATION: f64 = 1.2;
/// Scores that differ by less than this part of the best one are about equal.
const TIER: f64 = 0.15;

/// The weight of a term that is in `with_term` of `documents` documents.
#[expect(clippy::cast_precision_loss, reason = "counts of documents are far below 2^52")]
pub(crate) fn weight(documents: u64, with_term: u64) -> f64 {
    let (all, with_term) = (documents.max(with_term) as f64, with_term as f64);
    ((all - with_term + 0.5) / (with_term + 0.5)).ln_1p()
}

/// The score of a document with `len` terms, some of which have this sum of weights.
#[expect(clippy::cast_precision_loss, reason = "the lengths of documents are far below 2^52")]
pub(crate) fn score(weights: f64, len: u64, average_len: f64) -> f64 {
    let relative = (len as f64 / average_len.max(1.0)).min(LONGEST);
    weights * (SATURATION + 1.0) / (1.0 + SATURATION * (1.0 - LENGTH_WEIGHT + LENGTH_WEIGHT * relative))
}

/// The score of a document whose terms are this near to each other.
pub(crate) fn with_nearness(score: f64, nearness: f64) -> f64 {
    score * (1.0 + NEAR_BONUS * nearness)
}

/// The position of a hit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RankKey {
    pub(crate) score: f64,
    pub(crate) timestamp: f64,
    /// Orders hits of the same time.
    pub(crate) number: u64,
}

/// Sorts hits, best first.
pub(crate) fn sort<T>(hits: &mut [T], key: impl Fn(&T) -> RankKey) {
    let best = hits.iter().map(|hit| key(hit).score).fold(0.0, f64::max);
    let tier = |score: f64| if best > 0.0 { ((best - score) / (best * TIER)).floor() } else { 0.0 };
    hits.sort_by(|one, other| {
        let (one, other) = (key(one), key(other));
        let by_tier = tier(one.score).total_cmp(&tier(other.score));
        by_tier
            .then(other.timestamp.total_cmp(&one.timestamp))
            .then(other.number.cmp(&one.number))
            .then(other.score.total_cmp(&one.score))
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(hits: &[(f64, f64)]) -> Vec<usize> {
        let mut hits: Vec<(usize, &(f64, f64))> = hits.iter().enumerate().collect();
        sort(&mut hits, |(index, (score, timestamp))| RankKey {
            score: *score,
            timestamp: *timestamp,
            number: *index as u64,
        });
        hits.into_iter().map(|(index, _)| index).collect()
    }

    #[test]
    fn about_equal_scores_are_ordered_by_time() {
        assert_eq!(order(&[(10.0, 1.0), (9.0, 2.0), (9.5, 3.0)]), [2, 1, 0]);
        assert_eq!(order(&[(10.0, 1.0), (5.0, 9.0)]), [0, 1]);
        assert_eq!(order(&[(10.0, 1.0), (10.0, 1.0)]), [1, 0], "the later number");
        assert_eq!(order(&[(0.0, 1.0), (0.0, 2.0)]), [1, 0]);
    }

    #[test]
    fn rare_terms_and_short_documents_score_higher() {
        assert!(weight(1000, 1) > weight(1000, 100) && weight(1000, 1000) > 0.0);
        assert!(score(3.0, 5, 20.0) > score(3.0, 40, 20.0));
        assert!(score(3.0, 5000, 20.0) > 0.4 * score(3.0, 20, 20.0));
    }
}
