//! Jobs for a thread, in every order of the steps of their senders and of the thread.

#[path = "../src/mailbox.rs"]
mod mailbox;

/// The mailbox's primitives, from loom, which then tracks the values each thread may see.
mod sync {
    use std::collections::VecDeque;

    pub use loom::sync::atomic::{AtomicBool, Ordering};
    pub use loom::sync::Arc;
    use loom::sync::Mutex;

    /// A channel: a look at an empty one is no step of loom's own, so that orders would be left out.
    pub struct Sender<T>(Arc<Mutex<VecDeque<T>>>);
    pub struct Receiver<T>(Arc<Mutex<VecDeque<T>>>);

    pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
        let queue = Arc::new(Mutex::new(VecDeque::new()));
        (Sender(Arc::clone(&queue)), Receiver(queue))
    }

    impl<T> Sender<T> {
        pub fn send(&self, value: T) -> Result<(), T> {
            self.0.lock().unwrap().push_back(value);
            Ok(())
        }
    }

    impl<T> Receiver<T> {
        pub fn try_recv(&self) -> Result<T, ()> {
            self.0.lock().unwrap().pop_front().ok_or(())
        }
    }
}

use loom::sync::{Arc, Condvar, Mutex};
use mailbox::{mailbox, Bell};

/// Model of an event descriptor (eventfd(2)).
#[derive(Default)]
struct Event {
    rung: Mutex<bool>,
    waits: Condvar,
}

impl Bell for Event {
    fn ring(&self) {
        *self.rung.lock().unwrap() = true;
        self.waits.notify_one();
    }
}

impl Event {
    /// Waits until it was rung, and hears it.
    fn wait(&self) {
        let mut rung = self.rung.lock().unwrap();
        while !*rung {
            rung = self.waits.wait(rung).unwrap();
        }
        *rung = false;
    }
}

/// `jobs` from each of `givers` threads at once: the thread that waits for its bell does all of
/// them, each giver's in their order, and ends. Loom finds a thread that waits for ever.
fn all_are_done(givers: usize, jobs: u32) {
    loom::model(move || {
        let (sender, inbox) = mailbox::<(usize, u32), Event>(Event::default());
        let sender = Arc::new(sender);
        let give = |giver| {
            let sender = Arc::clone(&sender);
            loom::thread::spawn(move || {
                (0..jobs).for_each(|job| assert!(sender.give((giver, job))))
            })
        };
        let threads: Vec<_> = (0..givers).map(give).collect();
        let mut done = vec![0; givers];
        while done.iter().any(|&done| done < jobs) {
            let any = inbox.take(|(giver, job)| {
                assert_eq!(job, done[giver], "in their order");
                done[giver] += 1;
            });
            if !any {
                inbox.bell().wait();
            }
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn no_job_stays_behind() {
    all_are_done(1, 2);
}

#[test]
fn nor_does_one_of_two_givers() {
    all_are_done(2, 1);
}
