//! stub
use crate::apiserver::{fields::FieldErrors, object::Tree};
pub(crate) fn validate_status(_tree: &Tree, _old: &Tree) -> FieldErrors {
    FieldErrors::new()
}
