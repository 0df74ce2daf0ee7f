//! The keys of every kind that gives each operation a time, whatever its address and size.

/// Defines the table of such a kind: its own keys, and these behind them. Serde's `flatten` would
/// lose the place of a wrong value.
macro_rules! operation_times {
    (
        $(#[$attribute:meta])*
        pub struct $name:ident { $($own:tt)* }
    ) => {
        $(#[$attribute])*
        pub struct $name {
            $($own)*
            /// Time of a read, in place of what the other keys say.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub read: Option<Span>,
            /// Time of a write, in place of what the other keys say.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub write: Option<Span>,
            /// Time of a flush, in place of what the other keys say.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub flush: Option<Span>,
            /// Time of a discard, in place of what the other keys say.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub discard: Option<Span>,
            /// Time of a write-zeroes, in place of what the other keys say.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub write_zeroes: Option<Span>,
            /// Commands in service at once. If not given, any number, or as many as were in flight
            /// when a profile was measured.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[schemars(range(min = 1))]
            pub parallelism: Option<u32>,
            /// A volatile write cache; none if not given.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub cache: Option<CacheSpec>,
            /// True if acknowledged writes survive a power cut without a flush; no if not given.
            /// The key changes no time.
            #[serde(default, skip_serializing_if = "is_false")]
            pub plp: bool,
        }

        impl $name {
            /// The times of the operations that have a key, by [`Operation`](stasis_block::Operation)
            /// number.
            fn times(&self) -> [Option<Span>; 5] {
                [self.read, self.write, self.flush, self.discard, self.write_zeroes]
            }

            /// Checks the keys beside the times.
            fn check_service(&self) -> Result<(), Problem> {
                check_protection(self.plp, self.cache.as_ref(), self.parallelism)
            }
        }
    };
}

pub(super) use operation_times;
