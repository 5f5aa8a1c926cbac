//! Colours and marks.
//!
//! The palette is Okabe and Ito's, made to be told apart by the colour-blind, darkened for white
//! paper and lightened for dark screens. Each place in it also has a mark of its own.

/// Places in the palette; a slot beyond wraps around.
pub(super) const SLOTS: usize = 6;

/// The mark of a slot around a point: circle, square, diamond, triangle, then again.
pub(super) fn mark(slot: usize, x: f64, y: f64) -> String {
    let class = slot % SLOTS;
    match slot % 4 {
        0 => format!("<circle class=\"f{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/>"),
        1 => format!(
            "<rect class=\"f{class}\" x=\"{:.1}\" y=\"{:.1}\" width=\"7.4\" height=\"7.4\"/>",
            x - 3.7,
            y - 3.7
        ),
        2 => format!(
            "<path class=\"f{class}\" d=\"M{x:.1} {:.1}l5 5l-5 5l-5 -5z\"/>",
            y - 5.0
        ),
        _ => format!(
            "<path class=\"f{class}\" d=\"M{x:.1} {:.1}l4.8 8.4h-9.6z\"/>",
            y - 5.4
        ),
    }
}

/// The dash pattern of a slot's line, as an attribute: further rounds of the palette are dashed.
pub(super) fn stroke(slot: usize) -> &'static str {
    match slot / SLOTS {
        0 => "",
        1 => " stroke-dasharray=\"7 3\"",
        _ => " stroke-dasharray=\"2 3\"",
    }
}

/// The style sheet of every page.
pub(super) fn sheet() -> String {
    let set = |colours: &[(&str, &str)]| -> String {
        let one = |(name, colour): &(&str, &str)| format!("--{name}:{colour};");
        colours.iter().map(one).collect()
    };
    format!(
        ":root{{color-scheme:light dark;{}}}@media(prefers-color-scheme:dark){{:root{{{}}}}}\
         {PAGE}{PICTURE}{PRINT}",
        set(LIGHT),
        set(DARK)
    )
}

/// The style sheet of a picture on its own: light, without variables, which few programs that
/// draw SVG know.
pub(super) fn file_sheet() -> String {
    let mut sheet = format!("{PICTURE}.paper{{fill:var(--bg)}}");
    for (name, colour) in LIGHT {
        sheet = sheet.replace(&format!("var(--{name})"), colour);
    }
    sheet
}

const LIGHT: &[(&str, &str)] = &[
    ("bg", "#fff"),
    ("fg", "#1b1f24"),
    ("dim", "#59636e"),
    ("line", "#d5dae0"),
    ("soft", "#f4f6f8"),
    ("bad", "#b3261e"),
    ("c0", "#0072b2"),
    ("c1", "#c04f00"),
    ("c2", "#00835f"),
    ("c3", "#a34d86"),
    ("c4", "#8a6d00"),
    ("c5", "#3b4754"),
];

const DARK: &[(&str, &str)] = &[
    ("bg", "#14171b"),
    ("fg", "#e6e9ed"),
    ("dim", "#9aa5b1"),
    ("line", "#333a42"),
    ("soft", "#1d2127"),
    ("bad", "#ff8a80"),
    ("c0", "#56b4e9"),
    ("c1", "#f5a04a"),
    ("c2", "#3ccf9f"),
    ("c3", "#e59ac6"),
    ("c4", "#f0e442"),
    ("c5", "#b8c2cc"),
];

