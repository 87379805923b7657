use super::header::Header;
use super::write::header_bytes;
use super::*;
use crate::geometry::Affine;
use crate::volume::Voxels;
use proptest::prelude::*;

fn volume(affine: Affine, voxels: Voxels) -> Volume {
    Volume {
        extent: Extent::new(3, 2, 2),
        affine,
        voxels,
        padding: None,
        is_hu: true,
        z_spacing_known: true,
    }
}

fn there_and_back(v: &Volume, name: &str) -> Volume {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    write(v, &path).unwrap();
    read(&path).unwrap()
}

fn close(a: &Affine, b: &Affine) {
    let flat = |a: &Affine| [a.step.concat(), a.origin.to_vec()].concat();
    for (x, y) in flat(a).iter().zip(flat(b)) {
        assert!((x - y).abs() < 1e-4 * (1.0 + y.abs()), "{a:?} {b:?}");
    }
}

#[test]
fn a_sheared_volume_reads_back_exactly() {
    let sheared = Affine {
        step: [[0.75, 0.0, 0.0], [0.0, 0.75, 0.25], [0.0, -0.5, 2.0]],
        origin: [-100.5, 20.0, 736.25],
    };
    let values: Vec<i16> = (-6..6).map(|v| v * 5000).collect();
    let v = volume(sheared, Voxels::I16(values));
    assert_eq!(there_and_back(&v, "a.nii"), v);
    assert_eq!(there_and_back(&v, "b.nii.gz"), v);
}

#[test]
fn fractional_values_stay_fractional() {
    let values = (0..12)
        .map(|v| 0.5 * f32::from(i16::try_from(v).unwrap()))
        .collect();
    let v = volume(Affine::axis_aligned([1.0, 2.0, 4.0]), Voxels::F32(values));
    assert_eq!(there_and_back(&v, "a.nii"), v);
}

#[test]
fn a_wrong_ending_is_refused() {
    let v = volume(Affine::axis_aligned([1.0; 3]), Voxels::I16(vec![0; 12]));
    let error = write(&v, Path::new("x.mha")).unwrap_err().to_string();
    assert!(error.contains(".nii or .nii.gz"), "{error}");
}

#[test]
fn a_text_file_is_no_volume() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.nii");
    std::fs::write(&path, "hello").unwrap();
    let error = read(&path).unwrap_err().to_string();
    assert!(error.contains("348 bytes"), "{error}");
}

proptest! {
    #![proptest_config(crate::random_cases::random_cases(256))]
    /// Rotations and mirrored axes: the qform says what the sform says.
    #[test]
    fn the_quaternion_tells_the_same_axes_as_the_matrix(
        a in -3.1f64..3.1, b in -1.5f64..1.5, c in -3.1f64..3.1, mirror in any::<bool>(),
    ) {
        let ((sa, ca), (sb, cb), (sc, cc)) = (a.sin_cos(), b.sin_cos(), c.sin_cos());
        let i = [ca * cb, sa * cb, -sb];
        let j = [ca * sb * sc - sa * cc, sa * sb * sc + ca * cc, cb * sc];
        let mut k = [ca * sb * cc + sa * sc, sa * sb * cc - ca * sc, cb * cc];
        if mirror {
            k = k.map(|v| -v);
        }
        let affine = Affine {
            step: [i.map(|v| v * 0.5), j.map(|v| v * 0.75), k.map(|v| v * 2.0)],
            origin: [1.0, -2.0, 3.0],
        };
        let v = volume(affine, Voxels::I16(vec![0; 12]));
        let bytes = header_bytes(&v, Path::new("x")).unwrap();
        let mut header = Header::parse(&bytes[..348]).unwrap();
        if header.qform == 1 {
            header.sform = 0;
            close(&placed(&header).0, &affine);
        }
    }
}

/// Half a turn and `degrees` about the third axis, by the file: the part of the quaternion that is not stored is small.
fn about_half_a_turn(degrees: f64) -> Header {
    let (s, c) = degrees.to_radians().sin_cos();
    let step = [
        [c * 0.5, s * 0.5, 0.0],
        [-s * 0.75, c * 0.75, 0.0],
        [0.0, 0.0, 2.0],
    ];
    let affine = Affine {
        step,
        origin: [1.0, -2.0, 3.0],
    };
    let v = volume(affine, Voxels::I16(vec![0; 12]));
    let mut header = Header::parse(&header_bytes(&v, Path::new("x")).unwrap()[..348]).unwrap();
    close(&placed(&header).0, &affine);
    if header.qform == 1 {
        header.sform = 0;
        close(&placed(&header).0, &affine);
        header.sform = 1;
    }
    header
}

#[test]
fn a_turn_that_four_bytes_cannot_tell_from_half_a_turn_is_written_as_a_matrix_alone() {
    for (degrees, told) in [
        (0.0, 1),
        (0.001, 1),
        (0.02, 0),
        (0.03, 0),
        (0.5, 1),
        (20.0, 1),
        (90.0, 1),
    ] {
        assert_eq!(about_half_a_turn(degrees).qform, told, "{degrees} degrees");
    }
}

