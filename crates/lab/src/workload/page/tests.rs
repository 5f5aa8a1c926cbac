use super::*;
use crate::{
    outcome::Item,
    workload::{
        file::Parse,
        tests::{clean, lossy, ms, play},
    },
};

/// A document; a script that waits 30 ms; an image that waits for both; another one at once.
fn by_hand() -> Page {
    let after = |bytes, on: &[u32], parse| Object {
        depends_on: on.to_vec(),
        parse: Span(ms(parse)),
        ..Object::new(bytes)
    };
    Page::new(Content::Objects(vec![
        Object {
            think: Span(ms(40)),
            ..Object::new(5_000)
        },
        after(8_000, &[0], 30),
        after(100_000, &[0, 1, 1], 0),
        after(300, &[], 0),
    ]))
}

#[test]
fn objects_are_asked_for_when_what_they_need_is_there() {
    let played = play(&by_hand(), clean(), 1);
    let items = &played.client.items;
    // In the order in which they were wanted: 0, 3, 1, 2.
    let bytes: Vec<u64> = items.iter().map(|item| item.bytes).collect();
    assert_eq!(bytes, [5_000, 300, 8_000, 100_000]);
    let done = |index: usize| items[index].done.expect("complete");
    let connected = played.client.connected.expect("connected");
    assert_eq!(items[0].wanted, connected);
    assert_eq!(items[1].wanted, connected);
    assert_eq!(items[2].wanted, done(0) + ms(30));
    assert_eq!(items[3].wanted, done(2));
    let first = items[0].duration().expect("complete");
    assert!(first > ms(60) && first < ms(66), "{first:?}");
    assert_eq!(played.client.received_bytes, 113_300);
    assert_eq!(played.server.received_bytes, 4 * 400);
    assert_eq!(played.client.finished, items[3].done);
    let extra = &played.client.extra;
    let load = done(3).saturating_since(connected).as_secs_f64();
    assert_eq!(extra["page_load_s"], load);
    assert!(extra["page_byte_index_s"] < load);
    assert!(extra["page_byte_index_s"] > 0.9 * load);
    assert_eq!(extra["page_objects_failed"], 0.0);
}

#[test]
fn bundled_pages_load_whole_and_the_same_every_time() {
    for content in [
        Content::Objects6,
        Content::Objects30,
        Content::Objects110,
        Content::Article,
        Content::News,
    ] {
        let page = Page::new(content);
        let objects = page.objects().expect("bundled");
        let total: u64 = objects.iter().map(|object| object.bytes.0).sum();
        let asked: u64 = objects.iter().map(|object| object.request_bytes.0).sum();
        for link in [clean(), lossy(0.01)] {
            let played = play(&page, link.clone(), 1);
            assert_eq!(played.client.items.len(), objects.len());
            assert_eq!(played.client.received_bytes, total);
            assert_eq!(played.server.received_bytes, asked);
            let wanted: Vec<Instant> = played.client.items.iter().map(|i| i.wanted).collect();
            assert!(wanted.is_sorted());
            assert_eq!(played, play(&page, link, 1));
        }
    }
}

#[test]
fn without_computing_only_the_network_takes_time() {
    let mut page = Page::new(Content::Objects30);
    let slow = play(&page, clean(), 1).client.extra["page_load_s"];
    page.compute = 0.0;
    let fast = play(&page, clean(), 1).client.extra["page_load_s"];
    // 1,776 KiB at 20 Mb/s take 0.73 s.
    assert!(fast > 0.73 && fast < 1.1, "{fast}");
    assert!(slow > fast, "{slow}");
}

#[test]
fn urgent_objects_come_first() {
    let object = |urgency| Object {
        urgency,
        ..Object::new(200_000)
    };
    let page = Page::new(Content::Objects(vec![object(5), object(1)]));
    let items = play(&page, clean(), 1).client.items;
    let done = |index: usize| items[index].done.expect("complete");
    assert!(done(1) < done(0));
}

const SMALL: &[u8] = include_bytes!("data/small.har");

fn recorded() -> Vec<Object> {
    let recording = Recording::parse(SMALL).expect("well-formed");
    recording.objects(Duration::ZERO)
}

#[test]
fn a_har_file_becomes_a_graph() {
    let objects = recorded();
    let bytes: Vec<u64> = objects.iter().map(|object| object.bytes.0).collect();
    // Redirection, document, style sheet (began before the script), script, data, image, icon.
    assert_eq!(bytes, [180, 12_345, 5_000, 30_000, 777, 2_500, 900]);
    let on: Vec<&[u32]> = objects.iter().map(|object| &*object.depends_on).collect();
    let expected: [&[u32]; 7] = [&[], &[0], &[1], &[1], &[3], &[2], &[0]];
    assert_eq!(on, expected);
    let parse: Vec<u128> = objects.iter().map(|o| o.parse.0.as_millis()).collect();
    // Data: 30 ms after the script, through the cached one. Image: 110 ms after the style sheet.
    assert_eq!(parse, [0, 0, 0, 10, 30, 110, 280]);
    assert_eq!(objects[1].think.0, Duration::from_micros(60_250));
    let asked: Vec<u64> = objects
        .iter()
        .map(|object| object.request_bytes.0)
        .collect();
    assert_eq!(asked, [350, 400, 400, 400, 1_500, 400, 400]);
    let urgency: Vec<u8> = objects.iter().map(|object| object.urgency).collect();
    assert_eq!(urgency, [0, 0, 0, 1, 3, 3, 4]);
    let recording = Recording::parse(SMALL).expect("well-formed");
    let nearer = recording.objects(ms(12));
    assert_eq!(nearer[1].think.0, Duration::from_micros(48_250));
    assert_eq!(nearer[5].think.0, Duration::ZERO);
}

