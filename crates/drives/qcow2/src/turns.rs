//! Turns at things that commands share, in the order in which they are asked for.

use std::future::poll_fn;
use std::sync::Mutex;
use std::task::{Poll, Waker};

use crate::lock::lock;

/// A thing that is shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    /// The mappings in the tables: shared by commands that leave every mapping as it is or add one.
    Mappings,
    /// Writing tables.
    Tables,
    /// New mappings in an L2 table, by its place in the L1 table.
    L2(u64),
    /// Loading a table of a file.
    Loading(usize, u64),
}

/// Everybody's turns.
#[derive(Debug, Default)]
pub(crate) struct Turns(Mutex<Queue>);

#[derive(Debug, Default)]
struct Queue {
    next: u64,
    claims: Vec<Claim>,
}

#[derive(Debug)]
struct Claim {
    id: u64,
    subject: Subject,
    shared: bool,
    granted: bool,
    waker: Option<Waker>,
}

/// A turn, or the wait for one; it ends when it is dropped.
#[derive(Debug)]
#[must_use]
pub(crate) struct Turn<'a> {
    turns: &'a Turns,
    id: u64,
    subject: Subject,
}

impl Turns {
    /// Waits for a turn beside others that share it.
    pub(crate) async fn shared(&self, subject: Subject) -> Turn<'_> {
        self.turn(subject, true).await
    }

    /// Waits for a turn alone.
    pub(crate) async fn alone(&self, subject: Subject) -> Turn<'_> {
        self.turn(subject, false).await
    }

    /// Returns whether nobody has a turn at it or waits for one.
    pub(crate) fn is_free(&self, subject: Subject) -> bool {
        lock(&self.0).claims.iter().all(|claim| claim.subject != subject)
    }

    async fn turn(&self, subject: Subject, shared: bool) -> Turn<'_> {
        let turn = {
            let queue = &mut *lock(&self.0);
            let mut others = queue.claims.iter().filter(|claim| claim.subject == subject);
            let granted = others.all(|claim| claim.shared && shared);
            let id = queue.next;
            queue.next += 1;
            queue.claims.push(Claim { id, subject, shared, granted, waker: None });
            Turn { turns: self, id, subject }
        };
        poll_fn(|context| {
            let claims = &mut lock(&self.0).claims;
            match claims.iter_mut().find(|claim| claim.id == turn.id && !claim.granted) {
                Some(claim) => {
                    claim.waker = Some(context.waker().clone());
                    Poll::Pending
                }
                None => Poll::Ready(()),
            }
        })
        .await;
        turn
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let claims = &mut lock(&self.turns.0).claims;
        claims.retain(|claim| claim.id != self.id);
        let mut alone = None;
        for claim in claims.iter_mut().filter(|claim| claim.subject == self.subject) {
            // Those that share go on together, up to the first that does not.
            if alone == Some(true) || (alone == Some(false) && !claim.shared) {
                return;
            }
            alone = Some(!claim.shared);
            claim.granted = true;
            if let Some(waker) = claim.waker.take() {
                waker.wake();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::Pin;
    use std::task::Context;

    fn poll<'a>(claim: &mut Pin<Box<impl Future<Output = Turn<'a>>>>) -> Option<Turn<'a>> {
        match claim.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(turn) => Some(turn),
            Poll::Pending => None,
        }
    }

    #[test]
    fn turns_come_in_the_order_of_asking() {
        let turns = Turns::default();
        let claim = |shared| Box::pin(turns.turn(Subject::Mappings, shared));
        let [mut a, mut b, mut c, mut d, mut e] = [true, true, false, true, false].map(claim);
        let (first, second) = (poll(&mut a).unwrap(), poll(&mut b).unwrap());
        assert!(poll(&mut c).is_none(), "alone");
        assert!(poll(&mut d).is_none(), "behind one that waits");
        assert!(poll(&mut e).is_none());
        assert!(turns.is_free(Subject::L2(0)) && !turns.is_free(Subject::Mappings));
        drop(first);
        assert!(poll(&mut c).is_none());
        drop(second);
        let third = poll(&mut c).unwrap();
        assert!(poll(&mut d).is_none());
        // One that gives up is none that others wait for.
        drop(d);
        drop(third);
        assert!(poll(&mut e).is_some());
        assert!(turns.is_free(Subject::Mappings));
    }
}
