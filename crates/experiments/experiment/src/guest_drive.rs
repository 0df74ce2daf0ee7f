//! The keys of every drive that a guest sees, whether it is a whole drive or a virtual disk on one.

/// Defines the table of such a drive: these keys, and its own behind them. Serde's `flatten` would
/// lose the place and the range of a wrong value.
macro_rules! guest_drive {
    (
        $(#[$attribute:meta])*
        pub struct $name:ident (interface = $interface:tt) { $($own:tt)* }
    ) => {
        $(#[$attribute])*
        pub struct $name {
            /// Name in the results; by default `drive0`, `drive1` and so on, and of a virtual disk
            /// made from the machine's and the drive's names.
            #[serde(default)]
            pub name: Option<String>,
            /// Device interface to the guest.
            #[serde(default = $interface)]
            pub interface: Interface,
            /// I/O queues or queue pairs; by default one for each vCPU.
            #[serde(default)]
            #[schemars(range(min = 1, max = 64))]
            pub queues: Option<u16>,
            /// Doorbell writes that leave the guest.
            #[serde(default)]
            pub doorbells: Doorbells,
            /// Serial number, as the guest sees it.
            #[serde(default)]
            pub serial: Option<String>,
            $($own)*
        }

        impl $name {
            /// Returns the drive's serial number: by default one that follows from its `place`
            /// among all drives.
            pub fn serial_number(&self, place: usize) -> String {
                self.serial.clone().unwrap_or_else(|| format!("STASIS{place}"))
            }

            /// Checks the ranges of the keys that every drive of a guest has.
            fn check_guest_side(&self) -> Result<(), stasis_config::Mistake> {
                self.name.as_deref().map_or(Ok(()), crate::names::check_drive_name)?;
                if let Some(serial) = &self.serial {
                    let is_printable = serial.bytes().all(|byte| (b' '..=b'~').contains(&byte));
                    if !is_printable || !(1..=20).contains(&serial.len()) {
                        let message = format!(
                            "serial is `{serial}`, but must be 1 to 20 printable ASCII characters"
                        );
                        return Err(stasis_config::Mistake::at("serial", message));
                    }
                }
                if self.queues.is_some_and(|queues| !(1..=64).contains(&queues)) {
                    let message = "queues must be a number from 1 to 64";
                    return Err(stasis_config::Mistake::at("queues", message));
                }
                Ok(())
            }
        }
    };
}

pub(crate) use guest_drive;
