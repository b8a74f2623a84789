//! Computes a hash that is the same in every process and build, for values on which several controllers must agree.

/// 64-bit FNV-1a.
pub fn stable_hash(bytes: impl IntoIterator<Item = u8>) -> u64 {
    let bytes = bytes.into_iter();
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_fnv_1a() {
        assert_eq!(stable_hash(*b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(stable_hash(*b"foobar"), 0x8594_4171_f739_67e8);
    }
}
