//! Decodes Kubernetes objects from JSON and protobuf, and builds request bodies and paths.
//!
//! Responsible for: bytes to small records, values to request bodies and paths.

mod answer_metadata;
mod call;
mod cron_job;
mod delete;
mod error;
mod expected_answer;
mod field;
mod gang;
mod identity;
mod job;
mod json;
mod labels;
mod lease;
mod message;
mod metadata;
mod ownership;
pub mod paths;
mod pod;
mod policy;
mod protobuf;
pub mod protobuf_writer;
mod review;
mod scheduling_api;
mod status;
mod stream;
mod template;
mod timestamp;
mod watch;

pub use answer_metadata::ack_of_write;
pub use call::{ANSWER_MAX, Call, Patch};
pub use cron_job::{DecodedCronJob, cron_job_status_patch, decode_cron_job, job_of_cron_job};
pub use delete::{background_deletion, exact_deletion, foreground_deletion};
pub use error::{ApiError, ErrorKind};
pub use expected_answer::ExpectedAnswer;
pub use gang::{DecodedGangObject, decode_pod_group, decode_workload, gang_object_body};
pub use identity::{decode_user_name, self_subject_review};
pub use job::{ControllerReference, DecodedJob, child_job, decode_job};
pub use labels::{selector, selector_text};
pub use lease::{decode_lease, new_lease, roster_of, updated_lease};
pub use metadata::{ObjectIdentity, decode_identity};
pub use ownership::{adoption_patch, freeing_patch, freeing_patch_of_version, release_patch};
pub use pod::{
    ContainerDetails, ContainerEnd, PodCause, PodConditionDetails, PodDecoder, PodDetails, PodEvent,
};
pub use protobuf::Malformed;
pub use review::{access_review, decode_access_review, decode_token_review, token_review};
pub use scheduling_api::SchedulingApi;
pub use status::status_patch;
pub use stream::{Encoding, Lines, Splitter, TooLong};
pub use template::{PodMarks, PodTemplate, TemplateError};
pub use watch::{
    ListPage, Object, OddAnswer, WatchEvent, decode_list_page, decode_place, decode_watch_frame,
    decode_watch_line,
};
