//! A macro for the statements of a store.

/// Declares `Statements`: a field for each statement, in groups that are made of their templates in
/// the same way, and for tests what lists a group. `of` takes what makes the statements of each
/// group, and the fields behind `+` as they are.
#[macro_export]
macro_rules! statements {
    (
        $($group:ident: $Statement:ty, of $Template:ty {
            $($name:ident: $template:expr),* $(,)?
        })*
        $(+ { $($(#[$about:meta])* $other:ident: $Other:ty,)* })?
    ) => {
        /// The statements with the tables' names put in, shared by all clones of a store.
        #[derive(Debug)]
        pub(crate) struct Statements {
            $($(pub(crate) $name: $Statement,)*)*
            $($($(#[$about])* pub(crate) $other: $Other,)*)?
        }

        impl Statements {
            fn of(
                $($group: impl Fn($Template) -> $Statement,)*
                $($($other: $Other,)*)?
            ) -> Self {
                Self {
                    $($($name: $group($template),)*)*
                    $($($other,)*)?
                }
            }

            $(
                #[cfg(test)]
                #[allow(dead_code, reason = "not every store's tests list each group")]
                fn $group(&self) -> Vec<&$Statement> {
                    vec![$(&self.$name),*]
                }
            )*
        }
    };
}
