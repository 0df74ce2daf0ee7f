//! The form in which the structures are written.

/// Declares a structure of a specification: `[BYTE] name: type` for each field, in order. Reserved
/// bytes are fields too, without `pub`.
///
/// A field elsewhere than at its byte, and a size that is not the one in the head, do not compile.
/// Default is all zeroes, as reserved bytes must be.
macro_rules! layout {
    (
        $(#[$meta:meta])*
        pub struct $name:ident: $size:literal {
            $( $(#[$field_meta:meta])* [$at:literal] $vis:vis $field:ident: $type:ty, )*
        }
    ) => {
        $(#[$meta])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq,
            zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable,
            zerocopy::KnownLayout, zerocopy::Unaligned,
        )]
        #[repr(C)]
        pub struct $name {
            $( $(#[$field_meta])* $vis $field: $type, )*
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
                zerocopy::FromZeros::new_zeroed()
            }
        }
    };
}

pub(crate) use layout;
