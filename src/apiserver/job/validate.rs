//! stub
use crate::apiserver::{fields::FieldErrors, object::Tree};
pub(crate) fn validate_create(_tree: &Tree) -> FieldErrors {
    FieldErrors::new()
}