/// The bytes of a written volume with a field changed.
fn changed(at: usize, with: &[u8]) -> Vec<u8> {
    let v = volume(
        Affine::axis_aligned([2.0, 3.0, 4.0]),
        Voxels::I16((0..12).collect()),
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.nii");
    write(&v, &path).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[at..at + with.len()].copy_from_slice(with);
    bytes
}

fn from_bytes(bytes: &[u8], name: &str) -> Result<(Volume, Vec<PlanWarning>), VolumeFileError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    read_told(&path)
}

fn refused(bytes: &[u8]) -> String {
    from_bytes(bytes, "a.nii").unwrap_err().to_string()
}

#[test]
fn a_size_beyond_the_file_is_refused_before_memory_is_asked_for() {
    let mut bytes = changed(42, &i16::MAX.to_le_bytes());
    bytes[44..46].copy_from_slice(&i16::MAX.to_le_bytes());
    bytes[46..48].copy_from_slice(&i16::MAX.to_le_bytes());
    let e = refused(&bytes);
    assert!(e.contains("ends early") && e.contains("24 bytes"), "{e}");
    let e = refused(&changed(42, &(-3i16).to_le_bytes()));
    assert!(e.contains("found axes [-3, 2, 2]"), "{e}");
    let e = refused(&changed(40, &9i16.to_le_bytes()));
    assert!(e.contains("one to seven axes, found 9"), "{e}");
}

#[test]
fn a_header_or_voxels_cut_short_are_said() {
    let whole = changed(0, &[]);
    let e = refused(&whole[..200]);
    assert!(e.contains("348 bytes, found 200"), "{e}");
    let e = refused(&whole[..350]);
    assert!(e.contains("ends early"), "{e}");
    let e = refused(&whole[..whole.len() - 1]);
    assert!(e.contains("ends early"), "{e}");
    assert!(refused(&[]).contains("empty file"));
}

#[test]
fn a_file_without_orientation_says_so_and_one_without_spacing_too() {
    let mut bytes = changed(252, &[0; 4]);
    let (v, notes) = from_bytes(&bytes, "a.nii").unwrap();
    assert_eq!(v.affine, Affine::axis_aligned([2.0, 3.0, 4.0]));
    assert_eq!(notes.len(), 1);
    assert!(notes[0].text.contains("neither sform nor qform"));
    bytes[76..108].fill(0);
    let (v, notes) = from_bytes(&bytes, "a.nii").unwrap();
    assert_eq!(v.affine.spacing_mm(), [1.0; 3]);
    assert!(notes.iter().any(|n| n.text.contains("taken as 1 mm")));
}

#[test]
fn of_two_forms_that_differ_the_one_in_scanner_space_is_taken_and_told() {
    // The sform's x offset moved by 10 mm.
    let moved = |codes: [i16; 2]| {
        let mut bytes = changed(280 + 12, &10f32.to_le_bytes());
        bytes[252..254].copy_from_slice(&codes[0].to_le_bytes());
        bytes[254..256].copy_from_slice(&codes[1].to_le_bytes());
        from_bytes(&bytes, "a.nii").unwrap()
    };
    for ([q, s], x, word) in [
        ([1, 1], -10.0, "the sform is taken"),
        ([2, 1], -10.0, "the sform is taken"),
        ([1, 2], 0.0, "the qform is taken"),
        ([2, 2], -10.0, "the sform is taken"),
    ] {
        let (v, notes) = moved([q, s]);
        assert_eq!(v.affine.origin[0], x, "qform {q}, sform {s}");
        assert!(notes[0].text.contains(word), "{notes:?}");
    }
}

#[test]
fn a_quaternion_a_hair_from_half_a_turn_is_half_a_turn_as_peers_have_it() {
    // 3.4e-8 short of one: read as a turn of its own it would lean by 0.4 thousandths.
    let mut bytes = changed(252, &[1, 0, 0, 0]);
    for (at, v) in [
        (256, 0.0f32),
        (260, (0.5f32).sqrt()),
        (264, (0.5f32).sqrt()),
    ] {
        bytes[at..at + 4].copy_from_slice(&v.to_le_bytes());
    }
    let (v, _) = from_bytes(&bytes, "a.nii").unwrap();
    let x = v.affine.step[0];
    assert!(
        (x[0] - 2.0).abs() < 1e-6 && x[1].abs() + x[2].abs() < 1e-6,
        "{x:?}"
    );
}

#[test]
fn an_empty_sform_is_left_out_for_the_qform() {
    let mut bytes = changed(280, &[0; 48]);
    bytes[254..256].copy_from_slice(&1i16.to_le_bytes());
    let (v, notes) = from_bytes(&bytes, "a.nii").unwrap();
    close(&v.affine, &Affine::axis_aligned([2.0, 3.0, 4.0]));
    assert_eq!(notes[0].code, "sform-unusable");
}

