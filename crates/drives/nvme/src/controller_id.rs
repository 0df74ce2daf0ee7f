//! The identifier of a controller.

use crate::narrow::count16;

/// Limit on the controllers of a subsystem.
pub const MAX_CONTROLLERS: usize = 64;

/// The identifier of a controller in its subsystem (CNTLID).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ControllerId(pub u16);

impl ControllerId {
    /// Identifier of the one controller of a drive on PCIe.
    pub const PCIE: Self = Self(0);
    /// Identifier of none.
    pub(crate) const NONE: Self = Self(u16::MAX);

    /// The controller of an index, of which there are [`MAX_CONTROLLERS`].
    pub(crate) fn of_index(index: usize) -> Self {
        Self(count16(index))
    }

    pub(crate) fn index(self) -> usize {
        self.0.into()
    }
}
