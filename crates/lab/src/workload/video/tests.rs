use tautline_sim::LinkConfig;

use super::*;
use crate::{
    stack::StackOptions,
    workload::tests::{Played, clean, link, lossy, ms, play, play_with},
};

fn watch(video: &Video, link: LinkConfig) -> Played {
    let played = play(video, link, 1);
    assert!(played.client.finished.is_some());
    assert_eq!(played.client.extra["video_played_s"], 120.0);
    let shares: f64 = HEIGHTS
        .iter()
        .filter_map(|(_, column)| played.client.extra.get(column))
        .sum();
    assert!((shares - 1.0).abs() < 1e-9);
    played
}

#[test]
fn an_ample_link_never_stalls_and_shows_the_best() {
    for rule in [Rule::Throughput, Rule::Buffer] {
        let video = Video {
            rule,
            ..Video::default()
        };
        let played = watch(&video, clean());
        let extra = &played.client.extra;
        assert_eq!(extra["video_stalls"], 0.0);
        assert_eq!(extra["video_stall_s"], 0.0);
        assert!(extra["video_share_1080p"] > 0.6, "{extra:?}");
        // 200 kB at 20 Mb/s from a cold start.
        assert!(extra["video_startup_s"] > 0.1 && extra["video_startup_s"] < 0.4);
        assert!(extra["video_score"] > 4.0, "{extra:?}");
        let items = &played.client.items;
        assert_eq!(items.len(), 30);
        let bytes: u64 = items.iter().map(|item| item.bytes).sum();
        assert_eq!(played.client.received_bytes, bytes);
        // Shown to the end: startup and 120 s of media.
        let connected = played.client.connected.expect("connected");
        let finished = played.client.finished.expect("to the end");
        let shown = finished.saturating_since(connected).as_secs_f64();
        assert!((shown - 120.0 - extra["video_startup_s"]).abs() < 1e-6);
        assert_eq!(played, play(&video, clean(), 1));
    }
}

#[test]
fn a_thin_link_shows_less_and_scores_lower() {
    let video = Video::default();
    let mut last = f64::INFINITY;
    for (megabits, column) in [(20, "video_share_1080p"), (4, "video_share_720p")] {
        let played = watch(&video, link(megabits, 25));
        let extra = &played.client.extra;
        assert!(extra[column] > 0.5, "{extra:?}");
        assert!(extra["video_bitrate_bps"] < megabits as f64 * 1e6);
        assert!(extra["video_score"] < last, "{extra:?}");
        last = extra["video_score"];
    }
}

#[test]
fn a_link_below_the_ladder_stalls() {
    let mut video = Video::default();
    video.ladder.remove(0);
    // 0.8 Mb/s wanted at least, 0.5 there.
    let mut thin = link(1, 25);
    thin.backward.rate = Some(Rate::from_bits_per_second(500_000));
    let played = watch(&video, thin);
    let extra = &played.client.extra;
    assert_eq!(extra["video_share_360p"], 1.0);
    assert_eq!(extra["video_switches"], 0.0);
    assert!(extra["video_stalls"] > 5.0, "{extra:?}");
    // 120 s of 0.8 Mb/s take 192 s and more.
    assert!(extra["video_stall_s"] > 60.0, "{extra:?}");
    assert!(extra["video_score"] < 2.0, "{extra:?}");
}

#[test]
fn a_buffer_is_never_fuller_than_it_may_be() {
    let video = Video {
        max_buffer: Span::seconds(10),
        ..Video::default()
    };
    let played = watch(&video, lossy(0.01));
    let items = &played.client.items;
    let connected = played.client.connected.expect("connected");
    let first = played.client.extra["video_startup_s"];
    for (index, item) in items.iter().enumerate().skip(3) {
        // Asked for when at most 6 s are loaded and not shown.
        let shown = item.wanted.saturating_since(connected).as_secs_f64() - first;
        let loaded = 4.0 * index as f64;
        assert!(
            loaded - shown <= 6.0 + 1e-6,
            "segment {index}: {loaded} {shown}"
        );
    }
}

#[test]
fn a_video_that_is_cut_off_is_measured_up_to_there() {
    let video = Video::default();
    let limit = Duration::from_millis(40_500);
    let played = play_with(&video, &StackOptions::default(), clean(), 1, limit);
    let extra = &played.client.extra;
    assert_eq!(played.client.finished, None);
    let shown = extra["video_played_s"];
    assert!((39.0..40.5).contains(&shown), "{shown}");
    assert!(extra["video_score"] > 3.0);

    // Never a picture: no start, the lowest score.
    let mut dead = clean();
    dead.backward.outages.push(tautline_sim::Outage {
        start: ms(60),
        duration: Duration::from_secs(60),
        every: None,
        mode: Default::default(),
    });
    let limit = Duration::from_secs(20);
    let played = play_with(&video, &StackOptions::default(), dead, 1, limit);
    let extra = &played.client.extra;
    assert_eq!(extra.get("video_startup_s"), None);
    assert_eq!(extra["video_played_s"], 0.0);
    assert_eq!(extra["video_score"], 1.0);
}

#[test]
fn segments_vary_by_seed_within_the_stated_share() {
    let video = Video::default();
    let sizes = |seed| Client::new(video.clone(), seed).sizes;
    assert_eq!(sizes(1), sizes(1));
    assert_ne!(sizes(1), sizes(2));
    assert!(sizes(1).iter().all(|size| (0.75..1.25).contains(size)));
    let last = Video {
        duration: Span(ms(10_500)),
        ..video
    };
    let client = Client::new(last, 1);
    assert_eq!(client.sizes.len(), 3);
    assert_eq!(client.media(2), ms(2_500));
}

#[test]
fn plans_are_read_strictly_and_checked() {
    let read = |text: &str| toml::from_str::<Video>(text);
    assert_eq!(read(""), Ok(Video::default()));
    assert!(read("rule = \"guess\"").is_err());
    assert!(read("segments = 3").is_err());
    let text = toml::to_string(&Video::default()).expect("serialises");
    assert_eq!(read(&text), Ok(Video::default()));
    for (text, field) in [
        ("ladder = []", "ladder"),
        (
            "ladder = [{ width = 640, height = 361, bitrate = \"1 Mb/s\" }]",
            "ladder[0].height",
        ),
        (
            "ladder = [{ width = 0, height = 360, bitrate = \"1 Mb/s\" }]",
            "ladder[0].width",
        ),
        (
            "ladder = [{ width = 640, height = 360, bitrate = \"0 Mb/s\" }]",
            "ladder[0].bitrate",
        ),
        ("segment = \"10 ms\"", "segment"),
        ("duration = \"0 s\"", "duration"),
        ("max_buffer = \"7 s\"", "max_buffer"),
        ("variation = \"95 %\"", "variation"),
        ("frame_rate = 0.0", "frame_rate"),
    ] {
        let video = read(text).expect(text);
        assert_eq!(video.validate().expect_err(text).0, field);
    }
}
