//! Tests of the parts of a report.

use super::{axis::Ticks, *};

fn ticks(max: f64, wanted: u32) -> (f64, f64) {
    let ticks = Ticks::new(max, wanted);
    (ticks.step, ticks.top())
}

#[test]
fn ticks_are_round_numbers_that_cover_the_values() {
    assert_eq!(ticks(20.0, 5), (5.0, 20.0));
    assert_eq!(ticks(100.0, 5), (20.0, 100.0));
    assert_eq!(ticks(0.93, 5), (0.2, 1.0));
    assert_eq!(ticks(101.0, 5), (50.0, 150.0));
    assert_eq!(ticks(7.0, 7), (1.0, 7.0));
    for odd in [0.0, -3.0, f64::NAN, f64::INFINITY] {
        assert_eq!(ticks(odd, 5), (0.2, 1.0), "{odd}");
    }
    let labels: Vec<String> = Ticks::new(0.9, 5).iter().map(|(_, label)| label).collect();
    assert_eq!(labels, ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
}

fn chart(points: Vec<(f64, f64)>) -> LineChart {
    LineChart {
        title: "Goodput".into(),
        note: String::new(),
        x_label: "time (s)".into(),
        y_unit: "Mb/s".into(),
        y_limit: None,
        series: vec![Series {
            name: "a".into(),
            slot: 0,
            points,
        }],
        references: vec![Reference {
            label: "R".into(),
            value: 19.0,
            label_below: false,
        }],
    }
}

#[test]
fn a_line_breaks_where_a_value_is_missing() {
    let html = chart(vec![(0.0, 1.0), (1.0, 2.0), (2.0, f64::NAN), (3.0, 4.0)]).to_html(1);
    let path = html
        .split("stroke-width=\"1.7\" d=\"")
        .nth(1)
        .and_then(|rest| rest.split('"').next());
    let path = path.expect("a path");
    assert_eq!(path.matches('M').count(), 2, "{path}");
    assert_eq!(path.matches('L').count(), 1, "{path}");
    assert!(!html.contains("NaN") && !html.contains("inf"), "{html}");
}

#[test]
fn a_chart_without_points_is_still_a_chart() {
    let html = chart(Vec::new()).to_html(1);
    assert!(html.contains("Mb/s") && !html.contains("NaN"), "{html}");
}

fn table() -> Table {
    Table {
        columns: vec![Column::text("link"), Column::number("time", "s")],
        rows: vec![
            Row {
                begins_group: true,
                cells: vec![Cell::new("wifi"), Cell::new("1.50")],
            },
            Row {
                begins_group: true,
                cells: vec![Cell::new("<b>"), Cell::bad("failed")],
            },
        ],
    }
}

#[test]
fn tables_align_in_text() {
    let expected = "link    time\n           s\nwifi    1.50\n\n<b>   failed\n";
    assert_eq!(table().to_text(), expected);
}

#[test]
fn texts_are_not_obeyed_as_markup() {
    let report = Report {
        title: "A & B".into(),
        lead: "<script>".into(),
        sections: vec![Section {
            heading: "\"x\"".into(),
            blocks: vec![
                Block::Table(table()),
                Block::Text("<i>".into()),
                Block::Code("<u>".into()),
                Block::Definitions(vec![("<dt>".into(), "<dd>".into())]),
                Block::Legend(vec![LegendEntry {
                    name: "<li>".into(),
                    slot: 9,
                }]),
            ],
        }],
        footer: "<hr>".into(),
    };
    let html = report.to_html();
    for markup in [
        "<script",
        "<b>",
        "<i>",
        "<u>",
        "<hr>",
        "\"x\"",
        "<dt><dt>",
        "</svg><li>",
    ] {
        assert!(!html.contains(markup), "{markup}");
    }
    assert!(html.contains("A &amp; B") && html.contains("class=\"r bad\""));
}

#[test]
fn bars_show_values_bounds_and_failures() {
    let chart = BarChart {
        title: "Utilisation".into(),
        note: String::new(),
        y_unit: "%".into(),
        groups: vec![BarGroup {
            name: "geo".into(),
            bars: vec![(0, Some(83.25)), (1, None)],
            bound: Some(95.88),
        }],
    };
    let html = chart.to_html();
    for text in ["83.2", "failed", "class=\"cap\"", ">geo<"] {
        assert!(html.contains(text), "{text}: {html}");
    }
}

fn marks(values: &[f64], wish: Wish) -> Vec<String> {
    let scale = Scale::fit("x", values.iter().copied(), wish, 5);
    for value in values.iter().filter(|v| v.is_finite()) {
        let place = scale.place(*value);
        assert!((0.0..=1.0).contains(&place), "{value}: {place}");
    }
    scale.ticks.into_iter().map(|(_, label)| label).collect()
}

#[test]
fn scales_have_round_numbers() {
    let linear = Wish::default();
    let log = Wish {
        may_be_log: true,
        ..linear
    };
    assert_eq!(
        marks(&[0.81, 0.99], linear),
        ["0.80", "0.85", "0.90", "0.95", "1.00"]
    );
    assert_eq!(
        marks(&[-3.0, 7.0], linear),
        ["-4", "-2", "0", "2", "4", "6", "8"]
    );
    assert_eq!(marks(&[1.0, 20.0], log), ["0", "5", "10", "15", "20"]);
    assert_eq!(
        marks(&[1.0, 95.0], log),
        ["1", "2", "5", "10", "20", "50", "100"]
    );
    assert_eq!(marks(&[0.0, 1e6], log)[..2], ["0", "200k"]);
    let decades = marks(&[1e-20, 1e20], log);
    assert!((3..12).contains(&decades.len()), "{decades:?}");
    for odd in [
        &[][..],
        &[f64::NAN],
        &[5.0, 5.0],
        &[0.0],
        &[-1e308, 1e308],
        &[5e-324, 1e-323],
        &[1e15, 1e15 + 1.0],
    ] {
        for wish in [
            linear,
            log,
            Wish {
                from_zero: true,
                ..linear
            },
            Wish {
                log: true,
                ..linear
            },
        ] {
            assert!(marks(odd, wish).len() < 1100, "{odd:?}");
        }
    }
}

#[test]
fn numbers_are_short() {
    for (value, text) in [
        (0.0, "0"),
        (1.5, "1.5"),
        (20.0, "20"),
        (200.0, "200"),
        (1234.0, "1234"),
        (12_340.0, "12.3k"),
        (-3e6, "-3M"),
        (0.000_02, "2.0e-5"),
        (f64::NAN, "-"),
    ] {
        assert_eq!(short(value), text);
    }
    assert_eq!(significant(0.123_456, 4), "0.1235");
    assert_eq!(significant(1234.56, 4), "1235");
    assert_eq!(significant(99.999, 3), "100.0");
    assert_eq!(file_name("a b/../C_d.svg"), "a-b-c_d-svg");
    assert_eq!(file_name("../.."), "figure");
}

#[test]
fn tables_are_markdown_too() {
    let report = Report {
        title: "A | B".into(),
        lead: String::new(),
        sections: vec![Section {
            heading: "h".into(),
            blocks: vec![
                Block::Table(table()),
                Block::Code("a ``` b".into()),
                Block::List(vec!["x\ny".into()]),
            ],
        }],
        footer: String::new(),
    };
    let expected = "# A \\| B\n\n## h\n\n| link | time (s) |\n|---|---:|\n| wifi | 1.50 |\n\
                    | &lt;b&gt; | **failed** |\n\n````sh\na ``` b\n````\n\n- x y\n";
    assert_eq!(report.to_markdown("figures"), expected);
}
