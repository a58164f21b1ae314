//! A macro for the statements of a store.

/// Declares `Statements`: a field for each statement, how all of them are made of their texts, and
/// for tests what lists them. Fields after the braces are given to `of` as they are.
#[macro_export]
macro_rules! statements {
    (
        $Statement:ident { $($name:ident: $text:path),* $(,)? }
        $($(#[$about:meta])* $other:ident: $Other:ty,)*
    ) => {
        /// The statements with the tables' names put in, shared by all clones of a store.
        #[derive(Debug)]
        pub(crate) struct Statements {
            $(pub(crate) $name: $Statement,)*
            $($(#[$about])* pub(crate) $other: $Other,)*
        }

        impl Statements {
            fn of(statement: impl Fn(&str) -> $Statement, $($other: $Other,)*) -> Self {
                Self {
                    $($name: statement($text),)*
                    $($other,)*
                }
            }

            #[cfg(test)]
            #[allow(dead_code, reason = "not every store's tests list them")]
            fn all(&self) -> Vec<&$Statement> {
                vec![$(&self.$name),*]
            }
        }
    };
}
