//! The page: its files, which are part of the program.

use std::sync::OnceLock;

use hyper::header::{CACHE_CONTROL, ETAG, HeaderValue, IF_NONE_MATCH};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};
use units::md5::md5;

use super::reply::{self, Refusal, Reply};

/// One file.
struct Asset {
    path: &'static str,
    content_type: &'static str,
    content: &'static str,
}

macro_rules! assets {
    ($($path:literal $file:literal $content_type:expr;)*) => {
        &[$(Asset { path: $path, content_type: $content_type, content: include_str!(concat!("page/", $file)) }),*]
    };
}

const HTML: &str = "text/html; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const IMAGE: &str = "image/svg+xml";

const ASSETS: &[Asset] = assets! {
    "/" "index.html" HTML;
    "/style.css" "style.css" STYLE;
    "/icon.svg" "icon.svg" IMAGE;
    "/app.js" "app.js" SCRIPT;
    "/api.js" "api.js" SCRIPT;
    "/body.js" "body.js" SCRIPT;
    "/dialog.js" "dialog.js" SCRIPT;
    "/dom.js" "dom.js" SCRIPT;
    "/format.js" "format.js" SCRIPT;
    "/hub.js" "hub.js" SCRIPT;
    "/inspector.js" "inspector.js" SCRIPT;
    "/keys.js" "keys.js" SCRIPT;
    "/list.js" "list.js" SCRIPT;
    "/overview.js" "overview.js" SCRIPT;
    "/profile.js" "profile.js" SCRIPT;
    "/queue.js" "queue.js" SCRIPT;
    "/rates.js" "rates.js" SCRIPT;
    "/rules.js" "rules.js" SCRIPT;
    "/send.js" "send.js" SCRIPT;
};

/// The file that a request asks for. A browser that has it already gets none.
///
/// # Errors
/// There is none at this path.
pub(super) fn find(head: &Parts) -> Result<Reply, Refusal> {
    let path = head.uri.path();
    let place = ASSETS.iter().position(|asset| asset.path == path);
    let place = place.ok_or_else(|| Refusal::not_found("there is nothing at this path"))?;
    let (asset, tag) = (&ASSETS[place], &tags()[place]);
    let is_known = head.headers.get(IF_NONE_MATCH).is_some_and(|known| known == tag);
    let content = if is_known || head.method == Method::HEAD { "" } else { asset.content };
    let mut reply = reply::whole(asset.content_type, content);
    if is_known {
        *reply.status_mut() = StatusCode::NOT_MODIFIED;
    }
    // The next version of the program may have another page at the same address.
    reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    reply.headers_mut().insert(ETAG, tag.clone());
    Ok(reply)
}

fn tags() -> &'static [HeaderValue] {
    static TAGS: OnceLock<Vec<HeaderValue>> = OnceLock::new();
    TAGS.get_or_init(|| {
        let tag = |asset: &Asset| {
            let digest: String =
                md5(asset.content.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
            HeaderValue::from_str(&format!("\"{digest}\"")).expect("digits are a header's value")
        };
        ASSETS.iter().map(tag).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_small_and_has_no_script_or_style_within() {
        let bytes: usize = ASSETS.iter().map(|asset| asset.content.len()).sum();
        assert!(bytes <= 150 * 1024, "{bytes} bytes");
        let html = ASSETS[0].content;
        assert!(!html.contains("<style") && !html.contains(" style=") && !html.contains(" on"), "{html}");
        assert_eq!(html.matches("<script").count(), html.matches("<script type=\"module\" src=").count());
    }

    #[test]
    fn every_module_that_is_imported_or_loaded_first_is_there() {
        for asset in ASSETS {
            for named in asset.content.split('"').skip(1).step_by(2) {
                let Some(path) = named.strip_prefix("./").or_else(|| named.strip_prefix('/')) else {
                    continue;
                };
                if path.ends_with(".js") || path.ends_with(".css") {
                    let path = format!("/{path}");
                    assert!(ASSETS.iter().any(|asset| asset.path == path), "{}: {path}", asset.path);
                }
            }
        }
    }

    #[test]
    fn nothing_of_the_page_can_be_reached_by_a_page_that_opened_it() {
        assert_absent(&["addEventListener(\"message\"", "onmessage", "postMessage", "opener", "iframe"]);
    }

    #[test]
    fn nothing_of_the_page_makes_markup_of_a_text() {
        assert_absent(&[
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "Function(",
        ]);
    }

    fn assert_absent(words: &[&str]) {
        for asset in ASSETS {
            for word in words {
                assert!(!asset.content.contains(word), "{} has {word}", asset.path);
            }
        }
    }
}
