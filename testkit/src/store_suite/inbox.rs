//! The inbox: first come, first served, once.

use super::{
    Shared,
    make::{ids, load, says, session, ticket},
};
use session::{Append, Error, Result, Ticket};

fn names(tickets: &[Ticket]) -> Vec<&str> {
    tickets.iter().map(|ticket| ticket.id.as_str()).collect()
}

pub async fn first_come_first(store: Shared) -> Result<()> {
    let key = session(&store, "s").await?;
    let other = session(&store, "other").await?;
    for id in ["z", "a", "m"] {
        store.push(&key, ticket(id)).await?;
        store.push(&other, ticket("elsewhere")).await?;
    }
    let waiting = store.waiting(&key, 10).await?;
    assert_eq!(names(&waiting), ["z", "a", "m"]);
    assert!(waiting.windows(2).all(|pair| pair[0].number < pair[1].number));
    assert_eq!((&waiting[1].owner, &waiting[1].payload), (&ticket("a").owner, &ticket("a").payload));
    assert_eq!(names(&store.waiting(&key, 2).await?), ["z", "a"]);
    assert_eq!(names(&store.waiting(&other, 10).await?), ["elsewhere"]);
    Ok(())
}

pub async fn pushing_again_gives_the_first_ticket(store: Shared) -> Result<()> {
    let key = session(&store, "s").await?;
    let first = store.push(&key, ticket("t")).await?;
    store.push(&key, ticket("u")).await?;
    let mut changed = ticket("t");
    changed.payload = "changed".into();
    assert_eq!(store.push(&key, changed).await?, first);
    assert_eq!(names(&store.waiting(&key, 10).await?), ["t", "u"]);
    Ok(())
}

pub async fn an_append_takes_its_ticket(store: Shared) -> Result<()> {
    let key = session(&store, "s").await?;
    let first = store.push(&key, ticket("t")).await?;
    store.push(&key, ticket("u")).await?;
    store.append(&key, Append { takes: Some(first.number), ..says("m1") }).await?;
    assert_eq!(names(&store.waiting(&key, 10).await?), ["u"]);
    assert_eq!(ids(&load(&store, &key).await?.tail), ["m1"]);
    Ok(())
}

pub async fn a_ticket_is_taken_once(store: Shared) -> Result<()> {
    let key = session(&store, "s").await?;
    let other = session(&store, "other").await?;
    let number = store.push(&key, ticket("t")).await?.number;
    let take = |id: &str| Append { takes: Some(number), ..says(id) };
    assert!(matches!(store.append(&other, take("m1")).await, Err(Error::TicketGone { .. })));
    store.append(&key, take("m1")).await?;
    let again = store.append(&key, take("m2")).await;
    assert!(matches!(again, Err(Error::TicketGone { number: gone, .. }) if gone == number));
    assert_eq!(ids(&load(&store, &key).await?.tail), ["m1"]);
    Ok(())
}

pub async fn a_ticket_is_withdrawn_once(store: Shared) -> Result<()> {
    let key = session(&store, "s").await?;
    let other = session(&store, "other").await?;
    let number = store.push(&key, ticket("t")).await?.number;
    assert!(!store.withdraw(&other, number).await?);
    assert!(store.withdraw(&key, number).await?);
    assert!(!store.withdraw(&key, number).await?);
    let late = store.append(&key, Append { takes: Some(number), ..says("m1") }).await;
    assert!(matches!(late, Err(Error::TicketGone { .. })));
    Ok(())
}

pub async fn numbers_are_never_used_again(store: Shared) -> Result<()> {
    let key = session(&store, "s").await?;
    let first = store.push(&key, ticket("t")).await?.number;
    assert!(store.withdraw(&key, first).await?);
    let second = store.push(&key, ticket("t")).await?.number;
    assert!(second > first);
    store.delete(&key).await?;
    let anew = session(&store, "s").await?;
    assert!(store.push(&anew, ticket("t")).await?.number > second);
    Ok(())
}
