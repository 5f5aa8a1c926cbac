//! `standard`: acknowledges as RFC 9000 says until the peer asks otherwise; asks for nothing.

use std::time::Duration;

use super::{
    AckDecision, AckPolicy, AckPolicyFactory, AckRequest, ReceivedView, SendView,
    rules::ReceiverRules,
};

/// Builds `standard` policies.
#[derive(Clone, Copy, Debug, Default)]
pub struct StandardFactory {
    _private: (),
}

impl AckPolicyFactory for StandardFactory {
    fn name(&self) -> &'static str {
        Standard::NAME
    }

    fn build(&self, max_ack_delay: Duration) -> Box<dyn AckPolicy> {
        Box::new(Standard {
            rules: ReceiverRules::new(max_ack_delay),
        })
    }
}

/// Every second ack-eliciting packet, at once on reordering, gaps and CE, else within
/// max_ack_delay. RFC 9000 s13.2.
#[derive(Debug)]
struct Standard {
    rules: ReceiverRules,
}

impl Standard {
    const NAME: &'static str = "standard";
}

impl AckPolicy for Standard {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn on_packet(&mut self, view: &ReceivedView) -> AckDecision {
        self.rules.on_packet(view)
    }

    fn on_request(&mut self, request: AckRequest) {
        self.rules.on_request(request);
    }

    fn request(&mut self, _view: &SendView) -> Option<AckRequest> {
        None
    }

    fn max_ack_delay(&self) -> Duration {
        self.rules.max_ack_delay()
    }

    fn reordering_threshold(&self) -> u64 {
        self.rules.reordering_threshold()
    }
}
