//! `standard`: acknowledges as RFC 9000 says until the peer asks otherwise; asks for nothing but short delays where messages
//! with deadlines need them.

use std::time::Duration;

use super::{
    AckDecision, AckPolicy, AckPolicyFactory, AckRequest, ReceivedView, SendView,
    rules::ReceiverRules, urgency::Urgency,
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
            urgency: Urgency::default(),
            asked: None,
        })
    }
}

/// Every second ack-eliciting packet, at once on reordering, gaps and CE, else within
/// max_ack_delay. RFC 9000 s13.2.
#[derive(Debug)]
struct Standard {
    rules: ReceiverRules,
    urgency: Urgency,
    /// The delay asked for last.
    asked: Option<Duration>,
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

    fn request(&mut self, view: &SendView) -> Option<AckRequest> {
        let usual = view.peer_max_ack_delay;
        let wish = self.urgency.longest(view).unwrap_or(usual);
        if wish == self.asked.unwrap_or(usual) {
            return None;
        }
        self.asked = Some(wish);
        Some(AckRequest {
            ack_eliciting_threshold: 1,
            max_ack_delay: wish,
            reordering_threshold: 1,
        })
    }

    fn max_ack_delay(&self) -> Duration {
        self.rules.max_ack_delay()
    }

    fn reordering_threshold(&self) -> u64 {
        self.rules.reordering_threshold()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Instant;

    #[test]
    fn messages_ask_for_short_delays_and_give_them_back() {
        let ms = Duration::from_millis;
        let mut policy = StandardFactory::default().build(ms(25));
        let mut view = SendView::new(
            Instant::ZERO,
            ms(150),
            ms(150),
            100_000,
            1_200,
            ms(1),
            ms(25),
            3,
        );
        assert_eq!(policy.request(&view), None, "nothing calls for it");
        view.message_time = Some(ms(250));
        let asked = policy.request(&view).unwrap();
        assert_eq!(asked.max_ack_delay, ms(1));
        assert_eq!(
            (asked.ack_eliciting_threshold, asked.reordering_threshold),
            (1, 1)
        );
        assert_eq!(policy.request(&view), None, "once");
        view.message_time = None;
        let usual = policy.request(&view).unwrap();
        assert_eq!(usual.max_ack_delay, ms(25));
        assert_eq!(policy.request(&view), None);
    }
}