#[test]
fn a_har_file_loads_as_a_page() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("small.har"), SMALL).expect("written");
    let mut page: Page = toml::from_str("page = { har = \"small.har\" }").expect("a plan");
    assert!(page.objects().is_err());
    page.resolve(&folder.path().into()).expect("read");
    assert_eq!(page.objects(), Ok(recorded()));
    assert!(page.files()[0].sha256.is_some());
    let played = play(&page, clean(), 1);
    assert!(
        played
            .client
            .items
            .iter()
            .all(|item: &Item| item.done.is_some())
    );
    let total: u64 = recorded().iter().map(|object| object.bytes.0).sum();
    assert_eq!(played.client.received_bytes, total);
}

#[test]
fn files_that_are_no_recording_say_why() {
    let why = |text: &str| Recording::parse(text.as_bytes()).expect_err(text);
    assert_eq!(why("{\n\"log\": {\n").line, Some(3));
    assert!(why("{}").reason.contains("log"));
    assert!(
        why("{\"log\":{\"entries\":[]}}")
            .reason
            .contains("no entry")
    );
    let entry = r#"{"log":{"entries":[{"startedDateTime":"now","request":{"url":"https://a/"},"response":{}}]}}"#;
    let reason = why(entry).reason;
    assert!(
        reason.contains("log.entries[0]: startedDateTime \"now\""),
        "{reason}"
    );
    // A stack deeper than any program's does not overflow ours.
    let deep = format!(
        r#"{{"log":{{"entries":[{{"_initiator":{{"stack":{}null{}}}}}]}}}}"#,
        r#"{"parent":"#.repeat(10_000),
        "}".repeat(10_000)
    );
    assert!(why(&deep).reason.contains("not an HTTP Archive"));
}

#[test]
fn other_programs_files_are_read_too() {
    let text = "\u{feff}".to_owned()
        + r#"{"log":{"entries":[{"startedDateTime":"2026-01-31T12:00:00Z","time":null,
        "request":{"url":"https://a/","bodySize":null},"response":{"status":200,
        "_transferSize":null,"content":{"size":70}},"_initiator":null,"timings":{"wait":null}},
        {"startedDateTime":"2026-01-31T12:00:00.01Z","request":{"url":"https://a/b"},
        "response":{"status":200,"bodySize":5},"_initiator":"https://a/","_unknown":[]}]}}"#;
    let recording = Recording::parse(text.as_bytes()).expect("well-formed");
    let objects = recording.objects(Duration::ZERO);
    assert_eq!((objects[0].bytes, objects[1].bytes), (Size(70), Size(5)));
    assert_eq!(objects[1].depends_on, [0]);
    assert_eq!(objects[1].parse.0, ms(10));
}

#[test]
fn numbers_out_of_range_are_bounded() {
    let text = r#"{"log":{"entries":[{"startedDateTime":"2026-01-31T12:00:00Z","time":1e300,
        "request":{"url":"https://a/","bodySize":-5,"headersSize":1e300},
        "response":{"status":200,"_transferSize":1e300},"timings":{"wait":-1}},
        {"startedDateTime":"2026-01-31T12:00:01Z","request":{"url":"https://a/b"},
        "response":{"status":200},"timings":{"wait":1e300},"_initiator":{"url":"https://a/"}}]}}"#;
    let recording = Recording::parse(text.as_bytes()).expect("well-formed");
    let objects = recording.objects(Duration::ZERO);
    assert_eq!(objects[0].bytes, Size(4_000_000_000));
    assert_eq!(objects[0].think.0, Duration::ZERO);
    assert_eq!(objects[1].bytes, Size(0));
    assert_eq!(objects[1].think.0, Duration::from_secs(60));
    assert_eq!(objects[1].parse.0, Duration::ZERO);
}

#[test]
fn plans_are_read_strictly_and_checked() {
    let read = |text: &str| toml::from_str::<Page>(text);
    assert_eq!(read("page = \"news\""), Ok(Page::new(Content::News)));
    assert!(read("page = \"old-news\"").is_err());
    let text = toml::to_string(&by_hand()).expect("serialises");
    assert_eq!(read(&text), Ok(by_hand()));
    let problem = |objects: &str| {
        let page = read(&format!("page = {{ objects = [{objects}] }}")).expect("well-formed");
        page.validate().expect_err(objects).0
    };
    assert_eq!(problem(""), "page.objects");
    assert_eq!(
        problem("{ bytes = 1, depends_on = [0] }"),
        "page.objects[0].depends_on"
    );
    assert_eq!(
        problem("{ bytes = 1 }, { bytes = 1, urgency = 8 }"),
        "page.objects[1].urgency"
    );
}
