//! Defines messages that are decoded from JSON and from protobuf, each field in one place.
//!
//! Must not: know the messages.

/// Defines structs that borrow from the input, in the form of `generated.proto`: each field with its type and its
/// protobuf number. In JSON a field has its name in camel case. Fields that are not listed are skipped. All fields have
/// the visibility of their struct.
macro_rules! message {
    ($(
        $(#[$attribute:meta])*
        $vis:vis struct $name:ident<'a $(, $parameter:ident: $bound:path)?> {
            $(
                $(#[$field_attribute:meta])*
                $field:ident: $type:ty = $number:literal,
            )*
        }
    )*) => {$(
        $(#[$attribute])*
        #[derive(Default, serde::Deserialize)]
        #[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
        $vis struct $name<'a $(, $parameter: $bound)?> {
            $($(#[$field_attribute])* $vis $field: $type,)*
        }

        impl<'a $(, $parameter: $bound)?> $crate::protobuf::ProtobufMessage<'a>
            for $name<'a $(, $parameter)?>
        {
            fn set(
                &mut self,
                number: u64,
                value: $crate::protobuf::Value<'a>,
            ) -> Result<(), $crate::protobuf::Malformed> {
                match number {
                    $($number => $crate::protobuf::ProtobufField::take(&mut self.$field, value),)*
                    _ => Ok(()),
                }
            }
        }
    )*};
}

pub(super) use message;
