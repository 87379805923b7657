//! `fit`, `sweep` and `buy`: keys and exit codes of the contract, figures that agree with `budget`, and what bad input says.

use super::{code, errors, has, json, voxfit};
use std::fs;

#[test]
fn the_largest_roi_needs_what_its_budget_says_and_the_next_one_is_over() {
    let card = ["--card", "rtx-5070-ti", "--volume", "512x512x240"];
    for runtime in ["voxfit", "pytorch"] {
        let mut args = vec![
            "fit",
            "preset:monai-lung-nodule",
            "--keep-in-plane",
            "--json",
        ];
        args.extend(card);
        args.extend(["--runtime", runtime]);
        let found = voxfit(&args);
        assert_eq!(code(&found), 0, "{}", errors(&found));
        let row = json(&found)["cards"][0].clone();
        has(
            &row,
            &[
                "id",
                "roi_size",
                "single_pass",
                "required",
                "free",
                "limit",
                "next",
            ],
        );
        assert_eq!(row["roi_size"][0], 512);
        let whole = row["single_pass"] == true;
        assert_eq!(row["limit"], if whole { "volume" } else { "card" });
        assert_eq!(row["next"].is_null(), whole);
        let mut rois = vec![(row["roi_size"].clone(), row["required"].clone(), true)];
        if !whole {
            let next = &row["next"];
            rois.push((next["roi_size"].clone(), next["required"].clone(), false));
        }
        for (roi, required, fits) in rois {
            let size = format!("{}x{}x{}", roi[0], roi[1], roi[2]);
            let mut args = vec!["budget", "preset:monai-lung-nodule", "--roi-size", &size];
            args.extend(card);
            args.extend(["--runtime", runtime, "--json"]);
            let budget = json(&voxfit(&args));
            let card = &budget["cards"][0];
            assert_eq!(card["required_high"], required, "{size}");
            assert_eq!(card["free"], row["free"]);
            let free = row["free"].as_u64().unwrap();
            assert_eq!(required.as_u64().unwrap() <= free, fits, "{size}");
        }
    }
    let none = [
        "fit",
        "preset:monai-lung-nodule",
        "--card",
        "rtx-4060",
        "--volume",
    ];
    // In one pass over all of it the network's norms see what they see in training; windows of a card that is too small do not.
    let whole = voxfit(&[&none[..], &["512x512x240", "--exact", "--json"]].concat());
    assert_eq!(code(&whole), 0);
    assert_eq!(json(&whole)["cards"][0]["single_pass"], true);
    let pytorch = ["512x512x240", "--exact", "--runtime", "pytorch", "--json"];
    let exact = voxfit(&[&none[..], &pytorch].concat());
    assert_eq!(code(&exact), 1);
    assert!(json(&exact)["cards"][0]["roi_size"].is_null());
    let training = voxfit(&[&none[..], &["512x512x64", "--mode", "training"]].concat());
    assert_ne!(code(&training), 0);
    assert!(
        errors(&training).contains("PyTorch"),
        "{}",
        errors(&training)
    );
}

