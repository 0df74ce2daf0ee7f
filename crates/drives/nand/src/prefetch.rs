//! Memory that is needed soon. The maps of a large drive do not fit the processor's caches:
//! waiting for memory is most of a read's cost, and the commands in flight are known
//! long before they are carried out.

/// Bytes of a line of the caches.
const LINE: usize = 64;

/// Brings an element into the caches, without waiting for it; nothing if there is none.
#[inline]
pub fn prefetch<T>(values: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(value) = values.get(index) {
        use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
        let first = std::ptr::from_ref(value).cast::<i8>();
        for offset in (0..size_of::<T>()).step_by(LINE) {
            // SAFETY: a prefetch changes nothing, and reads nothing that the program sees;
            // the addresses are inside the element.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(first.wrapping_add(offset)) }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (values, index, LINE);
}
