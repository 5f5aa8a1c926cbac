//! What a page gives, what a path selects, how it is printed, what an error says; and that the documents are up to date.

use super::{check, first_difference, page::Page, select::Pages, template::fill};
use crate::tools::root;

/// A page as `tautline lab report` writes it, with all kinds of tables and cells.
const PAGE: &str = "\
# A title

## Cells

80 of 80 cells have a row; 78 ended ok, 2 did not. Every one repeats itself with the same seed.

| solution | cells (that ran) | not ok (of these) |
|---|---:|---:|
| plain | 1240 | **2** |
| auto | 1240 | 0 |

## How it was made

```sh
# not a heading
| not | a table |
|---|---|
```

- **made by**: tautline-lab 0.1.0 (results 15)
- **cells**: 2480 = 20 points x 4 solutions x 31 repetitions

## completion_s (s)

| loss | window | plain (s) | flec-buffer (s) | auto (s) |
|---|---|---:|---:|---:|
| 0.5 % | 70 kB | 36.00 [35.37, 36.19] | 32.31 [32.24, 32.49] | 9.000 [8, 9.5] |
| 0.5 % | 3 MB | 8 [7.604, 7.844] | 8.8 | **6.000 [5, 7] (1997 of 2000)** |
| 2 % | 70 kB | 44.50 [43.53, 44.91] | - | 22.25 |
| 2 % | 3 MB | 0 [0, 0] | &lt; 0.0001 | 1917 |

### completion_s against plain

| solution | pairs | median ratio (95 % interval) | worse (of pairs) | points worse (than 1.010) |
|---|---:|---:|---:|---:|
| flec-buffer | 620 | 1.020 [1.013, 1.025] | 50.5 % | **30 of 60** |
| auto | 620 | 0.9741 [0.9682, 0.9837] | 7.6 % | 2 of 60 |

| factor | level | points | flec-buffer | auto |
|---|---|---:|---:|---:|
| all |  | 4 | 1.01 | 0.97 |
| loss | 2 % | 2 | 1.03 | 0.96 |

| loss | solution | median ratio (95 % interval) |
|---|---|---:|
| 2 % | auto | 0.95 |

## same

## same
";

fn pages() -> Pages {
    let mut pages = Pages::new();
    for name in ["one", "two"] {
        pages.insert(name.to_owned(), Page::parse(name, PAGE).unwrap());
    }
    let other = PAGE.replace("results 15", "results 13");
    pages.insert("old".to_owned(), Page::parse("old", &other).unwrap());
    pages
}

fn filled(template: &str) -> String {
    fill(template, &pages()).unwrap().trim_end().to_owned()
}

/// The whole chain of an error.
fn error(template: &str) -> String {
    format!("{:#}", fill(template, &pages()).unwrap_err())
}

fn assert_says(error: &str, words: &[&str]) {
    for word in words {
        assert!(error.contains(word), "`{word}` is missing in: {error}");
    }
}

#[test]
fn a_cell_stands_as_on_its_page_or_in_the_format_asked_for() {
    assert_eq!(
        filled("{one > completion_s > 0.5 % > 70 kB > plain}"),
        "36.00"
    );
    assert_eq!(
        filled("{.1 one > completion_s (s) > 0.5 % > 70 kB > plain (s)}"),
        "36.0"
    );
    assert_eq!(
        filled("{~3 one > completion_s > 2 % > 70 kB > plain}"),
        "44.5"
    );
    assert_eq!(
        filled("{one > completion_s > 0.5 % > 3 MB > auto}"),
        "6.000"
    );
    assert_eq!(
        filled("{~2 one > completion_s > 2 % > 3 MB > auto}"),
        "1,917"
    );
    assert_eq!(
        filled("{low .1 one > completion_s > 0.5 % > 70 kB > auto} to {high ..}"),
        "8.0 to 9.5"
    );
}

#[test]
fn the_labels_tell_tables_of_a_section_apart() {
    let against = "one > completion_s against plain";
    assert_eq!(
        filled(&format!("{{{against} > auto > median ratio}}")),
        "0.9741"
    );
    assert_eq!(
        filled(&format!("{{{against} > loss > 2 % > auto}}")),
        "0.96"
    );
    assert_eq!(
        filled(&format!("{{{against} > 2 % > auto > median ratio}}")),
        "0.95"
    );
    assert_eq!(filled(&format!("{{{against} > all > > auto}}")), "0.97");
    assert_eq!(filled(&format!("{{{against} > auto > points worse}}")), "2");
}

#[test]
fn per_cents_are_hundredths() {
    let worse = "one > completion_s against plain > auto > worse";
    assert_eq!(filled(&format!("{{{worse}}}")), "7.6 %");
    assert_eq!(filled(&format!("{{.0% {worse}}}, {{.3 ..}}")), "8 %, 0.076");
    assert_eq!(
        filled("{.1% one > completion_s > 0.5 % > 70 kB > auto / plain}"),
        "25.0 %"
    );
}

