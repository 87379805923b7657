//! The one allocation that holds every value while windows run, and the views that kernels get of it.

#![expect(
    unsafe_code,
    reason = "threads of one step share the arena through address ranges that the schedule keeps apart"
)]

use super::super::EngineError;
use crate::memory::schedule::PlannedTensor;
use crate::units::Bytes;
use std::sync::atomic::{AtomicU64, Ordering};

/// One aligned line of the arena.
#[derive(Clone, Copy, bytemuck::Zeroable, bytemuck::Pod)]
#[repr(C, align(256))]
struct Line([u8; 256]);

/// The arena: as many bytes as planned, given out by offset.
pub(super) struct Arena {
    lines: Vec<Line>,
    /// The highest byte that any view has reached.
    touched: AtomicU64,
}

/// A value's place in the arena, shared between the threads of one step.
///
/// A step hands out its places; the schedule says that what it writes overlaps nothing that it reads, except where both
/// are the same voxel (in-place operations), and tasks of one step write disjoint ranges.
/// A map of which only some planes are kept is a place over the whole map whose start lies before those planes: kernels
/// address it as if it were whole and touch only the planes that are there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    start: *mut f32,
    len: usize,
}

// SAFETY: a place is a plain address range; who may read and write it when is kept by the schedule (see `Place`).
unsafe impl Send for Place {}
// SAFETY: as above.
unsafe impl Sync for Place {}

impl Arena {
    /// Allocates exactly `bytes` (a multiple of 256).
    pub(super) fn allocate(bytes: Bytes) -> Result<Self, EngineError> {
        let refuse = || EngineError::OutOfMemory { needed: bytes };
        let lines = usize::try_from(bytes.0 / 256).map_err(|_too_many| refuse())?;
        let lines = bytemuck::allocation::try_zeroed_vec(lines).map_err(|()| refuse())?;
        Ok(Self {
            lines,
            touched: AtomicU64::new(0),
        })
    }

    /// Bytes that are allocated.
    pub(super) fn bytes(&self) -> Bytes {
        Bytes((self.lines.len() * size_of::<Line>()) as u64)
    }

    /// The highest byte given out so far.
    pub(super) fn touched(&self) -> Bytes {
        Bytes(self.touched.load(Ordering::Relaxed))
    }

    /// Notes that a step uses bytes up to `end`.
    pub(super) fn touch(&self, end: Bytes) {
        self.touched.fetch_max(end.0, Ordering::Relaxed);
    }

    /// The place of a planned tensor. Panics when the plan is not this arena's.
    pub(super) fn place(&mut self, tensor: &PlannedTensor) -> Place {
        let end = tensor.offset.saturating_add(tensor.bytes.align_up(256));
        assert!(
            end <= self.bytes(),
            "a place ends at {end}, the arena at {}",
            self.bytes()
        );
        let values: &mut [f32] = bytemuck::cast_slice_mut(&mut self.lines);
        let at = |b: Bytes| usize::try_from(b.0 / 4).unwrap_or(usize::MAX);
        let (start, len) = (at(tensor.offset), at(tensor.bytes));
        Place {
            start: values[start..start + len].as_mut_ptr(),
            len,
        }
    }
}

impl Place {
    /// Number of f32 values.
    pub(super) const fn len(self) -> usize {
        self.len
    }

    /// Address of its first value.
    pub(super) const fn start(self) -> *mut f32 {
        self.start
    }

    /// The part of `len` values from `at` on.
    pub(super) fn part(self, at: usize, len: usize) -> Self {
        assert!(
            at <= self.len && len <= self.len - at,
            "values {at}+{len} of a place of {}",
            self.len
        );
        Self {
            start: self.start.wrapping_add(at),
            len,
        }
    }

    /// A whole map of `len` values of which this place holds the part that begins with value `from`.
    pub(super) const fn part_of_map(self, from: usize, len: usize) -> Self {
        Self {
            start: self.start.wrapping_sub(from),
            len,
        }
    }

    /// Moves `len` values from `from` to the values from `to` on; the ranges may overlap.
    ///
    /// # Safety
    /// Both ranges are held, and nobody else reads or writes them.
    pub(super) unsafe fn shift(self, from: usize, to: usize, len: usize) {
        let (source, target) = (self.part(from, len), self.part(to, len));
        // SAFETY: both ranges are held by the arena, as the caller promises; `copy` allows overlap.
        unsafe { std::ptr::copy(source.start, target.start, len) };
    }

    /// Copies values out.
    ///
    /// # Safety
    /// No other task of the step writes these values.
    pub(super) unsafe fn read(self, at: usize, into: &mut [f32]) {
        let from = self.part(at, into.len());
        // SAFETY: both ranges are valid for their length; `into` is the caller's own memory.
        unsafe { std::ptr::copy_nonoverlapping(from.start, into.as_mut_ptr(), into.len()) };
    }

    /// Copies values in.
    ///
    /// # Safety
    /// No other task of the step reads or writes these values.
    pub(super) unsafe fn write(self, at: usize, from: &[f32]) {
        let into = self.part(at, from.len());
        // SAFETY: both ranges are valid for their length; `from` is the caller's own memory.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), into.start, from.len()) };
    }

    /// The values themselves.
    ///
    /// # Safety
    /// While the slice lives, nobody writes these values.
    pub(super) unsafe fn values<'a>(self) -> &'a [f32] {
        // SAFETY: the range is inside the arena's allocation, and the caller keeps writers away.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }

    /// The values themselves, to be changed.
    ///
    /// # Safety
    /// While the slice lives, nobody else reads or writes these values.
    pub(super) unsafe fn values_mut<'a>(self) -> &'a mut [f32] {
        // SAFETY: the range is inside the arena's allocation, and the caller keeps everybody else away.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }

    /// The same bytes as f64 sums. Panics when the place is not a multiple of 8 bytes (scratch always is).
    ///
    /// # Safety
    /// While the slice lives, nobody else reads or writes these values.
    pub(super) unsafe fn sums_mut<'a>(self) -> &'a mut [f64] {
        // SAFETY: as the caller promises.
        bytemuck::cast_slice_mut(unsafe { self.values_mut() })
    }
}
