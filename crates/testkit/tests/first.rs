//! The thinnest slice: connect, fetch, close.

use std::time::Duration;

use tautline_sim::links;
use tautline_testkit::pair::PairSetup;

#[test]
fn fetches_over_named_links() {
    for name in ["wifi", "cellular", "leo", "geo", "da2gc"] {
        let link = links::by_name(name).expect("a known link");
        let mut setup = PairSetup::new(7, link);
        setup.fetch = vec![1_000_000, 10, 0, 50_000];
        let mut pair = setup.build();
        let done = pair.run(Duration::from_secs(120));
        let client = pair.client().app();
        assert_eq!(client.corrupt_at, None);
        assert!(done.is_some(), "{name} did not finish");
    }
}