#[test]
fn a_pair_of_header_and_image_is_one_volume() {
    let mut bytes = changed(344, b"ni1\0");
    bytes[108..112].copy_from_slice(&0f32.to_le_bytes());
    let folder = tempfile::tempdir().unwrap();
    let at = |n: &str| folder.path().join(n);
    std::fs::write(at("a.hdr"), &bytes[..348]).unwrap();
    let e = read(&at("a.hdr")).unwrap_err().to_string();
    assert!(e.contains("not there"), "{e}");
    std::fs::write(at("a.img"), &bytes[352..]).unwrap();
    let v = read(&at("a.hdr")).unwrap();
    assert_eq!(v.voxels, Voxels::I16((0..12).collect()));
    assert_eq!(v, read(&at("a.img")).unwrap());
}

#[test]
fn an_analyze_header_is_refused_by_name() {
    let e = refused(&changed(344, &[0; 4]));
    assert!(e.contains("ANALYZE 7.5"), "{e}");
}

#[test]
fn a_time_series_colours_and_complex_numbers_are_refused_by_name() {
    let mut bytes = changed(40, &4i16.to_le_bytes());
    bytes[48..50].copy_from_slice(&2i16.to_le_bytes());
    assert!(refused(&bytes).contains("found axes [3, 2, 2, 2]"));
    bytes[48..50].copy_from_slice(&1i16.to_le_bytes());
    assert_eq!(
        from_bytes(&bytes, "a.nii").unwrap().0.extent,
        Extent::new(3, 2, 2)
    );
    assert!(refused(&changed(70, &128i16.to_le_bytes())).contains("colours"));
    assert!(refused(&changed(70, &32i16.to_le_bytes())).contains("complex"));
}

/// A volume of version 2, big endian, with what version 1 says.
fn version_2() -> Vec<u8> {
    let mut b = vec![0u8; 544];
    let mut put = |at: usize, with: &[u8]| b[at..at + with.len()].copy_from_slice(with);
    put(0, &540i32.to_be_bytes());
    put(4, b"n+2\0\r\n\x1a\n");
    put(12, &512i16.to_be_bytes());
    for (i, d) in [3i64, 3, 2, 2, 1, 1, 1, 1].into_iter().enumerate() {
        put(16 + 8 * i, &d.to_be_bytes());
    }
    put(168, &544i64.to_be_bytes());
    put(176, &2f64.to_be_bytes());
    put(184, &(-1024f64).to_be_bytes());
    put(348, &1i32.to_be_bytes());
    for (i, v) in [
        -0.5, 0.0, 0.0, 7.0, 0.0, -0.75, 0.0, 8.0, 0.0, 0.0, 2.0, 9.0,
    ]
    .into_iter()
    .enumerate()
    {
        put(400 + 8 * i, &f64::to_be_bytes(v));
    }
    b.extend((0u16..12).flat_map(u16::to_be_bytes));
    b
}

#[test]
fn version_2_in_big_endian_is_read() {
    let (v, notes) = from_bytes(&version_2(), "a.nii").unwrap();
    assert_eq!(v.extent, Extent::new(3, 2, 2));
    assert_eq!(v.affine.spacing_mm(), [0.5, 0.75, 2.0]);
    assert_eq!(v.affine.origin, [-7.0, -8.0, 9.0]);
    assert_eq!(v.at([1, 0, 0]), Some(-1022.0));
    assert!(notes.is_empty(), "{notes:?}");
}

#[test]
fn a_header_of_the_length_of_version_2_that_is_none_is_refused() {
    let mut b = version_2();
    b[4..8].copy_from_slice(b"n+1\0");
    let e = refused(&b);
    assert!(e.contains("NIfTI-2"), "{e}");
}

#[test]
fn forms_whose_steps_differ_are_told_however_far_from_the_origin_they_lie() {
    let mut bytes = changed(280 + 12, &1000f32.to_le_bytes());
    bytes[268..272].copy_from_slice(&1000f32.to_le_bytes());
    bytes[252..256].copy_from_slice(&[1, 0, 1, 0]);
    let (_, notes) = from_bytes(&bytes, "a.nii").unwrap();
    assert!(notes.is_empty(), "{notes:?}");
    // Slices 4.1 mm apart by the sform, 4 by the qform.
    bytes[320..324].copy_from_slice(&4.1f32.to_le_bytes());
    let (v, notes) = from_bytes(&bytes, "a.nii").unwrap();
    assert_eq!(notes[0].code, "forms-differ");
    assert!((v.affine.spacing_mm()[2] - 4.1).abs() < 1e-6);
}

#[test]
fn a_qform_without_a_voxel_size_says_that_1_mm_was_taken() {
    for size in [0.0, f32::NAN] {
        let mut bytes = changed(88, &size.to_le_bytes());
        bytes[252..256].copy_from_slice(&[1, 0, 0, 0]);
        let (v, notes) = from_bytes(&bytes, "a.nii").unwrap();
        close(&v.affine, &Affine::axis_aligned([2.0, 3.0, 1.0]));
        assert!(notes.iter().any(|n| n.code == SPACING_ASSUMED), "{notes:?}");
    }
}
