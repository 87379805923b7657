//! The fields of a `NIfTI`-1 or `NIfTI`-2 header in either byte order, as one struct.

/// What a header says.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Header {
    pub(super) big: bool,
    /// Bytes of the header.
    pub(super) size: u64,
    /// Whether the voxels lie in a file of their own (.hdr and .img).
    pub(super) pair: bool,
    /// Number of axes, then their sizes.
    pub(super) dim: [i64; 8],
    pub(super) datatype: i16,
    /// The sign of the third axis (for qform), then voxel sizes.
    pub(super) pixdim: [f64; 8],
    /// Where the voxels start.
    pub(super) offset: f64,
    pub(super) slope: f64,
    pub(super) intercept: f64,
    pub(super) qform: i32,
    pub(super) sform: i32,
    /// b, c, d of the unit quaternion.
    pub(super) quaternion: [f64; 3],
    pub(super) q_offset: [f64; 3],
    pub(super) s_rows: [[f64; 4]; 3],
    pub(super) units: i32,
}

/// Bytes that tell which header it is.
pub(super) const START: usize = 348;
const SIZE_2: usize = 540;

/// How many bytes the header that starts so has; an error says what the bytes are instead.
pub(super) fn size_of(start: &[u8]) -> Result<usize, String> {
    match start
        .first_chunk::<4>()
        .map(|b| (i32::from_le_bytes(*b), i32::from_be_bytes(*b)))
    {
        Some((348, _) | (_, 348)) => Ok(START),
        Some((540, _) | (_, 540)) => Ok(SIZE_2),
        Some((found, _)) => Err(format!(
            "expected a NIfTI header that starts with its size (348 or 540), found {found}"
        )),
        None => Err("expected NIfTI, found an empty file".to_owned()),
    }
}

struct Bytes<'a> {
    bytes: &'a [u8],
    big: bool,
}

impl Bytes<'_> {
    fn at<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut out = self
            .bytes
            .get(at..)
            .and_then(|b| b.first_chunk::<N>())
            .copied()
            .unwrap_or([0; N]);
        if self.big {
            out.reverse();
        }
        out
    }

    fn i16(&self, at: usize) -> i16 {
        i16::from_le_bytes(self.at(at))
    }

    fn i32(&self, at: usize) -> i32 {
        i32::from_le_bytes(self.at(at))
    }

    fn i64(&self, at: usize) -> i64 {
        i64::from_le_bytes(self.at(at))
    }

    fn f32(&self, at: usize) -> f64 {
        f32::from_le_bytes(self.at(at)).into()
    }

    fn f64(&self, at: usize) -> f64 {
        f64::from_le_bytes(self.at(at))
    }

    fn row<const N: usize>(&self, at: usize, each: usize) -> [f64; N] {
        std::array::from_fn(|i| {
            let at = at + i * each;
            if each == 4 {
                self.f32(at)
            } else {
                self.f64(at)
            }
        })
    }
}

impl Header {
    /// The header in these bytes.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let size = size_of(bytes)?;
        if bytes.len() < size {
            return Err(format!(
                "expected a NIfTI header of {size} bytes, found {}",
                bytes.len()
            ));
        }
        let little = Bytes { bytes, big: false };
        let b = Bytes {
            bytes,
            big: !matches!(little.i32(0), 348 | 540),
        };
        if size == SIZE_2 {
            Self::second(&b)
        } else {
            Self::first(&b)
        }
    }

    fn first(b: &Bytes<'_>) -> Result<Self, String> {
        let pair = match b.bytes.get(344..348) {
            Some(b"n+1\0") => false,
            Some(b"ni1\0") => true,
            _ => {
                return Err(
                    "an ANALYZE 7.5 header (no \"n+1\" or \"ni1\" at its end), which does not say which way its axes run; convert it to NIfTI".to_owned(),
                );
            }
        };
        Ok(Self {
            big: b.big,
            size: START as u64,
            pair,
            dim: std::array::from_fn(|i| b.i16(40 + 2 * i).into()),
            datatype: b.i16(70),
            pixdim: b.row(76, 4),
            offset: b.f32(108),
            slope: b.f32(112),
            intercept: b.f32(116),
            qform: b.i16(252).into(),
            sform: b.i16(254).into(),
            quaternion: b.row(256, 4),
            q_offset: b.row(268, 4),
            s_rows: [b.row(280, 4), b.row(296, 4), b.row(312, 4)],
            units: b.bytes.get(123).copied().unwrap_or_default().into(),
        })
    }

    fn second(b: &Bytes<'_>) -> Result<Self, String> {
        let pair = match b.bytes.get(4..8) {
            Some(b"n+2\0") => false,
            Some(b"ni2\0") => true,
            _ => {
                return Err(
                    "expected \"n+2\" or \"ni2\" after the size of a NIfTI-2 header (540), found neither".to_owned(),
                );
            }
        };
        Ok(Self {
            big: b.big,
            size: SIZE_2 as u64,
            pair,
            dim: std::array::from_fn(|i| b.i64(16 + 8 * i)),
            datatype: b.i16(12),
            pixdim: b.row(104, 8),
            offset: b.i64(168) as f64,
            slope: b.f64(176),
            intercept: b.f64(184),
            qform: b.i32(344),
            sform: b.i32(348),
            quaternion: b.row(352, 8),
            q_offset: b.row(376, 8),
            s_rows: [b.row(400, 8), b.row(432, 8), b.row(464, 8)],
            units: b.i32(500),
        })
    }
}
