//! Validates names, labels and label values, and generates UIDs and name suffixes.
//!
//! Responsible for: syntax and its error texts. Must not: know which field has the name.

use crate::{model::Uid, rng::Rng};

/// The characters of generated names: without vowels, so that no words appear.
const SUFFIX_LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Lists the problems with a DNS label.
#[doc(alias = "IsDNS1123Label")]
pub(crate) fn dns_label_problems(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 63 {
        problems.push("must be no more than 63 characters".into());
    }
    if is_dns_label(text) {
        return problems;
    }
    problems.push(match text.split('.').all(is_dns_label) {
        true => "must not contain dots".into(),
        false => {
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', \
         and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', \
         regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
                .into()
        }
    });
    problems
}

/// Lists the problems with a DNS subdomain.
#[doc(alias = "IsDNS1123Subdomain")]
pub(crate) fn dns_subdomain_problems(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 253 {
        problems.push("must be no more than 253 characters".into());
    }
    if !text.split('.').all(is_dns_label) {
        problems.push(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' \
         or '.', and must start and end with an alphanumeric character (e.g. 'example.com', \
         regex used for validation is \
         '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
                .into(),
        );
    }
    problems
}

/// Lists the problems with a key of a Secret or a ConfigMap.
#[doc(alias = "IsConfigMapKey")]
pub(crate) fn config_key_problems(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 253 {
        problems.push("must be no more than 253 characters".to_owned());
    }
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    if text.is_empty() || !text.bytes().all(fits) {
        problems.push(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
             'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
                .to_owned(),
        );
    }
    match text {
        "." | ".." => problems.push(format!("must not be '{text}'")),
        _ if text.starts_with("..") => problems.push("must not start with '..'".to_owned()),
        _ => {}
    }
    problems
}

/// Lists the problems with a label key, finalizer or condition type.
pub(crate) fn qualified_name_problems(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let name = match text.split_once('/') {
        None => text,
        Some((prefix, name)) if !name.contains('/') => {
            if prefix.is_empty() {
                problems.push("prefix part must be non-empty".into());
            } else {
                let wrong = dns_subdomain_problems(prefix);
                // The limit of a prefix is in bytes.
                let wrong = wrong
                    .iter()
                    .map(|problem| problem.replace("253 characters", "253 bytes"));
                problems.extend(wrong.map(|problem| format!("prefix part {problem}")));
            }
            name
        }
        Some(_) => {
            return vec![format!(
                "a valid label key {NAME_FORM} with an optional DNS subdomain prefix and '/' \
                 (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".into());
    } else if name.len() > 63 {
        problems.push("name part must be no more than 63 bytes".into());
    }
    if !is_name(name) {
        problems.push(format!("name part {NAME_FORM}"));
    }
    problems
}

/// Lists the problems with the name of a port.
#[doc(alias = "IsValidPortName")]
pub(crate) fn port_name_problems(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let mut problem = |is_wrong: bool, why: &str| {
        if is_wrong {
            problems.push(why.to_owned());
        }
    };
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    problem(text.len() > 15, "must be no more than 15 characters");
    problem(
        text.is_empty() || !text.bytes().all(fits),
        "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
    );
    problem(
        !text.bytes().any(|byte| byte.is_ascii_lowercase()),
        "must contain at least one letter (a-z)",
    );
    problem(text.contains("--"), "must not contain consecutive hyphens");
    problem(
        text.starts_with('-') || text.ends_with('-'),
        "must not begin or end with a hyphen",
    );
    problems
}

/// Lists the problems with a label value.
pub(crate) fn label_value_problems(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 63 {
        problems.push("must be no more than 63 bytes".into());
    }
    if !text.is_empty() && !is_name(text) {
        problems.push(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', \
             '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  \
             or 'my_value',  or '12345', regex used for validation is \
             '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
                .into(),
        );
    }
    problems
}

const NAME_FORM: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
     alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for \
     validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

/// Returns true if the text is non-empty and consists of lower-case letters, digits and inner hyphens.
pub(crate) fn is_dns_label(text: &str) -> bool {
    let edge = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().is_some_and(edge)
        && bytes.last().is_some_and(edge)
        && bytes.iter().all(|byte| edge(byte) || *byte == b'-')
}

fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

/// A version-4 UUID in its usual text form.
pub(crate) fn new_uid(rng: &mut Rng) -> String {
    let bits = (u128::from(rng.next()) << 64) | u128::from(rng.next());
    let bits = bits & !(0xF << 76) & !(0x3 << 62) | (0x4 << 76) | (0x2 << 62);
    Uid::from_u128(bits).to_string()
}

/// Five characters to append to a `generateName`.
pub(crate) fn name_suffix(rng: &mut Rng) -> String {
    let mut bits = rng.next();
    let mut text = String::with_capacity(5);
    for _ in 0..5 {
        text.push(char::from(SUFFIX_LETTERS[(bits % 27) as usize]));
        bits /= 27;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uids_are_version_four_and_repeatable() {
        let uid = new_uid(&mut Rng::new(7));
        assert_eq!(uid, new_uid(&mut Rng::new(7)));
        assert_eq!(uid.len(), 36);
        assert_eq!(uid.as_bytes()[14], b'4');
        assert!(matches!(uid.as_bytes()[19], b'8' | b'9' | b'a' | b'b'));
    }
}