#[test]
fn quotients_are_of_columns_rows_or_sections() {
    assert_eq!(
        filled("{.3 one > completion_s > 0.5 % > 70 kB > flec-buffer / plain}"),
        "0.898"
    );
    assert_eq!(
        filled("{.3 one > completion_s > 2 % / 0.5 % > 70 kB > plain}"),
        "1.236"
    );
    assert_eq!(
        filled("{max .2 one > completion_s > 2 % / 0.5 % > 70 kB > plain or auto}"),
        "2.47"
    );
    assert_eq!(
        filled("{.2 one / two > completion_s > 2 % > 70 kB > plain}"),
        "1.00"
    );
}

#[test]
fn ranges_are_over_all_that_matches() {
    let auto = "one > completion_s > * > * > auto";
    assert_eq!(
        filled(&format!("{{min .1 {auto}}} to {{max ..}}")),
        "6.0 to 1,917"
    );
    assert_eq!(
        filled("{min one > completion_s > 0.5 % > 70 kB or 3 MB > *}"),
        "6.000"
    );
    assert_eq!(
        filled("{max .2 one > completion_s > 0.5 % > * > auto / plain}"),
        "0.75"
    );
    assert_eq!(filled("{min one or old > results} to {max ..}"), "13 to 15");
}

#[test]
fn a_page_tells_of_itself() {
    let facts = "{one > repetitions} {one > results} {one > cells} {one > points} {one > solutions} {one > failed}";
    assert_eq!(filled(facts), "31 15 2,480 20 4 2");
    assert_eq!(filled("{one > Cells > plain > not ok}"), "2");
}

#[test]
fn dots_repeat_what_stood_before_in_the_row_or_paragraph() {
    let row = "| {one > completion_s > 0.5 % > 70 kB > plain} | {.. > auto} | {.. > 3 MB > plain} | {two > .. > 2 % > 3 MB > auto} |";
    assert_eq!(filled(row), "| 36.00 | 9.000 | 8 | 1,917 |");
    assert_eq!(
        filled("{one > completion_s > 0.5 % > 70 kB > plain}\nand {.. > auto}"),
        "36.00 and 9.000"
    );
    let apart = error("{one > completion_s > 0.5 % > 70 kB > plain}\n\n{.. > auto}");
    assert_says(
        &apart,
        &[
            "line 3 of the template",
            "{.. > auto}",
            "`..` has no placeholder before it",
        ],
    );
    let rows = error("| {one > completion_s > 0.5 % > 70 kB > plain} |\n| {.. > auto} |");
    assert_says(&rows, &["line 2", "`..` has no placeholder before it"]);
    assert_says(
        &error("{one > results} {.. > a > b > c}"),
        &["nothing of `one > results` is left"],
    );
    assert_says(
        &error("{one > results} {.. > ..}"),
        &["`..` can stand once"],
    );
}

#[test]
fn errors_name_the_line_and_what_there_is() {
    let cases: &[(&str, &[&str])] = &[
        (
            "\n\n{three > results}",
            &[
                "line 3",
                "{three > results}",
                "no page `three`",
                "`two`",
                "`one`",
            ],
        ),
        ("{one > seeds}", &["says no `seeds`", "`repetitions`"]),
        (
            "{one > overhead > a > b}",
            &["no section `overhead`", "`completion_s against plain`"],
        ),
        ("{one > same > a > b}", &["more than one section `same`"]),
        (
            "{one > completion_s > 1 % > 70 kB > auto}",
            &[
                "no row `1 % > 70 kB`",
                "`1 %`",
                "`0.5 % > 70 kB`",
                "section `completion_s (s)`",
            ],
        ),
        (
            "{max one > completion_s > 0.5 % > 70 kB or 7 kB > auto}",
            &["has `7 kB`"],
        ),
        (
            "{one > completion_s > 70 kB > auto}",
            &["no table has 1 labels", "`loss > window`"],
        ),
        (
            "{one > completion_s > 2 % > 70 kB > rquic}",
            &["no column `rquic`", "`flec-buffer`"],
        ),
        (
            "{one > completion_s > 2 % > 70 kB > loss}",
            &["no column `loss`"],
        ),
        (
            "{one > completion_s > * > 70 kB > auto}",
            &[
                "2 cells are meant",
                "`one > completion_s > 2 % > 70 kB > auto`",
            ],
        ),
        (
            "{one > completion_s > 2 % > 70 kB > flec-buffer}",
            &["`-` is not a number"],
        ),
        (
            "{one > completion_s > 2 % > 3 MB > flec-buffer}",
            &["`< 0.0001` is not a number"],
        ),
        (
            "{.2 one > completion_s > 2 % > 3 MB > auto / plain}",
            &["divides by 0"],
        ),
        (
            "{.2 one > completion_s > 0.5 % > 70 kB > auto / *}",
            &["must be one cell; 3 are"],
        ),
        (
            "{.2 one > completion_s > 2 % / 0.5 % > 70 kB > auto / plain}",
            &["one part of a path"],
        ),
        (
            "{one > completion_s > 0.5 % > 70 kB > auto / plain}",
            &["a quotient needs a format"],
        ),
        (
            "{low .2 one > completion_s > 0.5 % > 70 kB > auto / plain}",
            &["no interval"],
        ),
        (
            "{low .2 one > completion_s > 2 % > 70 kB > auto}",
            &["`22.25` has no interval"],
        ),
        ("{.x one > results}", &["`.x` is no format"]),
        ("{.99 one > results}", &["`.99` is no format"]),
        ("{~0 one > results}", &["asks for no digit"]),
        ("{one}", &["a path is `page > fact` or"]),
        (
            "{one > completion_s > auto}",
            &["a path is `page > fact` or"],
        ),
        ("{}", &["no page ``"]),
        ("{one > results", &["a brace that opens or closes nothing"]),
        ("one > results}", &["a brace that opens or closes nothing"]),
    ];
    for (template, words) in cases {
        assert_says(&error(template), words);
        assert_says(&error(template), &["of the template"]);
    }
}

