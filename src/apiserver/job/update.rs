//! stub
use crate::apiserver::{fields::FieldErrors, object::Tree};
pub(crate) fn validate_update(_tree: &Tree, _old: &Tree) -> FieldErrors {
    FieldErrors::new()
}
