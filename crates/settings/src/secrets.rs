//! Keys and passwords that stand in a text, hidden before the text is shown.
//!
//! People should write `${NAMESPACE}`, and some write the connection string. A mistake shows its line, which then may hold a key, and what is shown
//! ends up in the log of a CI.

/// What comes before a secret: the names in connection strings, signatures of URLs and the settings of clients.
const NAMES: [&str; 10] = [
    "sharedaccesskey",
    "sharedaccesssignature",
    "accountkey",
    "sig",
    "password",
    "secret",
    "ssl.key.pem",
    "secret_access_key",
    "session_token",
    "service_account_key",
];

/// `text` with each secret overwritten by asterisks. Every byte keeps its place, so that lines, columns and offsets stay true.
pub(crate) fn masked(text: &str) -> String {
    let lowercase = text.to_ascii_lowercase();
    let mut masked = String::with_capacity(text.len());
    while let Some((at, secret)) = next(&lowercase, masked.len()) {
        masked.push_str(&text[masked.len()..at]);
        masked.extend(std::iter::repeat_n('*', secret));
    }
    masked.push_str(&text[masked.len()..]);
    masked
}

/// Where the first secret at or after `from` begins, and its length in bytes. `text` is in lower case.
fn next(text: &str, from: usize) -> Option<(usize, usize)> {
    text[from..].match_indices(['=', ':']).find_map(|(separator, _)| {
        let (name, rest) = (&text[..from + separator], &text[from + separator + 1..]);
        let name = name.trim_end_matches([' ', '"', '\'']);
        let is_secret = NAMES.iter().filter_map(|secret| name.strip_suffix(secret));
        if !is_secret.into_iter().any(|before| !before.ends_with(|last: char| last.is_ascii_alphanumeric())) {
            return None;
        }
        let value = rest.trim_start_matches(' ');
        let quote = value.chars().next().filter(|first| matches!(first, '"' | '\''));
        let value = &value[quote.map_or(0, char::len_utf8)..];
        let at = text.len() - value.len();
        let end = match quote {
            Some(quote) => value.find([quote, '\n']),
            None => value.find(|next: char| next.is_whitespace() || ";,}]&\"'".contains(next)),
        };
        let value = &value[..end.unwrap_or(value.len())];
        (!value.is_empty() && !value.starts_with("${")).then_some((at, value.len()))
    })
}

#[cfg(test)]
mod tests {
    use super::masked;
    use crate::Document;

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Settings {
        #[expect(dead_code, reason = "read to find the mistake beside it")]
        connection_string: String,
    }

    #[test]
    fn a_mistake_beside_a_key_shows_its_line_without_the_key() {
        let text = "{connection_string: 'Endpoint=sb://a/;SharedAccessKeyName=a;SharedAccessKey=c2VjcmV0', hubb: b}\n";
        let mistake = Document::parse("a.yaml", text).unwrap().typed::<Settings>().unwrap_err();
        let mut shown = String::new();
        let handler = miette::GraphicalReportHandler::new_themed(miette::GraphicalTheme::none());
        handler.render_report(&mut shown, &mistake).unwrap();
        assert!(shown.contains("SharedAccessKey=********', hubb: b"), "{shown}");
        assert!(!shown.contains("c2VjcmV0"), "{shown}");
    }

    #[test]
    fn keys_of_connection_strings_and_passwords_are_hidden_and_everything_else_stays_in_its_place() {
        for (text, shown) in [
            (
                "to: Endpoint=sb://a/;SharedAccessKeyName=root;SharedAccessKey=c2Vj+/0=;EntityPath=x",
                "to: Endpoint=sb://a/;SharedAccessKeyName=root;SharedAccessKey=********;EntityPath=x",
            ),
            (
                "{to: 'AccountName=a;AccountKey=QUJD', more: 1}",
                "{to: 'AccountName=a;AccountKey=****', more: 1}",
            ),
            ("url: https://a/b?sv=1&sig=a%2Fb&se=2", "url: https://a/b?sv=1&sig=*****&se=2"),
            ("sasl.password: \"with; some ,\"\nb: 1", "sasl.password: \"************\"\nb: 1"),
            ("{\"password\": \"pä\", \"b\": 1}", "{\"password\": \"***\", \"b\": 1}"),
            (
                "{access_key_id: AKIA, secret_access_key: wJ+/=, session_token: 'F w'}",
                "{access_key_id: AKIA, secret_access_key: *****, session_token: '***'}",
            ),
            ("password: ${PASSWORD}", "password: ${PASSWORD}"),
            ("design: 1\npassword:\nsig:", "design: 1\npassword:\nsig:"),
            ("password=a password=b", "password=* password=*"),
        ] {
            assert_eq!(masked(text), shown);
            assert_eq!(text.len(), shown.len());
        }
    }
}
