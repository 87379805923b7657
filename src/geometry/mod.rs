//! Where things are: sizes and half-open boxes in voxels, the affine into patient space (LPS, mm), the three planes.

mod affine;
mod boxes;
mod extent;
mod plane;

pub use affine::{Affine, AffineError, cross, dot};
pub use boxes::{BoxF, VoxelBox};
pub use extent::{Extent, ExtentError};
pub use plane::{Axis, Plane};
