//! URLs, and the files that they become.

use std::{fmt, num::NonZeroU16, str::FromStr};

use http::{Uri, uri::PathAndQuery};
use percent_encoding::percent_decode_str;

/// An `https` URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) path: PathAndQuery,
}

/// Where connections go to.
pub(crate) type OriginKey = (String, u16);

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let uri: Uri = text
            .parse()
            .map_err(|error| format!("{text:?} is no URL: {error}"))?;
        if uri.scheme_str() != Some("https") {
            return Err(format!("{text:?} does not start with https://"));
        }
        if uri
            .authority()
            .is_some_and(|authority| authority.as_str().contains('@'))
        {
            return Err("user names in URLs are not supported".to_owned());
        }
        let host = uri.host().filter(|host| !host.is_empty());
        let host = host
            .ok_or_else(|| format!("{text:?} names no host"))?
            .to_owned();
        // The parser lets ports through that are none.
        let written = uri.authority().map_or("", |authority| authority.as_str());
        let written = written.rsplit(']').next().unwrap_or(written);
        let port = match written.split_once(':') {
            None => 443,
            Some((_, port)) => port
                .parse::<NonZeroU16>()
                .map_err(|_| format!("{text:?}: {port:?} is no port, which is 1 to 65535"))?
                .get(),
        };
        let path = uri.path_and_query().cloned();
        let path = path.filter(|path| path.as_str().starts_with('/'));
        Ok(Self {
            host,
            port,
            path: path.unwrap_or_else(|| PathAndQuery::from_static("/")),
        })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "https://{}{}", self.authority(), self.path)
    }
}

impl Target {
    pub(crate) fn origin(&self) -> OriginKey {
        (self.host.clone(), self.port)
    }

    /// Host, and port where it is not the usual one.
    pub(crate) fn authority(&self) -> String {
        if self.port == 443 {
            self.host.clone()
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// The file name that the URL suggests; never a path, and never hidden.
    pub(crate) fn file_name(&self) -> String {
        let last = self.path.path().rsplit('/').next().unwrap_or_default();
        let name = percent_decode_str(last).decode_utf8_lossy();
        let name: String = name
            .chars()
            .filter(|c| !c.is_control() && !matches!(c, '/' | '\\' | ':'))
            .collect();
        match name.trim_start_matches('.') {
            "" => "index.html".to_owned(),
            name => name.to_owned(),
        }
    }

    /// Where a redirect leads, if it stays with this server.
    pub(crate) fn redirected(&self, location: &str) -> Result<Self, String> {
        let path = if location.starts_with('/') && !location.starts_with("//") {
            location.to_owned()
        } else if location.contains("://") || location.starts_with("//") {
            let absolute = location
                .strip_prefix("//")
                .map(|rest| format!("https://{rest}"));
            let target: Self = absolute.as_deref().unwrap_or(location).parse()?;
            if target.origin() != self.origin() {
                return Err(format!("the file has moved to another server: {target}"));
            }
            return Ok(target);
        } else {
            let folder = self
                .path
                .path()
                .rsplit_once('/')
                .map_or("", |(folder, _)| folder);
            format!("{folder}/{location}")
        };
        let path = path
            .parse()
            .map_err(|_| format!("the file has moved to nonsense: {path:?}"))?;
        Ok(Self {
            path,
            ..self.clone()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let of = |text: &str| text.parse::<Target>();
        let target = of("https://[::1]:4433/a/b%20c?x=1").unwrap();
        assert_eq!(target.origin(), ("[::1]".to_owned(), 4433));
        assert_eq!(target.file_name(), "b c");
        assert_eq!(target.to_string(), "https://[::1]:4433/a/b%20c?x=1");
        assert_eq!(
            of("https://example.org").unwrap().to_string(),
            "https://example.org/"
        );
        for bad in [
            "",
            "x",
            "/a",
            "http://a/",
            "https:///a",
            "https://u:p@a/",
            "https://a:0/",
            "https://a:65536/",
            "https://a b/",
        ] {
            assert!(of(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_stay_in_the_directory() {
        let of = |path: &str| {
            format!("https://h{path}")
                .parse::<Target>()
                .unwrap()
                .file_name()
        };
        assert_eq!(of("/"), "index.html");
        assert_eq!(of("/a/"), "index.html");
        assert_eq!(of("/a/%2e%2e"), "index.html");
        assert_eq!(of("/..%2f..%2fetc%2fpasswd"), "etcpasswd");
        assert_eq!(of("/.bashrc"), "bashrc");
        assert_eq!(of("/a%0ab"), "ab");
    }

    #[test]
    fn redirects() {
        let from: Target = "https://h:1/a/b".parse().unwrap();
        let to = |location| from.redirected(location).map(|target| target.to_string());
        assert_eq!(to("/c").unwrap(), "https://h:1/c");
        assert_eq!(to("c").unwrap(), "https://h:1/a/c");
        assert_eq!(to("https://h:1/d").unwrap(), "https://h:1/d");
        assert!(to("https://other/d").is_err());
        assert!(to("//other/d").is_err());
    }
}
