//! A macro for the statements of a store.

/// Declares `Statements`: a field for each statement, in groups whose statements are made from
/// their templates in the same way. `of` takes the values that make the statements of each group,
/// and the fields behind `+` unchanged. After `listed;`, tests get a list of each group.
#[macro_export]
macro_rules! statements {
    (
        listed;
        $($group:ident: $Statement:ty, of $Template:ty {
            $($name:ident: $template:expr),* $(,)?
        })*
    ) => {
        $crate::statements! {
            $($group: $Statement, of $Template { $($name: $template),* })*
        }

        #[cfg(test)]
        impl Statements {
            $(
                fn $group(&self) -> Vec<&$Statement> {
                    vec![$(&self.$name),*]
                }
            )*
        }
    };
    (
        $($group:ident: $Statement:ty, of $Template:ty {
            $($name:ident: $template:expr),* $(,)?
        })*
        $(+ { $($(#[$about:meta])* $other:ident: $Other:ty,)* })?
    ) => {
        /// The statements with the tables' names filled in, shared by all clones of a store.
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
        }
    };
}
