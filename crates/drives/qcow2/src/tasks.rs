//! A small executor: one thread, in the order of waking, without a clock.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Wake, Waker};

use slab::Slab;

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// Tasks that run when they were woken.
#[derive(Default)]
pub(crate) struct Tasks {
    tasks: Slab<(Task, Waker)>,
    ready: Arc<Mutex<VecDeque<usize>>>,
}

struct Ready {
    task: usize,
    queue: Arc<Mutex<VecDeque<usize>>>,
}

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if !queue.contains(&self.task) {
            queue.push_back(self.task);
        }
    }
}

impl Tasks {
    /// Adds a task, ready to run.
    pub(crate) fn spawn(&mut self, task: impl Future<Output = ()> + 'static) {
        let place = self.tasks.vacant_entry();
        let queue = Arc::clone(&self.ready);
        let waker = Waker::from(Arc::new(Ready { task: place.key(), queue }));
        waker.wake_by_ref();
        place.insert((Box::pin(task), waker));
    }

    /// Runs until every task waits.
    pub(crate) fn run(&mut self) {
        loop {
            let next = self.ready.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some(index) = next else { return };
            let Some((task, waker)) = self.tasks.get_mut(index) else { continue };
            let waker = waker.clone();
            if task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
                drop(self.tasks.remove(index));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::task::Poll;

    #[test]
    fn tasks_run_in_the_order_of_waking() {
        let mut tasks = Tasks::default();
        let log = Arc::new(Mutex::new(Vec::new()));
        let wakers: Arc<Mutex<Vec<Waker>>> = Arc::default();
        for name in 0..3 {
            let (log, wakers) = (Arc::clone(&log), Arc::clone(&wakers));
            tasks.spawn(async move {
                let mut first = true;
                poll_fn(|context| {
                    if std::mem::take(&mut first) {
                        wakers.lock().unwrap().push(context.waker().clone());
                        return Poll::Pending;
                    }
                    Poll::Ready(())
                })
                .await;
                log.lock().unwrap().push(name);
            });
        }
        tasks.run();
        assert!(log.lock().unwrap().is_empty());
        let wakers = std::mem::take(&mut *wakers.lock().unwrap());
        for index in [2, 0, 2] {
            wakers[index].wake_by_ref();
        }
        tasks.run();
        assert_eq!(*log.lock().unwrap(), [2, 0]);
        // A place is used again.
        assert!(tasks.tasks.vacant_key() < 3);
        let copy = Arc::clone(&log);
        tasks.spawn(async move { copy.lock().unwrap().push(9) });
        tasks.run();
        assert_eq!((log.lock().unwrap().len(), tasks.tasks.len()), (3, 1));
    }
}