const PAGE: &str = "\
*{box-sizing:border-box}\
body{margin:0 auto;max-width:1200px;padding:28px 24px 48px;background:var(--bg);color:var(--fg);\
font:16px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif}\
h1{font-size:1.9rem;line-height:1.2;margin:0 0 .4rem}\
h2{font-size:1.3rem;margin:2.4rem 0 .6rem;padding-top:1.2rem;border-top:1px solid var(--line)}\
h3{font-size:1.06rem;margin:1.6rem 0 .4rem}\
p,ul{max-width:80ch}p{margin:.5rem 0 .9rem}.lead{font-size:1.08rem}footer{color:var(--dim);\
margin-top:2.5rem;font-size:.9rem}\
pre{background:var(--soft);padding:.7rem .9rem;border-radius:6px;overflow-x:auto}\
code,pre{font:.9rem ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}\
.scroll{overflow-x:auto;margin:.8rem 0}\
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.94rem;min-width:100%}\
th,td{padding:.34rem .7rem;text-align:left;white-space:nowrap}\
td.t{white-space:normal;min-width:22ch;overflow-wrap:anywhere}\
th{border-bottom:2px solid var(--line);font-weight:600;vertical-align:bottom}\
th small{display:block;color:var(--dim);font-weight:400}\
.r{text-align:right}tr.g td{border-top:1px solid var(--line)}.bad{color:var(--bad);font-weight:600}\
dl{display:grid;grid-template-columns:max-content 1fr;gap:.3rem 1.2rem;margin:.8rem 0}\
dt{font-weight:600}dd{margin:0;max-width:85ch;overflow-wrap:anywhere}\
@media(max-width:640px){dl{display:block}dd{margin:0 0 .6rem}body{padding:18px 14px}}\
.legend{display:flex;flex-wrap:wrap;gap:.3rem 1.5rem;margin:.7rem 0;list-style:none;padding:0;\
max-width:none}\
.legend li{display:flex;align-items:center;gap:.5rem}\
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,440px),1fr));gap:18px}\
figure{margin:1rem 0;border:1px solid var(--line);border-radius:8px;padding:10px 12px 6px;\
break-inside:avoid}.charts figure{margin:0}\
.wide svg{min-width:680px}.wide{overflow-x:auto}figcaption{font-weight:600}\
figcaption small{font-weight:400;color:var(--dim);display:block}\
svg{display:block;width:100%;height:auto}.key path{stroke-width:2.4}\
.key{width:34px;height:14px;flex:none}";

const PICTURE: &str = "\
svg text{fill:var(--fg);font:12.5px system-ui,-apple-system,'Segoe UI',Roboto,Arial,sans-serif}\
svg .tick{fill:var(--dim)}svg .unit{fill:var(--dim)}svg .bad{fill:var(--bad)}svg .on{fill:#111}\
svg .head{font-weight:600}svg .title{font-size:16px;font-weight:600}\
svg .ref{font-size:12px;fill:var(--fg);paint-order:stroke;stroke:var(--bg);stroke-width:4px;\
stroke-linejoin:round}\
.grid{stroke:var(--line);stroke-width:1;fill:none}.axis{stroke:var(--dim);stroke-width:1;fill:none}\
.rule{stroke:var(--fg);stroke-width:1.3;stroke-dasharray:5 4;fill:none;opacity:.75}\
.cap{stroke:var(--fg);stroke-width:2.5;fill:none}\
.s0,.s1,.s2,.s3,.s4,.s5{fill:none;stroke-linejoin:round}\
.s0{stroke:var(--c0)}.s1{stroke:var(--c1)}.s2{stroke:var(--c2)}.s3{stroke:var(--c3)}\
.s4{stroke:var(--c4)}.s5{stroke:var(--c5)}\
.b0,.b1,.b2,.b3,.b4,.b5{fill-opacity:.16}.b0{fill:var(--c0)}.b1{fill:var(--c1)}\
.b2{fill:var(--c2)}.b3{fill:var(--c3)}.b4{fill:var(--c4)}.b5{fill:var(--c5)}\
.f0{fill:var(--c0)}.f1{fill:var(--c1)}.f2{fill:var(--c2)}.f3{fill:var(--c3)}.f4{fill:var(--c4)}\
.f5{fill:var(--c5)}";

const PRINT: &str = "@media print{body{max-width:none;padding:0}figure{border-color:#bbb}}";
