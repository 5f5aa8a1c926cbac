//! The cells that are compared.

use std::time::Duration;

use tautline_sim::{DirectionConfig, LinkConfig, LossModel, QueueSize};
use tautline_transport::units::Rate;

/// A link by its four numbers, the same both ways.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// Mb/s.
    pub rate: u64,
    /// Round-trip time without queues, ms.
    pub rtt: u64,
    /// Share of packets lost each way.
    pub loss: f64,
    /// Queue in bandwidth-delay products.
    pub queue: f64,
}

const fn cell(rate: u64, rtt: u64, percent: f64, queue: f64) -> Cell {
    Cell {
        rate,
        rtt,
        loss: percent / 100.0,
        queue,
    }
}

/// Rates 5-100 Mb/s, RTTs 20-600 ms, loss 0-1 %, queues 0.5-2 BDP.
pub const CELLS: [Cell; 20] = [
    cell(5, 20, 0.0, 0.5),
    cell(5, 50, 0.0, 2.0),
    cell(5, 200, 0.0, 1.0),
    cell(5, 600, 0.0, 1.0),
    cell(10, 100, 0.0, 1.0),
    cell(20, 25, 0.0, 1.0),
    cell(20, 100, 0.0, 2.0),
    cell(20, 600, 0.0, 0.5),
    cell(50, 40, 0.0, 1.0),
    cell(50, 200, 0.0, 0.5),
    cell(100, 20, 0.0, 2.0),
    cell(100, 100, 0.0, 1.0),
    cell(5, 50, 1.0, 1.0),
    cell(10, 100, 0.1, 1.0),
    cell(10, 200, 0.5, 1.0),
    cell(20, 25, 0.5, 2.0),
    cell(20, 600, 0.1, 1.0),
    cell(50, 40, 0.1, 0.5),
    cell(100, 20, 1.0, 1.0),
    cell(100, 100, 0.5, 1.0),
];

impl Cell {
    /// As a link.
    pub fn link(self) -> LinkConfig {
        let direction = DirectionConfig {
            queue: QueueSize::Bdp(self.queue),
            loss: if self.loss > 0.0 {
                LossModel::uniform(self.loss)
            } else {
                LossModel::None
            },
            ..DirectionConfig::new(
                Rate::from_bits_per_second(self.rate * 1_000_000),
                Duration::from_micros(self.rtt * 500),
            )
        };
        LinkConfig::symmetric(direction)
    }

    /// How it is printed.
    pub fn name(self) -> String {
        let percent = self.loss * 100.0;
        format!(
            "{} Mb/s, {} ms, {percent} % loss, queue {} BDP",
            self.rate, self.rtt, self.queue
        )
    }

    /// Half a minute, at least a hundred round trips.
    pub fn duration(self) -> Duration {
        Duration::from_millis(self.rtt * 100).max(Duration::from_secs(30))
    }
}

impl std::str::FromStr for Cell {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let numbers: Vec<&str> = text.split(',').collect();
        let [rate, rtt, percent, queue] = numbers.as_slice() else {
            anyhow::bail!("{text} is not four numbers");
        };
        Ok(cell(
            rate.parse()?,
            rtt.parse()?,
            percent.parse()?,
            queue.parse()?,
        ))
    }
}
