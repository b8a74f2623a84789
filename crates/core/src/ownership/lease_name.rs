//! Names the Lease of a controller after the Jobs that it works on, so that only controllers of the same Jobs exclude each
//! other.

use crate::model::{OWN_MANAGER, stable_hash};

use super::Mode;

/// Length of the readable part of a Lease's name; a hash makes the name unique.
const READABLE: usize = 60;

/// Returns a name that identifies the set of Jobs that the controller works on.
pub fn lease_name(mode: &Mode, namespaces: &[String]) -> String {
    let (mode, manager) = match mode {
        Mode::Replace => ("replace", None),
        Mode::Both => ("both", None),
        Mode::ManagedBy(name) => ("managed-by", Some(name.to_string())),
    };
    let manager = manager.filter(|name| name != OWN_MANAGER);
    let mut namespaces = namespaces.to_vec();
    namespaces.sort_unstable();
    namespaces.dedup();
    let mut name = format!("lakh-{mode}");
    if manager.is_none() && namespaces.is_empty() {
        return name;
    }
    // Neither managers nor namespaces contain a zero byte. Every build must compute the same name.
    let mut identity = manager.clone().unwrap_or_default();
    for namespace in &namespaces {
        identity.push('\0');
        identity.push_str(namespace);
    }
    let words = manager.iter().chain(&namespaces);
    for word in words.flat_map(|word| ["-", word]) {
        name.push_str(word);
    }
    let plain = name
        .chars()
        .map(|letter| match letter.to_ascii_lowercase() {
            letter @ ('a'..='z' | '0'..='9') => letter,
            _ => '-',
        });
    let plain: String = plain.take(READABLE).collect();
    format!("{plain}-{:016x}", stable_hash(identity.bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{model::names::is_subdomain, ownership::ManagerName};

    #[test]
    fn controllers_of_the_same_jobs_share_one_lease_name() {
        let name = |manager: Option<&str>, namespaces: &[&str]| {
            let manager = manager.map(|name| ManagerName::parse(name).expect("a good name"));
            let mode = manager.map_or(Mode::Replace, Mode::ManagedBy);
            let namespaces: Vec<String> = namespaces.iter().map(|&name| name.into()).collect();
            lease_name(&mode, &namespaces)
        };
        assert_eq!(name(None, &[]), "lakh-replace");
        assert_eq!(name(Some(OWN_MANAGER), &[]), "lakh-managed-by");
        assert_eq!(name(None, &["b", "a"]), name(None, &["a", "b", "a"]));
        let long = ["x"; 40].join("y");
        let names = [
            name(None, &["a"]),
            name(None, &["a-b"]),
            name(None, &["a", "b"]),
            name(Some("a.b/c"), &[]),
            name(Some("a/b.c"), &[]),
            name(Some("a.b/c_D"), &[&long]),
        ];
        assert!(names[0].starts_with("lakh-replace-a-"), "{}", names[0]);
        for (at, name) in names.iter().enumerate() {
            assert!(is_subdomain(name) && !names[..at].contains(name), "{name}");
        }
    }
}
