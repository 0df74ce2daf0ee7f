//! Guests by SVM, AMD's secure virtual machine (AMD64 APM vol. 2, 15).

mod access;
mod alike;
mod breakpoints;
mod calibrate;
mod cpuid;
mod debug;
mod enter;
mod kept;
mod msr;
mod nested;
mod registers;
mod shares;
mod time;
mod vcpu;
mod vmcb;
mod walk;

pub use alike::Alike;
pub use calibrate::{calibrate, NotExact};
pub use cpuid::Leaf;
pub use debug::{Breakpoint, Debug, DebugRegisters, Watch, Watches, Watchpoint, WATCHES};
pub use kept::KeptVcpu;
pub use nested::{Nested, NotMappable};
pub(crate) use time::TIMER;
pub use time::{Costs, ExitPath};
pub use vcpu::{LongMode, Registers, Vcpu};
