//! Findings of other programs: what goes out comes back, and what a file does not say is not made up.

use super::*;
use crate::detect::Space;
use serde_json::json;

fn study() -> Findings {
    let finding = |x: f64, score: f64| Finding {
        label: "nodule".to_owned(),
        score: Some(score),
        center: [x, -20.5, 300.25],
        size: Some([6.0, 6.0, 6.0]),
    };
    Findings {
        names: vec!["1.2.840.1".to_owned()],
        space: Space::Lps,
        list: vec![finding(-12.5, 0.875), finding(40.0, 0.25)],
        notes: Vec::new(),
    }
}

fn read(path: &Path) -> Vec<Findings> {
    Document::open(path).unwrap().findings(path).unwrap()
}

#[test]
fn every_format_gives_back_what_was_written_in_lps() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a.json", "a.csv", "a.mrk.json", "a.truth.json"] {
        let path = dir.path().join(name);
        write(&[study()], &path).unwrap();
        let back = read(&path);
        assert_eq!(back.len(), 1, "{name}");
        assert_eq!(back[0].space, Space::Lps, "{name}");
        assert_eq!(back[0].list, study().list, "{name}");
    }
    // RAS numbers are turned, not relabelled.
    let mut ras = study();
    ras.space = Space::Ras;
    let path = dir.path().join("ras.mrk.json");
    write(&[ras], &path).unwrap();
    assert_eq!(read(&path)[0].list[0].center, [12.5, 20.5, 300.25]);
}

#[test]
fn a_monai_file_that_says_no_space_has_none_and_a_stated_one_counts() {
    let plain = json!({"validation": [
        {"image": "sub/1.2.3.nii.gz", "box": [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]], "label": [0], "score": [0.5]},
        {"image": "1.2.4.nii.gz", "box": [], "label": [], "score": []},
    ]});
    let found = monai::read(&plain).unwrap();
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].space, Space::Unsaid);
    assert!(found[0].names.contains(&"1.2.3".to_owned()));
    assert_eq!(found[0].list[0].size, Some([4.0, 5.0, 6.0]));
    assert!(found[1].list.is_empty());
    let corners = json!([{"box": [[1, 2, 3, 5, 7, 9]], "box_mode": "xyzxyz", "space": "RAS"}]);
    let found = monai::read(&corners).unwrap();
    assert_eq!(found[0].list[0].center, [3.0, 4.5, 6.0]);
    assert_eq!((found[0].space, found[0].list[0].score), (Space::Ras, None));
}

#[test]
fn lunas_lines_are_lps_spheres_and_points() {
    let text = "seriesuid,coordX,coordY,coordZ,diameter_mm\n1.2,-128.7,-175.3,-298.4,5.65\n1.2,1,2,3,4\n1.3,0,0,0,9\n";
    let found = luna::read(text).unwrap();
    assert_eq!(found.len(), 2);
    assert_eq!((found[0].space, found[0].list.len()), (Space::Lps, 2));
    assert_eq!(found[0].list[0].size, Some([5.65; 3]));
    let points =
        luna::read("seriesuid,coordX,coordY,coordZ,probability\n1.2,1,2,3,0.75\n").unwrap();
    assert_eq!(
        (points[0].list[0].size, points[0].list[0].score),
        (None, Some(0.75))
    );
    let said =
        luna::read("seriesuid,coordX,coordY,coordZ,probability\n1.2,1,2,3,nan\n").unwrap_err();
    assert!(said.contains("line 2"), "{said}");
    assert!(luna::read("uid,x,y,z\n").unwrap_err().contains("coordX"));
}

#[test]
fn slicers_turned_rois_and_points_in_ras_are_read_as_they_say() {
    let file = json!({"markups": [
        {"type": "ROI", "coordinateSystem": "RAS", "center": [1.0, 2.0, 3.0], "size": [4.0, 5.0, 6.0],
         "orientation": [0.0, 1.0, 0.0, -1.0, 0.0, 0.0, 0.0, 0.0, 1.0],
         "controlPoints": [{"label": "nodule", "position": [1.0, 2.0, 3.0], "description": "score=0.5"}]},
        {"type": "Fiducial", "coordinateSystem": "RAS", "controlPoints": [
            {"label": "F-1", "position": [7.0, 8.0, 9.0]},
            {"label": "F-2", "position": [0, 0, 0], "positionStatus": "undefined"}]},
    ]});
    let found = markups::read(&file).unwrap();
    assert_eq!(found.space, Space::Ras);
    assert_eq!(found.list.len(), 2);
    assert_eq!(found.list[0].size, Some([5.0, 4.0, 6.0]));
    assert_eq!(found.list[0].score, Some(0.5));
    assert_eq!(found.list[1].size, None);
    let unsaid =
        json!({"markups": [{"type": "Fiducial", "controlPoints": [{"position": [1, 2, 3]}]}]});
    assert_eq!(markups::read(&unsaid).unwrap().space, Space::Unsaid);
}

#[test]
fn what_is_no_list_of_findings_is_said_in_a_sentence_with_the_path_last() {
    let dir = tempfile::tempdir().unwrap();
    for (name, text, word) in [
        ("a.json", "{}", "\"box\""),
        (
            "a.json",
            "{\"validation\": [{\"box\": [[1,2,3,4,5]]}]}",
            "6 numbers",
        ),
        (
            "a.json",
            "[{\"box\": [[1,2,3,4,5,6]], \"score\": [NaN]}]",
            "NaN",
        ),
        (
            "a.json",
            "[{\"box\": [[1,2,3,4,5,6]], \"score\": [null]}]",
            "finding 0",
        ),
        (
            "a.json",
            "[{\"box\": [[1,2,3,4,5,6]], \"score\": [0.1, 0.2]}]",
            "2 scores",
        ),
        ("a.json", "[{\"box\": [[1,2,3,4,-5,6]]}]", "below 0"),
        (
            "a.json",
            "[{\"box\": [[1,2,3,4,5,6]], \"space\": \"world\"}]",
            "world",
        ),
        (
            "a.mrk.json",
            "{\"markups\": [{\"coordinateSystem\": \"XYZ\"}]}",
            "XYZ",
        ),
        ("a.csv", "a,b\n1,2\n", "seriesuid"),
        ("a.json", "not json", "JSON"),
    ] {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        let said = Document::open(&path)
            .and_then(|d| d.findings(&path))
            .unwrap_err()
            .to_string();
        assert!(said.contains(word), "{word}: {said}");
        assert!(said.ends_with(name), "{said}");
    }
    assert!(write(&[study(), study()], &dir.path().join("two.mrk.json")).is_err());
    assert!(write(&[study()], &dir.path().join("a.txt")).is_err());
}
