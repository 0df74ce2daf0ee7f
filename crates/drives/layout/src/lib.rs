//! Binary forms: structures whose fields have their bytes ([`layout!`]), and little-endian numbers
//! anywhere in bytes ([`u16_at`] and so on).
//!
//! Promise: nothing here panics for what the bytes are, or for how few they are.

mod numbers;

pub use numbers::{number, take, u16_at, u32_at, u64_at};
pub use zerocopy::little_endian::{I16, I32, I64, U128, U16, U32, U64};
pub use zerocopy::{self, big_endian};
pub use zerocopy::{transmute, transmute_mut, transmute_ref};
pub use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Declares a structure of a form: `[BYTE] name: type` for each field, in order. Reserved bytes are
/// fields too, without a meaning.
///
/// A field elsewhere than at its byte, and a size that is not the one in the head, do not compile.
/// A structure has no invalid contents, so bytes are one, and one is bytes, without a copy:
/// [`FromBytes`], [`IntoBytes`], [`transmute_mut!`]. Its default is all zeroes, as reserved bytes
/// must be.
///
/// ```
/// stasis_layout::layout! {
///     /// Head of a message.
///     pub struct Head: 8 {
///         /// Kind of message.
///         [0] kind: u8,
///         [1] reserved1: [u8; 3],
///         /// Length in bytes.
///         [4] length: stasis_layout::U32,
///     }
/// }
/// let head = Head { kind: 1, length: 20.into(), ..Default::default() };
/// assert_eq!(stasis_layout::IntoBytes::as_bytes(&head), [1, 0, 0, 0, 20, 0, 0, 0]);
/// ```
///
/// ```compile_fail
/// stasis_layout::layout! {
///     /// A gap, which the compiler refuses: `length` would begin at byte 1.
///     pub struct Head: 5 {
///         /// Kind of message.
///         [0] kind: u8,
///         /// Length in bytes.
///         [4] length: stasis_layout::U32,
///     }
/// }
/// ```
#[macro_export]
macro_rules! layout {
    (
        $(#[$meta:meta])*
        $visible:vis struct $name:ident: $size:literal {
            $( $(#[$field_meta:meta])* [$at:literal] $field:ident: $type:ty, )*
        }
    ) => {
        $(#[$meta])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq,
            $crate::zerocopy::FromBytes, $crate::zerocopy::IntoBytes,
            $crate::zerocopy::Immutable, $crate::zerocopy::KnownLayout,
            $crate::zerocopy::Unaligned,
        )]
        #[zerocopy(crate = "stasis_layout::zerocopy")]
        #[repr(C)]
        $visible struct $name {
            $(
                $(#[$field_meta])*
                #[doc = ""]
                #[doc = concat!("From byte ", $at, " on.")]
                pub $field: $type,
            )*
        }

        const _: () = {
            assert!(size_of::<$name>() == $size, concat!("size of ", stringify!($name)));
            $( assert!(
                core::mem::offset_of!($name, $field) == $at,
                concat!(stringify!($name), ".", stringify!($field)),
            ); )*
        };

        impl Default for $name {
            fn default() -> Self {
                $crate::zerocopy::FromZeros::new_zeroed()
            }
        }
    };
}
