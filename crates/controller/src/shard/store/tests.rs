//! Tests how the store applies versions of Jobs.

use super::*;
use lakh_model::TRACKING_FINALIZER;
use lakh_wire::decode_job;

#[test]
fn a_job_is_new_once() {
    let mut store = Store::new(TRACKING_FINALIZER, &[], Seen::default());
    let mut apply = |version| {
        let job = format!(
            r#"{{"metadata":{{"name":"j","namespace":"default","resourceVersion":"{version}",
            "uid":"00000000-0000-0000-0000-000000000001"}},"spec":{{"template":{{"spec":{{}}}}}}}}"#
        );
        store
            .apply_job(decode_job(&job).expect("a good Job"), false)
            .1
    };
    let brought = [5, 5, 4, 6].map(&mut apply);
    let expected = [
        JobNews::New,
        JobNews::Stale,
        JobNews::Stale,
        JobNews::Changed,
    ];
    assert_eq!(brought, expected);
}
