//! Turns at things that commands share, in the order in which they are asked for.

use std::future::poll_fn;
use std::sync::Mutex;
use std::task::{Poll, Waker};

use crate::core::lock;

/// A thing that is shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    /// What the tables have: shared by commands that leave every mapping as it is or add one.
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
    use crate::tasks::Tasks;
    use std::sync::Arc;

    #[test]
    fn turns_come_in_the_order_of_asking() {
        let (mut tasks, turns) = (Tasks::default(), Arc::new(Turns::default()));
        let log: Arc<Mutex<Vec<char>>> = Arc::default();
        let gate = Arc::new(Turns::default());
        let mut closed = Tasks::default();
        let held = Arc::clone(&gate);
        let (open, opened) = (Arc::new(Mutex::new(false)), Arc::new(Mutex::new(None::<Waker>)));
        let (is_open, place) = (Arc::clone(&open), Arc::clone(&opened));
        // Holds the gate until it is told to end.
        closed.spawn(async move {
            let _turn = held.alone(Subject::Tables).await;
            poll_fn(|context| match *lock(&is_open) {
                true => Poll::Ready(()),
                false => {
                    *lock(&place) = Some(context.waker().clone());
                    Poll::Pending
                }
            })
            .await;
        });
        closed.run();
        for (name, shared) in [('a', true), ('b', true), ('c', false), ('d', true), ('e', false)] {
            let (turns, log, gate) = (Arc::clone(&turns), Arc::clone(&log), Arc::clone(&gate));
            tasks.spawn(async move {
                let _turn = turns.turn(Subject::Mappings, shared).await;
                lock(&log).push(name);
                if name < 'c' {
                    drop(gate.shared(Subject::Tables).await);
                }
                lock(&log).push(name.to_ascii_uppercase());
            });
        }
        tasks.run();
        assert_eq!(*lock(&log), ['a', 'b'], "two share it");
        assert!(turns.is_free(Subject::L2(0)) && !turns.is_free(Subject::Mappings));
        *lock(&open) = true;
        lock(&opened).take().unwrap().wake();
        closed.run();
        tasks.run();
        let rest = ['a', 'b', 'A', 'B', 'c', 'C', 'd', 'D', 'e', 'E'];
        assert_eq!(*lock(&log), rest);
        assert!(turns.is_free(Subject::Mappings));
    }
}
