//! Stored words to HU.

use super::*;

fn series_of(words: &[u16; 8], change: impl Fn(Made) -> Made) -> Loaded {
    let s: Vec<Made> = (0..2)
        .map(|n| change(Made::slice(n).words(words)))
        .collect();
    loaded(&only(folder(&s).path()))
}

fn row(l: &Loaded) -> Vec<f32> {
    (0..4).map(|i| l.volume.at([i, 0, 0]).unwrap()).collect()
}

#[test]
fn overlays_and_dirt_above_the_stored_bits_are_masked_off() {
    let l = series_of(&[0xF3E8, 0x13E8, 0x03E8, 0x0FFF, 0, 0, 0, 0], |s| s);
    assert_eq!(row(&l), [-24.0, -24.0, -24.0, 3071.0]);
}

#[test]
fn twelve_bit_signed_values_are_negative_where_their_own_high_bit_is_set() {
    let l = series_of(&[0x0FFF, 0x0800, 0x07FF, 0x1001, 0, 0, 0, 0], |s| {
        s.number(0x0028_0103, 1).text(0x0028_1052, *b"DS", "0")
    });
    assert_eq!(row(&l), [-1.0, -2048.0, 2047.0, 1.0]);
}

#[test]
fn an_intercept_of_minus_33000_or_1024_on_sixteen_stored_bits_does_not_overflow() {
    for (intercept, first) in [("-33000", -33000.0), ("-1024", -1024.0)] {
        let l = series_of(&[0, 65535, 1024, 1, 0, 0, 0, 0], |s| {
            s.number(0x0028_0101, 16)
                .number(0x0028_0102, 15)
                .text(0x0028_1052, *b"DS", intercept)
        });
        assert_eq!(row(&l)[..2], [first, first + 65535.0]);
        assert!(matches!(l.volume.voxels, Voxels::F32(_)));
    }
}

#[test]
fn files_without_rescale_keep_their_values_and_are_said_not_to_be_hu() {
    let s: Vec<Made> = slices(3)
        .into_iter()
        .map(|s| s.without(0x0028_1052).without(0x0028_1053))
        .collect();
    let f = folder(&s);
    let info = only(f.path());
    assert!(told(&info, WarningCode::NotHu).contains("not HU"));
    let l = loaded(&info);
    assert_eq!(
        (firsts(&l), l.volume.is_hu),
        (vec![1000.0, 1001.0, 1002.0], false)
    );
}

#[test]
fn signed_padding_drives_neither_window_nor_statistics() {
    let l = series_of(
        &[0xF830, 0xF830, 1000, 1100, 0xF830, 1200, 1300, 1400],
        |s| {
            s.number(0x0028_0101, 16)
                .number(0x0028_0102, 15)
                .number(0x0028_0103, 1)
                .put(0x0028_0120, *b"SS", &(-2000i16).to_le_bytes())
        },
    );
    assert_eq!((l.hu_min, l.hu_max), (Some(-24.0), Some(376.0)));
    let auto = crate::volume::WindowLevel::auto_of(&l.volume);
    assert!(auto.black() >= -24.0, "{auto}");
}

#[test]
fn whole_values_of_a_fractional_slope_are_one_int16_copy() {
    let l = series_of(&[1000, 1002, 1004, 1006, 0, 0, 0, 0], |s| {
        s.text(0x0028_1053, *b"DS", "0.5")
    });
    assert!(matches!(l.volume.voxels, Voxels::I16(_)));
    assert!(l.hu_sha256().is_some());
    assert_eq!(row(&l), [-524.0, -523.0, -522.0, -521.0]);
}

#[test]
fn a_slope_in_the_last_slice_alone_makes_the_whole_volume_fractional() {
    let mut s = slices(5);
    s[4] = s[4].clone().text(0x0028_1053, *b"DS", "0.25");
    let l = loaded(&only(folder(&s).path()));
    assert_eq!(firsts(&l), [-24.0, -23.0, -22.0, -21.0, -773.0]);
    let mut s = slices(5);
    s[4] = s[4]
        .clone()
        .words(&[1001; 8])
        .text(0x0028_1053, *b"DS", "0.25");
    let l = loaded(&only(folder(&s).path()));
    assert_eq!(firsts(&l)[4], -773.75);
}

#[test]
fn a_volume_that_turns_out_fractional_counts_its_second_pass_from_the_start() {
    let mut s = slices(9);
    s[8] = s[8].clone().text(0x0028_1053, *b"DS", "0.3");
    let f = folder(&s);
    let info = only(f.path());
    let control = Control::new();
    // As a scan leaves it.
    control.set_total(9);
    control.advance(9);
    let l = load(&info, &control, &|_| {}).unwrap();
    assert!(matches!(l.volume.voxels, Voxels::F32(_)));
    assert_eq!(control.progress(), (9, 9));
}