#[test]
fn an_error_lists_no_more_than_it_says() {
    let rows: String = (0..100).map(|n| format!("| row {n} | 1 |\n")).collect();
    let page = format!("## m\n\n| a | b |\n|---|---:|\n{rows}");
    let mut pages = Pages::new();
    pages.insert("p".to_owned(), Page::parse("p", &page).unwrap());
    let error = format!("{:#}", fill("{p > m > row 9x > b}", &pages).unwrap_err());
    assert_says(&error, &["there are `row 9`, `row 90`", "and 84 more"]);
}

#[test]
fn braces_are_written_twice() {
    assert_eq!(filled("`{{a}}` {one > results}"), "`{a}` 15");
}

#[test]
fn malformed_pages_are_errors() {
    let cases = [
        (
            "## m\n\n| a | b |\n|---|---:|\n| x | 1 | 2 |\n",
            "line 5 has 3 cells, the heading 2",
        ),
        (
            "## m\n\n| a | b |\n|---|---:|---:|\n",
            "2 columns have a heading and 3 an alignment",
        ),
        ("| a | b |\n|---|---:|\n", "a table before any heading"),
    ];
    for (page, words) in cases {
        let error = Page::parse("p", page).err().unwrap();
        assert_says(&format!("{error:#}"), &["page p", words]);
    }
    // Neither is: a rule alone, an end in the middle, what is not a number where one is expected.
    for page in [
        "|---|\n|",
        "|",
        "## m\n|a\n|-",
        "- **cells**: x points",
        "```",
        "- **made by**: (results ",
        "|\\|",
    ] {
        let _ = Page::parse("p", page);
    }
}

#[test]
fn prose_is_wrapped_and_nothing_else() {
    let word = "seven77 ".repeat(40);
    let text = filled(&format!(
        "{word}\n{word}\n\n| {word} |\n|---|\n\n```sh\n{word}\n```\n\n- {word}\n\nend"
    ));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.iter().filter(|line| line.len() == 119).count(), 5);
    assert_eq!(lines.iter().filter(|line| line.len() > 300).count(), 3);
    assert_eq!(lines.last(), Some(&"end"));
    assert_eq!(
        text.split_whitespace().filter(|w| *w == "seven77").count(),
        200
    );
    // A line must not begin with what Markdown takes for a list.
    let dash = filled(&format!("{}1234567 - x", "seven77 ".repeat(14)));
    assert!(!dash.lines().any(|line| line.starts_with('-')), "{dash}");
}

#[test]
fn a_difference_is_found_where_it_begins() {
    assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
    assert_eq!(first_difference("a\nb\n", "a\nc\n"), Some((2, "b", "c")));
    assert_eq!(
        first_difference("a\n", "a\nc\n"),
        Some((2, "(its end)", "c"))
    );
    assert_eq!(
        first_difference("a\nb\n", "a\n"),
        Some((2, "b", "(their end)"))
    );
    assert_eq!(first_difference("a", "a\n"), Some((2, "", "")));
}

/// A page made again is in the documents that speak of it, or this fails and says what to run.
#[test]
fn documents_are_what_their_templates_give() {
    if let Err(error) = check(&root().join("docs").join("results")) {
        panic!("{error:#}");
    }
}
