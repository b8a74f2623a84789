//! Parses index lists such as `0-2,5`.
//!
//! Responsible for: parsing and comparing them, with the error texts. Must not: know Jobs.

/// Closed intervals of indexes in increasing order.
pub(super) type Intervals = Vec<(u32, u32)>;

/// Parses a list whose indexes must be below `completions`.
pub(super) fn parse(text: &str, completions: i64) -> Result<Intervals, String> {
    let mut intervals = Intervals::new();
    if text.is_empty() {
        return Ok(intervals);
    }
    let mut previous = -1;
    for part in text.split(',') {
        let ends: Vec<&str> = part.split('-').collect();
        if ends.len() > 2 {
            return Err(format!(
                "the fragment {part:?} violates the requirement that an index interval can have \
                 at most two parts separated by '-'"
            ));
        }
        let mut bounds = Vec::new();
        for end in ends {
            let index: i32 = end
                .parse()
                .map_err(|_| format!("cannot convert string to integer for index: {end:?}"))?;
            if i64::from(index) >= completions {
                return Err(format!("too large index: {end:?}"));
            }
            if index <= previous {
                return Err(format!(
                    "non-increasing order, previous: {previous}, current: {index}"
                ));
            }
            previous = index;
            bounds.push(index.unsigned_abs());
        }
        intervals.push((bounds[0], bounds[bounds.len() - 1]));
    }
    Ok(intervals)
}

/// The number of indexes in a list.
pub(super) fn count(intervals: &Intervals) -> i64 {
    intervals
        .iter()
        .map(|(first, last)| i64::from(last - first) + 1)
        .sum()
}

/// The first index that is in both lists.
pub(super) fn overlap(left: &Intervals, right: &Intervals) -> Option<u32> {
    let (mut left, mut right) = (left.iter().peekable(), right.iter().peekable());
    while let (Some(&&(a, b)), Some(&&(c, d))) = (left.peek(), right.peek()) {
        if a.max(c) <= b.min(d) {
            return Some(a.max(c));
        }
        if b < d {
            left.next();
        } else {
            right.next();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_their_mistakes() {
        let check = |text: &str, expected: Result<i64, &str>| {
            let found = parse(text, 7).map(|intervals| count(&intervals));
            assert_eq!(
                found.as_ref().map_err(String::as_str).copied(),
                expected,
                "{text}"
            );
        };
        check("", Ok(0));
        check("0,1,2", Ok(3));
        check("0-2,5", Ok(4));
        check("7", Err("too large index: \"7\""));
        check("3,1", Err("non-increasing order, previous: 3, current: 1"));
        check("0-0", Err("non-increasing order, previous: 0, current: 0"));
        check(
            "x",
            Err("cannot convert string to integer for index: \"x\""),
        );
        check(
            "0-",
            Err("cannot convert string to integer for index: \"\""),
        );
        check(
            "-1",
            Err("cannot convert string to integer for index: \"\""),
        );
        check(
            "1-2-3",
            Err(
                "the fragment \"1-2-3\" violates the requirement that an index interval can \
                 have at most two parts separated by '-'",
            ),
        );
    }

    #[test]
    fn overlaps() {
        let check = |left: &str, right: &str, expected: Option<u32>| {
            let (left, right) = (parse(left, 100).unwrap(), parse(right, 100).unwrap());
            assert_eq!(overlap(&left, &right), expected);
        };
        check("0-3", "4-6", None);
        check("0-3,9", "5,7-9", Some(9));
        check("2", "0-5", Some(2));
        check("", "0", None);
    }
}
