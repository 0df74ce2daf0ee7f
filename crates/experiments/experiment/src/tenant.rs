//! The keys of every tenant of a shared drive: a virtual disk, or the threads of a host workload.

/// Defines the table of a tenant: its own keys, and these behind them. Serde's `flatten` would lose
/// the place and the range of a wrong value. A struct with `(interface = ...)` is one of
/// [`guest_drive`](crate::guest_drive) as well.
macro_rules! tenant {
    ($(#[$attribute:meta])* pub struct $name:ident { $($own:tt)* }) => {
        tenant! { @keys plain $(#[$attribute])* $name {} { $($own)* } }
    };
    ($(#[$attribute:meta])* pub struct $name:ident ($($side:tt)*) { $($own:tt)* }) => {
        tenant! { @keys guest_drive $(#[$attribute])* $name { ($($side)*) } { $($own)* } }
    };
    (@keys $table:ident $(#[$attribute:meta])* $name:ident { $($side:tt)* } { $($own:tt)* }) => {
        $table! {
            $(#[$attribute])*
            pub struct $name $($side)* {
                $($own)*
                /// Share against other tenants, 1 to 1000. Each thread of a workload has it.
                #[serde(default)]
                #[schemars(range(min = 1, max = 1000))]
                pub weight: Option<u32>,
                /// I/O priority, such as `best-effort/4`.
                #[serde(default)]
                pub ioprio: Option<String>,
                /// Limits on the I/Os and bytes a second, of all of a workload's threads together.
                #[serde(default)]
                pub limits: LimitSpec,
            }
        }

        impl $name {
            /// The scheduling parameters.
            pub fn tenant(&self) -> TenantSpec {
                TenantSpec { weight: self.weight, ioprio: self.ioprio.clone(), limits: self.limits }
            }
        }
    };
}

/// A table without keys of others.
macro_rules! plain {
    ($($table:tt)*) => { $($table)* };
}

pub(crate) use {plain, tenant};
