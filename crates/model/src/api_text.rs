//! Gives an enum the texts that the API has for its values, from one table for reading and writing.

/// Implements `parse` and `as_str`. The variant after `else` stands for every text that is not in the table.
macro_rules! api_text {
    ($name:ident { $($variant:ident = $text:literal,)* } else $other:ident) => {
        impl $name {
            /// Parses the API's text. An unknown one has a variant too, so that it cannot make an object unreadable.
            pub fn parse(text: &str) -> Self {
                match text {
                    $($text => Self::$variant,)*
                    _ => Self::$other,
                }
            }

            /// The API's text.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }
    };
}

pub(super) use api_text;