#[test]
fn a_load_is_answered_with_cards_and_costs_and_odd_loads_with_a_sentence() {
    let ask = |more: &[&str]| {
        let base = [
            "buy",
            "preset:demo",
            "preset:demo-norm",
            "--volume",
            "256x256x128",
            "--json",
        ];
        voxfit(&[&base[..], more].concat())
    };
    for studies in ["0.5", "500", "1000000"] {
        let found = ask(&["--studies-per-day", studies]);
        assert_eq!(code(&found), 0, "{}", errors(&found));
        let all = json(&found);
        let first = &all["options"][0];
        has(
            first,
            &[
                "cards",
                "seconds_per_study",
                "studies_per_day",
                "price",
                "cost_per_study",
                "verdict",
            ],
        );
        assert!(first["cards"][0]["n"].as_u64().unwrap() >= 1);
        let cost = &first["cost_per_study"];
        assert!(cost["low"].as_f64().unwrap() < cost["high"].as_f64().unwrap());
        assert_eq!(
            all["assumptions"]["life_years"]["date"]
                .as_str()
                .unwrap()
                .len(),
            10
        );
    }
    for bad in ["0", "-3", "1e12", "nan"] {
        let refused = ask(&["--studies-per-day", bad]);
        assert_eq!(code(&refused), 2, "{bad}");
        assert!(errors(&refused).contains("above 0"), "{}", errors(&refused));
    }
    let folder = tempfile::tempdir().unwrap();
    let costs = folder.path().join("costs.toml");
    fs::write(&costs, "[figure.life_years]\nvalue = -1\n").unwrap();
    let refused = ask(&["--studies-per-day", "5", "--costs", costs.to_str().unwrap()]);
    assert_eq!(code(&refused), 65);
    assert!(errors(&refused).contains("line 2, field figure.life_years.value"));
    let empty = voxfit(&[
        "buy",
        "preset:demo",
        "--studies-per-day",
        "5",
        "--cohort",
        folder.path().to_str().unwrap(),
    ]);
    assert_eq!(code(&empty), 65, "{}", errors(&empty));
    let over = voxfit(&[
        "buy",
        "preset:monai-lung-nodule",
        "--studies-per-day",
        "5",
        "--card",
        "rtx-4060",
        "--runtime",
        "pytorch",
        "--volume",
        "512x512x240",
        "--roi-size",
        "512x512x192",
    ]);
    assert_eq!(code(&over), 1);
    assert!(errors(&over).contains("nothing fits"), "{}", errors(&over));
}

#[test]
fn a_sweep_runs_what_it_can_says_what_it_cannot_and_goes_on_where_it_ended() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("sweep");
    let points = folder.path().join("points.csv");
    fs::write(
        &points,
        "roi_size,peak_gib,seconds,parity\n32x32x32,0.5,12,tolerance\n",
    )
    .unwrap();
    let run = || {
        let found = voxfit(&[
            "sweep",
            "phantom:48x48x48:3",
            "preset:demo",
            "--roi-sizes",
            "32x32x32,48x48x48",
            "--card",
            "rtx-4060",
            "--measure",
            "--points",
            points.to_str().unwrap(),
            "--threads",
            "1",
            "--out",
            out.to_str().unwrap(),
            "--json",
        ]);
        assert_eq!(code(&found), 0, "{}", errors(&found));
        json(&found)["rows"].clone()
    };
    let rows = run();
    assert_eq!(rows.as_array().unwrap().len(), 3);
    has(
        &rows[0],
        &[
            "roi_size",
            "precision",
            "layout",
            "n_windows",
            "peak",
            "host_peak",
            "seconds",
            "exactness",
            "parity",
            "source",
            "cards",
        ],
    );
    assert_eq!(
        (&rows[0]["source"], &rows[0]["parity"]),
        (&"measured".into(), &"tolerance".into())
    );
    assert_eq!(rows[1]["source"], "measured");
    assert_eq!(rows[2]["source"], "planned");
    assert!(rows[2]["note"].as_str().unwrap().contains("refused"));
    assert_eq!(
        run(),
        rows,
        "what was measured is taken, not measured again"
    );
    for file in ["sweep.json", "sweep.csv", "sweep.svg"] {
        assert!(fs::metadata(out.join(file)).unwrap().len() > 100, "{file}");
    }
    let nothing = voxfit(&[
        "sweep",
        "48x48x48",
        "preset:demo",
        "--out",
        out.to_str().unwrap(),
    ]);
    assert_eq!(code(&nothing), 2);
    let size = voxfit(&[
        "sweep",
        "48x48x48",
        "preset:demo",
        "--roi-sizes",
        "32x32x32",
        "--measure",
        "--out",
        out.to_str().unwrap(),
    ]);
    assert_eq!(code(&size), 2);
    assert!(errors(&size).contains("phantom:48x48x48"));
    let below = points.join("sweep");
    let unwritable = voxfit(&[
        "sweep",
        "48x48x48",
        "preset:demo",
        "--roi-sizes",
        "32x32x32",
        "--out",
        below.to_str().unwrap(),
    ]);
    assert_eq!(code(&unwritable), 74, "{}", errors(&unwritable));
}
