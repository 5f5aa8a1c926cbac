//! The measures that only some workloads have: what `Outcome::extra` may hold.
//!
//! Owns: [`COLUMNS`], for the schema of tables. Does not own: what every workload has (items,
//! bytes), and the metrics made of that.

/// A measure that only some workloads have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its key in the outcome and in rows.
    pub name: &'static str,
    /// Its unit; `1` for counts and shares.
    pub unit: &'static str,
    /// How it is made, and when it is missing.
    pub meaning: &'static str,
}

const fn column(name: &'static str, unit: &'static str, meaning: &'static str) -> Column {
    Column {
        name,
        unit,
        meaning,
    }
}

const SHARE: &str = "video: seconds shown in pictures of this many lines / video_played_s; missing \
                     when the ladder has none";

/// All of them, by name.
pub const COLUMNS: &[Column] = &[
    column(
        "datagrams_lost",
        "1",
        "datagrams: those of the whole flow that the receiver did not get, refused ones included",
    ),
    column(
        "datagrams_received",
        "1",
        "datagrams: those that the receiver got, copies not counted",
    ),
    column(
        "datagrams_refused",
        "1",
        "datagrams: those that the sending transport did not take (too large, queue full); missing \
         at the receiver when the sender's last word did not come",
    ),
    column(
        "messages_expired",
        "1",
        "messages with api = \"messages\": those that the sending transport gave up",
    ),
    column(
        "messages_handed_over",
        "1",
        "messages: those whose time came at the sender while the connection lived",
    ),
    column(
        "messages_held",
        "1",
        "messages: those that found no stream when they were handed over",
    ),
    column(
        "messages_judged_late",
        "1",
        "messages with api = \"messages\": those that the sending transport thinks late",
    ),
    column(
        "messages_judged_on_time",
        "1",
        "messages with api = \"messages\": those that the sending transport thinks on time",
    ),
    column(
        "messages_recovered",
        "1",
        "messages with api = \"messages\": delivered ones of which repair symbols brought a part",
    ),
    column(
        "page_byte_index_s",
        "s",
        "page: sum over objects of bytes x (their end - first request) / bytes of the page; missing \
         before the page is complete",
    ),
    column(
        "page_load_s",
        "s",
        "page: from the first request to the end of the last object; missing before that",
    ),
    column(
        "page_objects_failed",
        "1",
        "page: answers that were cut short; missing before the page is complete",
    ),
    column(
        "urgent_transfer_s",
        "s",
        "urgent: what the transfer took that the objects were asked for beside; missing when it did \
         not finish",
    ),
    column(
        "video_bitrate_bps",
        "bit/s",
        "video: mean over the seconds shown of their representation's stated bit rate",
    ),
    column("video_played_s", "s", "video: seconds of media shown"),
    column(
        "video_score",
        "1 to 5",
        "video: quality of experience in the style of ITU-T P.1203, not conforming to it; formula: \
         workload/video/score.rs",
    ),
    column("video_share_1080p", "1", SHARE),
    column("video_share_1440p", "1", SHARE),
    column("video_share_144p", "1", SHARE),
    column("video_share_2160p", "1", SHARE),
    column("video_share_240p", "1", SHARE),
    column("video_share_360p", "1", SHARE),
    column("video_share_432p", "1", SHARE),
    column("video_share_480p", "1", SHARE),
    column("video_share_720p", "1", SHARE),
    column(
        "video_stall_s",
        "s",
        "video: seconds that pictures stood still after the first had moved",
    ),
    column(
        "video_stalls",
        "1",
        "video: times that pictures stood still after the first had moved",
    ),
    column(
        "video_startup_s",
        "s",
        "video: from the first request to the first moving picture; missing when none moved",
    ),
    column(
        "video_switches",
        "1",
        "video: changes of representation between segments shown",
    ),
];

/// The column of that name.
pub fn by_name(name: &str) -> Option<&'static Column> {
    COLUMNS.iter().find(|column| column.name == name)
}
