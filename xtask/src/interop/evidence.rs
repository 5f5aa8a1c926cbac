//! What the programs said and what the proxy saw.

use std::collections::BTreeMap;

/// Facts and notes of one program, all its runs together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    facts: BTreeMap<String, u64>,
    notes: Vec<(String, String)>,
    /// The reason it gave for not being able to.
    pub(crate) unsupported: Option<String>,
}

impl Report {
    /// Reads the lines that a program printed.
    pub(crate) fn add(&mut self, output: &str) {
        for line in output.lines() {
            if let Some(reason) = line.strip_prefix("UNSUPPORTED ") {
                self.unsupported = Some(reason.to_owned());
            } else if let Some(fact) = line.strip_prefix("FACT ") {
                if let Some((name, count)) = fact.split_once(' ')
                    && let Ok(count) = count.trim().parse::<u64>()
                {
                    *self.facts.entry(name.to_owned()).or_default() += count;
                }
            } else if let Some(note) = line.strip_prefix("NOTE ")
                && let Some((name, words)) = note.split_once(' ')
            {
                self.notes.push((name.to_owned(), words.to_owned()));
            }
        }
    }

    fn count(&self, name: &str) -> u64 {
        self.facts.get(name).copied().unwrap_or(0)
    }

    /// The first note of this name.
    pub(crate) fn note(&self, name: &str) -> Option<&str> {
        self.notes
            .iter()
            .find(|(noted, _)| noted == name)
            .map(|(_, words)| words.as_str())
    }
}

/// Everything that was seen in a cell.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evidence {
    pub(crate) proxy: Report,
    pub(crate) ours: Report,
    pub(crate) peer: Report,
}

impl Evidence {
    pub(crate) fn proxy_count(&self, name: &str) -> u64 {
        self.proxy.count(name)
    }

    pub(crate) fn ours_count(&self, name: &str) -> u64 {
        self.ours.count(name)
    }

    pub(crate) fn at_least(&self, name: &str, least: u64) -> Result<(), String> {
        let count = self.proxy.count(name);
        if count < least {
            Err(format!("the proxy saw {name} {count} times, not {least}"))
        } else {
            Ok(())
        }
    }

    pub(crate) fn some(&self, name: &str) -> Result<(), String> {
        self.at_least(name, 1)
    }

    pub(crate) fn none(&self, name: &str) -> Result<(), String> {
        self.exactly(name, 0)
    }

    pub(crate) fn exactly(&self, name: &str, wanted: u64) -> Result<(), String> {
        let count = self.proxy.count(name);
        if count == wanted {
            Ok(())
        } else {
            Err(format!("the proxy saw {name} {count} times, not {wanted}"))
        }
    }

    /// Our end counted some of these.
    pub(crate) fn ours(&self, name: &str) -> Result<(), String> {
        if self.ours.count(name) == 0 {
            Err(format!("our end counts no {name}"))
        } else {
            Ok(())
        }
    }

    /// Our end noted exactly this.
    pub(crate) fn noted(&self, name: &str, words: &str) -> Result<(), String> {
        match self.ours.note(name) {
            Some(noted) if noted == words => Ok(()),
            Some(noted) => Err(format!("{name} is {noted}, not {words}")),
            None => Err(format!("our end notes no {name}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_and_sums_made() {
        let mut seen = Evidence::default();
        seen.proxy
            .add("LISTENING x\nFACT handshakes 2\nNOTE alpn h3\nFACT odd\n");
        seen.proxy
            .add("FACT handshakes 3\nUNSUPPORTED no such thing\n");
        assert_eq!(seen.exactly("handshakes", 5), Ok(()));
        assert!(seen.none("handshakes").is_err() && seen.some("odd").is_err());
        assert_eq!(seen.proxy.note("alpn"), Some("h3"));
        assert_eq!(seen.proxy.unsupported.as_deref(), Some("no such thing"));
        assert!(seen.ours("resumed").is_err() && seen.noted("alpn", "h3").is_err());
    }
}
